"""The answer of a language model about a tool, checked before it is kept.

It is untrusted: the definition of a hostile tool is part of what the model read, and may have
steered it. A request can do no more than have its tool found by its words, and is held to that:
it is short, plain, hides nothing, gives no order, holds no secret and names no other server.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine._util.text import clean
from discovery_engine.evaluation.enrichment.tool_messages import ENGLISH, ENGLISH_REQUESTS
from discovery_engine.search.examples.pack import plain_name
from discovery_engine.search.text.tokenizer import words
from discovery_engine.trust.scanner import alarms, scan_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from discovery_engine._util.json import JSONValue
    from discovery_engine.tools.model import Tool

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
