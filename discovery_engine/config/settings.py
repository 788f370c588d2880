"""The configuration as the rest of the engine sees it: checked, frozen, without positions.

`config.model` validates what an owner writes; `config.loading` turns that into these values. They
need no parser and no pydantic, so that a stored configuration loads in microseconds. What a field
declares is in `settings_section`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import chain
from typing import Annotated, Literal, TypeAlias

from msgspec import field

from discovery_engine.config.marketplace_settings import MarketplaceSettings
from discovery_engine.config.sandbox_settings import NO_SANDBOX, SandboxSettings
from discovery_engine.config.serve_settings import ServeSettings, ViewSettings
from discovery_engine.config.settings_section import (
    AT_MOST_DEFAULT,
    INTERNAL,
    LOCAL,
    NOT_OPEN,
    RESULT_TOKENS,
    UNTRUSTED,
    SettingsSection,
)
from discovery_engine.config.webhook_settings import WebhookSettings
from discovery_engine.diagnostics import Diagnostic, Origin
from discovery_engine.overrides.override import Override
from discovery_engine.rules.rule import NOBODY, Rule
from discovery_engine.tools.model import ServerName

TrustPolicy: TypeAlias = Literal["open", "on_first_use", "quarantine"]
"""What happens to a tool that was never accepted: it is used unchecked, accepted, or withheld."""

SearchPlace: TypeAlias = Literal["memory", "database"]
"""Where the search index is: in that of each process, or in the database of the registry."""

OWN_SOURCE = "discovery.yaml"
"""What servers come from that their owner wrote."""


class StdioTransport(SettingsSection, frozen=True, tag_field="type", tag="stdio"):
    """A program to start. Values may hold `${references}`, resolved when it is started."""

    command: Annotated[str, UNTRUSTED]
    args: Annotated[tuple[str, ...], UNTRUSTED] = ()
    env: Annotated[Mapping[str, str], UNTRUSTED] = field(default_factory=dict)
    cwd: Annotated[str | None, UNTRUSTED] = None
    sandbox: Annotated[SandboxSettings | None, UNTRUSTED] = None
    """None if neither the entry nor `server.sandbox` gives one."""


class OAuthSettings(SettingsSection, frozen=True):
    """How access tokens of a remote server are obtained.

    `client_id` and `client_secret` may hold `${references}`.
    """

    grant: Annotated[Literal["authorization_code", "client_credentials"], UNTRUSTED] = (
        "authorization_code"
    )
    client_id: Annotated[str, UNTRUSTED] = ""
    """Of a client that is registered already."""
    client_secret: Annotated[str, UNTRUSTED] = ""
    scopes: Annotated[tuple[str, ...], UNTRUSTED] = ()
    """Empty for those that the server asks for."""
    client_metadata_url: Annotated[str, UNTRUSTED] = ""
    """A client id metadata document, which is the client id where that is supported."""
    auth_server_metadata_url: Annotated[str, UNTRUSTED] = ""
    """Empty for the authorization server that the server names."""
    redirect_uri: Annotated[str, UNTRUSTED] = ""
    """A loopback address; empty for a free port."""

    @property
    def is_given(self) -> bool:
        """Whether anything of it is written."""
        return self != _NO_OAUTH


_NO_OAUTH = OAuthSettings()


class RemoteTransport(SettingsSection, frozen=True, tag_field="type", tag="remote"):
    """An address to connect to. Values may hold `${references}`, resolved when it is reached."""

    url: Annotated[str, UNTRUSTED]
    headers: Annotated[Mapping[str, str], UNTRUSTED] = field(default_factory=dict)
    kind: Annotated[Literal["auto", "http", "sse"], UNTRUSTED] = field(
        default="auto", name="transport"
    )
    """`auto` tries streamable HTTP first and falls back to SSE."""
    oauth: OAuthSettings = OAuthSettings()

    @property
    def has_own_authorization(self) -> bool:
        """Whether its header or its address logs in already, so that no token is added."""
        host = self.url.partition("://")[2].partition("/")[0]
        return "@" in host or any(name.lower() == "authorization" for name in self.headers)


USUAL_CONNECT = 30.0  # seconds
LONGEST_TIMEOUT = 86_400.0  # seconds; a longer one is a mistaken unit


class Timeouts(SettingsSection, frozen=True):
    """Seconds that each step may take."""

    connect: Annotated[float | None, UNTRUSTED] = None
    """None is the usual time, and longer for the first start of a program."""
    list: Annotated[float, UNTRUSTED] = 30.0
    call: Annotated[float, UNTRUSTED] = 60.0

    @property
    def reach(self) -> float:
        """Seconds until an address must be connected."""
        return self.connect or USUAL_CONNECT


class Limits(SettingsSection, frozen=True):
    """The most that one server may have of anything."""

    calls: Annotated[int, AT_MOST_DEFAULT] = 16
    """Calls under way at the same time."""
    queue: Annotated[int, AT_MOST_DEFAULT] = 64
    """Calls that wait for one of these to end."""
    answer_mib: Annotated[int, AT_MOST_DEFAULT] = 8
    """The longest message, in MiB; a tool result of this size is already unusable to an agent."""
    sessions: Annotated[int, AT_MOST_DEFAULT] = 16
    """Sessions at the same time, where each client has its own: as many programs."""
    calls_per_minute: Annotated[int | None, UNTRUSTED] = None
    """Calls in a minute, on average; None for any number."""
    burst: Annotated[int | None, UNTRUSTED] = None
    """Calls at once, after a pause; None for what ten seconds allow."""
    max_result_tokens: Annotated[int | None, RESULT_TOKENS] = None
    """As `server.maxResultTokens`, for this server; None follows that one."""

    @property
    def answer_bytes(self) -> int:
        return self.answer_mib * 1024 * 1024


REGISTRY = "registry"
"""The source of servers that stand in no file."""


class ServerSettings(SettingsSection, frozen=True):
    name: Annotated[ServerName, INTERNAL]
    transport: StdioTransport | RemoteTransport | None = None
    """None in a remembered configuration, and in an entry that has a `problem`."""
    description: Annotated[str, UNTRUSTED] = ""
    enabled: Annotated[bool, UNTRUSTED] = True
    prefix: Annotated[str, UNTRUSTED] = ""
    """Put before each of the server's tool names, and taken off again before a call."""
    tags: Annotated[tuple[str, ...], UNTRUSTED] = ()
    timeouts: Timeouts = Timeouts()
    limits: Limits = Limits()
    session: Annotated[Literal["shared", "per_client"], UNTRUSTED] = "shared"
    visible_to: Annotated[tuple[str, ...], UNTRUSTED] = ()
    """The teams and users for whom alone it is; for all if there are none."""
    roots: tuple[str, ...] | None = None
    """As `server.roots`, for this server; empty for no roots, None follows that one."""
    trust: Annotated[TrustPolicy | None, NOT_OPEN] = None
    """None follows the settings' own."""
    replaces: Annotated[str, UNTRUSTED] = ""
    """The source whose server of this name it takes the place of."""
    is_untrusted_origin: Annotated[bool, INTERNAL] = False
    """Another person may have written its entry: it is not started before the owner approves it."""
    bound_to: Annotated[str, INTERNAL] = ""
    """The digest of what else of that file an approval is bound to; may be empty."""
    origin: Annotated[Origin, INTERNAL] = Origin("")
    source: Annotated[str, INTERNAL] = OWN_SOURCE
    """The id of the source that it came from, for instance `cursor`."""
    renamed_from: Annotated[str, INTERNAL] = ""
    """Its name in its source, if another server has that here."""
    switch: Annotated[Literal["", "on", "off"], INTERNAL] = ""
    """How its owner switched it, apart from its entry; `enabled` takes it into account."""
    package: Annotated[str, INTERNAL] = ""
    """The package that it runs, if it was installed: `@acme/mail@1.2.3`."""
    created_at: Annotated[float | None, INTERNAL] = None
    """Unix time in seconds at which it was registered; None if it stands in a file."""
    updated_at: Annotated[float | None, INTERNAL] = None
    """Unix time in seconds of the last change of its registered entry or package."""
    problem: Annotated[Diagnostic | None, INTERNAL] = None
    """What is wrong with the entry; such a server is listed, and never connected."""

    prompts: Annotated[Mapping[str, str], INTERNAL] = field(default_factory=dict)
    """What its client asks for, by the variable that has the answer here."""

    remembered_sandbox: Annotated[SandboxSettings | None, INTERNAL] = None
    """That of its transport, where there is none; for people, nothing is started from it."""

    @property
    def sandbox(self) -> SandboxSettings:
        """What its program is confined to."""
        stdio = self.transport if isinstance(self.transport, StdioTransport) else None
        return (stdio.sandbox if stdio else self.remembered_sandbox) or NO_SANDBOX

    @property
    def may_run_commands(self) -> bool:
        """Whether `${command:…}` counts: only in the owner's own file, or what a program passes."""
        return not self.is_untrusted_origin and self.source == OWN_SOURCE

    @property
    def is_sourced(self) -> bool:
        """Whether it stands in another client's file."""
        return self.source not in (OWN_SOURCE, REGISTRY)

    @property
    def is_registered(self) -> bool:
        """Whether it stands in the registry, and in no file."""
        return self.source == REGISTRY

    @property
    def secret_owner(self) -> str:
        """The server of `${secret:SERVER/NAME}` that its entry may refer to."""
        return self.renamed_from or self.name if self.is_registered else self.name


