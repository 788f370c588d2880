"""One entry of `servers`: how a server is started or connected, with its description."""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, model_validator

from discovery_engine._util.json import JSONValue
from discovery_engine._util.suggestions import did_you_mean
from discovery_engine.config.document.key_redaction import NAME_LIKE
from discovery_engine.config.model.field_types import (
    Count,
    Flag,
    HeaderName,
    Number,
    Principals,
    ResultTokens,
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
)
from discovery_engine.config.model.oauth import OAuthSection
from discovery_engine.config.model.sandbox_section import SandboxSection, sandbox_or_kind
from discovery_engine.config.model.section import Section
from discovery_engine.config.sandbox_settings import SandboxSettings
from discovery_engine.config.settings import (
    LONGEST_TIMEOUT,
    OAuthSettings,
    RemoteTransport,
    ServerSettings,
    StdioTransport,
    TrustPolicy,
)
from discovery_engine.config.syntax import is_address
from discovery_engine.diagnostics import Origin
from discovery_engine.tools.model import ServerName

Transport: TypeAlias = Literal["auto", "http", "sse", "stdio"]

_DEFAULTS = ServerSettings(ServerName(""))
_REMOTE = RemoteTransport("")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")
_PREFIX = re.compile(r"[A-Za-z0-9_.-]{0,64}")
# What clients call a transport, without case, dashes and underscores.
_SAME_TRANSPORT = {"streamablehttp": "http", "remote": "auto", "local": "stdio"}
_STARTED = ("args", "env", "cwd", "sandbox")
_REACHED = ("headers", "oauth")


def source_types() -> tuple[str, ...]:
    # The table of clients is long to read, and most configurations name none.
    from discovery_engine.config.sources import SOURCE_TYPES  # noqa: PLC0415

    return SOURCE_TYPES


def _known_type(text: str) -> str:
    known = source_types()
    if text in known:
        return text
    hint = did_you_mean(text, known, otherwise=f"known are {', '.join(known)}")
    raise custom_error(f"no such type of source: {text!r}", hint=hint)


SourceType: TypeAlias = Annotated[Word, AfterValidator(_known_type)]


def validate_name(name: str) -> str:
    """The name itself, if a server can be called that.

    Raises:
        PydanticCustomError: If it cannot.
    """
    if "__" in name:
        raise custom_error(
            f"the name {name!r} holds '__'", hint="'__' divides server from tool; use one '_'"
        )
    if not _NAME.fullmatch(name):
        hint = "begin with a letter or a digit, go on with letters, digits and . _ @ -"
        if foreign := next((one for one in name if one.isalnum() and not one.isascii()), ""):
            # It may look like one of these.
            hint = f"{foreign!r} is U+{ord(foreign):04X}, and no letter from a to z; {hint}"
        raise custom_error(f"the name {name!r} cannot be used for a server", hint=hint)
    return name


def _good_prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise custom_error("must be at most 64 letters, digits and _ . -")
    return text


def _good_variable_name(name: str) -> str:
    if not NAME_LIKE.fullmatch(name) or "\0" in name:
        raise custom_error("is no name for an environment variable", hint="write NAME: value")
    return name


def _good_address(text: str) -> str:
    if not is_address(text):
        raise custom_error("is no address", hint="write http://… or https://…, without spaces")
    return text


def _good_command(text: str) -> str:
    if not text.strip():
        raise custom_error("must not be empty")
    return text


def _one_program(value: JSONValue) -> JSONValue:
    if isinstance(value, list):
        hint = "put the program here, and what follows into 'args'"
        raise custom_error("must be text, not a list", hint=hint)
    return value


def _known_transport(value: JSONValue) -> JSONValue:
    if not isinstance(value, str):
        return value
    plain = value.lower().replace("-", "").replace("_", "")
    known = _SAME_TRANSPORT.get(plain, plain)
    return known if known in get_args(Transport) else value


Seconds = Annotated[Number, Field(gt=0, le=LONGEST_TIMEOUT)]


