"""What an owner may write into `discovery.yaml`, key by key.

These models are the border: keys are camelCase (snake_case is read as well), unknown ones are
refused, and what passes becomes the frozen values of `config.settings`. The JSON Schema that
editors use is made from them, so every field carries a description and an example.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from discovery_engine._util.suggestions import did_you_mean
from discovery_engine.config.model.embeddings import EmbeddingsSection
from discovery_engine.config.model.field_types import (
    Count,
    Flag,
    Number,
    Patterns,
    ResultTokens,
    Root,
    Template,
    Text,
    Word,
    Words,
    choice,
    custom_error,
    list_or_nothing,
    mapping_or_nothing,
)
from discovery_engine.config.model.overrides import OverrideEntry
from discovery_engine.config.model.rules import (
    PromptRuleEntry,
    ResourceRuleEntry,
    ServerRuleEntry,
    ToolRuleEntry,
)
from discovery_engine.config.model.section import Section
from discovery_engine.config.model.server import NamedServerEntry, ServerEntry
from discovery_engine.config.model.views import ViewEntry, ViewName
from discovery_engine.config.settings import LONGEST_TIMEOUT, ServeMode, Settings, TrustPolicy
from discovery_engine.tools.client_names import Style

_DEFAULTS = Settings()


def _source_types() -> tuple[str, ...]:
    # The table of clients is long to read, and most configurations name none.
    from discovery_engine.config.sources import SOURCE_TYPES  # noqa: PLC0415

    return SOURCE_TYPES


def _known_type(text: str) -> str:
    known = _source_types()
    if text in known:
        return text
    hint = did_you_mean(text, known, otherwise=f"known are {', '.join(known)}")
    raise custom_error(f"no such type of source: {text!r}", hint=hint)


def _several(words: list[str]) -> list[str]:
    if len(set(words)) < 2:  # noqa: PLR2004 - a word alone is no synonym
        raise custom_error("is no group", hint="write two or more words that mean the same")
    return words


Weight = Annotated[Number, Field(ge=0, le=1)]


class SourceEntry(Section):
    """A client's file whose servers are used as well."""

    type: Annotated[Word, AfterValidator(_known_type)] = Field(
        description="Which client's file it is, or `custom` for any list of servers.",
        examples=["cursor"],
        json_schema_extra=lambda schema: schema.update(enum=list(_source_types())),
    )
    path: Word = Field(
        default="",
        description="Where the file is, if not where the client keeps it; a relative path starts "
        "at the folder of this file.",
        examples=["~/servers.json"],
    )


class CacheSection(Section):
    """Whether the registry is used, and how long listings stay valid."""

    enabled: Flag = Field(
        default=_DEFAULTS.cache.enabled,
        description="Whether anything is stored between two runs.",
        examples=[False],
    )
    ttl: Annotated[Number, Field(gt=0)] = Field(
        default=_DEFAULTS.cache.ttl,
        description="Seconds after which the tools of a server are listed again.",
        examples=[7200],
    )


class WeightsSection(Section):
    """How much each part of a match counts; each from 0 to 1."""

    exact: Weight = Field(
        default=_DEFAULTS.search.weights.exact,
        description="The query is the tool's name, in whatever spelling.",
        examples=[1.0],
    )
    partial: Weight = Field(
        default=_DEFAULTS.search.weights.partial,
        description="The query's words are in its name or its description.",
        examples=[0.6],
    )
    tag: Weight = Field(
        default=_DEFAULTS.search.weights.tag,
        description="The query names tags of the tool.",
        examples=[0.2],
    )


class SearchSection(Section):
    """How tools are searched for."""

    limit: Annotated[Count, Field(ge=1, le=1000)] = Field(
        default=_DEFAULTS.search.limit,
        description="The most tools in an answer, if the request names no limit.",
        examples=[5],
    )
    weights: Annotated[WeightsSection, mapping_or_nothing] = Field(
        default=WeightsSection(),
        description="How much each part of a match counts.",
        examples=[{"exact": 1.0, "partial": 0.6, "tag": 0.2}],
    )
    max_tokens: Annotated[Count, Field(ge=50, le=100_000)] = Field(
        default=_DEFAULTS.search.max_tokens,
        description="The most that an agent is answered to one query, in estimated tokens, "
        "if it does not ask for more.",
        examples=[400],
    )
    min_confidence: Weight = Field(
        default=_DEFAULTS.search.min_confidence,
        description="An answer is that no tool fits if one of the first serves the query less "
        "probably than this, from 0 (never) to 1.",
        examples=[0.1],
    )
    embeddings: Annotated[EmbeddingsSection, mapping_or_nothing] = Field(
        default=EmbeddingsSection(),
        description="A model that finds tools by meaning, beside the search by words.",
        examples=[{"provider": "onnx", "path": "models/all-MiniLM-L6-v2"}],
    )
    synonyms: Annotated[list[Annotated[Words, AfterValidator(_several)]], list_or_nothing] = Field(
        default=[],
        description="Groups of words or phrases, in any language, that mean the same to you.",
        examples=[[["ticket", "issue", "Vorgang"], ["PR", "pull request"]]],
    )
    learn: Flag = Field(
        default=_DEFAULTS.search.learn,
        description="Whether it is counted, on this machine only, which tools were found and "
        "then used, to put them before others that fit as well.",
        examples=[True],
    )


