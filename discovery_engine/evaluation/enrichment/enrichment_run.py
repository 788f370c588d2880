"""One run of enrichment: a language model is asked about each planned tool."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

import anyio.to_thread
from msgspec import Struct

from discovery_engine._util.tasks import finish, open_task_group
from discovery_engine.evaluation.enrichment.answer import AnswerError, Checks
from discovery_engine.evaluation.enrichment.enrichment_error import EnrichmentError
from discovery_engine.evaluation.enrichment.tool_messages import VERSION
from discovery_engine.search.examples.book import WrittenRequests

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry
    from discovery_engine.config.settings import Settings
    from discovery_engine.evaluation.enrichment.endpoint import Endpoint
    from discovery_engine.secrets.redactor import Redactor
    from discovery_engine.store.registry import Registry
    from discovery_engine.tools.model import Tool, ToolKey

_TRIES = 2  # answers for one tool, of which one must be of use
_FAILURES = 5  # tools in a row; the rest would fail, too


class PlannedRequest(Struct, frozen=True):
    """The message that will be sent about one tool."""

    entry: Entry
    message: str


def _by_turns(requests: Iterable[PlannedRequest]) -> Iterator[PlannedRequest]:
    """One of each server, then the next of each.

    So a server of whose tools nothing can be written is last, and keeps no other from its requests.
    """
    by_server: defaultdict[str, list[PlannedRequest]] = defaultdict(list)
    for request in requests:
        by_server[request.entry.tool.server].append(request)
    for turn in zip_longest(*by_server.values()):
        yield from (request for request in turn if request)


class EnrichedTool(Struct, frozen=True):
    """The outcome for one tool."""

    key: ToolKey
    requests: tuple[str, ...] = ()
    problem: str = ""
    """Why nothing was written, in a few words."""


class EnrichmentReport(Struct, frozen=True):
    tools: tuple[EnrichedTool, ...]
    tokens: int
    """The tokens used, as the endpoint counts them."""
    failure: EnrichmentError | None = None
    """Why not all tools were asked about; what was written is kept."""


class EnrichmentRun:
    """One run, with what came of it so far."""

    def __init__(
        self,
        endpoint: Endpoint,
        instructions: str,
        settings: Settings,
        store: Registry,
        redactor: Redactor,
        clock: Callable[[], float],
        on_done: Callable[[EnrichedTool], object],
    ) -> None:
        self._endpoint = endpoint
        self._instructions = instructions
        self._settings = settings
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
        waiting = _by_turns(requests)

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
        tool, key = request.entry.tool, request.entry.key
        try:
            requests = await self._requests(tool, request.message)
        except EnrichmentError as error:
            self._failed += 1
            if error.is_final or self._failed >= _FAILURES:
                self._failure = self._failure or error
            outcome = EnrichedTool(key, problem=error.message)
        else:
            written = WrittenRequests(
                tool.server,
                tool.upstream_name,
                tool.fingerprint,
                requests,
                self._settings.enrich.model,
                VERSION,
                self._clock(),
            )
            await anyio.to_thread.run_sync(self._store.save_requests, [written])
            self._failed = 0
            outcome = EnrichedTool(key, requests)
        self._done.append(outcome)
        await finish(self._on_done(outcome))

    async def _requests(self, tool: Tool, message: str) -> tuple[str, ...]:
        """The requests that a model wrote for a tool, once they are of use.

        Raises:
            EnrichmentError: If none are.
        """
        servers = [server.name for server in self._settings.servers]
        languages = self._settings.enrich.languages
        checks = Checks(tool, languages, servers, self._redactor.redact)
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
