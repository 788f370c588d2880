"""What a server was given in confidence, taken out of what it says.

    hidden = OutputRedactor.for_server(server, secrets)
    hidden.hide("401 for Bearer s3cr3t-t0ken")      "401 for ••••"

A program prints its environment when it crashes, and an address its key when it cannot be
reached. What is kept of either, or shown, has passed here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine._util.text import clean
from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import UnavailableError, UpstreamError
from discovery_engine.redaction.redactor import SHORTEST_BEGINNING, Redactor
from discovery_engine.secrets.resolver import SecretResolver

_LINES = 20
_TELLING = 12  # bytes at the beginning of a secret that hardly any other text holds
_LINE_LENGTH = 500  # characters
_MOST_VALUES = 1000  # those of today and earlier ones; a program may still print an old token


class OutputRedactor(Struct, frozen=True, dict=True):
    values: frozenset[str]
    is_stable: bool = True
    """Whether the same entry will have the same values; a file may hold another one tomorrow."""
    certain: frozenset[str] = frozenset()
    """Those of `values` that no innocent text holds by chance."""
    written: Mapping[str, str] = field(default_factory=dict)
    """What references stand for that is no secret, and how they are written: `${WORKDIR}`."""

    @classmethod
    def for_server(cls, server: ServerSettings, secrets: SecretResolver) -> OutputRedactor:
        """The secrets in a server's variables, headers, arguments and address.

        Reads the files that its references name; what cannot be resolved is left out.
        """
        # Its patterns take 10 ms to compile, and most runs ask no server for anything.
        from discovery_engine.redaction.entry_secrets import (  # noqa: PLC0415
            reads_files,
            secrets_of,
            written_references,
        )

        found = [one for one in secrets_of(server, secrets) if one.text not in server.name]
        values = frozenset(one.text for one in found)
        certain = frozenset(one.text for one in found if one.is_certain)
        written = written_references(server, secrets)
        return cls(values, not reads_files(server), certain, written)

    def including(self, earlier: OutputRedactor) -> OutputRedactor:
        """Also what was given before: a program that still runs with it may still print it."""
        values = self.values | earlier.values
        if len(values) > _MOST_VALUES:
            return self
        written = {**earlier.written, **self.written}
        return replace(self, values=values, certain=self.certain | earlier.certain, written=written)

    def redact(self, text: str) -> str:
        text = self._redactor.redact(text)
        if self._references:
            text = self._references.sub(lambda found: self.written[found[0]], text)
        return text

    def redact_json(self, value: Any) -> Any:
        """JSON without certain secrets in its texts; `value` itself if there is none."""
        from discovery_engine.redaction.known_secrets import redact_json  # noqa: PLC0415 - as above

        if not self.certain or not self._may_hold_a_secret(value):
            return value
        return redact_json(value, self._certain_redactor)

    def _may_hold_a_secret(self, value: Any) -> bool:
        """A first look that takes 2 ms for a megabyte; most servers never repeat their secrets."""
        try:
            document = msgspec.json.encode(value)
        except (ValueError, OverflowError):  # half a surrogate pair, or a number beyond 64 bits
            return True
        return any(beginning in document for beginning in self._beginnings)

    def redact_stderr(self, stderr: str) -> str:
        """The last lines of what a program wrote, fit to be kept and shown."""
        return self._redacted(stderr)

    @cached_property
    def _redacted(self) -> Callable[[str], str]:
        """Keeps what the last look at a server made of its stderr and of three samples."""
        return lru_cache(maxsize=4)(self._excerpt)

    def _excerpt(self, stderr: str) -> str:
        # Cut before it is cleaned and redacted: twenty lines of 8 KiB take 60 ms otherwise.
        excerpt = "\n".join(map(self._beginning, stderr.strip().split("\n")[-_LINES:]))
        lines = self.redact(clean(excerpt)).strip().splitlines()[-_LINES:]
        return "\n".join(line.rstrip()[:_LINE_LENGTH] for line in lines)

    def _beginning(self, line: str) -> str:
        """As much of a line as can be shown, without what a cut would leave of a secret."""
        if len(line) <= _LINE_LENGTH:
            return line
        return self.redact(clean(line[: _LINE_LENGTH + SHORTEST_BEGINNING]))[:-SHORTEST_BEGINNING]

    def redact_error(self, error: UpstreamError) -> None:
        """Take what was given in confidence out of an error, and of what caused it."""
        told: BaseException | None = error
        while isinstance(told, UpstreamError):
            told.message, told.hint = self.redact(told.message), self.redact(told.hint)
            told.args, told.detail = (told.message,), self.redact(told.detail)
            if isinstance(told, UnavailableError):
                told.reason = self.redact(told.reason)
                told.stderr = self.redact_stderr(told.stderr)
            told = told.__cause__

    @cached_property
    def _beginnings(self) -> tuple[bytes, ...]:
        return tuple({msgspec.json.encode(one)[1:-1][:_TELLING] for one in self.certain})

    @cached_property
    def _references(self) -> re.Pattern[str] | None:
        longest_first = sorted(self.written, key=len, reverse=True)
        values = "|".join(map(re.escape, longest_first))
        return re.compile(rf"(?<![\w.-])(?:{values})(?![\w-])") if values else None

    @cached_property
    def _certain_redactor(self) -> Redactor:
        return Redactor(self.certain)

    @cached_property
    def _redactor(self) -> Redactor:
        return Redactor(self.values)
