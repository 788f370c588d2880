"""The keys that an owner may write into `discovery.yaml`.

These models are the border: keys are camelCase (snake_case is read as well), unknown ones are
refused, and what passes becomes the frozen values of `config.settings`. They are made from these,
and the JSON Schema that editors use is made from them, so every setting has a description and an
example.
"""

from __future__ import annotations

import re
from collections import Counter
from fnmatch import fnmatchcase
from types import GenericAlias
from typing import Annotated, Any, get_type_hints
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic.alias_generators import to_camel

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.suggestions import did_you_mean
from discovery_engine.config.document.excerpts import NAME_LIKE
from discovery_engine.config.document.tree import PlainScalar
from discovery_engine.config.marketplace_settings import (
    DEFAULT_SOURCES,
    MarketplaceSettings,
    MarketplaceSource,
)
from discovery_engine.config.model.field_types import (
    HeaderName,
    Patterns,
    ResultTokens,
    Template,
    Text,
    Word,
    Words,
    custom_error,
    list_or_nothing,
    mapping_or_nothing,
    one_line,
    one_or_many,
    require_web_address,
)
from discovery_engine.config.model.rules import (
    PromptRuleEntry,
    ResourceRuleEntry,
    ServerRuleEntry,
    ToolRuleEntry,
)
from discovery_engine.config.model.section import Section, examples, field_type, section
from discovery_engine.config.model.server import (
    NamedServerEntry,
    SandboxSection,
    ServerEntry,
    SourceType,
    sandbox_or_kind,
)
from discovery_engine.config.serve_settings import ServeSettings, ViewSettings, replaced_settings
from discovery_engine.config.settings import (
    EmbeddingsSettings,
    EnrichSettings,
    RegistrySettings,
    RerankerSettings,
    SearchSettings,
    Settings,
    Source,
)
from discovery_engine.config.settings_section import InPlaceOf
from discovery_engine.config.syntax import is_secure_address
from discovery_engine.config.webhook_settings import EVENT_TYPES, WebhookSettings
from discovery_engine.errors import Origin
from discovery_engine.rules.overrides.override import Override
from discovery_engine.secrets.references import Reference, split
from discovery_engine.tools.model import ToolName

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SOURCE_ID = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_MOST_SOURCES = 64
_TYPES_WITH_URL = ("mcp-registry", "docker-catalog", "file")
_TYPES_WITH_PATH = ("docker-catalog", "file")
_OVERRIDE_NAME = re.compile(r"[\w./-]{1,128}")
_MOST_EXAMPLES = 20
_LONGEST_EXAMPLE = 200  # characters
_DATABASE_SCHEMES = ("postgresql", "postgres")
_DATABASE_SECRETS = ("password", "sslpassword", "oauth_client_secret")
_REFERENCE = "\N{REPLACEMENT CHARACTER}"  # in place of a reference, which may hold any character
_DATABASE_HINT = (
    'write url: "${DATABASE_URL}", or postgresql://USER:${DATABASE_PASSWORD}@HOST/DATABASE'
)
_LONGEST_CODE = 8  # characters; `pt-BR`
_MOST_LANGUAGES = 14  # with those in English, as many requests as `overrides` take
_NEEDED_BY_PROVIDER = {"onnx": "path", "openai": "api_key", "http": "url"}
_MOST_SECRETS = 4
MOST_WEBHOOKS = 32


def _require_id(text: str) -> str:
    if text and not _SOURCE_ID.fullmatch(text):
        raise custom_error(
            "is no id of a source", hint="write lower-case letters, digits and '.', '_' or '-'"
        )
    return text


def _require_source_url(text: str) -> str:
    problem = "must be an http:// or https:// address, without a user and without ${references}"
    hint = "keys belong into `headers`"
    if "${" in text:
        raise custom_error(problem, hint=hint)
    if text:
        require_web_address(text, problem=problem, hint=hint, owner="source")
    return text


def _require_address(source: Any) -> None:
    if source.url and source.type not in _TYPES_WITH_URL:
        raise custom_error(f"a source of type {source.type!r} has no address", key="url")
    if source.path and source.type not in _TYPES_WITH_PATH:
        raise custom_error(f"a source of type {source.type!r} has no file", key="path")
    if source.type in _TYPES_WITH_PATH and bool(source.url) == bool(source.path):
        message = f"a source of type {source.type!r} needs either `url` or `path`"
        raise custom_error(message, hint="write one of the two")
    if source.headers and not (source.url or source.type == "mcp-registry"):
        raise custom_error("headers are sent to an address, and there is none", key="headers")


