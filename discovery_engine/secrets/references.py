"""References to values that are kept elsewhere, and the hiding of those that are not.

    ${NAME}             the environment variable; an error if it is not set
    ${NAME:-default}    the same, with a default for one that is unset or empty
    ${file:path}        what the file holds, less one newline at its end
    ${secret:NAME}      what `discovery secrets set NAME` stored; an error if it is not stored
    ${secret:SERVER/NAME}   the same, of one server: no other entry may refer to it
    ${command:["pass", "show", "github"]}   what a program writes; a list, for there is no shell
    $${                 the two characters ${ themselves

`secrets.resolver` gives them their values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from discovery_engine._util.lazy_pattern import lazy_pattern

REDACTED = "••••"

_TOKENS = lazy_pattern(r"\$\$\{|\$\{(?P<inner>[^}]*)\}|\$\{")
_NAME = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = lazy_pattern(
    r"(?:[^/{}$\s\0]{1,128}/)?[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,126}[A-Za-z0-9_])?"
)
_VARIABLE = lazy_pattern(rf"(?P<name>{_NAME.pattern})(?::-(?P<default>.*))?", re.DOTALL)


class MalformedReferenceError(ValueError):
    """A `${` that is not the start of a reference. The message never holds a default."""


class UnsetReference(ValueError):  # noqa: N818 - it reads as the state that it is
    """A reference without a value.

    `name` is the variable, or what follows the kind: `file:` and a path, `secret:` and a name,
    `command:` and its words, those that may be secrets hidden.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"${{{name}}} {reason}")


class Reference(Struct, frozen=True):
    kind: Literal["variable", "file", "secret", "command"]
    name: str
    """The variable's or the secret's name, the file's path, or the command as a JSON list."""
    default: str | None = None

    def __str__(self) -> str:
        """Return the reference as it was written."""
        return self._written(self.default)

    def redacted(self) -> str:
        """Return it as written, less what may be a secret itself: a default, words of a command."""
        if self.kind == "command":
            return f"${{command:{_redacted_command(self.argv)}}}"
        return self._written(REDACTED if self.default else self.default)

    def _written(self, default: str | None) -> str:
        suffix = "" if default is None else f":-{default}"
        return f"${{{self.address}{suffix}}}"

    @property
    def address(self) -> str:
        """The name with its kind: `HOME`, `file:token.txt`, `secret:GITHUB_TOKEN`."""
        return self.name if self.kind == "variable" else f"{self.kind}:{self.name}"

    @property
    def argv(self) -> tuple[str, ...]:
        """The program of a command and its arguments."""
        return tuple(json.loads(self.name)) if self.kind == "command" else ()

    @property
    def owner(self) -> str:
        """The server that a secret is kept for; empty for one that any entry may refer to."""
        return self.name.rpartition("/")[0] if self.kind == "secret" else ""


def is_secret_name(name: str) -> bool:
    """Return whether a secret may be stored under that name."""
    return _SECRET.fullmatch(name) is not None


def is_variable(name: str) -> bool:
    """Return whether a reference to a variable may have that name."""
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


def reads_file(text: str) -> bool:
    return any(reference.kind == "file" for reference in references_in(text))


def with_addresses(text: str, addresses: Mapping[str, str]) -> str:
    """The text with other references in place of some; both are `Reference.address`."""

    def written(token: re.Match[str]) -> str:
        address = addresses.get(token.group("inner") or "")
        return token.group() if address is None else f"${{{address}}}"

    return _TOKENS.sub(written, text)


def redact_literals(text: str) -> str:
    """The text with its references as written and everything else hidden."""
    try:
        parts = split(text)
    except MalformedReferenceError:
        return REDACTED
    pieces = (REDACTED if isinstance(part, str) else part.redacted() for part in parts)
    return "".join(pieces)


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
    if inner.startswith("secret:"):
        return _secret(inner.removeprefix("secret:"))
    if inner.startswith("command:"):
        return _command(inner.removeprefix("command:"))
    if variable := _VARIABLE.fullmatch(inner):
        return Reference("variable", variable["name"], variable["default"])
    raise MalformedReferenceError(
        "'${' must go on as ${NAME}, ${NAME:-default}, ${file:path}, ${secret:NAME} or "
        "${command:[...]}; write '$${' for the characters"
    )


def _secret(name: str) -> Reference:
    if not is_secret_name(name):
        # The name may be the secret itself, put there by mistake.
        raise MalformedReferenceError(
            "'${secret:' must go on with a name of letters, digits, '_', '.' and '-', and may have "
            "one server before it: ${secret:GITHUB_TOKEN}, ${secret:github/TOKEN}"
        )
    return Reference("secret", name)


def _command(text: str) -> Reference:
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        words = None
    if not isinstance(words, list) or not words or not all(map(_is_word, words)) or not words[0]:
        raise MalformedReferenceError(
            "'${command:' must go on with a program and its arguments as a list, for there is no "
            """shell: ${command:["pass", "show", "github"]}"""
        )
    return Reference("command", json.dumps(words, ensure_ascii=False))


def _is_word(value: object) -> bool:
    return isinstance(value, str) and not {"\0", "\n", "\r"} & set(value)


def _redacted_command(words: Sequence[str]) -> str:
    return json.dumps(list(_redacted_words(words)), ensure_ascii=False)


def _redacted_words(words: Sequence[str]) -> Iterator[str]:
    # Its patterns take 10 ms to compile, and commands are few.
    from discovery_engine.secrets.secret_names import is_key, is_secret_flag  # noqa: PLC0415

    is_secret = False
    for word in words:
        flag, equals, _ = word.partition("=")
        if is_secret or is_key(word):
            yield REDACTED
        else:
            yield f"{flag}={REDACTED}" if equals and is_secret_flag(flag) else word
        is_secret = is_secret_flag(word)
