"""What a server was given in confidence, taken out of what it says.

    hidden = Confidential.of(server, environ)
    hidden.hide("401 for Bearer s3cr3t-t0ken")      "401 for ••••"

A program prints its environment when it crashes, and an address its key when it cannot be
reached. What is kept of either, or shown, has passed here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache, partial
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.config.masks import mask_transport
from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.errors import UnavailableError, UpstreamError
from discovery_engine.secrets import (
    HIDDEN,
    MalformedReferenceError,
    Reference,
    references,
    resolve,
)
from discovery_engine.text import clean

_LINES = 20
_LINE_LENGTH = 500  # characters
_SHORTEST = 4  # characters; hiding every "1" would leave nothing to read
_MOST_VALUES = 1000  # those of today and earlier ones; all are looked for in each text
_SHORTEST_WORD = 8  # characters of one word of a longer value: the token behind "Bearer"
_HARMLESS = {
    *("auto", "debug", "error", "false", "info", "none", "null", "true", "warn", "warning"),
    *("127.0.0.1", "development", "http", "https", "localhost", "production", "server", "test"),
}


class Confidential(Struct, frozen=True, dict=True):
    values: frozenset[str]
    is_lasting: bool = True
    """Whether the same entry will have the same values; a file may hold another one tomorrow."""

    @classmethod
    def of(cls, server: ServerSettings, environ: Mapping[str, str]) -> Confidential:
        """The values of a server's variables and headers, of its references, and of its keys.

        Reads the files that its references name; what cannot be resolved is left out.
        """
        found = {form for value in _values(server, environ) for form in _forms(value)}
        plain = {text for text in found if text in _HARMLESS or text in server.name}
        values = frozenset(text for text in found - plain if len(text) >= _SHORTEST)
        return cls(values, is_lasting=not _reads_files(server))

    def with_earlier(self, earlier: Confidential) -> Confidential:
        """Also what was given before: a program that still runs with it may still tell it."""
        values = self.values | earlier.values
        return self if len(values) > _MOST_VALUES else replace(self, values=values)

    def hide(self, text: str) -> str:
        return self._pattern.sub(HIDDEN, text) if self._pattern else text

    def last_words(self, stderr: str) -> str:
        """The last lines of what a program wrote, fit to be kept and shown."""
        return self._redacted(stderr)

    @cached_property
    def _redacted(self) -> Callable[[str], str]:
        """Keeps what the last look at a server made of its stderr and of three samples."""
        return lru_cache(maxsize=4)(self._excerpt)

    def _excerpt(self, stderr: str) -> str:
        # Cut before it is cleaned and redacted: twenty lines of 8 KiB take 60 ms otherwise.
        excerpt = "\n".join(map(self._beginning, stderr.strip().split("\n")[-_LINES:]))
        lines = self.hide(clean(excerpt)).strip().splitlines()[-_LINES:]
        return "\n".join(line.rstrip()[:_LINE_LENGTH] for line in lines)

    def _beginning(self, line: str) -> str:
        """As much of a line as can be shown, with every value whole that begins there."""
        if len(line) <= _LINE_LENGTH + self._longest:
            return line
        beginning = clean(line[: _LINE_LENGTH + self._longest])
        return beginning[: min(map(partial(_cut_at, beginning), self.values), default=None)]

    def censor(self, error: UpstreamError) -> None:
        """Take what was given in confidence out of an error, and of what caused it."""
        told: BaseException | None = error
        while isinstance(told, UpstreamError):
            told.message, told.hint = self.hide(told.message), self.hide(told.hint)
            told.args = (told.message,)
            if isinstance(told, UnavailableError):
                told.reason = self.hide(told.reason)
                told.stderr = self.last_words(told.stderr)
            told = told.__cause__

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.values), default=0)

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        longest_first = sorted(self.values, key=lambda value: (-len(value), value))
        return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def _cut_at(text: str, value: str) -> int:
    """Where a value begins that a cut has left the beginning of at the end of `text`."""
    start = max(0, len(text) - len(value) + 1)
    while (start := text.find(value[0], start)) >= 0:
        if value.startswith(text[start:]):
            return start
        start += 1
    return len(text)


def _values(server: ServerSettings, environ: Mapping[str, str]) -> Iterator[str]:
    base_dir = os.path.dirname(server.origin.file) or None  # noqa: PTH120 - "" must stay ""
    for text in _kept_apart(server):
        yield from _resolved([text], environ, base_dir)
    for text in _shown(server):
        yield from _resolved(map(str, _references(text)), environ, base_dir)
    yield from _keys(server)


def _kept_apart(server: ServerSettings) -> Iterable[str]:
    """The values of variables and headers: all of them are nobody else's business."""
    match server.transport:
        case StdioTransport(env=env):
            return env.values()
        case RemoteTransport(headers=headers):
            return headers.values()
    return ()


def _shown(server: ServerSettings) -> tuple[str, ...]:
    """The texts that are told as they are, but for what they refer to."""
    match server.transport:
        case StdioTransport(command, args, env, cwd):
            return (command, *args, *env.values(), cwd or "")
        case RemoteTransport(url, headers):
            return (url, *headers.values())
    return ()


def _resolved(
    texts: Iterable[str], environ: Mapping[str, str], base_dir: str | None
) -> Iterator[str]:
    for text in texts:
        try:
            yield resolve(text, environ, base_dir=base_dir)
        except ValueError:  # then the server has not got it either
            continue


def _reads_files(server: ServerSettings) -> bool:
    found = (reference for text in _shown(server) for reference in _references(text))
    return any(reference.kind == "file" for reference in found)


def _references(text: str) -> tuple[Reference, ...]:
    try:
        return references(text)
    except MalformedReferenceError:
        return ()


def _keys(server: ServerSettings) -> Iterator[str]:
    """Keys that are written as they are into arguments and addresses."""
    match server.transport, server.transport and mask_transport(server.transport):
        case StdioTransport(args=written), StdioTransport(args=masked):
            pairs = zip(written, masked, strict=True)
        case RemoteTransport(url=one), RemoteTransport(url=other):
            pairs = zip([one], [other], strict=True)
        case _:
            return
    for text, shown in pairs:
        pieces = "(.+?)".join(map(re.escape, shown.split(HIDDEN)))
        if shown != text and (found := re.fullmatch(pieces, text, re.DOTALL)):
            yield from found.groups()


def _forms(value: str) -> Iterator[str]:
    """A value, its longer words, and how an address would have them."""
    words = [word for word in value.split() if len(word) >= _SHORTEST_WORD]
    for text in (value.strip(), *words):
        yield text
        yield quote(text, safe="")