_MarketplaceSourceEntry = section(
    MarketplaceSource,
    name="MarketplaceSourceEntry",
    check=_require_address,
    id=Annotated[Text, AfterValidator(_require_id)],
    url=Annotated[Text, AfterValidator(_require_source_url)],
    headers=Annotated[dict[HeaderName, Annotated[Template, one_line]], mapping_or_nothing],
)


def _require_distinct_names(entries: list[Section]) -> list[Section]:
    names = Counter(entry.to_settings(MarketplaceSource).name for entry in entries)
    for name, count in names.items():
        if count > 1:
            raise custom_error(f"two sources are called {name!r}", hint="give each an `id`")
    return entries


def _default_for_nothing(value: JSONValue) -> JSONValue:
    is_nothing = isinstance(value, PlainScalar) and value.meaning is None
    return [{"type": source.type} for source in DEFAULT_SOURCES] if is_nothing else value


_DEFAULT_SOURCES = [_MarketplaceSourceEntry(type=source.type) for source in DEFAULT_SOURCES]
MarketplaceSection = section(
    MarketplaceSettings,
    sources=(
        Annotated[
            Annotated[GenericAlias(list, _MarketplaceSourceEntry), Field(max_length=_MOST_SOURCES)],
            BeforeValidator(_default_for_nothing),
            AfterValidator(_require_distinct_names),
        ],
        _DEFAULT_SOURCES,
    ),
)


def marketplace_settings(value: Any) -> MarketplaceSettings:
    sources = tuple(entry.to_settings(MarketplaceSource) for entry in value.sources)
    return MarketplaceSettings(sources, value.sync_every)


def _require_tool_name(value: JSONValue) -> JSONValue:
    if isinstance(value, str) and not _OVERRIDE_NAME.fullmatch(value):
        hint = "write at most 128 letters, digits and _ . - /"
        raise custom_error("cannot be the name of a tool", hint=hint)
    return value


def _require_few_and_short(examples: list[str]) -> list[str]:
    if len(examples) > _MOST_EXAMPLES:
        raise custom_error(f"has {len(examples)} examples", hint=f"give at most {_MOST_EXAMPLES}")
    for number, example in enumerate(examples, 1):
        if len(example) > _LONGEST_EXAMPLE:
            problem = f"example {number} has {len(example)} characters"
            raise custom_error(problem, hint=f"write at most {_LONGEST_EXAMPLE}, one request each")
    return examples