class PoolWeightsSection(Section):
    """How much each part of the weight of a found tool counts; each from 0 to 1."""

    score: Weight = Field(
        default=_DEFAULTS.server.pool_weights.score,
        description="How relevant it was to the search that found it.",
        examples=[0.5],
    )
    freshness: Weight = Field(
        default=_DEFAULTS.server.pool_weights.freshness,
        description="How recently it was found or called.",
        examples=[0.5],
    )


class TruncateSection(Section):
    """How a long result is cut."""

    style: Annotated[Literal["boundary", "head_tail"], choice] = Field(
        default=_DEFAULTS.server.truncate.style,
        description="`boundary` leaves valid text or JSON and a handle to read on; `head_tail` "
        "keeps the beginning and the last 50 characters, and no more can be read.",
        examples=["head_tail"],
    )
    characters: Annotated[Count, Field(ge=1)] = Field(
        default=_DEFAULTS.server.truncate.characters,
        description="With `head_tail`, the most characters that the texts of a result keep.",
        examples=[10_000],
    )


class ServeSection(Section):
    """How upstream servers are held, and how `discovery serve` presents itself."""

    max_connecting: Annotated[Count, Field(ge=1, le=1000)] = Field(
        default=_DEFAULTS.server.max_connecting,
        description="The most servers that are connected to at the same moment.",
        examples=[4],
    )
    idle_timeout: Annotated[Number, Field(gt=0)] = Field(
        default=_DEFAULTS.server.idle_timeout,
        description="Seconds without a call after which a connection is closed.",
        examples=[600],
    )
    instructions_tokens: Annotated[Count, Field(ge=0, le=100_000)] = Field(
        default=_DEFAULTS.server.instructions_tokens,
        description="The most that the instructions for the agent may take, in estimated tokens.",
        examples=[200],
    )
    list_tokens: Annotated[Count, Field(ge=50, le=100_000)] = Field(
        default=_DEFAULTS.server.list_tokens,
        description="The most that a list of tools or servers may take, in estimated tokens, "
        "if the agent does not ask for more.",
        examples=[600],
    )
    details_tokens: Annotated[Count, Field(ge=50, le=100_000)] = Field(
        default=_DEFAULTS.server.details_tokens,
        description="The most that the details of a tool may take, in estimated tokens, "
        "if the agent does not ask for more.",
        examples=[500],
    )

    max_sessions: Annotated[Count, Field(ge=1, le=10_000)] = Field(
        default=_DEFAULTS.server.max_sessions,
        description="The most clients that have a session over HTTP at the same time; "
        "for a further one the session that has been idle the longest is ended.",
        examples=[32],
    )
    max_own_sessions: Annotated[Count, Field(ge=1, le=10_000)] = Field(
        default=_DEFAULTS.server.max_own_sessions,
        description="The most sessions that servers with `session: per_client` have in all.",
        examples=[16],
    )
    question_timeout: Annotated[Number, Field(gt=0, le=LONGEST_TIMEOUT)] = Field(
        default=_DEFAULTS.server.question_timeout,
        description="Seconds that a question of a server to its user waits for its answer; then "
        "it counts as declined.",
        examples=[300],
    )
    roots: Annotated[list[Root], list_or_nothing] = Field(
        default=[],
        description="Folders, or addresses that begin with `file://`, that servers are given "
        "when they ask for their roots; the client is asked if there are none. A relative folder "
        "starts at the folder of this file, and `~` is the home folder.",
        examples=[["~/project", "file:///srv/data"]],
    )
    mode: Annotated[ServeMode, choice] = Field(
        default=_DEFAULTS.server.mode,
        description="What a client is shown: the five meta-tools (`meta`), the tools of the "
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
        default=_DEFAULTS.server.pool_limit,
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
        default=_DEFAULTS.server.pool_fresh_for,
        description="Seconds in which the freshness of a found tool falls from 1 to 0.",
        examples=[600],
    )
    max_tool_name_length: Annotated[Count, Field(ge=10, le=200)] = Field(
        default=_DEFAULTS.server.max_tool_name_length,
        description="The most characters in the name of a tool towards clients.",
        examples=[60],
    )
    tool_name_style: Annotated[Style, choice] = Field(
        default=_DEFAULTS.server.tool_name_style,
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
        default=_DEFAULTS.server.max_result_tokens,
        description="The most that an agent gets of one result at once, in estimated tokens; it "
        "reads on with `read_result`. 0 passes every result whole.",
        examples=[10_000],
    )
    truncate: Annotated[TruncateSection, mapping_or_nothing] = Field(
        default=TruncateSection(),
        description="How a longer result is cut.",
        examples=[{"style": "head_tail", "characters": 10_000}],
    )
    steps: Flag = Field(
        default=_DEFAULTS.server.steps,
        description="Whether agents have `execute_steps`, several calls in one.",
        examples=[True],
    )