class Source(SettingsSection, frozen=True):
    """A client's file, or any other list of servers, to be read along with `discovery.yaml`."""

    type: Annotated[str, UNTRUSTED]
    path: Annotated[str | None, UNTRUSTED] = None


class CacheSettings(SettingsSection, frozen=True):
    enabled: bool = True
    ttl: Annotated[float, UNTRUSTED] = 3600.0
    """Seconds after which a server's tools are listed again."""


class RegistrySettings(SettingsSection, frozen=True):
    """A database in place of the file of the data folder; `url` may hold `${references}`.

    A file of untrusted origin has no say: whose database it is, their decisions count.
    """

    url: str = ""
    """Without a literal secret; empty for that file."""
    max_connections: int = 4
    timeout: float = 5.0
    """Seconds of one operation."""


class Weights(SettingsSection, frozen=True):
    exact: Annotated[float, UNTRUSTED] = 1.0
    partial: Annotated[float, UNTRUSTED] = 0.5
    tag: Annotated[float, UNTRUSTED] = 0.3


class EmbeddingsSettings(SettingsSection, frozen=True):
    """Who makes vectors of texts; `url` and `api_key` may hold `${references}`."""

    provider: Annotated[
        Literal["none", "discovery", "static", "onnx", "openai", "http", "hash"], LOCAL
    ] = "none"
    model: Annotated[str, UNTRUSTED] = ""
    path: str = ""
    url: str = ""
    api_key: str = ""
    dimensions: Annotated[int, UNTRUSTED] = 0
    """How long vectors are asked for; 0 leaves it to the model."""
    batch: Annotated[int, UNTRUSTED] = 32
    timeout: Annotated[float, UNTRUSTED] = 0.3
    """Seconds that a search waits for the vector of its query."""

    @property
    def is_on(self) -> bool:
        return self.provider != "none"

    @property
    def is_remote(self) -> bool:
        """Whether texts are sent to an address."""
        return self.provider in ("openai", "http")

    @property
    def is_static(self) -> bool:
        """Whether vectors are sums of word vectors, which rank worse than a sentence model."""
        return self.provider == "static"

    @property
    def is_english(self) -> bool:
        """Whether the model is known to read English alone."""
        return self.provider in ("discovery", "static")


