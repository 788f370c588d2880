"""The section `server`: how servers are held, and how `discovery serve` presents itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from discovery_engine.config.model.field_types import (
    Count,
    Flag,
    Number,
    Patterns,
    ResultTokens,
    Root,
    Template,
    VariablePattern,
    Weight,
    choice,
    list_or_nothing,
    mapping_or_nothing,
    one_or_many,
)
from discovery_engine.config.model.sandbox_section import SandboxSection, sandbox_or_kind
from discovery_engine.config.model.section import Section
from discovery_engine.config.serve_settings import RegistryTool, ServeMode, ServeSettings
from discovery_engine.config.settings import LONGEST_TIMEOUT
from discovery_engine.tools.client_names import Style

_DEFAULTS = ServeSettings()


class PoolWeightsSection(Section):
    """How much each part of the weight of a found tool counts; each from 0 to 1."""

    score: Weight = Field(
        default=_DEFAULTS.pool_weights.score,
        description="How relevant it was to the search that found it.",
        examples=[0.5],
    )
    freshness: Weight = Field(
        default=_DEFAULTS.pool_weights.freshness,
        description="How recently it was found or called.",
        examples=[0.5],
    )


class TruncateSection(Section):
    """How a long result is cut."""

    style: Annotated[Literal["boundary", "head_tail"], choice] = Field(
        default=_DEFAULTS.truncate.style,
        description="`boundary` leaves valid text or JSON and a handle to read on; `head_tail` "
        "keeps the beginning and the last 50 characters, and no more can be read.",
        examples=["head_tail"],
    )
    characters: Annotated[Count, Field(ge=1)] = Field(
        default=_DEFAULTS.truncate.characters,
        description="With `head_tail`, the most characters that the texts of a result keep.",
        examples=[10_000],
    )


class ServeSection(Section):
    """How upstream servers are held, and how `discovery serve` presents itself."""

    max_connecting: Annotated[Count, Field(ge=1, le=1000)] = Field(
        default=_DEFAULTS.max_connecting,
        description="The most servers that are connected to at the same moment.",
        examples=[4],
    )
    idle_timeout: Annotated[Number, Field(gt=0)] = Field(
        default=_DEFAULTS.idle_timeout,
        description="Seconds without a call after which a connection is closed.",
        examples=[600],
    )
    instructions_tokens: Annotated[Count, Field(ge=0, le=100_000)] = Field(
        default=_DEFAULTS.instructions_tokens,
        description="The most that the instructions for the agent may take, in estimated tokens.",
        examples=[200],
    )
    list_tokens: Annotated[Count, Field(ge=50, le=100_000)] = Field(
        default=_DEFAULTS.list_tokens,
        description="The most that a list of tools or servers may take, in estimated tokens, "
        "if the agent does not ask for more.",
        examples=[600],
    )
    details_tokens: Annotated[Count, Field(ge=50, le=100_000)] = Field(
        default=_DEFAULTS.details_tokens,
        description="The most that the details of a tool may take, in estimated tokens, "
        "if the agent does not ask for more.",
        examples=[500],
    )

    max_sessions: Annotated[Count, Field(ge=1, le=10_000)] = Field(
        default=_DEFAULTS.max_sessions,
        description="The most clients that have a session over HTTP at the same time; "
        "for a further one the session that has been idle the longest is ended.",
        examples=[32],
    )
    max_own_sessions: Annotated[Count, Field(ge=1, le=10_000)] = Field(
        default=_DEFAULTS.max_own_sessions,
        description="The most sessions that servers with `session: per_client` have in all.",
        examples=[16],
    )
    question_timeout: Annotated[Number, Field(gt=0, le=LONGEST_TIMEOUT)] = Field(
        default=_DEFAULTS.question_timeout,
        description="Seconds that a question of a server to its user waits for its answer; then "
        "it counts as declined.",
        examples=[300],
    )
    pass_env: Annotated[list[VariablePattern], one_or_many] = Field(
        default=[],
        description="Variables of discovery's own environment that the program of every server"
        " is given, by names or patterns, besides those that are harmless and those of"
        " certificates, proxies and package runners.",
        examples=[["SSH_AUTH_SOCK", "AWS_*"]],
    )
    roots: Annotated[list[Root], list_or_nothing] = Field(
        default=[],
        description="Folders, or addresses that begin with `file://`, that servers are given "
        "when they ask for their roots; the client is asked if there are none. A relative folder "
        "starts at the folder of this file, and `~` is the home folder.",
        examples=[["~/project", "file:///srv/data"]],
    )
    mode: Annotated[ServeMode, choice] = Field(
        default=_DEFAULTS.mode,
        description="What a client is shown: the meta-tools (`meta`), the tools of the "
        "servers themselves (`direct`), or one search, and the tools that it found (`dynamic`).",
        examples=["direct"],
    )
    expose: Patterns = Field(
        default=[],
        description="Which tools a client may use with `direct` and `dynamic`: patterns as in "
        "`toolRules`; all that are enabled if there is none.",
        examples=[["github:*", "!*delete*"]],
    )
    pins: Patterns = Field(
        default=[],
        description="Tools that are listed before all others, and that no search evicts: patterns "
        "as in `toolRules`.",
        examples=[["github:create_issue"]],
    )
    pool_limit: Annotated[Count, Field(ge=1, le=100)] = Field(
        default=_DEFAULTS.pool_limit,
        description="The most tools of servers in the list of a client, with `direct` and "
        "`dynamic`.",
        examples=[30],
    )
    pool_weights: Annotated[PoolWeightsSection, mapping_or_nothing] = Field(
        default=PoolWeightsSection(),
        description="What a tool weighs that a search found; the lightest are evicted first.",
        examples=[{"score": 0.5, "freshness": 0.5}],
    )
    pool_fresh_for: Annotated[Number, Field(gt=0, le=LONGEST_TIMEOUT)] = Field(
        default=_DEFAULTS.pool_fresh_for,
        description="Seconds in which the freshness of a found tool falls from 1 to 0.",
        examples=[600],
    )
    max_tool_name_length: Annotated[Count, Field(ge=10, le=200)] = Field(
        default=_DEFAULTS.max_tool_name_length,
        description="The most characters in the name of a tool towards clients.",
        examples=[60],
    )
    tool_name_style: Annotated[Style, choice] = Field(
        default=_DEFAULTS.tool_name_style,
        description="The alphabet of these names: `a-z A-Z 0-9 _ -` (`standard`), or lower case "
        "without a dash, beginning with a letter (`gemini`).",
        examples=["gemini"],
    )
    on_list_changed: Annotated[list[Template], list_or_nothing] = Field(
        default=[],
        description="A program and its arguments, run without a shell after the list of tools of "
        "a client has changed, for at most 60 seconds.",
        examples=[["notify-send", "The tools have changed"]],
    )
    max_result_tokens: ResultTokens = Field(
        default=_DEFAULTS.max_result_tokens,
        description="The most that an agent gets of one result at once, in estimated tokens; it "
        "reads on with `read_result`. 0 passes every result whole.",
        examples=[10_000],
    )
    truncate: Annotated[TruncateSection, mapping_or_nothing] = Field(
        default=TruncateSection(),
        description="How a longer result is cut.",
        examples=[{"style": "head_tail", "characters": 10_000}],
    )
    registry_tool: Annotated[RegistryTool, choice] = Field(
        default=_DEFAULTS.registry_tool,
        description="Whether agents have the tool `registry`: `read` to look for servers, `ask` to"
        " ask you for them as well; nothing that they say installs anything.",
        examples=["read"],
    )
    steps: Flag = Field(
        default=_DEFAULTS.steps,
        description="Whether agents have `execute_steps`, several calls in one.",
        examples=[True],
    )
    sandbox: Annotated[SandboxSection, sandbox_or_kind] = Field(
        default=SandboxSection(kind=_DEFAULTS.sandbox.kind),
        description="What the program of each server is confined to, unless its entry has a"
        " `sandbox` of its own; a kind alone, or a kind with what is granted.",
        examples=["auto", {"kind": "auto", "network": True}],
    )