class TimeoutsSection(Section):
    """How many seconds each step may take."""

    connect: Seconds | None = Field(
        default=None,
        description=(
            "Seconds for starting or reaching the server. By default 30; for the first start of"
            " a program 60, or 180 if a package runner (npx, uvx, docker, ...) starts it."
        ),
        examples=[10],
    )
    list: Seconds = Field(
        default=_DEFAULTS.timeouts.list, description="Seconds for listing its tools.", examples=[20]
    )
    call: Seconds = Field(
        default=_DEFAULTS.timeouts.call,
        description="Seconds for one call of a tool.",
        examples=[300],
    )


class LimitsSection(Section):
    """The most that the server may have of anything."""

    calls: Annotated[Count, Field(ge=1, le=1000)] = Field(
        default=_DEFAULTS.limits.calls,
        description="Calls under way at the same time.",
        examples=[1],
    )
    queue: Annotated[Count, Field(ge=0, le=10_000)] = Field(
        default=_DEFAULTS.limits.queue,
        description="Calls that wait for one of these to end; a further one is refused at once.",
        examples=[0],
    )
    answer_mib: Annotated[Count, Field(ge=1, le=1024)] = Field(
        default=_DEFAULTS.limits.answer_mib,
        description="The longest answer that is taken, in MiB.",
        examples=[32],
    )
    sessions: Annotated[Count, Field(ge=1, le=1000)] = Field(
        default=_DEFAULTS.limits.sessions,
        description="With `session: per_client`, clients that have a session at the same time; "
        "a further one is refused.",
        examples=[4],
    )
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
    max_result_tokens: ResultTokens | None = Field(
        default=None,
        description="As `server.maxResultTokens`, for the results of this server.",
        examples=[50_000],
    )