class LogSection(Section):
    """What is logged, and where to."""

    level: Annotated[Literal["debug", "info", "warning", "error"], choice] = Field(
        default=_DEFAULTS.log.level,
        description="The least serious messages that are logged.",
        examples=["debug"],
    )
    file: Word = Field(
        default="", description="A file to write the log to as well.", examples=["~/discovery.log"]
    )
    stderr: Flag = Field(
        default=_DEFAULTS.log.stderr,
        description="Whether the log goes to the standard error stream.",
        examples=[False],
    )


class Configuration(Section):
    """The configuration of `discovery`: servers, rules over their tools, and how to search."""

    schema_address: Text = Field(
        default="",
        alias="$schema",
        description="Where an editor finds the schema of this file; read by nothing else.",
        examples=["discovery.schema.json"],
    )
    name: Text = Field(
        default="",
        description="What decisions (approvals, accepted tools) are kept under, so that they stay "
        "when the file is moved; with none they are kept for the path of the file.",
        examples=["work"],
    )
    enabled: Flag = Field(
        default=_DEFAULTS.enabled,
        description="Whether any tool is offered at all.",
        examples=[False],
    )
    cache: Annotated[CacheSection, mapping_or_nothing] = Field(
        default=CacheSection(),
        description="Whether the registry is used, and how long listings stay valid.",
        examples=[{"ttl": 7200}],
    )
    sources: Annotated[list[SourceEntry], list_or_nothing] = Field(
        default=[],
        description="Files of MCP clients whose servers are used as well.",
        examples=[[{"type": "cursor"}, {"type": "custom", "path": "~/servers.json"}]],
    )
    servers: Annotated[dict[str, ServerEntry] | list[NamedServerEntry], mapping_or_nothing] = Field(
        default={},
        description="The MCP servers: a mapping from names, or a list in which each has a `name`.",
        examples=[{"time": {"command": "uvx", "args": ["mcp-server-time"]}}],
    )
    server_rules: Annotated[list[ServerRuleEntry], list_or_nothing] = Field(
        default=[],
        description="Rules that enable, disable and tag servers, tried in order.",
        examples=[[{"pattern": "*-staging", "enabled": False}]],
    )
    tool_rules: Annotated[list[ToolRuleEntry], list_or_nothing] = Field(
        default=[],
        description="Rules that enable, disable and tag tools, tried in order.",
        examples=[[{"pattern": "*delete*", "enabled": False, "tags": ["dangerous"]}]],
    )
    resource_rules: Annotated[list[ResourceRuleEntry], list_or_nothing] = Field(
        default=[],
        description="Rules that enable, disable and tag resources and their templates.",
        examples=[[{"pattern": "file:///etc/*", "enabled": False}]],
    )
    prompt_rules: Annotated[list[PromptRuleEntry], list_or_nothing] = Field(
        default=[],
        description="Rules that enable, disable and tag prompts.",
        examples=[[{"pattern": "*deploy*", "enabled": False}]],
    )
    overrides: Annotated[list[OverrideEntry], list_or_nothing] = Field(
        default=[],
        description="Descriptions, names, tags and pinned arguments of tools, instead of their "
        "servers' own.",
        examples=[[{"pattern": "github:create_issue", "arguments": {"owner": "acme"}}]],
    )
    search: Annotated[SearchSection, mapping_or_nothing] = Field(
        default=SearchSection(), description="How tools are searched for.", examples=[{"limit": 5}]
    )
    server: Annotated[ServeSection, mapping_or_nothing] = Field(
        default=ServeSection(),
        description="How upstream servers are held, and how `discovery serve` presents itself.",
        examples=[{"maxConnecting": 4}],
    )
    views: Annotated[dict[ViewName, ViewEntry], mapping_or_nothing] = Field(
        default={},
        description="What some clients see, by names: less than the rest of this file shows.",
        examples=[{"readers": {"servers": ["github"], "tags": ["read"]}}],
    )
    log: Annotated[LogSection, mapping_or_nothing] = Field(
        default=LogSection(),
        description="What is logged, and where to.",
        examples=[{"level": "debug"}],
    )
    trust: Annotated[TrustPolicy, choice] = Field(
        default=_DEFAULTS.trust,
        description="Tools that are new are used (`on_first_use`) or wait for review "
        "(`quarantine`); either way a change waits for review, unless with `open`.",
        examples=["quarantine"],
    )
