"""Runs enrichment: a language model writes typical requests for each planned tool."""

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
    from collections.abc import Collection

    from discovery_engine._util.json import JSONValue
    from discovery_engine.catalog import Entry
    from discovery_engine.config.settings import Settings
    from discovery_engine.evaluation.enrichment.endpoint import Endpoint
    from discovery_engine.secrets.redactor import Redactor
    from discovery_engine.store.registry import Registry
    from discovery_engine.tools.model import Tool, ToolKey

_TRIES = 2  # attempts per tool to get a usable answer
_FAILURES = 5  # failed tools in a row after which the run stops


class PlannedRequest(Struct, frozen=True):
    """The message that will be sent about one tool."""

    entry: Entry
    message: str


def _by_turns(requests: Iterable[PlannedRequest]) -> Iterator[PlannedRequest]:
    """Interleave requests by server: the first of each, then the second of each.

    Otherwise one server whose tools all fail could end the run before other servers are reached.
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
    """The reason why no requests were written; empty on success."""


class EnrichmentReport(Struct, frozen=True):
    """The outcomes of a run, in the order of completion."""

    tools: tuple[EnrichedTool, ...]
    tokens: int
    """The number of tokens used, as counted by the endpoint."""
    failure: EnrichmentError | None = None
    """The error that ended the run early; requests written before are stored."""


class EnrichmentRun:
    """One run of enrichment and its outcomes so far."""

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
        """The number of failed tools in a row."""
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
        """Return the checked requests that the model wrote for a tool.

        Raises:
            EnrichmentError: If the endpoint fails, or no answer is usable.
        """
        servers = [server.name for server in self._settings.servers]
        languages = self._settings.enrich.languages
        checks = Checks(tool, languages, servers, self._redactor.redact)
        problem = ""
        for _ in range(_TRIES):
            completion = await self._endpoint.complete(self._instructions, message)
            self._tokens += completion.tokens
            try:
                # In a thread, because the scanner takes some milliseconds per request.
                return await anyio.to_thread.run_sync(checks.accepted, completion.text)
            except AnswerError as error:
                problem = str(error)
        raise EnrichmentError.of_answer(f"the answer is of no use: {problem}")


# Answers are untrusted, because the prompt contains the definition of a tool, which may be hostile.
# A request only serves to find its tool by words. So it must be short plain text without hidden
# characters, instructions, secrets or names of other servers.

LONGEST = 200  # characters of a request, the limit of examples in `overrides`
LEAST = 3  # valid requests that an answer must have, of six in English
_SHORTEST_NAME = 4  # characters of a server's name to check; short ones like `git` are common words
_MOST_ROWS = 64  # rows of an answer that are checked, at some milliseconds each
_MARKUP = ("://", "```", "<", "](")


class AnswerError(ValueError):
    """An answer is unusable; the message is the reason, as a phrase without a full stop."""


class Checks(Struct, frozen=True):
    """The checks that the requests for one tool must pass."""

    tool: Tool
    languages: Sequence[str]
    """The requested languages besides English."""
    servers: Collection[str]
    """The names of all configured servers."""
    redact: Callable[[str], str]

    def accepted(self, content: str) -> tuple[str, ...]:
        """Return the valid requests of an answer, without duplicates.

        Raises:
            AnswerError: If the answer is not JSON of the requested form, or has fewer than `LEAST`
                valid requests.
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
        """Yield the reasons to reject a request; the slowest check is the last."""
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
        """Yield the names of other servers in a request that are not in the tool's definition."""
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
    """Yield the language and text of each request in order; a bare string counts as English.

    Raises:
        AnswerError: If the answer is not of the requested form.
    """
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
    # Models may enclose the JSON in code fences, or add a sentence before it.
    start, end = content.find("{"), content.rfind("}")
    try:
        answer = json.loads(content[start : end + 1])
    except (ValueError, RecursionError):
        raise AnswerError("it is no JSON") from None
    rows = answer.get("requests") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise AnswerError("it has no list of requests")
    return rows[:_MOST_ROWS]
