"""The types of fields in a configuration.

A type decides how an unquoted scalar is read: text stays as written, and only fields for numbers
and booleans convert it. A quoted value is always text.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from discovery_engine._util.address_classes import is_reserved
from discovery_engine._util.json import JSONValue
from discovery_engine.config.document.tree import PlainScalar
from discovery_engine.config.settings_section import MIN_RESULT_TOKENS, Kind
from discovery_engine.config.syntax import is_file_address, is_header_name
from discovery_engine.rules.patterns import Pattern
from discovery_engine.rules.rule import PrincipalError, parse_principal
from discovery_engine.secrets.references import references_in, split


def custom_error(message: str, *, hint: str = "", key: str = "") -> PydanticCustomError:
    """Return a validation error with our message; `key` is the member that it is about."""
    context = {"message": message, "hint": hint, "key": key}
    return PydanticCustomError("custom", "{message}", context)


def _as_text(value: JSONValue) -> JSONValue:
    if isinstance(value, PlainScalar):
        return None if value.meaning is None else str(value)
    return value


def _as_meant(value: JSONValue) -> JSONValue:
    return value.meaning if isinstance(value, PlainScalar) else value


def _one_or_many(value: JSONValue) -> JSONValue:
    return [value] if isinstance(value, str) else value


def _mapping_for_nothing(value: JSONValue) -> JSONValue:
    return {} if _as_meant(value) is None else value


def _list_for_nothing(value: JSONValue) -> JSONValue:
    return [] if _as_meant(value) is None else value


def _require_no_nul(text: str) -> str:
    if "\0" in text:
        raise custom_error("holds the character NUL")
    return text


def _parsed_principal(text: str) -> str:
    try:
        return parse_principal(text)
    except PrincipalError as error:
        raise custom_error(str(error), hint=error.hint) from error


def _require_principals(principals: list[str]) -> list[str]:
    # An empty list is ambiguous: it could mean all or none.
    if not principals:
        hint = "name a team or a user, or remove the key to show it to all"
        raise custom_error("names no team and no user", hint=hint)
    return list(dict.fromkeys(principals))


def require_text(text: str) -> str:
    if not text.strip():
        raise custom_error("must not be empty")
    return text


def _require_valid_references(text: str) -> str:
    split(text)
    return text


def _require_no_commands(text: str) -> str:
    if any(reference.kind == "command" for reference in references_in(text)):
        hint = "others can see arguments; put it into 'env', 'headers' or 'oauth' of a server"
        raise custom_error("must not hold ${command:...}", hint=hint)
    return text


def _require_enough_tokens(tokens: int) -> int:
    if 0 < tokens < MIN_RESULT_TOKENS:
        raise custom_error(
            f"must be {MIN_RESULT_TOKENS} or more", hint="write 0 to pass every result whole"
        )
    return tokens


def plain_path(text: str, name: str = "notes") -> str:
    """Return a path after checking that it has no references; `name` is the example in hints."""
    if "${" in text:
        raise custom_error("must not hold ${references}", hint="begin with ~ for the home folder")
    if os.path.expanduser(text).startswith("~"):  # noqa: PTH111 - that of `pathlib` raises
        hint = f"write ~/{name}, or ./~{name} for a folder of that name"
        raise custom_error("begins with the home folder of an unknown user", hint=hint)
    return text


def _require_root(text: str) -> str:
    if "${" not in text and ("://" in text or text.lower().startswith("file:")):
        if not is_file_address(text):
            hint = "write file:///srv/project, with %20 for a blank, or the folder itself"
            raise custom_error("must be a folder, or an absolute file:// address", hint=hint)
        return text
    return plain_path(text, "project")


def _require_header_name(name: str) -> str:
    if not is_header_name(name):
        raise custom_error("is no name for a header", hint="write Name: value")
    return name


def _require_one_line(text: str) -> str:
    if "\r" in text or "\n" in text:
        raise custom_error("must be on one line")
    return text


def require_web_address(text: str, *, problem: str, hint: str, owner: str) -> None:
    """Check that a text is an HTTP URL of a host that may be connected to.

    Args:
        text: The URL, without references.
        problem: The message if it is no such URL.
        hint: The next step then.
        owner: The owner of the host, for the hint if the host is reserved.

    Raises:
        PydanticCustomError: If it is no such URL.
    """
    try:
        address = urlsplit(text)
        is_web = address.scheme in ("http", "https") and bool(address.hostname)
        is_plain = not (address.username or address.password or address.fragment)
    except ValueError:
        is_web = is_plain = False
    if not is_web or not is_plain or re.search(r"[\s\\]", text):
        raise custom_error(problem, hint=hint)
    if is_reserved(address.hostname or ""):
        raise custom_error(
            "leads to an address that is never connected to: link-local, a cloud's metadata,"
            " multicast, or reserved",
            hint=f"name the host of the {owner}",
        )


def _require_pattern(text: str) -> str:
    Pattern.parse(text)
    return text


Text = Annotated[str, BeforeValidator(_as_text), AfterValidator(_require_no_nul)]
Word = Annotated[Text, AfterValidator(require_text)]
"""Text that is not blank."""
VariablePattern = Annotated[Word, Field(pattern=r"^[A-Za-z_*][A-Za-z0-9_*]*$")]
"""The name of an environment variable, with `*` for any characters."""
Root = Annotated[Word, AfterValidator(_require_root)]
"""A folder, or an absolute `file://` address."""
SecretTemplate = Annotated[
    str,
    BeforeValidator(_as_text, json_schema_input_type=str | float | bool),
    AfterValidator(_require_no_nul),
    AfterValidator(_require_valid_references),
]
"""Text that may contain `${references}`; here an unquoted number is text, too."""
Template = Annotated[SecretTemplate, AfterValidator(_require_no_commands)]
"""A `SecretTemplate` without commands, for values that others may see, or that run none."""
HeaderName = Annotated[str, AfterValidator(_require_header_name)]
one_line = AfterValidator(_require_one_line)
Flag = Annotated[bool, BeforeValidator(_as_meant)]
Number = Annotated[float, BeforeValidator(_as_meant)]
Count = Annotated[int, BeforeValidator(_as_meant)]
ResultTokens = Annotated[Count, AfterValidator(_require_enough_tokens), Field(ge=0, le=100_000_000)]
"""The length of a result, in tokens; 0 for unlimited."""

one_or_many = BeforeValidator(_one_or_many, json_schema_input_type=str | list[str])
"""Accepts a single text as a list of one."""
Words = Annotated[list[Word], one_or_many]
"""A list of words; one word is a list of one."""
Patterns = Annotated[list[Annotated[Word, AfterValidator(_require_pattern)]], one_or_many]
"""Patterns as in rules; one pattern is a list of one."""

Principals = Annotated[
    list[Annotated[Word, AfterValidator(_parsed_principal)]],
    one_or_many,
    AfterValidator(_require_principals),
]
"""A list of teams and users; a single one is a list of one."""

choice = BeforeValidator(_as_text)
"""Reads the value of a `Literal` as text."""
mapping_or_nothing = BeforeValidator(_mapping_for_nothing)
"""Reads an empty section, such as one whose lines are all comments, as an empty mapping."""
list_or_nothing = BeforeValidator(_list_for_nothing)

KINDS: Mapping[Kind, Any] = {
    Kind.WORD: Word,
    Kind.WORDS: Words,
    Kind.TEMPLATE: Template,
    Kind.SECRET_TEMPLATE: SecretTemplate,
    Kind.ROOT: Root,
    Kind.PATTERNS: Patterns,
    Kind.VARIABLE_PATTERNS: Annotated[list[VariablePattern], one_or_many],
    Kind.PRINCIPALS: Principals,
    Kind.RESULT_TOKENS: Annotated[Count, AfterValidator(_require_enough_tokens)],
}
"""The types of fields, by the kinds that settings declare."""
