"""Typical requests for tools, written by the owner's language model: `engine.enrichment`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.to_thread
from msgspec import Struct

from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.redaction import redact_url
from discovery_engine.config.syntax import is_secure_address
from discovery_engine.diagnostics import Diagnostic, Origin
from discovery_engine.enrichment.answer import AnswerError, Checks
from discovery_engine.enrichment.endpoint import Endpoint, open_endpoint
from discovery_engine.enrichment.enrichment_error import EnrichmentError
from discovery_engine.enrichment.tool_messages import VERSION, system_message, tool_message
from discovery_engine.errors import ConfigurationError
from discovery_engine.redaction.entry_secrets import secrets_of
from discovery_engine.redaction.redactor import Redactor
from discovery_engine.search.examples.written import WrittenRequests
from discovery_engine.secrets.references import MalformedReferenceError, UnsetReference
from discovery_engine.secrets.resolver import SecretResolver, resolve
from discovery_engine.tools.model import ServerName, ToolKey
from discovery_engine.view.unlisted import unlisted

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry
    from discovery_engine.config.settings import Settings
    from discovery_engine.registry.protocols import RequestStore
    from discovery_engine.tools.model import Tool
    from discovery_engine.view.view import View

_TRIES = 2  # answers for one tool, of which one must be of use
_FAILURES = 5  # tools in a row without an answer of use, after which the rest would fail, too
_CHARACTERS = 4  # of a token, of English; more tokens for other languages
_ANSWER = 200  # tokens of an answer, about


class EnrichingEngine(Protocol):
    """What this module needs of an engine."""

    @property
    def view(self) -> View: ...

    async def complete_settings(self) -> None: ...

    async def refresh(self, servers: Iterable[str] | None = None) -> object: ...


class PlannedRequest(Struct, frozen=True):
    """What will be sent about one tool."""

    entry: Entry
    message: str


class EnrichmentPlan(Struct, frozen=True):
    """What will be sent, and where; made by `Enrichment.plan`, which sends nothing."""

    requests: tuple[PlannedRequest, ...]
    skipped: Mapping[str, int]
    """How many tools were left out, since they have typical requests: by their source."""
    instructions: str
    """What is sent with each message."""
    address: str
    """Of the endpoint, without credentials; empty if none is configured."""
    model: str

    @property
    def tokens(self) -> int:
        """About how many tokens all requests and answers are."""
        sent = sum(len(self.instructions) + len(one.message) for one in self.requests)
        return sent // _CHARACTERS + _ANSWER * len(self.requests)


class EnrichedTool(Struct, frozen=True):
    """What became of one tool."""

    key: ToolKey
    requests: tuple[str, ...] = ()
    problem: str = ""
    """Why nothing was written, in a few words."""


class EnrichmentReport(Struct, frozen=True):
    tools: tuple[EnrichedTool, ...]
    tokens: int
    """As the endpoint counts them."""
    failure: EnrichmentError | None = None
    """Why not all tools were asked about; what was written is kept."""


class Enrichment:
    """Made by an engine; what it does is for its owner alone."""

    def __init__(
        self,
        host: EnrichingEngine,
        store: RequestStore,
        apply: Callable[[], Awaitable[None]],
        *,
        secrets: SecretResolver,
        clock: Callable[[], float],
        opener: Callable[..., AbstractAsyncContextManager[Endpoint]] = open_endpoint,
    ) -> None:
        """`apply` has tools found by what was written; `clock` is Unix time in seconds."""
        self._host = host
        self._store = store
        self._apply = apply
        self._secrets = secrets
        self._clock = clock
        self._open = opener

    async def plan(
        self, servers: Collection[str] = (), *, tools: Collection[str] = (), again: bool = False
    ) -> EnrichmentPlan:
        """What would be sent for the enabled tools of servers (all if none is named).

        Args:
            servers: Which; those that were never listed are listed first.
            tools: Only these, as `View.find` reads their names.
            again: Also those that have typical requests already.

        Raises:
            ServerNotFoundError, ToolNotFoundError: With the nearest names.
        """
        await self._host.complete_settings()
        names = self._servers(servers)
        if missing := unlisted(self._host.view, names):
            await self._host.refresh(missing)
        view = self._host.view
        entries = _chosen(view, names, [view.find(None, name).key for name in tools])
        skipped: Counter[str] = Counter()
        wanted = []
        for name, found in entries.items():
            known = view.book.of_tools([one.tool for one in view.catalog.part(name).entries])
            for entry in found:
                examples = known.get(entry.tool.upstream_name)
                if examples and not again:
                    skipped[str(examples.source)] += 1
                else:
                    wanted.append(entry)
        redactor = await anyio.to_thread.run_sync(_redactor, view.settings, self._secrets)
        settings = view.settings.enrich
        return EnrichmentPlan(
            tuple(
                PlannedRequest(one, tool_message(one.tool, _siblings(view, one), redactor.redact))
                for one in wanted
            ),
            skipped,
            system_message(settings.languages),
            redact_url(settings.url) if settings.url else "",
            settings.model,
        )

    async def run(
        self, plan: EnrichmentPlan, on_done: Callable[[EnrichedTool], None] = lambda _: None
    ) -> EnrichmentReport:
        """Ask for what is planned, keep each answer at once, and search by it at the end.

        Args:
            plan: As `plan` made it.
            on_done: Called after each tool.

        Raises:
            ConfigurationError: If the endpoint or its key is not configured.
            RegistryError: If something cannot be kept.
        """
        if not plan.requests:
            return EnrichmentReport((), 0)
        await self._host.complete_settings()
        settings = self._host.view.settings
        url, key = await anyio.to_thread.run_sync(_resolved, settings, self._secrets)
        redactor = await anyio.to_thread.run_sync(_redactor, settings, self._secrets)
        redactor.add([key] if key else [])
        # Before anything is paid for: whether it can be kept at all.
        await anyio.to_thread.run_sync(self._store.save_requests, ())
        enrich = settings.enrich
        async with self._open(
            url,
            model=enrich.model,
            key=key,
            per_minute=enrich.requests_per_minute,
            timeout=enrich.timeout,
        ) as endpoint:
            run = _EnrichmentRun(
                endpoint, plan.instructions, settings, self._store, redactor, self._clock, on_done
            )
            try:
                await run.ask_all(plan.requests)
            finally:  # what was written before an interruption counts as well
                with anyio.CancelScope(shield=True):
                    await self._apply()
        return run.report()

    async def written(
        self, servers: Collection[str] = (), *, tools: Collection[str] = ()
    ) -> tuple[WrittenRequests, ...]:
        """All that is kept of these servers and tools (of all if none is named).

        Raises:
            ServerNotFoundError, ToolNotFoundError: With the nearest names.
        """
        found = await anyio.to_thread.run_sync(self._store.written_requests)
        names = {self._host.view.addresses.server(name) for name in servers}
        keys = self._upstream_names(tools)
        return tuple(
            sorted(
                (
                    one
                    for one in found
                    if (not names or one.server in names)
                    and (not keys or (one.server, one.tool) in keys)
                ),
                key=lambda one: (one.server, one.tool, one.at),
            )
        )

    async def forget(self, written: Iterable[WrittenRequests]) -> int:
        """Delete what was written for the tools of these; returns for how many definitions.

        Raises:
            RegistryError: If it cannot be deleted.
        """
        tools = {(one.server, one.tool) for one in written}
        if not tools:
            return 0
        forgotten = await anyio.to_thread.run_sync(self._store.forget_requests, tools)
        await self._apply()
        return forgotten

    def _servers(self, names: Collection[str]) -> list[ServerName]:
        view = self._host.view
        if not names:
            return list(view.connectable)
        return [view.addresses.server(name) for name in names]

    def _upstream_names(self, tools: Iterable[str]) -> set[tuple[str, str]]:
        found = (self._host.view.find(None, name).tool for name in tools)
        return {(tool.server, tool.upstream_name) for tool in found}


class _EnrichmentRun:
    """One run, with what came of it so far."""

    def __init__(
        self,
        endpoint: Endpoint,
        instructions: str,
        settings: Settings,
        store: RequestStore,
        redactor: Redactor,
        clock: Callable[[], float],
        on_done: Callable[[EnrichedTool], None],
    ) -> None:
        self._endpoint = endpoint
        self._instructions = instructions
        self._settings = settings
        self._servers = [server.name for server in settings.servers]
        self._store = store
        self._redactor = redactor
        self._clock = clock
        self._on_done = on_done
        self._done: list[EnrichedTool] = []
        self._tokens = 0
        self._failed = 0
        """Tools in a row without an answer of use."""
        self._failure: EnrichmentError | None = None

    async def ask_all(self, requests: Sequence[PlannedRequest]) -> None:
        waiting = iter(requests)

        async def work() -> None:
            for request in waiting:
                if self._failure:
                    return
                await self._ask(request)

        async with open_task_group() as tasks:
            for _ in range(min(self._settings.enrich.concurrency, len(requests))):
                tasks.start_soon(work)

    def report(self) -> EnrichmentReport:
        return EnrichmentReport(tuple(self._done), self._tokens, self._failure)

    async def _ask(self, request: PlannedRequest) -> None:
        tool = request.entry.tool
        try:
            requests = await self._requests(tool, request.message)
        except EnrichmentError as error:
            self._fail(request.entry.key, error)
            return
        enrich = self._settings.enrich
        written = WrittenRequests(
            tool.server,
            tool.upstream_name,
            tool.fingerprint,
            requests,
            enrich.model,
            VERSION,
            self._clock(),
        )
        await anyio.to_thread.run_sync(self._store.save_requests, [written])
        self._failed = 0
        self._add(EnrichedTool(request.entry.key, requests))

    async def _requests(self, tool: Tool, message: str) -> tuple[str, ...]:
        """The requests that a model wrote for a tool, once they are of use.

        Raises:
            EnrichmentError: If none are.
        """
        languages = self._settings.enrich.languages
        checks = Checks(tool, languages, self._servers, self._redactor.redact)
        problem = ""
        for _ in range(_TRIES):
            completion = await self._endpoint.complete(self._instructions, message)
            self._tokens += completion.tokens
            try:
                # The scanner takes some milliseconds for each.
                return await anyio.to_thread.run_sync(checks.accepted, completion.text)
            except AnswerError as error:
                problem = str(error)
        raise EnrichmentError.of_answer(f"the answer is of no use: {problem}")

    def _fail(self, key: ToolKey, error: EnrichmentError) -> None:
        self._failed += 1
        if error.is_final or self._failed >= _FAILURES:
            self._failure = self._failure or error
        self._add(EnrichedTool(key, problem=error.message))

    def _add(self, tool: EnrichedTool) -> None:
        self._done.append(tool)
        self._on_done(tool)


def _chosen(
    view: View, servers: Iterable[ServerName], tools: Collection[ToolKey]
) -> dict[ServerName, list[Entry]]:
    """The visible tools by server; if `tools` are named, those alone."""
    if tools:
        servers = dict.fromkeys(key.server for key in tools)
    return {
        name: [
            entry
            for entry in view.catalog.part(name).iter_visible()
            if not tools or entry.key in tools
        ]
        for name in servers
    }


def _siblings(view: View, entry: Entry) -> list[Tool]:
    return [one.tool for one in view.catalog.part(entry.tool.server).iter_visible()]


def _redactor(settings: Settings, secrets: SecretResolver) -> Redactor:
    """Redacts the secrets of all servers, which a listing may repeat."""
    found = (one.text for server in settings.servers for one in secrets_of(server, secrets))
    return Redactor(found)


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


def _folder(settings: Settings) -> str | None:
    return os.path.dirname(settings.path or "") or None  # noqa: PTH120 - "" must stay ""
