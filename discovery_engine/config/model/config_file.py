"""The keys that an owner may write into `discovery.yaml`.

These models are the border: keys are camelCase (snake_case is read as well), unknown ones are
refused, and what passes becomes the frozen values of `config.settings`. They are made from these,
and the JSON Schema that editors use is made from them, so every setting has a description and an
example.
"""

from __future__ import annotations

from types import GenericAlias
from typing import Annotated, Any

from pydantic import Field

from discovery_engine.config.model.field_types import (
    Text,
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
from discovery_engine.config.model.sandbox_section import SandboxSection, sandbox_or_kind
from discovery_engine.config.model.search_section import EnrichSection, SearchSection
from discovery_engine.config.model.section import section
from discovery_engine.config.model.server import NamedServerEntry, ServerEntry, SourceType
from discovery_engine.config.model.views import ViewEntry, ViewName
from discovery_engine.config.model.webhooks_section import (
    MOST_WEBHOOKS,
    WebhookEntry,
    WebhookName,
)
from discovery_engine.config.serve_settings import ServeSettings
from discovery_engine.config.settings import Settings, Source


def _has_a_database_to_search_in(written: Any) -> None:
    if written.search.where == "database" and not written.registry.url:
        raise custom_error(
            "`search.where: database` needs a registry in a database",
            key="search",
            hint="add `registry: {url: ...}` with the address of a PostgreSQL database, or "
            "search in `memory`",
        )


_SourceEntry = section(Source, name="SourceEntry", type=(SourceType, ...))
_ServeSection = section(
    ServeSettings,
    sandbox=(Annotated[SandboxSection, sandbox_or_kind], SandboxSection(kind="none")),
)

Configuration = section(
    Settings,
    name="Configuration",
    check=_has_a_database_to_search_in,
    registry=Annotated[RegistrySection, registry_or_sqlite, mapping_or_nothing],
    sources=Annotated[GenericAlias(list, _SourceEntry), list_or_nothing],
    servers=(
        Annotated[dict[str, ServerEntry] | list[NamedServerEntry], mapping_or_nothing],
        {},
    ),
    server_rules=Annotated[list[ServerRuleEntry], list_or_nothing],
    tool_rules=Annotated[list[ToolRuleEntry], list_or_nothing],
    resource_rules=Annotated[list[ResourceRuleEntry], list_or_nothing],
    prompt_rules=Annotated[list[PromptRuleEntry], list_or_nothing],
    overrides=Annotated[list[OverrideEntry], list_or_nothing],
    search=Annotated[SearchSection, mapping_or_nothing],
    enrich=Annotated[EnrichSection, mapping_or_nothing],
    marketplace=Annotated[MarketplaceSection, mapping_or_nothing],
    webhooks=(
        Annotated[
            Annotated[dict[WebhookName, WebhookEntry], Field(max_length=MOST_WEBHOOKS)],
            mapping_or_nothing,
        ],
        {},
    ),
    server=Annotated[_ServeSection, mapping_or_nothing],
    views=(Annotated[dict[ViewName, ViewEntry], mapping_or_nothing], {}),
    schema_address=(
        Text,
        Field(
            "",
            alias="$schema",
            description="Where an editor finds the schema of this file; read by nothing else.",
            examples=["discovery.schema.json"],
        ),
    ),
)
