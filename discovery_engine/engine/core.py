"""The parts of an open engine, which it shares with its scoped ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.engine.restore import outage_of

if TYPE_CHECKING:
    from discovery_engine.engine.call_record import CallRecorder
    from discovery_engine.engine.catalog_state import CatalogState
    from discovery_engine.engine.configuration_loader import ConfigurationLoader
    from discovery_engine.engine.executor import ToolExecutor
    from discovery_engine.engine.lister import ServerLister
    from discovery_engine.engine.prober import ServerProber
    from discovery_engine.engine.resource_watchers import ResourceWatchers
    from discovery_engine.engine.result_store import ResultStore
    from discovery_engine.engine.semantic_search import SemanticSearch
    from discovery_engine.engine.upstreams import Upstreams
    from discovery_engine.engine.use_counter import UseCounter
    from discovery_engine.engine.webhook_dispatcher import WebhookDispatcher
    from discovery_engine.events import EventBus
    from discovery_engine.secrets.resolver import SecretResolver
    from discovery_engine.store.call_log.call_log import CallLog
    from discovery_engine.store.call_log.log_entry import Actor
    from discovery_engine.store.registry import Registry
    from discovery_engine.upstream.http.logins import Logins
    from discovery_engine.view.view import View


class Environment(Struct, frozen=True, dict=True):
    """The values that an engine takes from the process that opens it."""

    variables: Mapping[str, str]
    secrets: SecretResolver
    clock: Callable[[], float]
    """Unix time in seconds."""
    data: Path
    """The folder of the registry, of logins and of long results."""
    hands_out_tasks: bool = True
    """True if clients may get tasks instead of results; a task cannot be replayed."""
    scope: str = ""
    """The configuration, as what is stored names it."""
    actor: Actor = "program"
    """Who makes the calls, as far as nothing else is known."""

    @cached_property
    def token_logins(self) -> Logins:
        """The logins that are kept for this user, by all processes."""
        # Most runs need no login, and what encrypts them takes as long to import as the engine.
        from discovery_engine.secrets.encrypted_store import EncryptedStore  # noqa: PLC0415
        from discovery_engine.upstream.http.logins import Logins  # noqa: PLC0415

        return Logins(EncryptedStore(self.data, self.variables), clock=self.clock)


class EngineCore(Struct, frozen=True):
    """Made by `bootstrap.open_engine`, which opens and closes them."""

    environment: Environment
    store: Registry
    events: EventBus
    state: CatalogState
    configuration: ConfigurationLoader
    semantic: SemanticSearch
    upstreams: Upstreams
    lister: ServerLister
    executor: ToolExecutor
    watchers: ResourceWatchers
    uses: UseCounter
    results: ResultStore
    prober: ServerProber
    call_log: CallLog
    recorder: CallRecorder
    webhooks: WebhookDispatcher
    at_end: ExitStack
    """Closes what is opened on first use, when the engine ends."""

    def with_live(self, view: View) -> View:
        """With what is not of the catalog: states of servers, the configuration, the registry."""
        outage = outage_of(self.store)
        return view.with_live(self.lister.live(), self.configuration.rejection, outage)
