"""One run of enrichment: a language model is asked about each planned tool."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

import anyio.to_thread
from msgspec import Struct

from discovery_engine._util.tasks import finish, open_task_group
from discovery_engine._util.text import clean
from discovery_engine.evaluation.enrichment.enrichment_error import EnrichmentError
from discovery_engine.evaluation.enrichment.tool_messages import ENGLISH, ENGLISH_REQUESTS, VERSION
from discovery_engine.search.examples.book import WrittenRequests
from discovery_engine.search.examples.pack import plain_name
from discovery_engine.search.text.tokenizer import words
from discovery_engine.trust.scanner import alarms, scan_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from discovery_engine._util.json import JSONValue
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
            row = WrittenRequests(
                tool.server,
                tool.upstream_name,
                tool.fingerprint,
                requests,
                self._settings.enrich.model,
                VERSION,
                self._clock(),
            )
            await anyio.to_thread.run_sync(self._store.save_requests, [row])
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


# It is untrusted: the definition of a hostile tool is part of what the model read, and may have
# steered it. A request can do no more than have its tool found by its words, and is held to that:
# it is short, plain, hides nothing, gives no order, holds no secret and names no other server.

LONGEST = 200  # characters of a request, as of an example in `overrides`
LEAST = 3  # requests that must be left, of six in English
_SHORTEST_NAME = 4  # characters of a server's name; `git` is a word of many requests
_MOST_ROWS = 64  # that are looked at; a long answer has thousands, each for some milliseconds
_MARKUP = ("://", "```", "<", "](")


class AnswerError(ValueError):
    """The answer is of no use; the message says why, in a few words without a full stop."""


class Checks(Struct, frozen=True):
    """The checks that the requests for one tool must pass."""

    tool: Tool
    languages: Sequence[str]
    """The languages that were asked for, besides English."""
    servers: Collection[str]
    """The names of all servers that are configured."""
    redact: Callable[[str], str]

    def accepted(self, content: str) -> tuple[str, ...]:
        """The requests of an answer that may be kept.

        Raises:
            AnswerError: If it is no JSON of the form that was asked for, or too few are left.
        """
        left = dict.fromkeys((ENGLISH, *self.languages), 1) | {ENGLISH: ENGLISH_REQUESTS}
        requests: dict[str, None] = {}
        problems: list[str] = []
        for language, text in _requests(content):
            if left.get(language, 0) < 1:
                problems.append("one is too many for its language, or not asked for")
            elif problem := next(self._problems_of(text), ""):
                problems.append(problem)
            elif text not in requests:
                requests[text] = None
                left[language] -= 1
        if len(requests) < LEAST:
            why = f" ({problems[0]})" if problems else ""
            raise AnswerError(f"only {len(requests)} of its requests can be kept{why}")
        return tuple(requests)

    def _problems_of(self, text: str) -> Iterator[str]:
        """Why a request cannot be kept; what takes longest is looked at last."""
        if len(text) > LONGEST or not words(text):
            yield f"one is empty or longer than {LONGEST} characters"
        if clean(text, newlines=False) != text or text != text.strip():
            yield "one has hidden or odd characters"
        if any(mark in text for mark in _MARKUP):
            yield "one has markup or an address"
        if self.redact(text) != text:
            yield "one holds a secret"
        if plain_name(text) == plain_name(self.tool.upstream_name):
            yield "one is the name of the tool"
        for server in self._foreign_names(text):
            yield f"one names the server {server!r}"
        if alarms(scan_text(text, where="request")):
            yield "one is suspicious"

    def _foreign_names(self, text: str) -> Iterator[str]:
        """The names of other servers in a request, unless the tool's own definition has them."""
        terms, own = set(words(text)), None
        for server in self.servers:
            name = words(server)
            if server == self.tool.server or len(server) < _SHORTEST_NAME:
                continue
            if name and terms.issuperset(name):
                own = own or set(words(self.tool.source))
                if not own.issuperset(name):
                    yield server


def _requests(content: str) -> Iterator[tuple[str, str]]:
    """Language and text of each request, in order; a text alone is English."""
    for row in _rows(content):
        match row:
            case str():
                yield ENGLISH, row
            case {"text": str(text), "language": str(language)}:
                yield language, text
            case {"text": str(text)}:
                yield ENGLISH, text
            case _:
                raise AnswerError("one of its requests is no text")


def _rows(content: str) -> list[JSONValue]:
    # Models put JSON between fences, or a sentence before it.
    start, end = content.find("{"), content.rfind("}")
    try:
        answer = json.loads(content[start : end + 1])
    except (ValueError, RecursionError):
        raise AnswerError("it is no JSON") from None
    rows = answer.get("requests") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise AnswerError("it has no list of requests")
    return rows[:_MOST_ROWS]
