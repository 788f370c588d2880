"""The values that a server is started with: given, checked, and written for its entry.

What the marketplace says is literal text: `${…}` in it is escaped, so that an entry can refer to
no variable, file or secret of its owner. What the owner gives may be a reference. A secret is
stored under `SERVER/NAME`, and the entry holds `${secret:SERVER/NAME}`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct

from discovery_engine._util.suggestions import did_you_mean
from discovery_engine._util.text import quoted, visible
from discovery_engine.errors import InstallRefusedError, InvalidInputError
from discovery_engine.marketplace.entry import Input
from discovery_engine.secrets.references import (
    MalformedReferenceError,
    is_secret_name,
    references,
    split,
)
from discovery_engine.secrets.secret_names import NameKind

GivenValues: TypeAlias = Mapping[str, str | Sequence[str]]
"""What the owner gave, by the keys that were asked for; several for a repeated argument."""

_PLACES = re.compile(r"\{([^{}]{1,128})\}")
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # a tab may stand in an argument
_UNSAFE_IN_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_TRUE = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class AskedInput(Struct, frozen=True):
    """A value that the owner may give."""

    key: str
    """How it is named in `--with KEY=VALUE`."""
    input: Input
    is_secret: bool
    is_given: bool = False
    """By the owner, now or before."""
    stored_as: str = ""
    """The name under which a secret is stored; empty for any other value."""

    @property
    def is_missing(self) -> bool:
        return self.input.is_required and not self.is_given and not self.input.default


class InputValues:
    """Resolves the inputs of one offer, and notes what is missing."""

    def __init__(
        self,
        server: str,
        given: GivenValues,
        *,
        secrets: GivenValues = MappingProxyType({}),
        earlier: GivenValues = MappingProxyType({}),
        stored: Collection[str] = frozenset(),
    ) -> None:
        """Values for one server.

        Args:
            server: What it is called.
            given: What its owner gives.
            secrets: The same of what is to be stored, also where its publisher does not say so.
                Nothing in them is a reference.
            earlier: What its owner gave for the version before; what is not asked for any more is
                forgotten.
            stored: The secrets of this very server that are stored already: `SERVER/NAME`.
        """
        self._server = server
        self._new = {**given, **secrets}
        self._given = {
            key: (value,) if isinstance(value, str) else tuple(value)
            for key, value in {**earlier, **self._new}.items()
        }
        self._secrets = frozenset(secrets)
        self._stored = stored
        self.asked: dict[str, AskedInput] = {}
        self.to_store: dict[str, str] = {}
        """The secrets that were given, by the names under which they are to be stored."""
        self.paths: list[str] = []
        """The files and folders that the owner named, which the server is to use."""

    def texts(self, one: Input) -> tuple[str, ...]:
        """The values of an input as an entry holds them; none if it is unset or missing.

        Raises:
            InvalidInputError: If what was given does not fit.
        """
        if one.value:
            return self._filled(one)
        key = key_of(one)
        name = self._secret_name(key)
        is_secret = is_secret_input(one) or key in self._secrets or name in self._stored
        texts: tuple[str, ...] = ()
        if checked := self._checked(one, key):
            texts = tuple(self._secret_texts(key, checked) if is_secret else checked)
            self.paths += [] if is_secret else filter(_is_path, checked)
        elif is_secret and name in self._stored:
            texts = (f"${{secret:{name}}}",)
        stored_as = name if is_secret else ""
        self.asked[key] = AskedInput(key, one, is_secret, is_given=bool(texts), stored_as=stored_as)
        if texts or not one.default:
            return texts
        return (literal(_published(one, key, one.default)),)

    def _checked(self, one: Input, key: str) -> list[str]:
        """What was given for an input.

        Raises:
            InvalidInputError: If it does not fit.
        """
        try:
            return checked_values(
                one, key, self._given.get(key, ()), may_refer=key not in self._secrets
            )
        except InvalidInputError as error:
            if key in self._new:
                raise
            raise InvalidInputError(
                f"what was given for the present version does not fit: {error.message}",
                hint=f"give another value: `--with {_shown(key)}=…`",
            ) from error

    def has(self, one: Input) -> bool:
        """Whether the owner gave a value for an input."""
        return key_of(one) in self._given

    def text(self, one: Input) -> str | None:
        """The one value of an input; None if it is unset or missing."""
        return next(iter(self.texts(one)), None)

    @property
    def plain(self) -> dict[str, tuple[str, ...]]:
        """What was given that is not secret; references to secrets are kept as such."""
        return {
            key: values
            for key, values in self._given.items()
            if (one := self.asked.get(key))
            and key not in self._secrets
            and (not one.is_secret or all(map(is_reference, values)))
        }

    def require_known(self) -> None:
        """Check that all that was given was asked for.

        Raises:
            InvalidInputError: For the first that was not.
        """
        for key in self._new:
            if key not in self.asked:
                known = tuple(self.asked)
                asks = f"it asks for {', '.join(known)}" if known else "it asks for nothing"
                hint = did_you_mean(key, known, otherwise=asks)
                raise InvalidInputError(f"the server takes no {_shown(key)}", hint=hint)

    def _filled(self, one: Input) -> tuple[str, ...]:
        """The publisher's value with its variables filled in."""
        variables = {variable.name: variable for variable in one.variables}
        filled = {name: self.text(variable) for name, variable in variables.items()}
        if any(filled[name] is None and variables[name].is_required for name in filled):
            return ()
        if filled and not any(filled.values()):
            return ()  # an optional value that is not wanted
        _published(Input(one.name, one.kind), one.name, one.value)
        pieces: list[str] = []
        for number, piece in enumerate(_PLACES.split(one.value)):
            is_place = number % 2 == 1
            if is_place and piece in filled:
                pieces.append(filled[piece] or "")
            else:
                pieces.append(literal(f"{{{piece}}}" if is_place else piece))
        return (joined(pieces),)

    def _secret_texts(self, key: str, values: Iterable[str]) -> Iterable[str]:
        """References to secrets: those that were given, or to what is to be stored."""
        for number, value in enumerate(values, start=1):
            if key not in self._secrets and is_reference(value):
                yield value
                continue
            name = self._secret_name(key if number == 1 else f"{key}_{number}")
            self.to_store[name] = value
            yield f"${{secret:{name}}}"

    def _secret_name(self, key: str) -> str:
        short = _UNSAFE_IN_NAME.sub("_", key).strip("._-") or "SECRET"
        name = f"{self._server}/{short[:128]}"
        return name if is_secret_name(name) else f"{self._server}/SECRET"


