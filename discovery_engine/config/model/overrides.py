"""One entry of `overrides`."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from discovery_engine._util.json import JSONValue
from discovery_engine.config.document.key_redaction import NAME_LIKE
from discovery_engine.config.document.scalars import PlainScalar
from discovery_engine.config.model.field_types import (
    Patterns,
    ResultTokens,
    Word,
    Words,
    custom_error,
)
from discovery_engine.config.model.section import Section
from discovery_engine.diagnostics import Origin
from discovery_engine.overrides.override import Override
from discovery_engine.secrets.references import split
from discovery_engine.tools.model import ToolName

_NAME = re.compile(r"[\w./-]{1,128}")
_MOST_EXAMPLES = 20
_LONGEST_EXAMPLE = 200  # characters


def _good_name(value: JSONValue) -> JSONValue:
    if isinstance(value, str) and not _NAME.fullmatch(value):
        hint = "write at most 128 letters, digits and _ . - /"
        raise custom_error("cannot be the name of a tool", hint=hint)
    return value


def _few_and_short(examples: list[str]) -> list[str]:
    if len(examples) > _MOST_EXAMPLES:
        raise custom_error(f"has {len(examples)} examples", hint=f"give at most {_MOST_EXAMPLES}")
    for number, example in enumerate(examples, 1):
        if len(example) > _LONGEST_EXAMPLE:
            problem = f"example {number} has {len(example)} characters"
            raise custom_error(problem, hint=f"write at most {_LONGEST_EXAMPLE}, one request each")
    return examples


def _arguments(value: JSONValue) -> JSONValue:
    if not isinstance(value, dict):
        return value
    for name, argument in value.items():
        if not NAME_LIKE.fullmatch(name):
            raise custom_error("is no name for an argument", hint="write name: value", key=name)
        if _meant(argument) is None:
            raise custom_error("has no value", hint="write one, or remove the key", key=name)
    return _meant(value)


def _meant(value: JSONValue) -> JSONValue:
    """Return a value with its scalars as YAML reads them; texts may hold references."""
    match value:
        case PlainScalar(meaning=meaning) if not isinstance(meaning, str):
            return meaning
        case str():
            split(value)
            return str(value)
        case list():
            return list(map(_meant, value))
        case dict():
            return {str(name): _meant(member) for name, member in value.items()}
    return value


class OverrideEntry(Section):
    """Overrides of tools; later entries win, and tags add up."""

    pattern: Patterns = Field(
        description="Names of tools as their servers give them, behind the server's `prefix`; "
        "patterns as in `toolRules`.",
        examples=["github:create_issue"],
    )
    server: Patterns = Field(
        default=[],
        description="Names of servers, as patterns; the entry is for their tools only.",
        examples=["github"],
    )
    description: Word | None = Field(
        default=None,
        description="What the tool does, instead of its server's description.",
        examples=["Report a bug to the team that runs the shop"],
    )
    name: Annotated[Word, BeforeValidator(_good_name)] | None = Field(
        default=None,
        description="What the tool is called here; no other tool of its server may be.",
        examples=["report_bug"],
    )
    tags: Words = Field(
        default=[],
        description="Tags of the tool, beside those that rules give.",
        examples=[["support"]],
    )
    examples: Annotated[Words, AfterValidator(_few_and_short)] = Field(
        default=[],
        description="Requests that the tool serves, as people put them. Search finds the tool by "
        "them; no agent is shown them.",
        examples=[["the shop is broken", "report that checkout fails"]],
    )
    arguments: Annotated[dict[str, JSONValue], BeforeValidator(_arguments)] = Field(
        default={},
        description="Arguments that are always given these values, and that no agent sees. "
        "Refer to secrets, do not write them: `${NAME}`, `${NAME:-default}` or `${file:path}`.",
        examples=[{"owner": "acme", "token": "${ISSUES_TOKEN}"}],
    )

    max_result_tokens: ResultTokens | None = Field(
        default=None,
        description="As `server.maxResultTokens`, for the results of these tools.",
        examples=[5000],
    )

    @model_validator(mode="after")
    def _does_something(self) -> OverrideEntry:
        if not self.pattern:
            raise custom_error("names no tool", key="pattern", hint="write '*' for all")
        is_limit = self.max_result_tokens is not None
        texts = self.description or self.name or self.tags or self.examples
        if not (texts or self.arguments or is_limit):
            hint = "give it 'description', 'name', 'tags', 'examples', 'arguments' or "
            hint += "'maxResultTokens'"
            raise custom_error("the entry does nothing", hint=hint)
        return self

    def to_override(self, origin: Origin) -> Override:
        return Override(
            patterns=tuple(self.pattern),
            servers=tuple(self.server),
            description=self.description,
            name=ToolName(self.name) if self.name else None,
            tags=tuple(dict.fromkeys(self.tags)),
            examples=tuple(dict.fromkeys(self.examples)),
            arguments=dict(self.arguments),
            max_result_tokens=self.max_result_tokens,
            origin=origin,
        )
