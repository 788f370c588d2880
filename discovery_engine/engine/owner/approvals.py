"""Approvals to start servers: `engine.trust`, and the approval of a file just written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from discovery_engine.config.files.location import decision_scope
from discovery_engine.config.loading.loader import load_settings
from discovery_engine.config.loading.untrusted import restrict
from discovery_engine.engine.engine import Engine
from discovery_engine.engine.owner.candidates import Candidate, approval_of, candidates
from discovery_engine.engine.owner.decide import decide
from discovery_engine.engine.restore import open_registry_or_fallback
from discovery_engine.engine.trust_store import TrustStore
from discovery_engine.secrets.resolver import EnvironmentResolver
from discovery_engine.trust.server_identity import known_as, switched_as

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.engine.core import EngineCore
    from discovery_engine.store.registry import Registry


class Approvals:
    """Lists, approves and revokes servers; available as `engine.trust`."""

    def __init__(self, engine: Engine, core: EngineCore) -> None:
        self._engine = engine
        self._store = core.state.trust_store
        self._events = core.events
        self._environment = core.environment

    async def candidates(self, servers: Iterable[str] = ()) -> tuple[Candidate, ...]:
        """Return the servers that wait for approval; `servers` limits them if it names any.

        Raises:
            ServerNotFoundError: If a named server is not configured.
        """
        environment = self._environment
        find = partial(
            candidates, self._engine.view, servers, environment.secrets, environment.variables
        )
        return tuple(await anyio.to_thread.run_sync(partial(find, at=environment.clock())))

    async def approve(self, candidates: Iterable[Candidate]) -> None:
        """Approve servers as they were shown; a no-op without any.

        Raises:
            RegistryError: If the decision cannot be stored; no server is approved then.
        """
        if approved := tuple(candidates):
            settings = self._engine.view.settings
            approvals = [candidate.approval for candidate in approved]
            store = partial(self._store.approve, settings, approvals)
            names = (candidate.server.name for candidate in approved)
            await decide(self._engine, self._events, store, "approved", names)

    async def revoke(self, servers: Iterable[str] | None = None) -> int:
        """Revoke the approvals of servers, or of all servers if None; return their number.

        Their sessions end.

        Raises:
            ServerNotFoundError: If a named server is not configured.
            RegistryError: If the decision cannot be stored; no approval is taken back then.
        """
        view = self._engine.view
        named = view.settings.servers if servers is None else map(view.server_settings, servers)
        names_by_key = {known_as(server, view.settings.path): server.name for server in named}
        decisions = await anyio.to_thread.run_sync(self._store.decisions, view.settings)
        approved_keys = names_by_key.keys() & decisions.approvals.keys()
        store = partial(self._store.revoke, view.settings, approved_keys)
        if not approved_keys:
            await anyio.to_thread.run_sync(store)  # raises if decisions cannot be stored at all
            return 0
        names = (name for key, name in names_by_key.items() if key in approved_keys)
        await decide(self._engine, self._events, store, "revoked", names)
        return len(approved_keys)


def approve_file(
    path: Path,
    *,
    only: Iterable[str] | None,
    environ: Mapping[str, str],
    data_dir: str | Path | None,
    at: float,
) -> None:
    """Approve the servers that this program has just written into `path` for its owner.

    Servers of a project's file are not approved: they wait for `discovery review servers`.

    Args:
        path: A configuration.
        only: The servers that the owner was asked about; all with None.
        environ: What references are resolved from.
        data_dir: Where the registry is, as `open_engine` takes it.
        at: Unix time in seconds.

    Raises:
        ConfigurationError: If the file cannot be used.
        RegistryError: If the decision cannot be stored.
    """
    file_settings = load_settings(path.absolute())
    settings = restrict(file_settings)  # as it will be when it is discovered
    names = {server.name for server in file_settings.servers} if only is None else set(only)
    meant = [s for s in file_settings.servers if s.name in names and not s.is_untrusted_origin]
    secrets = EnvironmentResolver(environ)
    approvals = [approval_of(server, settings, secrets, environ, at=at) for server in meant]
    with open_registry_or_fallback(settings, data_dir=data_dir, environ=environ) as registry:
        registry.approve(decision_scope(settings), approvals, at=at)


@contextmanager
def taking_over(
    trust: TrustStore,
    store: Registry,
    settings: Settings,
    originals: Sequence[ServerSettings],
    *,
    at: float,
) -> Iterator[None]:
    """Run a block that writes copies of servers, and carry over the decisions on the originals.

    What was accepted of one is accepted of its copy, before this can be listed. Its switch, which
    is in the entry of the copy, goes afterwards, so that what is off stays off.

    Raises:
        RegistryError: If that cannot be remembered.
    """
    for server in originals:
        trust.accept_as(settings, known_as(server, settings.path), server.name)
    yield
    keys = [switched_as(server, settings.path) for server in originals if server.switch]
    if keys:
        store.set_switches(decision_scope(settings), dict.fromkeys(keys), at=at)


@contextmanager
def taking_over_in_file(
    originals: Sequence[ServerSettings],
    settings: Settings,
    *,
    environ: Mapping[str, str],
    data_dir: str | Path | None,
    at: float,
) -> Iterator[None]:
    """Run a block that writes copies of servers, where no engine is open; see `taking_over`.

    Raises:
        RegistryError: As `taking_over`.
    """
    if not originals:
        yield
        return
    secrets = EnvironmentResolver(environ)
    with open_registry_or_fallback(settings, data_dir=data_dir, environ=environ) as registry:
        trust = TrustStore(registry, secrets=secrets, environ=environ, clock=lambda: at)
        with taking_over(trust, registry, settings, originals, at=at):
            yield
