"""A diagnostic: what is wrong or worth knowing, as a stable code, a message and the next step.

Every part that finds something constructs a `Diagnostic`, or a subclass that carries more. `codes`
has the severity of each code; it is loaded only where one is needed, since most commands show none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine._util.json import JSONObject

if TYPE_CHECKING:
    from discovery_engine.errors.codes import Severity


class Origin(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where something was written; `line` and `column` count from 1, 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0
    client: str = ""
    """The MCP client whose file it is, as it calls itself; empty for a file of this program."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    @property
    def brief(self) -> str:
        """The same without the folder, for every reader."""
        name = self.file.replace("\\", "/").rpartition("/")[2]
        return str(Origin(name, self.line, self.column))


class Diagnostic(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One thing that is wrong, or that its reader should know."""

    code: str
    """A key of `codes.CODES`."""
    message: str
    hint: str = ""
    """The next step; may be empty."""
    subject: str = ""
    """The subject: a key path (`toolRules.0.enabled`), a server, or `server:tool`."""
    origin: Origin = Origin("")
    """Where it was written, if it was."""
    excerpt: str = ""
    """The line in question with a caret below it, without secrets; may be empty."""

    @property
    def severity(self) -> Severity:
        from discovery_engine.errors.codes import severity_of  # noqa: PLC0415

        return severity_of(self.code)

    @property
    def sentence(self) -> str:
        """The message, after the subject."""
        return f"{self.subject}: {self.message}" if self.subject else self.message

    @property
    def line(self) -> str:
        """The place, the sentence and the code, without the hint."""
        place = f"{self.origin}: " if self.origin.file else ""
        return f"{place}{self.sentence} [{self.code}]"

    def __str__(self) -> str:
        return f"{self.line} ({self.hint})" if self.hint else self.line

    def to_json(self) -> JSONObject:
        """The form that all JSON output has; where it was written is null if that is unknown."""
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