def _parsed_arguments(value: JSONValue) -> JSONValue:
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
    name: Annotated[Word, BeforeValidator(_require_tool_name)] | None = Field(
        default=None,
        description="What the tool is called here; no other tool of its server may be.",
        examples=["report_bug"],
    )
    tags: Words = Field(
        default=[],
        description="Tags of the tool, beside those that rules give.",
        examples=[["support"]],
    )
    examples: Annotated[Words, AfterValidator(_require_few_and_short)] = Field(
        default=[],
        description="Requests that the tool serves, as people put them. Search finds the tool by "
        "them; no agent is shown them.",
        examples=[["the shop is broken", "report that checkout fails"]],
    )
    arguments: Annotated[dict[str, JSONValue], BeforeValidator(_parsed_arguments)] = Field(
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
    def _require_effect(self) -> OverrideEntry:
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


def _require_database_url(text: str) -> str:
    # The default of a reference stands in the file, too.
    parts = (part if isinstance(part, str) else part.default or _REFERENCE for part in split(text))
    url = "".join(parts)
    if not text or url == _REFERENCE:
        return text
    try:
        address = urlsplit(url)
        parameters = parse_qs(address.query)
    except ValueError:
        raise custom_error("is no address of a database", hint=_DATABASE_HINT) from None
    if address.scheme not in _DATABASE_SCHEMES:
        raise custom_error("must begin with postgresql://", hint=_DATABASE_HINT)
    secrets = [
        address.password or "",
        *(value for key in _DATABASE_SECRETS for value in parameters.get(key, ())),
    ]
    if any(secret.replace(_REFERENCE, "") for secret in secrets):
        raise custom_error(
            "must not hold a password, which others can read in this file", hint=_DATABASE_HINT
        )
    return text


def _parsed_registry(value: JSONValue) -> JSONValue:
    if isinstance(value, str):
        if value != "sqlite":
            raise custom_error("must be sqlite, or a mapping with a `url`", hint=_DATABASE_HINT)
        return {}
    return value


RegistrySection = section(
    RegistrySettings, url=Annotated[Template, AfterValidator(_require_database_url)]
)
registry_or_sqlite = BeforeValidator(_parsed_registry, json_schema_input_type=RegistrySection | str)
"""Beside the section: the word `sqlite` is that of the data folder."""


def _require_settings_of_provider(embeddings: Any) -> None:
    needed = _NEEDED_BY_PROVIDER.get(embeddings.provider)
    if needed and not getattr(embeddings, needed):
        key = to_camel(needed)
        message = f"{embeddings.provider!r} needs {key!r}"
        raise custom_error(message, key="provider", hint=f"add {key}")


def _require_mapping(value: JSONValue) -> JSONValue:
    if isinstance(value, str) and value:
        hint = "write `embeddings: {provider: discovery}`, or another provider"
        raise custom_error("must be a mapping with a `provider`, not text", hint=hint)
    return value


def _require_several(words: list[str]) -> list[str]:
    if len(set(words)) < 2:  # noqa: PLR2004 - a word alone is no synonym
        raise custom_error("is no group", hint="write two or more words that mean the same")
    return words


def _require_secure_address(text: str) -> str:
    if text and "${" not in text and not is_secure_address(text):
        raise custom_error(
            "must be an https:// address, or http:// of this machine",
            hint="write the address of the API, such as http://localhost:11434/v1",
        )
    return text


def _require_language_codes(codes: list[str]) -> list[str]:
    for code in codes:
        if len(code) > _LONGEST_CODE or not code.replace("-", "").isalpha():
            raise custom_error("is no code of a language", hint="write de, fr or pt-BR")
    return codes


_EmbeddingsSection = section(EmbeddingsSettings, check=_require_settings_of_provider)


def _require_reranker_url(reranker: Any) -> None:
    if (reranker.model or reranker.api_key) and not reranker.url:
        raise custom_error("has no address", key="url", hint="add url")


_RerankerSection = section(
    RerankerSettings,
    check=_require_reranker_url,
    url=Annotated[Template, AfterValidator(_require_secure_address)],
)
SearchSection = section(
    SearchSettings,
    reranker=Annotated[_RerankerSection, mapping_or_nothing],
    embeddings=Annotated[_EmbeddingsSection, mapping_or_nothing, BeforeValidator(_require_mapping)],
    synonyms=Annotated[list[Annotated[Words, AfterValidator(_require_several)]], list_or_nothing],
)
EnrichSection = section(
    EnrichSettings,
    url=Annotated[Template, AfterValidator(_require_secure_address)],
    languages=Annotated[
        Annotated[Words, Field(max_length=_MOST_LANGUAGES)], AfterValidator(_require_language_codes)
    ],
)


def _name_of(what: str) -> Any:
    def checked(name: str) -> str:
        if not _NAME.fullmatch(name):
            hint = "use letters, digits, `-` and `_`, and begin with a letter or a digit"
            raise custom_error(f"is no name for a {what}: {name!r}", hint=hint)
        return name

    return Annotated[str, AfterValidator(checked)]


def _require_rules_for_all(view: Any) -> None:
    for name in ("rules", "resource_rules", "prompt_rules"):
        for at, rule in enumerate(getattr(view, name)):
            if rule.visible_to:
                hint = "`toolRules`, `resourceRules` and `promptRules` of the file can have it"
                key = f"{to_camel(name)}.{at}.visibleTo"
                raise custom_error("is of no use in a view", key=key, hint=hint)


def _replacement(setting: InPlaceOf) -> Any:
    """The type of the setting, or None, with its examples."""
    sections = type(getattr(Settings(), setting.section))
    hint = get_type_hints(sections, include_extras=True)[setting.field]
    path = f"{setting.section}.{to_camel(setting.field)}"
    text = f"As `{path}`, for the clients of this view."
    return Annotated[field_type(hint | None), Field(description=text, **examples(hint))]


ViewEntry = section(
    ViewSettings,
    name="ViewEntry",
    check=_require_rules_for_all,
    rules=Annotated[list[ToolRuleEntry], list_or_nothing],
    resource_rules=Annotated[list[ResourceRuleEntry], list_or_nothing],
    prompt_rules=Annotated[list[PromptRuleEntry], list_or_nothing],
    **{name: _replacement(setting) for name, setting in replaced_settings().items()},
)


def _require_webhook_url(text: str) -> str:
    if not text:
        raise custom_error("must not be empty", hint="write https://hooks.example.com/discovery")
    if not isinstance(split(text)[0], Reference):
        require_web_address(
            text,
            problem="must be an http:// or https:// address, without a user",
            hint='write https://hooks.example.com/discovery, or refer to it: "${HOOK_URL}"',
            owner="receiver",
        )
    return text


def _require_reference(text: str) -> str:
    parts = split(text)
    # The default of a reference stands in the file, too.
    if not parts or any(isinstance(part, str) or part.default for part in parts):
        raise custom_error(
            "must be a reference: others can read what is written in this file",
            hint="`discovery secrets set HOOK_KEY` stores it, then write"
            ' secret: "${secret:HOOK_KEY}"',
        )
    return text


def _require_event_type(text: str) -> str:
    if not any(fnmatchcase(event_type, text) for event_type in EVENT_TYPES):
        hint = did_you_mean(text, EVENT_TYPES) or f"types are: {', '.join(EVENT_TYPES)}"
        raise custom_error(f"is no type of event: {text!r}", hint=hint)
    return text


def _require_confidential_url(webhook: Any) -> None:
    if not (webhook.private or webhook.url.startswith("${") or is_secure_address(webhook.url)):
        raise custom_error(
            "must be an https:// address, or http:// of this machine",
            key="url",
            hint="with `private: true` it may be http:// in your own network",
        )


WebhookEntry = section(
    WebhookSettings,
    name="WebhookEntry",
    check=_require_confidential_url,
    url=(Annotated[Template, AfterValidator(_require_webhook_url)], ...),
    secret=(
        Annotated[
            list[Annotated[Template, AfterValidator(_require_reference)]],
            one_or_many,
            Field(min_length=1, max_length=_MOST_SECRETS),
        ],
        ...,
    ),
    events=Annotated[list[Annotated[Word, AfterValidator(_require_event_type)]], one_or_many],
)


def _require_database(value: Any) -> None:
    if value.search.where == "database" and not value.registry.url:
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
    check=_require_database,
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
            Annotated[
                GenericAlias(dict, (_name_of("webhook"), WebhookEntry)),
                Field(max_length=MOST_WEBHOOKS),
            ],
            mapping_or_nothing,
        ],
        {},
    ),
    server=Annotated[_ServeSection, mapping_or_nothing],
    views=(Annotated[GenericAlias(dict, (_name_of("view"), ViewEntry)), mapping_or_nothing], {}),
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


