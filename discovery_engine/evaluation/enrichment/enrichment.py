"""Typical requests for tools, written by the owner's language model: `engine.enrichment`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from msgspec import Struct

from discovery_engine.config.entry_secrets import secrets_of
from discovery_engine.config.syntax import is_secure_address
from discovery_engine.errors import ConfigurationError, Diagnostic, Origin
from discovery_engine.evaluation.enrichment.endpoint import open_endpoint
from discovery_engine.evaluation.enrichment.enrichment_error import EnrichmentError
from discovery_engine.evaluation.enrichment.enrichment_run import (
    EnrichedTool,
    EnrichmentReport,
    EnrichmentRun,
    PlannedRequest,
)
from discovery_engine.evaluation.enrichment.tool_messages import ToolMessages, system_message
from discovery_engine.search.examples.book import WrittenRequests
from discovery_engine.secrets.masking import redact_url
from discovery_engine.secrets.redactor import Redactor
from discovery_engine.secrets.references import MalformedReferenceError, UnsetReference
from discovery_engine.secrets.resolver import SecretResolver, resolve
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine.core import EngineCore
    from discovery_engine.engine.engine import Engine
    from discovery_engine.view.view import View

_CHARACTERS = 4  # of a token, of English; more tokens for other languages
_ANSWER = 200  # tokens of an answer, about


class EnrichmentPlan(Struct, frozen=True):
    """A plan of what will be sent, and where; made by `Enrichment.plan`, which sends nothing."""

    requests: tuple[PlannedRequest, ...]
    skipped: Mapping[str, int]
    """How many tools were left out, since they have typical requests: by their source."""
    instructions: str
    """The instructions that are sent with each message."""
    address: str
    """The address of the endpoint, without credentials; the host alone if it has a reference."""
    model: str
    problem: ConfigurationError | None = None
    """Why nothing can be sent, which `run` raises; without an endpoint `address` is empty."""

    @property
    def tokens(self) -> int:
        """About how many tokens all requests and answers are."""
        sent = sum(len(self.instructions) + len(request.message) for request in self.requests)
        return sent // _CHARACTERS + _ANSWER * len(self.requests)


class Enrichment:
    """Has typical requests of tools written; available as `engine.enrichment`."""

    def __init__(self, engine: Engine, core: EngineCore) -> None:
        self._engine = engine
        self._state = core.state
        self._store = core.store
        self._secrets = core.environment.secrets
        self._clock = core.environment.clock

    async def plan(
        self, servers: Collection[str] = (), *, tools: Collection[str] = (), again: bool = False
    ) -> EnrichmentPlan:
        """Plan what would be sent for the enabled tools of servers (all if none is named).

        Args:
            servers: Which; those that were never listed are listed first.
            tools: Only these, as `View.find` reads their names; of one server, or of none named.
            again: Also those that have typical requests already.

        Raises:
            ValueError: If several servers are named, and tools.
            NotFoundError: If a server or a tool is not known; with the nearest names.
            DisabledError: If a tool that is named may not be used.
        """
        await self._engine.complete_settings()
        entries = await self._chosen(servers, tools)
        return await anyio.to_thread.run_sync(self._planned, self._engine.view, entries, again)

    async def run(
        self, plan: EnrichmentPlan, on_done: Callable[[EnrichedTool], object] = lambda _: None
    ) -> EnrichmentReport:
        """Ask for what is planned, keep each answer at once, and search by it at the end.

        Args:
            plan: As `plan` made it.
            on_done: Called after each tool; awaited if it is async.

        Raises:
            ConfigurationError: If the endpoint or its key is not configured.
            EnrichmentError: If another endpoint or model is configured than when it was planned.
            RegistryError: If something cannot be kept.
        """
        if not plan.requests:
            return EnrichmentReport((), 0)
        await self._engine.complete_settings()
        settings = self._engine.view.settings
        url, key = await anyio.to_thread.run_sync(_resolved, settings, self._secrets)
        if (_shown(settings.enrich.url, url), settings.enrich.model) != (plan.address, plan.model):
            message = "another language model is configured than the one that was planned for"
            raise EnrichmentError(message, hint="plan again")
        redactor = await anyio.to_thread.run_sync(_redactor, settings, self._secrets)
        redactor.add([key] if key else [])
        # Before anything is paid for: whether it can be kept at all.
        await anyio.to_thread.run_sync(self._store.save_requests, ())
        enrich = settings.enrich
        async with open_endpoint(
            url, model=enrich.model, key=key, timeout=enrich.timeout
        ) as endpoint:
            run = EnrichmentRun(
                endpoint, plan.instructions, settings, self._store, redactor, self._clock, on_done
            )
            try:
                await run.ask_all(plan.requests)
            finally:  # what was written before an interruption counts as well
                with anyio.CancelScope(shield=True):
                    await self._use_requests()
        return run.report()

    async def written(self, servers: Collection[str] = ()) -> tuple[WrittenRequests, ...]:
        """Return what is kept of these servers, or of all, even if none has these names now."""
        records = await anyio.to_thread.run_sync(self._store.written_requests)
        chosen = (record for record in records if not servers or record.server in servers)
        return tuple(sorted(chosen, key=lambda record: (record.server, record.tool, record.at)))

    async def forget(self, texts: Iterable[WrittenRequests]) -> int:
        """Delete what was written for the tools of these; returns for how many definitions.

        Raises:
            RegistryError: If it cannot be deleted.
        """
        tools = {(record.server, record.tool) for record in texts}
        if not tools:
            return 0
        forgotten = await anyio.to_thread.run_sync(self._store.forget_requests, tools)
        await self._use_requests()
        return forgotten

    async def _use_requests(self) -> None:
        """Find tools by the requests that are stored now."""
        await self._state.apply_requests()
        await self._state.save_index()

    async def _chosen(
        self, servers: Collection[str], tools: Collection[str]
    ) -> dict[ServerName, list[Entry]]:
        """The tools that may be used, by server."""
        if tools:
            if len(servers) > 1:
                raise ValueError("tools are named of one server, or as `server:tool`")
            server = next(iter(servers), None)
            entries = [await self._engine.details(server, name) for name in tools]
            by_key = {entry.key: entry for entry in entries}  # one may have been named twice
            chosen: dict[ServerName, list[Entry]] = {}
            for entry in by_key.values():
                chosen.setdefault(entry.tool.server, []).append(entry)
            return chosen
        view = self._engine.view
        names = [view.addresses.server(name) for name in servers] or list(view.connectable)
        if missing := view.unlisted(names):
            await self._engine.refresh(missing)
        parts = self._engine.view.catalog
        return {name: list(parts.part(name).iter_visible()) for name in names}

    def _planned(
        self,
        view: View,
        chosen: Mapping[ServerName, Sequence[Entry]],
        again: bool,  # noqa: FBT001 - called by a thread
    ) -> EnrichmentPlan:
        skipped: Counter[str] = Counter()
        requests = []
        redact = _redactor(view.settings, self._secrets).redact
        for server, entries in chosen.items():
            part = view.catalog.part(server)
            messages = ToolMessages([sibling.tool for sibling in part.iter_visible()], redact)
            examples_by_name = view.book.of_tools([sibling.tool for sibling in part.entries])
            for entry in entries:
                examples = examples_by_name.get(entry.tool.upstream_name)
                if examples and not again:
                    skipped[str(examples.source)] += 1
                    continue
                requests.append(PlannedRequest(entry, messages.message(entry.tool)))
        settings = view.settings.enrich
        problem, address = None, ""
        try:
            url, _ = _resolved(view.settings, self._secrets)
            address = _shown(settings.url, url)
        except ConfigurationError as error:
            problem = error
        instructions = system_message(settings.languages)
        return EnrichmentPlan(
            tuple(requests), skipped, instructions, address, settings.model, problem
        )


def _redactor(settings: Settings, secrets: SecretResolver) -> Redactor:
    """Redacts the secrets of all servers, which a listing may repeat."""
    texts = (secret.text for server in settings.servers for secret in secrets_of(server, secrets))
    return Redactor(texts)


def _resolved(settings: Settings, secrets: SecretResolver) -> tuple[str, str]:
    """The address and the key of the endpoint.

    Raises:
        ConfigurationError: If they are missing, or have no value.
    """
    enrich, origin = settings.enrich, Origin(settings.path or "")
    for key, value in (("url", enrich.url), ("model", enrich.model)):
        if not value:
            message = f"no language model is configured: `enrich.{key}` is missing"
            hint = "add `enrich: {url: http://localhost:11434/v1, model: llama3.1}` or another one"
            problem = Diagnostic("CONFIG_MISSING_KEY", message, hint, f"enrich.{key}", origin)
            raise ConfigurationError([problem])
    try:
        url = resolve(enrich.url, secrets, base_dir=_folder(settings))
        key = resolve(enrich.api_key, secrets, base_dir=_folder(settings))
    except (UnsetReference, MalformedReferenceError) as error:
        hint = "give it a value, then run it again"
        problem = Diagnostic("ENRICH_VALUE_UNSET", str(error), hint, "enrich", origin)
        raise ConfigurationError([problem]) from error
    if not is_secure_address(url):
        message = "must be an https:// address, or http:// of this machine"
        problem = Diagnostic("CONFIG_INVALID_VALUE", message, "", "enrich.url", origin)
        raise ConfigurationError([problem])
    return url, key


def _shown(text: str, url: str) -> str:
    """An address for people: no credentials, and nothing that may be a secret's value."""
    if text == url:
        return redact_url(url)
    parts = urlsplit(url)
    host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}"


def _folder(settings: Settings) -> str | None:
    return os.path.dirname(settings.path or "") or None  # noqa: PTH120 - "" must stay ""
