"""The section `marketplace`: where servers of others are looked for."""

from __future__ import annotations

import re
from collections import Counter
from types import GenericAlias
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from discovery_engine._util.json import JSONValue
from discovery_engine.config.document.scalars import PlainScalar
from discovery_engine.config.marketplace_settings import (
    DEFAULT_SOURCES,
    MarketplaceSettings,
    MarketplaceSource,
)
from discovery_engine.config.model.field_types import (
    HeaderName,
    Template,
    Text,
    custom_error,
    mapping_or_nothing,
    one_line,
    require_web_address,
)
from discovery_engine.config.model.section import Section, section

_ID = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_MOST_SOURCES = 64
_WITH_URL = ("mcp-registry", "docker-catalog", "file")
_WITH_PATH = ("docker-catalog", "file")


def _good_id(text: str) -> str:
    if text and not _ID.fullmatch(text):
        raise custom_error(
            "is no id of a source", hint="write lower-case letters, digits and '.', '_' or '-'"
        )
    return text


def _web_address(text: str) -> str:
    problem = "must be an http:// or https:// address, without a user and without ${references}"
    hint = "keys belong into `headers`"
    if "${" in text:
        raise custom_error(problem, hint=hint)
    if text:
        require_web_address(text, problem=problem, hint=hint, owner="source")
    return text


def _check(source: Any) -> None:
    if source.url and source.type not in _WITH_URL:
        raise custom_error(f"a source of type {source.type!r} has no address", key="url")
    if source.path and source.type not in _WITH_PATH:
        raise custom_error(f"a source of type {source.type!r} has no file", key="path")
    if source.type in _WITH_PATH and bool(source.url) == bool(source.path):
        message = f"a source of type {source.type!r} needs either `url` or `path`"
        raise custom_error(message, hint="write one of the two")
    if source.headers and not (source.url or source.type == "mcp-registry"):
        raise custom_error("headers are sent to an address, and there is none", key="headers")


_SourceEntry = section(
    MarketplaceSource,
    name="MarketplaceSourceEntry",
    check=_check,
    id=Annotated[Text, AfterValidator(_good_id)],
    url=Annotated[Text, AfterValidator(_web_address)],
    headers=Annotated[dict[HeaderName, Annotated[Template, one_line]], mapping_or_nothing],
)


def _distinct(entries: list[Section]) -> list[Section]:
    names = Counter(entry.to_settings(MarketplaceSource).name for entry in entries)
    for name, count in names.items():
        if count > 1:
            raise custom_error(f"two sources are called {name!r}", hint="give each an `id`")
    return entries


def _default_for_nothing(value: JSONValue) -> JSONValue:
    is_nothing = isinstance(value, PlainScalar) and value.meaning is None
    return [{"type": source.type} for source in DEFAULT_SOURCES] if is_nothing else value


_DEFAULT_SOURCES = [_SourceEntry(type=source.type) for source in DEFAULT_SOURCES]
MarketplaceSection = section(
    MarketplaceSettings,
    sources=(
        Annotated[
            Annotated[GenericAlias(list, _SourceEntry), Field(max_length=_MOST_SOURCES)],
            BeforeValidator(_default_for_nothing),
            AfterValidator(_distinct),
        ],
        _DEFAULT_SOURCES,
    ),
)


def marketplace_settings(written: Any) -> MarketplaceSettings:
    sources = tuple(entry.to_settings(MarketplaceSource) for entry in written.sources)
    return MarketplaceSettings(sources, written.sync_every)