class SearchSettings(SettingsSection, frozen=True):
    limit: Annotated[int, UNTRUSTED] = 10
    weights: Weights = Weights()
    max_tokens: Annotated[int, UNTRUSTED] = 180
    """The most that the answer to one query may take, in estimated tokens."""
    min_confidence: Annotated[float, UNTRUSTED] = 0.15
    """The least probability of the best tool's being right at which it is a match."""
    embeddings: EmbeddingsSettings = EmbeddingsSettings()
    synonyms: Annotated[tuple[tuple[str, ...], ...], UNTRUSTED] = ()
    """Groups of words or phrases, in any language, that mean the same."""
    shipped_examples: Annotated[bool, UNTRUSTED] = True
    """Whether tools of popular servers are found by the typical requests that the program has."""
    learn: Annotated[bool, UNTRUSTED] = False
    """Whether tools that were found and then used come before others that fit as well."""
    where: SearchPlace = "memory"
    """Where the search index is; the database is that of `registry`."""

    @property
    def is_in_database(self) -> bool:
        return self.where == "database"


class EnrichSettings(SettingsSection, frozen=True):
    """Who writes typical requests for tools; `url` and `api_key` may hold `${references}`."""

    url: str = ""
    model: str = ""
    api_key: str = ""
    languages: Annotated[tuple[str, ...], UNTRUSTED] = ()
    """Codes of languages in which one more request is written, beside those in English."""
    concurrency: Annotated[int, AT_MOST_DEFAULT] = 4
    """Tools that are written about at the same time."""
    requests_per_minute: Annotated[int, AT_MOST_DEFAULT] = 60
    timeout: Annotated[float, UNTRUSTED] = 60.0
    """Seconds that the endpoint has for an answer."""


