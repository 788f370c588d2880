"""What an owner may write into `discovery.yaml`, key by key.

These models are the border: keys are camelCase (snake_case is read as well), unknown ones are
refused, and what passes becomes the frozen values of `config.settings`. The JSON Schema that
editors use is made from them, so every field carries a description and an example.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from discovery_engine.config.model.enrich_section import EnrichSection
from discovery_engine.config.model.field_types import (
    Flag,
    Number,
    Text,
    Word,
    choice,
    custom_error,
    list_or_nothing,
    mapping_or_nothing,
)
from discovery_engine.config.model.marketplace_section import MarketplaceSection
from discovery_engine.config.model.overrides import OverrideEntry
from discovery_engine.config.model.registry_section import RegistrySection, registry_or_sqlite
from discovery_engine.config.model.rules import (
    PromptRuleEntry,
    ResourceRuleEntry,
    ServerRuleEntry,
    ToolRuleEntry,
)
from discovery_engine.config.model.search_section import SearchSection
from discovery_engine.config.model.section import Section
from discovery_engine.config.model.serve_section import ServeSection
from discovery_engine.config.model.server import (
    NamedServerEntry,
    ServerEntry,
    SourceType,
    source_types,
)
from discovery_engine.config.model.views import ViewEntry, ViewName
from discovery_engine.config.model.webhooks_section import (
    MOST_WEBHOOKS,
    WebhookEntry,
    WebhookName,
)
from discovery_engine.config.settings import Settings, TrustPolicy

_DEFAULTS = Settings()


class SourceEntry(Section):
    """A client's file whose servers are used as well."""

    type: SourceType = Field(
        description="Which client's file it is, or `custom` for any list of servers.",
        examples=["cursor"],
        json_schema_extra=lambda schema: schema.update(enum=list(source_types())),
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
    calls: Annotated[Literal["off", "metadata", "redacted", "full"], choice] = Field(
        default=_DEFAULTS.log.calls,
        description="What `discovery logs` keeps of calls: nothing (`off`), all but arguments and "
        "results (`metadata`), these without secrets and up to 2 KB (`redacted`), or up to 64 KB "
        "and without known secrets only (`full`).",
        examples=["metadata"],
    )
    keep_days: Annotated[Number, Field(gt=0, le=3650)] = Field(
        default=_DEFAULTS.log.keep_days,
        description="Days after which an entry of `discovery logs` is deleted.",
        examples=[7],
    )
    max_mib: Annotated[Number, Field(ge=1, le=100_000)] = Field(
        default=_DEFAULTS.log.max_mib,
        description="The most MiB that `discovery logs` takes; then the oldest entries are "
        "deleted.",
        examples=[16],
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
    registry: Annotated[RegistrySection, registry_or_sqlite, mapping_or_nothing] = Field(
        default=RegistrySection(),
        description="Where the catalog and the owner's decisions are kept: `sqlite`, the file of "
        "the data folder, or a PostgreSQL database that several gateways share.",
        examples=[{"url": "${DATABASE_URL}"}],
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
    enrich: Annotated[EnrichSection, mapping_or_nothing] = Field(
        default=EnrichSection(),
        description="The language model that writes typical requests for tools, with "
        "`discovery enrich` alone.",
        examples=[{"url": "http://localhost:11434/v1", "model": "llama3.1"}],
    )
    marketplace: Annotated[MarketplaceSection, mapping_or_nothing] = Field(
        default=MarketplaceSection(),
        description="Where `discovery marketplace` looks for servers of others.",
        examples=[{"sources": [{"type": "mcp-registry"}]}],
    )
    webhooks: Annotated[
        Annotated[dict[WebhookName, WebhookEntry], Field(max_length=MOST_WEBHOOKS)],
        mapping_or_nothing,
    ] = Field(
        default={},
        description="Addresses to which events of servers and tools are sent, by names.",
        examples=[{"ops": {"url": "https://hooks.example.com/d", "secret": "${secret:HOOK_KEY}"}}],
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

    @model_validator(mode="after")
    def _check(self) -> Configuration:
        if self.search.where == "database" and not self.registry.url:
            raise custom_error(
                "`search.where: database` needs a registry in a database",
                key="search",
                hint="add `registry: {url: ...}` with the address of a PostgreSQL database, or "
                "search in `memory`",
            )
        return self
