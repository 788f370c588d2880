"""What an owner may write under `views`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic.alias_generators import to_camel

from discovery_engine.config.model.field_types import (
    Count,
    Number,
    Patterns,
    Words,
    choice,
    custom_error,
    list_or_nothing,
    mapping_or_nothing,
)
from discovery_engine.config.model.rules import (
    PromptRuleEntry,
    ResourceRuleEntry,
    ToolRuleEntry,
)
from discovery_engine.config.model.section import Section
from discovery_engine.config.serve_settings import ServeMode, ViewSettings

if TYPE_CHECKING:
    from discovery_engine.rules.rule import Rule

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
Tokens = Annotated[Count, Field(ge=50, le=100_000)]


def _view_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        hint = "use letters, digits, `-` and `_`, and begin with a letter or a digit"
        raise custom_error(f"is no name for a view: {name!r}", hint=hint)
    return name


ViewName = Annotated[str, AfterValidator(_view_name)]


class ViewLimitsSection(Section):
    """How many calls all clients of a view make together."""

    calls_per_minute: Annotated[Count, Field(ge=1, le=1_000_000)] | None = Field(
        default=None,
        description="Calls in a minute, on average; a further one is refused with the time after "
        "which it is possible. By default any number.",
        examples=[60],
    )
    burst: Annotated[Count, Field(ge=1, le=1_000_000)] | None = Field(
        default=None,
        description="With `callsPerMinute`, calls at once after a pause; by default a sixth of it.",
        examples=[10],
    )


class ViewEntry(Section):
    """What some clients see: less than the configuration shows, never more."""

    rules: Annotated[list[ToolRuleEntry], list_or_nothing] = Field(
        default=[],
        description="Rules over the visible tools, as `toolRules`. What they enable must also be "
        "enabled without the view.",
        examples=[[{"pattern": "*delete*", "enabled": False}]],
    )
    resource_rules: Annotated[list[ResourceRuleEntry], list_or_nothing] = Field(
        default=[],
        description="The same over resources and templates, as `resourceRules`.",
        examples=[[{"pattern": "file:///etc/*", "enabled": False}]],
    )
    prompt_rules: Annotated[list[PromptRuleEntry], list_or_nothing] = Field(
        default=[],
        description="The same over prompts, as `promptRules`.",
        examples=[[{"pattern": "*deploy*", "enabled": False}]],
    )
    servers: Patterns = Field(
        default=[],
        description="The only servers of this view, as patterns; all if there is none.",
        examples=[["github", "jira-*"]],
    )
    tags: Words = Field(
        default=[],
        description="Only tools, resources and prompts that carry one of these tags; all if there "
        "is none.",
        examples=[["read"]],
    )
    mode: Annotated[ServeMode | None, choice] = Field(
        default=None,
        description="As `server.mode`, for the clients of this view.",
        examples=["direct"],
    )
    expose: Annotated[Patterns | None, Field()] = Field(
        default=None,
        description="As `server.expose`, for the clients of this view.",
        examples=[["github:*"]],
    )
    pins: Annotated[Patterns | None, Field()] = Field(
        default=None,
        description="As `server.pins`, for the clients of this view.",
        examples=[["github:create_issue"]],
    )
    pool_limit: Annotated[Count, Field(ge=1, le=100)] | None = Field(
        default=None,
        description="As `server.poolLimit`, for the clients of this view.",
        examples=[30],
    )
    search_limit: Annotated[Count, Field(ge=1, le=1000)] | None = Field(
        default=None,
        description="As `search.limit`, for the clients of this view.",
        examples=[5],
    )
    search_tokens: Tokens | None = Field(
        default=None,
        description="As `search.maxTokens`, for the clients of this view.",
        examples=[400],
    )
    min_confidence: Annotated[Number, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="As `search.minConfidence`, for the clients of this view.",
        examples=[0.1],
    )
    instructions_tokens: Annotated[Count, Field(ge=0, le=100_000)] | None = Field(
        default=None,
        description="As `server.instructionsTokens`, for the clients of this view.",
        examples=[200],
    )
    list_tokens: Tokens | None = Field(
        default=None,
        description="As `server.listTokens`, for the clients of this view.",
        examples=[600],
    )
    details_tokens: Tokens | None = Field(
        default=None,
        description="As `server.detailsTokens`, for the clients of this view.",
        examples=[500],
    )

    limits: Annotated[ViewLimitsSection, mapping_or_nothing] = Field(
        default=ViewLimitsSection(),
        description="How many calls all clients of this view make together.",
        examples=[{"callsPerMinute": 60, "burst": 10}],
    )

    @model_validator(mode="after")
    def _is_for_all_of_its_clients(self) -> Self:
        for name in ("rules", "resource_rules", "prompt_rules"):
            for at, rule in enumerate(getattr(self, name)):
                if rule.visible_to:
                    hint = "`toolRules`, `resourceRules` and `promptRules` of the file can have it"
                    key = f"{to_camel(name)}.{at}.visibleTo"
                    raise custom_error("is of no use in a view", key=key, hint=hint)
        return self

    def to_view(self, name: str, rules: Mapping[str, Sequence[Rule]]) -> ViewSettings:
        """The view; `rules` by the names of their fields."""
        return self.to_settings(ViewSettings, name=name, **rules)
