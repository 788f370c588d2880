"""The section `marketplace`: where servers of others are looked for."""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from discovery_engine._util.address_classes import is_reserved
from discovery_engine._util.json import JSONValue
from discovery_engine.config.document.scalars import PlainScalar
from discovery_engine.config.marketplace_settings import (
    DEFAULT_SOURCES,
    MarketplaceSettings,
    MarketplaceSource,
    SourceTrust,
    SourceType,
)
from discovery_engine.config.model.field_types import (
    Count,
    Flag,
    HeaderName,
    Number,
    Template,
    Text,
    choice,
    custom_error,
    mapping_or_nothing,
    one_line,
)
from discovery_engine.config.model.section import Section

_DEFAULTS = MarketplaceSettings()
_SOURCE = MarketplaceSource("file")
_ID = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_MOST_SOURCES = 64
_WEEK = 7 * 86_400
_WITH_URL = ("mcp-registry", "docker-catalog", "file")
_WITH_PATH = ("docker-catalog", "file")


def _good_id(text: str) -> str:
    if text and not _ID.fullmatch(text):
        raise custom_error(
            "is no id of a source", hint="write lower-case letters, digits and '.', '_' or '-'"
        )
    return text


def _web_address(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_web = not text or (parts.scheme in ("http", "https") and bool(parts.hostname))
        is_plain = not (parts.username or parts.password or parts.fragment)
    except ValueError:
        is_web = is_plain = False
    if not is_web or not is_plain or re.search(r"[\s\\]", text) or "${" in text:
        raise custom_error(
            "must be an http:// or https:// address, without a user and without ${references}",
            hint="keys belong into `headers`",
        )
    if text and is_reserved(parts.hostname or ""):
        raise custom_error(
            "leads to an address that is never connected to: link-local, a cloud's metadata,"
            " multicast, or reserved",
            hint="name the host of the source",
        )
    return text


class MarketplaceSourceEntry(Section):
    """A place where servers of others are looked for."""

    type: Annotated[SourceType, choice] = Field(
        description="A registry that speaks the API of the official one (`mcp-registry`), a "
        "catalog of Docker (`docker-catalog`), the user's package managers (`npm`, `pypi`), or a "
        "list of your own (`file`).",
        examples=["mcp-registry"],
    )
    id: Annotated[Text, AfterValidator(_good_id)] = Field(
        default="", description="What the source is called.", examples=["acme"]
    )
    url: Annotated[Text, AfterValidator(_web_address)] = Field(
        default="",
        description="The address; of a registry the part before `/v0.1`. A registry without one "
        "is the official registry.",
        examples=["https://registry.acme.example"],
    )
    path: Text = Field(
        default="",
        description="A file in the place of an address; a relative path starts at the folder of "
        "this file.",
        examples=["team-servers.yaml"],
    )
    headers: Annotated[dict[HeaderName, Annotated[Template, one_line]], mapping_or_nothing] = Field(
        default={},
        description="Headers of each request to the address. Refer to a key, do not write it.",
        examples=[{"Authorization": "Bearer ${ACME_TOKEN}"}],
    )
    priority: Annotated[Count, Field(ge=-1000, le=1000)] = Field(
        default=_SOURCE.priority,
        description="Which source's description of a server counts if several have it: the "
        "highest one's, then the first one's.",
        examples=[10],
    )
    trust: Annotated[SourceTrust, choice] | None = Field(
        default=None,
        description="How far the source is trusted: its servers were selected by a reviewer you "
        "trust (`curated`), it verifies who owns a name (`official`), or neither (`unreviewed`).",
        examples=["curated"],
    )
    private: Flag = Field(
        default=_SOURCE.private,
        description="Allow an address in your private network.",
        examples=[True],
    )
    enabled: Flag = Field(
        default=_SOURCE.enabled, description="Whether the source is used.", examples=[False]
    )

    @model_validator(mode="after")
    def _check(self) -> MarketplaceSourceEntry:
        if self.url and self.type not in _WITH_URL:
            raise custom_error(f"a source of type {self.type!r} has no address", key="url")
        if self.path and self.type not in _WITH_PATH:
            raise custom_error(f"a source of type {self.type!r} has no file", key="path")
        if self.type in _WITH_PATH and bool(self.url) == bool(self.path):
            message = f"a source of type {self.type!r} needs either `url` or `path`"
            raise custom_error(message, hint="write one of the two")
        if self.headers and not (self.url or self.type == "mcp-registry"):
            raise custom_error("headers are sent to an address, and there is none", key="headers")
        return self


def _distinct(entries: list[MarketplaceSourceEntry]) -> list[MarketplaceSourceEntry]:
    names = Counter(entry.to_settings(MarketplaceSource).name for entry in entries)
    for name, count in names.items():
        if count > 1:
            raise custom_error(f"two sources are called {name!r}", hint="give each an `id`")
    return entries


def _default_for_nothing(value: JSONValue) -> JSONValue:
    is_nothing = isinstance(value, PlainScalar) and value.meaning is None
    return [{"type": one.type} for one in DEFAULT_SOURCES] if is_nothing else value


class MarketplaceSection(Section):
    """Where `discovery marketplace` looks for servers, and how often it asks there."""

    sources: Annotated[
        Annotated[list[MarketplaceSourceEntry], Field(max_length=_MOST_SOURCES)],
        BeforeValidator(_default_for_nothing),
        AfterValidator(_distinct),
    ] = Field(
        default=[MarketplaceSourceEntry(type=one.type) for one in DEFAULT_SOURCES],
        description="The places to look at, instead of the official registry, npm and PyPI.",
        examples=[[{"type": "mcp-registry"}, {"type": "file", "path": "team-servers.yaml"}]],
    )
    sync_every: Annotated[Number, Field(ge=60, le=_WEEK)] = Field(
        default=_DEFAULTS.sync_every,
        description="Seconds after which a source is asked again for what has changed; the "
        "official registry is asked once an hour at most.",
        examples=[86_400],
    )

    def to_marketplace(self) -> MarketplaceSettings:
        sources = tuple(entry.to_settings(MarketplaceSource) for entry in self.sources)
        return MarketplaceSettings(sources, self.sync_every)
