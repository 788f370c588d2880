"""Redacts the secrets of a server's entry in its output, and logs its stderr.

    redactor = OutputRedactor.for_server(server, secrets)
    redactor.redact("401 for Bearer s3cr3t-t0ken")      "401 for ••••"

A program may print its environment when it crashes, and an error may contain the address with its
key. All output of a server is redacted here before it is stored, logged or shown.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine._util.text import clean, visible
from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import UnavailableError, UpstreamError
from discovery_engine.secrets.redactor import SHORTEST_BEGINNING, Redactor
from discovery_engine.secrets.resolver import SecretResolver

if TYPE_CHECKING:
    from discovery_engine.tools.model import ServerName

_LINES = 20
_PREFIX = 12  # bytes at the beginning of a secret, which hardly occur elsewhere
_LINE_LENGTH = 500  # characters
_MOST_VALUES = 1000  # current and earlier ones; a program may still print an old token


class OutputRedactor(Struct, frozen=True, dict=True):
    values: frozenset[str]
    is_stable: bool = True
    """True if the values of the entry stay the same; those from files and commands may change."""
    certain: frozenset[str] = frozenset()
    """The `values` that do not occur in other text by chance."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Values of references that are no secrets, and how they are written: `${WORKDIR}`."""

    @classmethod
    def for_server(cls, server: ServerSettings, secrets: SecretResolver) -> OutputRedactor:
        """The secrets in a server's variables, headers, arguments and address.

        Reads the files of its references; what cannot be resolved is left out.
        """
        # Its patterns take 10 ms to compile, and most runs use no server.
        from discovery_engine.config.entry_secrets import (  # noqa: PLC0415
            has_changing_values,
            secrets_of,
            written_references,
        )

        own_secrets = [
            secret for secret in secrets_of(server, secrets) if secret.text not in server.name
        ]
        values = frozenset(secret.text for secret in own_secrets)
        certain = frozenset(secret.text for secret in own_secrets if secret.is_certain)
        references = written_references(server, secrets)
        return cls(values, not has_changing_values(server), certain, references)

    def including(self, earlier: OutputRedactor) -> OutputRedactor:
        """Return a redactor with earlier values, too, which a program may still print."""
        values = self.values | earlier.values
        if len(values) > _MOST_VALUES:
            return self
        references = {**earlier.written, **self.written}
        return replace(
            self, values=values, certain=self.certain | earlier.certain, written=references
        )

    def redact(self, text: str) -> str:
        from discovery_engine.secrets.known_secrets import KNOWN_SECRETS  # noqa: PLC0415 - as above

        text = KNOWN_SECRETS.redact_tokens(self._redactor.redact(text))
        if self._references:
            text = self._references.sub(lambda match: self.written[match[0]], text)
        return text

    def redact_json(self, value: Any) -> Any:
        """JSON without certain secrets in its texts; `value` itself if it contains none."""
        from discovery_engine.secrets.known_secrets import (  # noqa: PLC0415 - as above
            KNOWN_SECRETS,
            redact_json,
        )

        if self.certain and self._may_contain_secret(value):
            value = redact_json(value, self._certain_redactor)
        return KNOWN_SECRETS.redact_tokens_in_json(value)

    def _may_contain_secret(self, value: Any) -> bool:
        """A quick check, 2 ms for a megabyte: most servers never repeat their secrets."""
        try:
            document = msgspec.json.encode(value)
        except (ValueError, OverflowError):  # half a surrogate pair, or a number beyond 64 bits
            return True
        return any(beginning in document for beginning in self._beginnings)

    def redact_stderr(self, stderr: str) -> str:
        """The last stderr lines of a program, redacted and cleaned."""
        return self._redacted(stderr)

    @cached_property
    def _redacted(self) -> Callable[[str], str]:
        """Caches the redacted stderr and three samples of the last report."""
        return lru_cache(maxsize=4)(self._excerpt)

    def _excerpt(self, stderr: str) -> str:
        # Cut before it is cleaned and redacted: twenty lines of 8 KiB take 60 ms otherwise.
        excerpt = "\n".join(map(self._beginning, stderr.strip().split("\n")[-_LINES:]))
        lines = self.redact(clean(excerpt)).strip().splitlines()[-_LINES:]
        return "\n".join(line.rstrip()[:_LINE_LENGTH] for line in lines)

    def _beginning(self, line: str) -> str:
        """The beginning of a line, without the rest of a secret that the cut divides."""
        if len(line) <= _LINE_LENGTH:
            return line
        return self.redact(clean(line[: _LINE_LENGTH + SHORTEST_BEGINNING]))[:-SHORTEST_BEGINNING]

    def redact_error(self, error: UpstreamError) -> None:
        """Redact an error and its causes in place."""
        current: BaseException | None = error
        while isinstance(current, UpstreamError):
            current.message, current.hint = self.redact(current.message), self.redact(current.hint)
            current.args, current.detail = (current.message,), self.redact(current.detail)
            if isinstance(current, UnavailableError):
                current.reason = self.redact(current.reason)
                current.stderr = self.redact_stderr(current.stderr)
            current = current.__cause__

    @cached_property
    def _beginnings(self) -> tuple[bytes, ...]:
        return tuple({msgspec.json.encode(secret)[1:-1][:_PREFIX] for secret in self.certain})

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


# One log line for each stderr line, redacted, with control and invisible characters escaped. The
# rate is bounded, so that no program can flood the log.

logger = logging.getLogger(__name__)

_LOGGED_LINES = 50  # logged per server and span
_SPAN = 10.0  # seconds
_MAX_STDERR_LINE_LENGTH = 500  # characters of a line


class StderrLog:
    """The stderr log of one server."""

    def __init__(self, server: ServerName) -> None:
        self._server = server
        self._began = time.monotonic()
        self._logged = 0
        self._skipped = 0

    def write(self, lines: Sequence[str], redact: Callable[[str], str]) -> None:
        """Log lines up to the rate limit and count the rest; `redact` removes secrets."""
        if not logger.isEnabledFor(logging.INFO):
            return
        if (now := time.monotonic()) - self._began >= _SPAN:
            self._begin(now)
        for number, line in enumerate(lines):
            if self._logged == _LOGGED_LINES:
                self._skipped += len(lines) - number
                break
            if text := line.rstrip():
                self._logged += 1
                logger.info("%s: %s", self._server, _fit(redact(text)))

    def _begin(self, now: float) -> None:
        """Begin another span; log how many lines of the last one were skipped."""
        if self._skipped:
            logger.info("%s: (%d more lines, not logged)", self._server, self._skipped)
        self._began, self._logged, self._skipped = now, 0, 0


def _fit(line: str) -> str:
    text = visible(line[:_MAX_STDERR_LINE_LENGTH]).replace("\t", "    ")
    return f"{text}…" if len(line) > _MAX_STDERR_LINE_LENGTH else text
