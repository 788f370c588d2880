"""One entry of `toolRules`, `resourceRules`, `promptRules` or `serverRules`."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic.alias_generators import to_camel

from discovery_engine._util.json import JSONValue
from discovery_engine._util.suggestions import closest
from discovery_engine.config.document.excerpts import NAME_LIKE
from discovery_engine.config.document.tree import PlainScalar
from discovery_engine.config.model.field_types import Patterns, Principals, Words, custom_error
from discovery_engine.config.model.section import Section
from discovery_engine.errors import Origin
from discovery_engine.rules.rule import Rule

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_ALIKE = 0.65  # of 1: `readOnly` means `readOnlyHint`


def _verdict(value: JSONValue) -> JSONValue:
    meant = value.meaning if isinstance(value, PlainScalar) else value
    if meant is None:
        raise custom_error("has no value", hint="write true or false, or remove the key")
    return meant


def _annotations(value: JSONValue) -> JSONValue:
    if not isinstance(value, dict):
        return value
    annotations = [_annotation(str(name), condition) for name, condition in value.items()]
    if len(dict(annotations)) < len(value):
        raise custom_error("names the same annotation twice")
    return dict(annotations)


def _annotation(key: str, expected: JSONValue) -> tuple[str, bool | str]:
    name = camel if (camel := to_camel(key)) in _HINTS else key
    if not NAME_LIKE.fullmatch(name):
        raise custom_error("is no name for an annotation", key=key)
    value = expected.meaning if isinstance(expected, PlainScalar) else expected
    # A misspelt hint would match no tool, and the rule would guard nothing.
    if name not in _HINTS and (meant := closest(name, _HINTS, least=_ALIKE)):
        hint = f"did you mean {meant!r}?"
        raise custom_error(f"unknown annotation {name!r}", hint=hint, key=key)
    if isinstance(value, bool):
        return name, value
    if name in _HINTS:
        raise custom_error("must be true or false", key=key)
    if not isinstance(expected, str) or value is None:
        raise custom_error("must be text, true or false", key=key)
    return name, str(expected)


class RuleEntry(Section):
    enabled: Annotated[bool | None, BeforeValidator(_verdict, json_schema_input_type=bool)] = Field(
        default=None,
        description="Enables or disables what the rule matches, unless an earlier rule has done "
        "so. Once a rule enables something, everything that no rule enables is disabled. "
        "Without it the rule only tags.",
        examples=[False],
    )
    tags: Words = Field(
        default=[],
        description="Tags for everything that the rule matches.",
        examples=[["dangerous"]],
    )
    visible_to: Principals = Field(
        default=[],
        description="The teams and users for whom alone everything is that the rule matches, also"
        " if another rule decides; to all others it is unknown.",
        examples=[["team:payments", "user:anna"]],
    )

    @model_validator(mode="after")
    def _require_effect(self) -> Self:
        if self.enabled is None and not self.tags and not self.visible_to:
            hint = "give it 'enabled', 'tags' or 'visibleTo'"
            raise custom_error("the rule does nothing", hint=hint)
        return self

    def to_rule(self, origin: Origin) -> Rule:
        """Return the rule, written at `origin`; keys that its kind lacks are empty."""
        return Rule(
            patterns=tuple(getattr(self, "pattern", ())),
            servers=tuple(getattr(self, "server", ())),
            annotations=dict(getattr(self, "annotations", {})),
            has_tags=tuple(getattr(self, "match_tags", ())),
            enabled=self.enabled,
            tags=tuple(dict.fromkeys(self.tags)),
            visible_to=tuple(self.visible_to),
            origin=origin,
        )


class ToolRuleEntry(RuleEntry):
    """A rule over tools; the first that has `enabled` decides, all that match add tags."""

    pattern: Patterns = Field(
        default=[],
        description="Names of tools: a glob, a `/regular expression/flags`, or either behind `!` "
        "for all but these. With a `:` it is tested against `server:tool`. A tool matches if no "
        "`!` pattern excludes it and one of the others fits, or there are no others.",
        examples=[["*delete*", "!*undelete*"]],
    )
    server: Patterns = Field(
        default=[],
        description="Names of servers, as patterns; the rule is for their tools only.",
        examples=["github"],
    )
    annotations: Annotated[dict[str, bool | str], BeforeValidator(_annotations)] = Field(
        default={},
        description="The annotations that a tool must have.",
        examples=[{"destructiveHint": True}],
    )


class _OfferingRuleEntry(RuleEntry):
    server: Patterns = Field(
        default=[],
        description="Names of servers, as patterns; the rule is for what they offer only.",
        examples=["docs"],
    )
    match_tags: Patterns = Field(
        default=[],
        description="Patterns of which a tag of the server must match one.",
        examples=[["internal"]],
    )


class ResourceRuleEntry(_OfferingRuleEntry):
    """A rule over resources and their templates, which works as one over tools."""

    pattern: Patterns = Field(
        default=[],
        description="URIs or names of resources and templates, as patterns. One with `://` is "
        "tested against the URI, another one with a `:` against `server:uri` and `server:name`.",
        examples=[["file:///etc/*", "*secret*"]],
    )


class PromptRuleEntry(_OfferingRuleEntry):
    """A rule over prompts, which works as one over tools."""

    pattern: Patterns = Field(
        default=[],
        description="Names of prompts, as patterns; with a `:` tested against `server:prompt`.",
        examples=[["*deploy*"]],
    )


class ServerRuleEntry(RuleEntry):
    """A rule over servers; the first that has `enabled` decides, all that match add tags."""

    pattern: Patterns = Field(
        default=[], description="Names of servers, as patterns.", examples=[["*-staging"]]
    )
    match_tags: Patterns = Field(
        default=[],
        description="Patterns of which one of the server's own tags must match one.",
        examples=["production"],
    )
