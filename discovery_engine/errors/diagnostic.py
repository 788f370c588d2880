"""A diagnostic: a problem or a note, as a stable code, a message and a hint.

Each check constructs a `Diagnostic`, or a subclass with more fields. The module `codes` has the
severity of each code; it is imported only when one is read, since most commands show none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine._util.json import JSONObject

if TYPE_CHECKING:
    from discovery_engine.errors.codes import Severity


class Origin(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A place in a file; `line` and `column` count from 1, and 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0
    client: str = ""
    """The name of the MCP client that owns the file; empty for a file of this program."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    @property
    def brief(self) -> str:
        """The place without the folder of the file, so that any reader may see it."""
        name = self.file.replace("\\", "/").rpartition("/")[2]
        return str(Origin(name, self.line, self.column))


class Diagnostic(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One problem or note, with the place it is about."""

    code: str
    """A key of `codes.CODES`."""
    message: str
    hint: str = ""
    """What to do next; may be empty."""
    subject: str = ""
    """A key path (`toolRules.0.enabled`), a server, or `server:tool`; may be empty."""
    origin: Origin = Origin("")
    """The place in a file that caused it; its `file` is empty if there is none."""
    excerpt: str = ""
    """The line of the file with a caret below it, without secrets; may be empty."""

    @property
    def severity(self) -> Severity:
        from discovery_engine.errors.codes import severity_of  # noqa: PLC0415

        return severity_of(self.code)

    @property
    def sentence(self) -> str:
        """The message, preceded by the subject."""
        return f"{self.subject}: {self.message}" if self.subject else self.message

    @property
    def line(self) -> str:
        """The place, the sentence and the code, without the hint."""
        place = f"{self.origin}: " if self.origin.file else ""
        return f"{place}{self.sentence} [{self.code}]"

    def __str__(self) -> str:
        return f"{self.line} ({self.hint})" if self.hint else self.line

    def to_json(self) -> JSONObject:
        """Return the JSON form in all output; an unknown file, line or column is null."""
        return {
            "code": self.code,
            "severity": self.severity,
            "subject": self.subject,
            "message": self.message,
            "hint": self.hint,
            "file": self.origin.file or None,
            "line": self.origin.line or None,
            "column": self.origin.column or None,
            "excerpt": self.excerpt,
        }