class LogSettings(SettingsSection, frozen=True):
    level: Annotated[Literal["debug", "info", "warning", "error"], UNTRUSTED] = "info"
    file: str | None = None
    stderr: Annotated[bool, UNTRUSTED] = True
    calls: Literal["off", "metadata", "redacted", "full"] = "redacted"
    """What the call log keeps: nothing; no arguments and results; these redacted; longer ones."""
    keep_days: Annotated[float, AT_MOST_DEFAULT] = 30.0
    """Days after which entries of the call log are deleted."""
    max_mib: Annotated[float, AT_MOST_DEFAULT] = 64.0
    """The size of the call log, in MiB, from which on its oldest entries are deleted."""


class InputFile(SettingsSection, frozen=True):
    """A file that was read for the configuration; `digest` is None if it did not exist."""

    path: str
    digest: str | None


class Settings(SettingsSection, frozen=True, dict=True):
    """The configuration as it is in force: checked, with its servers and those of its sources."""

    name: str = ""
    """What decisions are kept under; empty for the path. An untrusted file could take another's."""
    enabled: Annotated[bool, UNTRUSTED] = True
    cache: CacheSettings = CacheSettings()
    registry: RegistrySettings = RegistrySettings()
    sources: Annotated[tuple[Source, ...], UNTRUSTED] = ()
    servers: Annotated[tuple[ServerSettings, ...], UNTRUSTED] = ()
    server_rules: Annotated[tuple[Rule, ...], UNTRUSTED] = ()
    tool_rules: Annotated[tuple[Rule, ...], UNTRUSTED] = ()
    resource_rules: Annotated[tuple[Rule, ...], UNTRUSTED] = ()
    """Of resource templates, too."""
    prompt_rules: Annotated[tuple[Rule, ...], UNTRUSTED] = ()
    overrides: Annotated[tuple[Override, ...], UNTRUSTED] = ()
    """The approval of each server of an untrusted file is bound to all of them."""
    search: SearchSettings = SearchSettings()
    enrich: EnrichSettings = EnrichSettings()
    marketplace: MarketplaceSettings = MarketplaceSettings()
    webhooks: tuple[WebhookSettings, ...] = ()
    server: ServeSettings = ServeSettings()
    views: Annotated[tuple[ViewSettings, ...], UNTRUSTED] = ()
    view: Annotated[str, INTERNAL] = ""
    """The view that these are the settings of; empty for the configuration itself."""
    log: LogSettings = LogSettings()
    trust: Annotated[TrustPolicy, NOT_OPEN] = "on_first_use"
    path: Annotated[str | None, INTERNAL] = None
    """The `discovery.yaml` in use; None with built-in defaults."""
    is_untrusted_origin: Annotated[bool, INTERNAL] = False
    """That file was discovered in the working directory, not named, or others may write to it."""
    frozen: Annotated[bool, INTERNAL] = False
    """Only what the lock file pins may be used."""
    inputs: Annotated[tuple[InputFile, ...], INTERNAL] = ()
    registered: Annotated[str, INTERNAL] = ""
    """The mark of the registered servers and switches that these settings take into account."""
    warnings: Annotated[tuple[Diagnostic, ...], INTERNAL] = ()
    """Warnings for the owner that stop nothing, for example a source that is missing."""

    @cached_property
    def by_name(self) -> Mapping[ServerName, ServerSettings]:
        """The servers by their names, in the order of the settings."""
        return {server.name: server for server in self.servers}

    @cached_property
    def principals(self) -> frozenset[str]:
        """The teams and users that a server or a rule is reserved for."""
        return self._reserved_for - {NOBODY}

    @property
    def reserves(self) -> bool:
        """Whether a server or a rule is reserved for some, though it may be unknown for whom."""
        return bool(self._reserved_for)

    @cached_property
    def _reserved_for(self) -> frozenset[str]:
        rules = (self.server_rules, self.tool_rules, self.resource_rules, self.prompt_rules)
        reserved = [server.visible_to for server in self.servers]
        reserved += [rule.visible_to for rule in chain.from_iterable(rules)]
        return frozenset(chain.from_iterable(reserved))

    @cached_property
    def result_limits(self) -> tuple[int, ...]:
        """Every limit on the tokens of a result that is set, the smallest first; 0 is none."""
        of_servers = (server.limits.max_result_tokens for server in self.servers)
        of_tools = (override.max_result_tokens for override in self.overrides)
        limits = {self.server.max_result_tokens, *of_servers, *of_tools}
        return tuple(sorted(limit for limit in limits if limit))
