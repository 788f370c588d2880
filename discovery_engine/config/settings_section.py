"""Declarations of settings: type, default, limits and description, and who may set them.

    max_connecting: Annotated[int, UNTRUSTED, Values(ge=1, le=1000, examples=[4])] = 8

The docstring below a field is the text for owners. The validation (`config.model`), the JSON Schema
and the form of `discovery config show` are made from these declarations. A field has the name of
its key in `discovery.yaml`.

Every field declares which values count in a file of untrusted origin. A field without a declaration
is owner-only: in such a file it is ignored, and keeps its default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Annotated, Any, NamedTuple, TypeAlias

from msgspec import Struct


class SettingsSection(
    Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """The settings under one key."""


class Permission:
    """The part of a field's value that counts in a file of untrusted origin."""

    def __init__(self, permitted: Callable[[Any, Any], Any]) -> None:
        self.permitted = permitted
        """Returns the value to use, from the given value and the default."""


UNTRUSTED = Permission(lambda value, _: value)
"""Any value, because it loosens nothing, or an approval covers it."""
AT_MOST_DEFAULT = Permission(min)
NOT_OPEN = Permission(lambda policy, _: "on_first_use" if policy == "open" else policy)
LOCAL = Permission(lambda provider, default: provider if provider == "hash" else default)
"""Only the provider that sends no texts elsewhere and loads no files of the project."""
MIN_RESULT_TOKENS = 250
"""The smallest limit; below it, little more than the note on the cut would fit."""
MAX_RESULT_TOKENS = 25_000
RESULT_TOKENS = Permission(
    lambda tokens, default: tokens if tokens and tokens <= MAX_RESULT_TOKENS else default
)
"""At most `MAX_RESULT_TOKENS`; 0, which cuts nothing, does not count."""
INTERNAL = Permission(lambda value, _: value)
"""Set by the engine, and never read from a file."""


class InPlaceOf(NamedTuple):
    """Declares that a field of a view replaces a setting for its clients, with the same values."""

    section: str
    field: str


class Values:
    """The values that an owner may write for a setting: limits, and examples.

    Unlike `msgspec.Meta`, it does not restrict values that are stored.
    """

    def __init__(self, *, examples: Sequence[Any] = (), **limits: float) -> None:
        """Create it with limits `ge`, `gt` and `le`, and examples."""
        self.examples = list(examples)
        self.limits = limits


class Kind(Enum):
    """A kind of text that is validated when it is read; see `config.model.field_types`."""

    WORD = auto()
    WORDS = auto()
    TEMPLATE = auto()
    SECRET_TEMPLATE = auto()
    ROOT = auto()
    PATTERNS = auto()
    VARIABLE_PATTERNS = auto()
    PRINCIPALS = auto()
    RESULT_TOKENS = auto()


LONGEST_TIMEOUT = 86_400.0  # seconds; a longer one is a mistaken unit

Word: TypeAlias = Annotated[str, Kind.WORD]
"""Text that is not blank."""
Words: TypeAlias = Annotated[tuple[str, ...], Kind.WORDS]
Template: TypeAlias = Annotated[str, Kind.TEMPLATE]
"""Text that may contain `${references}`, but no commands."""
SecretTemplate: TypeAlias = Annotated[str, Kind.SECRET_TEMPLATE]
Root: TypeAlias = Annotated[str, Kind.ROOT]
"""A folder, or an absolute `file://` address."""
Patterns: TypeAlias = Annotated[tuple[str, ...], Kind.PATTERNS]
"""Patterns as in rules."""
VariablePatterns: TypeAlias = Annotated[tuple[str, ...], Kind.VARIABLE_PATTERNS]
"""Names of variables, with `*` for any characters."""
Principals: TypeAlias = Annotated[tuple[str, ...], Kind.PRINCIPALS]
"""Teams and users."""
Weight: TypeAlias = Annotated[float, Values(ge=0, le=1)]
Seconds: TypeAlias = Annotated[float, Values(gt=0, le=LONGEST_TIMEOUT)]
Tokens: TypeAlias = Annotated[int, Values(ge=50, le=100_000)]
"""The length of an answer, in tokens."""
ResultTokens: TypeAlias = Annotated[int, Kind.RESULT_TOKENS, Values(ge=0, le=100_000_000)]
"""The length of a result, in tokens; 0 for unlimited."""
Rate: TypeAlias = Annotated[int, Values(ge=1, le=1_000_000)]