def key_of(one: Input) -> str:
    """How an input is named in `--with KEY=VALUE`: a flag without its dashes."""
    return visible(one.name).strip().lstrip("-") or "argument"


def is_secret_input(one: Input) -> bool:
    """Whether its publisher says that it is secret, or its name does."""
    return one.is_secret or NameKind.of(key_of(one)) is NameKind.SECRET


def literal(text: str) -> str:
    """A text in which nothing is a reference."""
    return text.replace("${", "$${")


def joined(texts: Iterable[str]) -> str:
    """Texts of an entry, one behind the other, in which the same is a reference as in each.

    Two literals together could become one: `$` and `{HOME}`.

    Raises:
        InstallRefusedError: If a dollar sign stands before a reference, which cannot be written.
    """
    parts = [part for text in texts for part in split(text)]
    whole = ""
    for is_literal, group in groupby(parts, key=lambda part: isinstance(part, str)):
        if is_literal:
            whole += literal("".join(map(str, group)))
        else:
            if whole.endswith("$"):
                raise InstallRefusedError("the entry has a dollar sign before one of your values")
            whole += "".join(map(str, group))
    return whole


def is_reference(text: str) -> bool:
    """Whether a text of the owner refers to something, rather than being the value itself."""
    try:
        return bool(references(text))
    except MalformedReferenceError:
        return False


def checked_values(
    one: Input, key: str, values: Sequence[str], *, may_refer: bool = True
) -> list[str]:
    """What was given for an input, in the form in which the server takes it.

    Raises:
        InvalidInputError: If there are several of what is not repeated, or one does not fit.
    """
    if len(values) > 1 and not one.is_repeated:
        raise InvalidInputError(f"{_shown(key)} takes one value, not {len(values)}")
    return [checked_value(one, key, text, may_refer=may_refer) for text in values]


def checked_value(one: Input, key: str, value: str, *, may_refer: bool = True) -> str:
    """A value in the form in which the server takes it.

    Raises:
        InvalidInputError: If it is not one of its choices, not of its format, or no text.
    """
    _refuse_controls(key, value)
    if may_refer:
        try:
            if references(value):
                return value
        except MalformedReferenceError as error:
            raise InvalidInputError(f"{_shown(key)}: {error}") from error
    if one.choices and value not in one.choices:
        choices = ", ".join(quoted(choice) for choice in one.choices)
        raise InvalidInputError(f"{_shown(key)} must be one of {choices}")
    match one.format:
        case "number" if not _is_number(value):
            raise InvalidInputError(f"{_shown(key)} must be a number")
        case "boolean" if value.lower() not in _TRUE:
            raise InvalidInputError(f"{_shown(key)} must be true or false")
        case "boolean":
            return "true" if _TRUE[value.lower()] else "false"
        case "filepath" | "string" if value.startswith("~/"):
            return os.path.expanduser(value)  # noqa: PTH111 - whatever `~` stands for
    return value


def _published(one: Input, key: str, value: str) -> str:
    """A value that the publisher gives, in the form in which the server takes it.

    Raises:
        InstallRefusedError: If it does not fit what the publisher says of it.
    """
    try:
        return checked_value(one, key, value, may_refer=False)
    except InvalidInputError as error:
        raise InstallRefusedError(f"the entry is not usable: its value of {error}") from error


def _is_path(text: str) -> bool:
    """Whether a value of the owner is a file or a folder of this machine."""
    path = Path(text)
    return path.is_absolute() and os.path.lexists(path) and path != path.parent


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _refuse_controls(key: str, value: str) -> None:
    if found := _CONTROLS.search(value):
        code = f"U+{ord(found.group()):04X}"
        raise InvalidInputError(f"{_shown(key)} contains a control character ({code})")


def _shown(key: str) -> str:
    return visible(key)[:100]
