"""References to values that are kept elsewhere, and the hiding of those that are not.

    ${NAME}             the environment variable; an error if it is not set
    ${NAME:-default}    the same, with a default for one that is unset or empty
    ${file:path}        what the file holds, less one newline at its end
    $${                 the two characters ${ themselves

`secrets.resolver` gives them their values.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

REDACTED = "••••"

_TOKENS = re.compile(r"\$\$\{|\$\{(?P<inner>[^}]*)\}|\$\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE = re.compile(rf"(?P<name>{_NAME.pattern})(?::-(?P<default>.*))?", re.DOTALL)


class MalformedReferenceError(ValueError):
    """A `${` that is not the start of a reference. The message never holds a default."""


class UnsetReference(ValueError):  # noqa: N818 - it reads as the state that it is
    """A reference without a value; `name` is the variable, or `file:` and the path."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"${{{name}}} {reason}")


class Reference(Struct, frozen=True):
    kind: Literal["variable", "file"]
    name: str
    """The variable's name, or the file's path."""
    default: str | None = None

    def __str__(self) -> str:
        """As it was written."""
        return self._written(self.default)

    def redacted(self) -> str:
        """As it was written, with the default hidden: a default may be the secret itself."""
        return self._written(REDACTED if self.default else self.default)

    def _written(self, default: str | None) -> str:
        prefix = "file:" if self.kind == "file" else ""
        suffix = "" if default is None else f":-{default}"
        return f"${{{prefix}{self.name}{suffix}}}"


def is_variable(name: str) -> bool:
    """Whether a reference may have that name."""
    return _NAME.fullmatch(name) is not None


def split(text: str) -> tuple[str | Reference, ...]:
    """The literal pieces and the references of a text, in order; no piece is empty.

    Raises:
        MalformedReferenceError: If a `${` starts no reference.
    """
    parts: list[str | Reference] = []
    done = 0
    for token in _TOKENS.finditer(text):
        _add_literal(parts, text[done : token.start()])
        if token.group() == "$${":
            _add_literal(parts, "${")
        else:
            parts.append(_reference(token.group("inner")))
        done = token.end()
    _add_literal(parts, text[done:])
    return tuple(parts)


def references(text: str) -> tuple[Reference, ...]:
    """The references of a text, in order.

    Raises:
        MalformedReferenceError: If a `${` starts no reference.
    """
    return tuple(part for part in split(text) if isinstance(part, Reference))


def references_in(text: str) -> tuple[Reference, ...]:
    """The references of a text, in order; none of one that is malformed."""
    try:
        return references(text)
    except MalformedReferenceError:
        return ()


def redact_literals(text: str) -> str:
    """The text with its references as written and everything else hidden."""
    try:
        parts = split(text)
    except MalformedReferenceError:
        return REDACTED
    shown = (REDACTED if isinstance(part, str) else part.redacted() for part in parts)
    return "".join(shown)


def _add_literal(parts: list[str | Reference], text: str) -> None:
    if text and parts and isinstance(parts[-1], str):
        parts[-1] += text
    elif text:
        parts.append(text)


def _reference(inner: str | None) -> Reference:
    if inner is None:
        raise MalformedReferenceError("'${' has no closing '}'; write '$${' for the characters")
    if "${" in inner:
        raise MalformedReferenceError("a reference cannot stand inside another")
    if inner.startswith("env:"):
        raise MalformedReferenceError("'${env:NAME}' is written '${NAME}' here")
    if inner.startswith("file:") and inner != "file:":
        return Reference("file", inner.removeprefix("file:"))
    if variable := _VARIABLE.fullmatch(inner):
        return Reference("variable", variable["name"], variable["default"])
    raise MalformedReferenceError(
        "'${' must go on as ${NAME}, ${NAME:-default} or ${file:path}; "
        "write '$${' for the characters"
    )
