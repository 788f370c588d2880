"""One entry of `servers`: how a server is started or reached, and its description."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, create_model

from discovery_engine._util.json import JSONValue
from discovery_engine._util.suggestions import did_you_mean
from discovery_engine.config.document.excerpts import NAME_LIKE
from discovery_engine.config.document.tree import PlainScalar
from discovery_engine.config.model.field_types import (
    HeaderName,
    Root,
    SecretTemplate,
    Template,
    Text,
    Word,
    Words,
    choice,
    custom_error,
    list_or_nothing,
    mapping_or_nothing,
    one_line,
    one_or_many,
    plain_path,
    require_text,
)
from discovery_engine.config.model.section import section
from discovery_engine.config.openapi_entry import openapi_transport, skills_transport
from discovery_engine.config.serve_settings import SandboxKind, SandboxSettings
from discovery_engine.config.settings import (
    OAuthSettings,
    RemoteTransport,
    ServerSettings,
    StdioTransport,
)
from discovery_engine.config.syntax import (
    is_address,
    is_command_line,
    is_loopback_redirect,
    is_secure_address,
)
from discovery_engine.errors import Origin
from discovery_engine.tools.model import ServerName


def _as_mapping(value: JSONValue) -> JSONValue:
    """Return a kind alone, such as `sandbox: auto`, as a sandbox of that kind without grants."""
    if isinstance(value, PlainScalar) and value.meaning is None:
        return None
    return {"kind": value} if isinstance(value, (str, PlainScalar)) else value


Grants = Annotated[list[Annotated[Word, AfterValidator(plain_path)]], one_or_many, list_or_nothing]


SandboxSection = section(
    SandboxSettings, kind=(Annotated[SandboxKind, choice], "auto"), read=Grants, write=Grants
)
sandbox_or_kind = BeforeValidator(_as_mapping, json_schema_input_type=SandboxKind | SandboxSection)
"""Validates a section, or a kind alone as a sandbox without grants."""


Transport: TypeAlias = Literal["auto", "http", "sse", "stdio"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")
_PREFIX = re.compile(r"[A-Za-z0-9_.-]{0,64}")
# Clients' names for transports, in lower case, without dashes and underscores.
_SAME_TRANSPORT = {"streamablehttp": "http", "remote": "auto", "local": "stdio"}
_STARTED = ("args", "env", "cwd", "sandbox")
_REACHED = ("headers", "oauth")
_NOT_OF_OPENAPI = ("args", "env", "cwd", "oauth")
_NOT_OF_SKILLS = (*_NOT_OF_OPENAPI, "url", "headers", "openapi", "command")


def source_types() -> tuple[str, ...]:
    # Reading the table of clients is slow, and most configurations name no client.
    from discovery_engine.config.sources import SOURCE_TYPES  # noqa: PLC0415

    return SOURCE_TYPES


def _require_source_type(text: str) -> str:
    types = source_types()
    if text in types:
        return text
    hint = did_you_mean(text, types, otherwise=f"known are {', '.join(types)}")
    raise custom_error(f"no such type of source: {text!r}", hint=hint)


SourceType: TypeAlias = Annotated[
    Word,
    AfterValidator(_require_source_type),
    Field(json_schema_extra=lambda schema: schema.update(enum=list(source_types()))),
]


def validate_name(name: str) -> str:
    """Return a valid name of a server unchanged.

    Raises:
        PydanticCustomError: If the name is invalid.
    """
    if "__" in name:
        raise custom_error(
            f"the name {name!r} holds '__'", hint="'__' divides server from tool; use one '_'"
        )
    if not _NAME.fullmatch(name):
        hint = "begin with a letter or a digit, go on with letters, digits and . _ @ -"
        if foreign := next((char for char in name if char.isalnum() and not char.isascii()), ""):
            # The letter may look like one from a to z.
            hint = f"{foreign!r} is U+{ord(foreign):04X}, and no letter from a to z; {hint}"
        raise custom_error(f"the name {name!r} cannot be used for a server", hint=hint)
    return name


def _require_prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise custom_error("must be at most 64 letters, digits and _ . -")
    return text


def _require_variable_name(name: str) -> str:
    if not NAME_LIKE.fullmatch(name) or "\0" in name:
        raise custom_error("is no name for an environment variable", hint="write NAME: value")
    return name


def _require_address(text: str) -> str:
    if not is_address(text):
        raise custom_error("is no address", hint="write http://… or https://…, without spaces")
    return text


def _require_text_not_list(value: JSONValue) -> JSONValue:
    if isinstance(value, list):
        hint = "put the program here, and what follows into 'args'"
        raise custom_error("must be text, not a list", hint=hint)
    return value


def _parsed_transport(value: JSONValue) -> JSONValue:
    if not isinstance(value, str):
        return value
    plain = value.lower().replace("-", "").replace("_", "")
    transport = _SAME_TRANSPORT.get(plain, plain)
    return transport if transport in get_args(Transport) else value


def _require_start_or_address(entry: Any) -> None:
    if entry.command and entry.url:
        raise custom_error("has a url beside a command", key="url", hint="keep one of the two")
    if entry.command and entry.openapi:
        hint = "keep one of the two"
        raise custom_error("has a document beside a command", key="openapi", hint=hint)
    if not (entry.command or entry.url or entry.openapi or entry.skills):
        raise custom_error("has neither a command to start nor a url to reach")
    _require_keys_of_its_kind(entry)
    if entry.oauth != OAuthSection() and "authorization" in map(str.lower, entry.headers):
        raise custom_error(
            "stands beside an Authorization header", key="oauth", hint="keep one of the two"
        )
    if "args" not in entry.model_fields_set and is_command_line(entry.command):
        raise custom_error(
            "is a whole command line", key="command", hint="put the arguments under 'args'"
        )


def _require_keys_of_its_kind(entry: Any) -> None:
    other: tuple[str, ...]
    other, needed = (_REACHED, "url") if entry.command else (_STARTED, "command")
    if entry.skills:
        other, needed = _NOT_OF_SKILLS, "command or a url of its own"
    elif entry.openapi:
        other, needed = _NOT_OF_OPENAPI, "command or a url of its own"
    fields = type(entry).model_fields
    if stray := next((key for key in other if getattr(entry, key) != fields[key].default), None):
        raise custom_error(f"{stray!r} is of no use without a {needed}", key=stray)
    if "transport" in entry.model_fields_set and (entry.transport == "stdio") is bool(entry.url):
        raise custom_error(f"{entry.transport!r} is of no use without a {needed}", key="transport")


_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def _require_secure_address(text: str) -> str:
    if not is_secure_address(text):
        raise custom_error(
            "is no https address", hint="http is accepted for this machine only (127.0.0.1)"
        )
    return text


def _require_document_address(text: str) -> str:
    if not re.fullmatch(r"https://[^/?#\s]+/[^#\s]+", text):
        raise custom_error("is no https address with a path")
    return text


def _require_loopback_address(text: str) -> str:
    if not is_loopback_redirect(text):
        raise custom_error(
            "is no loopback address with a port", hint="write http://127.0.0.1:8765/callback"
        )
    return text


def _require_scopes(scopes: list[str]) -> list[str]:
    for scope in scopes:
        if not _SCOPE.fullmatch(scope):
            raise custom_error("holds a scope with a space, a quote or a backslash")
    return scopes


def _require_client(oauth: Any) -> None:
    if oauth.client_secret and not oauth.client_id:
        raise custom_error("has a secret without a clientId", key="clientId")
    if oauth.grant == "client_credentials" and not (oauth.client_id and oauth.client_secret):
        raise custom_error("client_credentials needs a clientId and a clientSecret")


OAuthSection = section(
    OAuthSettings,
    check=_require_client,
    scopes=Annotated[Words, AfterValidator(_require_scopes)],
    client_metadata_url=Annotated[Text, AfterValidator(_require_document_address)],
    auth_server_metadata_url=Annotated[Text, AfterValidator(_require_secure_address)],
    redirect_uri=Annotated[Text, AfterValidator(_require_loopback_address)],
)


ServerEntry = section(
    StdioTransport,
    RemoteTransport,
    ServerSettings,
    name="ServerEntry",
    check=_require_start_or_address,
    command=(
        Annotated[Template, AfterValidator(require_text), BeforeValidator(_require_text_not_list)],
        "",
    ),
    env=Annotated[
        dict[Annotated[str, AfterValidator(_require_variable_name)], SecretTemplate],
        mapping_or_nothing,
    ],
    cwd=Annotated[Template, AfterValidator(require_text)],
    sandbox=Annotated[SandboxSection | None, sandbox_or_kind],
    url=(Annotated[Template, AfterValidator(_require_address)], ""),
    headers=Annotated[dict[HeaderName, Annotated[SecretTemplate, one_line]], mapping_or_nothing],
    transport=Annotated[
        Transport,
        BeforeValidator(_parsed_transport),
        choice,
        Field(validation_alias=AliasChoices("transport", "type")),
    ],
    oauth=Annotated[OAuthSection, mapping_or_nothing],
    openapi=(
        Annotated[Template, AfterValidator(require_text)],
        Field(
            "",
            description="An OpenAPI document, by path or address: the operations of the service"
            " are the tools. `url` is the service, if the document does not name it.",
            examples=["https://petstore3.swagger.io/api/v3/openapi.json"],
        ),
    ),
    skills=(
        Annotated[Template, AfterValidator(require_text)],
        Field(
            "",
            description="A folder of skills: each folder in it that has a `SKILL.md` is offered.",
            examples=["~/.claude/skills"],
        ),
    ),
    prefix=Annotated[Text, AfterValidator(_require_prefix)],
    roots=list[Root] | None,
    replaces=SourceType,
)
NamedServerEntry = create_model(
    "NamedServerEntry",
    __base__=ServerEntry,
    __doc__="A server in a list of servers.",
    name=(Word, Field(description="What the server is called.", examples=["github"])),
)


def to_server(entry: Any, name: str, origin: Origin) -> ServerSettings:
    server: ServerSettings = entry.to_settings(
        ServerSettings,
        name=ServerName(name),
        transport=_transport(entry, origin),
        tags=tuple(dict.fromkeys(entry.tags)),
        visible_to=tuple(entry.visible_to),
        origin=origin,
    )
    return server


def _transport(entry: Any, origin: Origin) -> StdioTransport | RemoteTransport:
    sandbox = entry.sandbox.to_settings(SandboxSettings) if entry.sandbox else None
    folder = Path(origin.file).parent if origin.file else Path()
    if entry.skills:
        return skills_transport(entry.skills, sandbox, folder=folder.absolute())
    if entry.openapi:
        return openapi_transport(
            entry.openapi, entry.url, entry.headers, sandbox, folder=folder.absolute()
        )
    if entry.transport == "stdio" or entry.command:
        args, env = tuple(entry.args), dict(entry.env)
        return StdioTransport(entry.command, args, env, entry.cwd or None, sandbox)
    oauth = entry.oauth.to_settings(OAuthSettings)
    return RemoteTransport(entry.url, dict(entry.headers), entry.transport, oauth)