SCHEMA_FILE = "discovery.schema.json"
"""The name of the schema's file beside the configuration."""
MODELINE = f"# yaml-language-server: $schema={SCHEMA_FILE}"
"""The first line of a generated `discovery.yaml`: it leads editors to the schema."""

# The dialect that the YAML language server supports best.
_DIALECT = "http://json-schema.org/draft-07/schema#"
_LIMITS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum"}


def json_schema() -> JSONObject:
    """The schema of the canonical spelling; a fresh copy that the caller may change."""
    schema = Configuration.model_json_schema(by_alias=True, mode="validation")
    whole = {key: value for key, value in schema.items() if key != "$defs"}
    whole["properties"] = {
        **schema["properties"],
        "discovery": {
            "description": "The whole configuration may stand under this key.",
            "examples": [{"servers": {}}],
            "$ref": "#/$defs/Configuration",
        },
    }
    definitions = {**schema["$defs"], "Configuration": {**schema, "$defs": {}}}
    cleaned: JSONObject = _cleaned({**whole, "$defs": definitions})
    return {"$schema": _DIALECT, **cleaned, "title": "discovery.yaml"}


def _cleaned(value: JSONValue) -> JSONValue:
    """Without titles: pydantic repeats every key as one, which editors would show instead of help.

    With limits as JSON Schema has them: pydantic leaves its own names where a type is converted.
    """
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        members = {k: v for k, v in value.items() if not (k == "title" and isinstance(v, str))}
        return {
            _LIMITS.get(key, key) if isinstance(item, int | float) else key: _cleaned(item)
            for key, item in members.items()
        }
    return value