class ServerEntry(Section):
    """One MCP server: a `command` to start, or a `url` to reach."""

    command: Annotated[Template, AfterValidator(_good_command), BeforeValidator(_one_program)] = (
        Field(
            default="", description="The program to start, without its arguments.", examples=["npx"]
        )
    )
    args: Annotated[list[Template], list_or_nothing] = Field(
        default=[],
        description="The program's arguments; `${NAME}` stands for an environment variable.",
        examples=[["-y", "@modelcontextprotocol/server-filesystem", "${HOME}/notes"]],
    )
    env: Annotated[
        dict[Annotated[str, AfterValidator(_good_variable_name)], SecretTemplate],
        mapping_or_nothing,
    ] = Field(
        default={},
        description="Environment variables of the program. Refer to secrets, do not write them: "
        "`${NAME}`, `${NAME:-default}`, `${file:path}`, `${secret:NAME}` or `${command:[...]}`.",
        examples=[{"GITHUB_TOKEN": "${GITHUB_TOKEN}"}],
    )
    cwd: Annotated[Template, AfterValidator(_good_command)] = Field(
        default="",
        description="The folder in which the program is started.",
        examples=["~/project"],
    )
    sandbox: Annotated[SandboxSection | None, sandbox_or_kind] = Field(
        default=None,
        description="As `server.sandbox`, for this server, instead of all of that.",
        examples=["auto", {"kind": "auto", "write": ["~/project"], "network": True}],
    )
    url: Annotated[Template, AfterValidator(_good_address)] = Field(
        default="",
        description="The address of a server that runs elsewhere.",
        examples=["https://example.com/mcp"],
    )
    headers: Annotated[
        dict[HeaderName, Annotated[SecretTemplate, one_line]],
        mapping_or_nothing,
    ] = Field(
        default={},
        description="HTTP headers of every request. Refer to secrets, do not write them.",
        examples=[{"Authorization": "Bearer ${API_TOKEN}"}],
    )
    transport: Annotated[Transport, BeforeValidator(_known_transport), choice] = Field(
        default=_REMOTE.kind,
        validation_alias=AliasChoices("transport", "type"),
        description="The protocol of a `url`: `auto` tries streamable HTTP, then SSE.",
        examples=["http"],
    )
    oauth: Annotated[OAuthSection, mapping_or_nothing] = Field(
        default=OAuthSection(),
        description="How access tokens of a `url` are obtained, if the server's own metadata is"
        " not enough; see `discovery login`.",
        examples=[{"clientId": "discovery-laptop", "scopes": ["files:read"]}],
    )
    description: Text = Field(
        default="",
        description="What the server is for; it is searched and shown to agents.",
        examples=["Issues and pull requests of our repositories"],
    )
    enabled: Flag = Field(
        default=_DEFAULTS.enabled,
        description="Whether the server is used at all.",
        examples=[False],
    )
    prefix: Annotated[Text, AfterValidator(_good_prefix)] = Field(
        default="", description="Put before the name of each of its tools.", examples=["work_"]
    )
    tags: Words = Field(
        default=[],
        description="Tags of the server, for `serverRules` and for people.",
        examples=[["production"]],
    )
    timeouts: Annotated[TimeoutsSection, mapping_or_nothing] = Field(
        default=TimeoutsSection(),
        description="Seconds that each step may take.",
        examples=[{"connect": 10, "call": 300}],
    )
    limits: Annotated[LimitsSection, mapping_or_nothing] = Field(
        default=LimitsSection(),
        description="The most that the server may have of anything.",
        examples=[{"calls": 1, "answerMib": 32}],
    )
    session: Annotated[Literal["shared", "per_client"], choice] = Field(
        default=_DEFAULTS.session,
        description="`shared` holds one connection for all clients, `per_client` one for each.",
        examples=["per_client"],
    )
    visible_to: Principals = Field(
        default=[],
        description="The teams and users for whom alone the server is, by the tokens that they"
        " have; to all others it is unknown. By default it is for all.",
        examples=[["team:payments", "user:anna"]],
    )
    roots: list[Root] | None = Field(
        default=None,
        description="As `server.roots`, for this server; with `[]` it is given none, and no client"
        " is asked.",
        examples=[["~/project"]],
    )
    trust: Annotated[TrustPolicy | None, choice] = Field(
        default=None,
        description="As `trust` of the whole file, for this server's tools alone.",
        examples=["quarantine"],
    )
    replaces: SourceType = Field(
        default=_DEFAULTS.replaces,
        description="The source whose server of this name is not used, since this entry was made"
        " of it; written when a server of a client's file is changed, switched or imported.",
        examples=["cursor"],
        json_schema_extra=lambda schema: schema.update(enum=list(source_types())),
    )

    @model_validator(mode="after")
    def _is_started_or_reached(self) -> ServerEntry:
        if self.command and self.url:
            raise custom_error("has a url beside a command", key="url", hint="keep one of the two")
        if not self.command and not self.url:
            raise custom_error("has neither a command to start nor a url to reach")
        self._refuse_keys_of_the_other_kind()
        if self.oauth != OAuthSection() and "authorization" in map(str.lower, self.headers):
            raise custom_error(
                "stands beside an Authorization header", key="oauth", hint="keep one of the two"
            )
        if " " in self.command and "args" not in self.model_fields_set and _is_line(self.command):
            raise custom_error(
                "is a whole command line", key="command", hint="put the arguments under 'args'"
            )
        return self

    def _refuse_keys_of_the_other_kind(self) -> None:
        other, needed = (_REACHED, "url") if self.command else (_STARTED, "command")
        fields = type(self).model_fields
        if stray := next((key for key in other if getattr(self, key) != fields[key].default), None):
            raise custom_error(f"{stray!r} is of no use without a {needed}", key=stray)
        if "transport" in self.model_fields_set and (self.transport == "stdio") is bool(self.url):
            raise custom_error(
                f"{self.transport!r} is of no use without a {needed}", key="transport"
            )

    def to_server(self, name: str, origin: Origin) -> ServerSettings:
        return self.to_settings(
            ServerSettings,
            name=ServerName(name),
            transport=self._transport(),
            tags=tuple(dict.fromkeys(self.tags)),
            visible_to=tuple(self.visible_to),
            origin=origin,
        )

    def _transport(self) -> StdioTransport | RemoteTransport:
        if self.transport == "stdio" or self.command:
            sandbox = self.sandbox.to_settings(SandboxSettings) if self.sandbox else None
            args, env = tuple(self.args), dict(self.env)
            return StdioTransport(self.command, args, env, self.cwd or None, sandbox)
        oauth = self.oauth.to_settings(OAuthSettings)
        return RemoteTransport(self.url, dict(self.headers), self.transport, oauth)


class NamedServerEntry(ServerEntry):
    """A server in a list of servers."""

    name: Word = Field(description="What the server is called.", examples=["github"])


def _is_line(command: str) -> bool:
    """Whether it looks like a program with arguments, rather than a path with spaces."""
    return not set("/\\$") & set(command.partition(" ")[0])
