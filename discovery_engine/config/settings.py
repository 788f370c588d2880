"""The configuration after validation: frozen values without positions.

`config.model` validates the owner's file; `config.loading` converts it to these values. They need
neither a parser nor pydantic, so a stored configuration loads in microseconds. For the metadata of
fields see `settings_section`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine.config.marketplace_settings import MarketplaceSettings
from discovery_engine.config.serve_settings import (
    NO_SANDBOX,
    SandboxSettings,
    ServeSettings,
    ViewSettings,
)
from discovery_engine.config.settings_section import (
    AT_MOST_DEFAULT,
    INTERNAL,
    LOCAL,
    NOT_OPEN,
    RESULT_TOKENS,
    UNTRUSTED,
    Principals,
    Rate,
    ResultTokens,
    Root,
    Seconds,
    SecretTemplate,
    SettingsSection,
    Template,
    Tokens,
    Values,
    Weight,
    Word,
    Words,
)
from discovery_engine.config.webhook_settings import WebhookSettings
from discovery_engine.errors import Diagnostic, Origin
from discovery_engine.rules.overrides.override import Override
from discovery_engine.rules.rule import NOBODY, Rule
from discovery_engine.tools.model import ServerName

TrustPolicy: TypeAlias = Literal["open", "on_first_use", "quarantine"]
"""The treatment of a tool that was never accepted: used unchecked, accepted, or withheld."""

SearchPlace: TypeAlias = Literal["memory", "database"]
"""The place of the search index: memory of each process, or the registry's database."""

OWN_SOURCE = "discovery.yaml"
"""The source of servers that the owner wrote."""


class StdioTransport(SettingsSection, frozen=True, tag_field="type", tag="stdio"):
    """A program to start. Values may hold `${references}`, resolved when it is started."""

    command: Annotated[str, UNTRUSTED, Values(examples=["npx"])]
    """The program to start, without its arguments."""
    args: Annotated[
        tuple[Template, ...],
        UNTRUSTED,
        Values(examples=[["-y", "@modelcontextprotocol/server-filesystem", "${HOME}/notes"]]),
    ] = ()
    """The program's arguments; `${NAME}` stands for an environment variable."""
    env: Annotated[
        Mapping[str, str], UNTRUSTED, Values(examples=[{"GITHUB_TOKEN": "${GITHUB_TOKEN}"}])
    ] = field(default_factory=dict)
    """Environment variables of the program. Refer to secrets, do not write them: `${NAME}`,
    `${NAME:-default}`, `${file:path}`, `${secret:NAME}` or `${command:[...]}`."""
    cwd: Annotated[str | None, UNTRUSTED, Values(examples=["~/project"])] = None
    """The folder in which the program is started."""
    # None if neither the entry nor `server.sandbox` gives one.
    sandbox: Annotated[
        SandboxSettings | None,
        UNTRUSTED,
        Values(examples=["auto", {"kind": "auto", "write": ["~/project"], "network": True}]),
    ] = None
    """As `server.sandbox`, for this server, instead of all of that."""


class OAuthSettings(SettingsSection, frozen=True):
    """How access tokens of the server are obtained; `discovery login` uses it."""

    grant: Annotated[
        Literal["authorization_code", "client_credentials"],
        UNTRUSTED,
        Values(examples=["client_credentials"]),
    ] = "authorization_code"
    """`authorization_code` logs a person in with a browser; `client_credentials` is for machines
    and needs `clientId` and `clientSecret`."""
    client_id: Annotated[Template, UNTRUSTED, Values(examples=["discovery-laptop"])] = ""
    """The id of a client that is registered already; without it `discovery login` registers one
    where the server allows it."""
    client_secret: Annotated[
        SecretTemplate, UNTRUSTED, Values(examples=["${FILES_CLIENT_SECRET}"])
    ] = ""
    """The secret of that client. Refer to it, do not write it."""
    scopes: Annotated[tuple[str, ...], UNTRUSTED, Values(examples=[["files:read"]])] = ()
    """The scopes to request; by default those that the server asks for."""
    client_metadata_url: Annotated[
        str, UNTRUSTED, Values(examples=["https://example.com/discovery-client.json"])
    ] = ""
    """The address of a client id metadata document; it is the client id at servers that support
    it."""
    auth_server_metadata_url: Annotated[
        str,
        UNTRUSTED,
        Values(examples=["https://login.example.com/.well-known/openid-configuration"]),
    ] = ""
    """The address of the authorization server's metadata; by default the server names its
    authorization server."""
    redirect_uri: Annotated[str, UNTRUSTED, Values(examples=["http://127.0.0.1:8765/callback"])] = (
        ""
    )
    """The loopback address that the browser returns to, if the client is registered with a fixed
    one; by default a free port of 127.0.0.1."""

    @property
    def is_given(self) -> bool:
        """True if any of it is set."""
        return self != _NO_OAUTH


_NO_OAUTH = OAuthSettings()


class RemoteTransport(SettingsSection, frozen=True, tag_field="type", tag="remote"):
    """An address to connect to. Values may hold `${references}`, resolved when it is reached."""

    url: Annotated[str, UNTRUSTED, Values(examples=["https://example.com/mcp"])]
    """The address of a server that runs elsewhere."""
    headers: Annotated[
        Mapping[str, str], UNTRUSTED, Values(examples=[{"Authorization": "Bearer ${API_TOKEN}"}])
    ] = field(default_factory=dict)
    """HTTP headers of every request. Refer to secrets, do not write them."""
    kind: Annotated[Literal["auto", "http", "sse"], UNTRUSTED, Values(examples=["http"])] = field(
        default="auto", name="transport"
    )
    """The protocol of a `url`: `auto` tries streamable HTTP, then SSE."""
    oauth: Annotated[
        OAuthSettings, Values(examples=[{"clientId": "discovery-laptop", "scopes": ["files:read"]}])
    ] = OAuthSettings()
    """How access tokens of a `url` are obtained, if the server's own metadata is not enough; see
    `discovery login`."""

    @property
    def has_own_authorization(self) -> bool:
        """True if headers or URL contain credentials, so that no token is added."""
        host = self.url.partition("://")[2].partition("/")[0]
        return "@" in host or any(name.lower() == "authorization" for name in self.headers)


USUAL_CONNECT = 30.0  # seconds


class Timeouts(SettingsSection, frozen=True):
    """How many seconds each step may take."""

    connect: Annotated[Seconds | None, UNTRUSTED, Values(examples=[10])] = None
    """Seconds for starting or reaching the server. By default 30; for the first start of a program
    60, or 180 if a package runner (npx, uvx, docker, ...) starts it."""
    list: Annotated[Seconds, UNTRUSTED, Values(examples=[20])] = 30.0
    """Seconds for listing its tools."""
    call: Annotated[Seconds, UNTRUSTED, Values(examples=[300])] = 60.0
    """Seconds for one call of a tool."""

    @property
    def reach(self) -> float:
        """Seconds for connecting to a URL."""
        return self.connect or USUAL_CONNECT


class Limits(SettingsSection, frozen=True):
    """The most that the server may have of anything."""

    calls: Annotated[int, AT_MOST_DEFAULT, Values(ge=1, le=1000, examples=[1])] = 16
    """Calls under way at the same time."""
    queue: Annotated[int, AT_MOST_DEFAULT, Values(ge=0, le=10_000, examples=[0])] = 64
    """Calls that wait for one of these to end; a further one is refused at once."""
    # A tool result of this size is already unusable to an agent.
    answer_mib: Annotated[int, AT_MOST_DEFAULT, Values(ge=1, le=1024, examples=[32])] = 8
    """The longest answer that is taken, in MiB."""

    sessions: Annotated[int, AT_MOST_DEFAULT, Values(ge=1, le=1000, examples=[4])] = 16
    """With `session: per_client`, clients that have a session at the same time; a further one is
    refused."""
    calls_per_minute: Annotated[Rate | None, UNTRUSTED, Values(examples=[60])] = None
    """Calls in a minute, on average; a further one is refused with the time after which it is
    possible. By default any number."""
    burst: Annotated[Rate | None, UNTRUSTED, Values(examples=[10])] = None
    """With `callsPerMinute`, calls at once after a pause; by default a sixth of it."""
    max_result_tokens: Annotated[ResultTokens | None, RESULT_TOKENS, Values(examples=[50_000])] = (
        None
    )
    """As `server.maxResultTokens`, for the results of this server."""

    @property
    def answer_bytes(self) -> int:
        return self.answer_mib * 1024 * 1024


REGISTRY = "registry"
"""The source of servers that are in no file."""


class ServerSettings(SettingsSection, frozen=True):
    """One MCP server: a `command` to start, or a `url` to reach."""

    name: Annotated[ServerName, INTERNAL]
    transport: StdioTransport | RemoteTransport | None = None
    """None where a remembered one could hold a secret, and in an entry that has a `problem`."""
    description: Annotated[
        str, UNTRUSTED, Values(examples=["Issues and pull requests of our repositories"])
    ] = ""
    """What the server is for; it is searched and shown to agents."""
    context: Annotated[
        str, UNTRUSTED, Values(examples=["Our production shop, for customers in the EU"])
    ] = ""
    """What sets the server apart for its owner: its tools are found by these words and by their
    meaning, and no agent reads them."""
    enabled: Annotated[bool, UNTRUSTED, Values(examples=[False])] = True
    """Whether the server is used at all."""
    prefix: Annotated[str, UNTRUSTED, Values(examples=["work_"])] = ""
    """Put before the name of each of its tools."""
    tags: Annotated[Words, UNTRUSTED, Values(examples=[["production"]])] = ()
    """Tags of the server, for `serverRules` and for people."""
    timeouts: Annotated[Timeouts, Values(examples=[{"connect": 10, "call": 300}])] = Timeouts()
    """Seconds that each step may take."""
    limits: Annotated[Limits, Values(examples=[{"calls": 1, "answerMib": 32}])] = Limits()
    """The most that the server may have of anything."""
    session: Annotated[
        Literal["shared", "per_client"], UNTRUSTED, Values(examples=["per_client"])
    ] = "shared"
    """`shared` holds one connection for all clients, `per_client` one for each."""
    visible_to: Annotated[
        Principals, UNTRUSTED, Values(examples=[["team:payments", "user:anna"]])
    ] = ()
    """The teams and users for whom alone the server is, by the tokens that they have; to all others
    it is unknown. By default it is for all."""
    roots: Annotated[tuple[Root, ...] | None, Values(examples=[["~/project"]])] = None
    """As `server.roots`, for this server; with `[]` it is given none, and no client is asked."""
    # None follows the settings' own.
    trust: Annotated[TrustPolicy | None, NOT_OPEN, Values(examples=["quarantine"])] = None
    """As `trust` of the whole file, for this server's tools alone."""

    replaces: Annotated[str, UNTRUSTED, Values(examples=["cursor"])] = ""
    """The source whose server of this name is not used, since this entry was made of it; written
    when a server of a client's file is changed, switched or imported."""
    is_untrusted_origin: Annotated[bool, INTERNAL] = False
    """Another person may have written its entry: it is not started before the owner approves it."""
    bound_to: Annotated[str, INTERNAL] = ""
    """The digest of the other parts of that file that an approval covers; may be empty."""
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
    """Unix time in seconds at which it was registered; None if it is in a file."""
    updated_at: Annotated[float | None, INTERNAL] = None
    """Unix time in seconds of the last change of its registered entry or package."""
    problem: Annotated[Diagnostic | None, INTERNAL] = None
    """What is wrong with the entry; such a server is listed, and never connected."""

    prompts: Annotated[Mapping[str, str], INTERNAL] = field(default_factory=dict)
    """The prompts of its client, by the names of the variables that hold the values here."""

    remembered_sandbox: Annotated[SandboxSettings | None, INTERNAL] = None
    """The sandbox of a remembered server without a transport; only shown, never applied."""

    @property
    def sandbox(self) -> SandboxSettings:
        """The sandbox of its program."""
        stdio = self.transport if isinstance(self.transport, StdioTransport) else None
        return (stdio.sandbox if stdio else self.remembered_sandbox) or NO_SANDBOX

    @property
    def may_run_commands(self) -> bool:
        """True if `${command:…}` is run: in the owner's own file, or in a program's settings."""
        return not self.is_untrusted_origin and self.source == OWN_SOURCE

    @property
    def is_sourced(self) -> bool:
        """True if it is in another client's file."""
        return self.source not in (OWN_SOURCE, REGISTRY)

    @property
    def is_registered(self) -> bool:
        """True if it is in the registry, and in no file."""
        return self.source == REGISTRY

    @property
    def secret_owner(self) -> str:
        """The only SERVER in `${secret:SERVER/NAME}` that its entry may refer to."""
        return self.renamed_from or self.name if self.is_registered else self.name


class Source(SettingsSection, frozen=True):
    """A client's file whose servers are used as well."""

    type: Annotated[str, UNTRUSTED, Values(examples=["cursor"])]
    """Which client's file it is, or `custom` for any list of servers."""
    path: Annotated[Word | None, UNTRUSTED, Values(examples=["~/servers.json"])] = None
    """Where the file is, if not where the client keeps it; a relative path starts at the folder of
    this file."""


class CacheSettings(SettingsSection, frozen=True):
    """Whether the registry is used, and how long listings stay valid."""

    enabled: Annotated[bool, Values(examples=[False])] = True
    """Whether anything is stored between two runs."""
    ttl: Annotated[float, UNTRUSTED, Values(gt=0, examples=[7200])] = 3600.0
    """Seconds after which the tools of a server are listed again."""


class RegistrySettings(SettingsSection, frozen=True):
    """A PostgreSQL database that several gateways share; the file of the data folder without."""

    # Closed to files of untrusted origin: the decisions in the database count.

    # Without a literal secret; empty for the file of the data folder.
    url: Annotated[str, Values(examples=["${DATABASE_URL}"])] = ""
    """The address of a PostgreSQL database, with libpq's parameters for TLS and more. Refer to its
    password, do not write it."""

    max_connections: Annotated[int, Values(ge=1, le=100, examples=[8])] = 4
    """The most connections of this process to the database, beside one that listens."""
    timeout: Annotated[float, Values(gt=0, le=300, examples=[10])] = 5.0
    """Seconds that one operation of the database may take."""


class Weights(SettingsSection, frozen=True):
    """How much each part of a match counts; each from 0 to 1."""

    exact: Annotated[Weight, UNTRUSTED, Values(examples=[1.0])] = 1.0
    """The query is the tool's name, in whatever spelling."""
    partial: Annotated[Weight, UNTRUSTED, Values(examples=[0.6])] = 0.5
    """The query's words are in its name or its description."""
    tag: Annotated[Weight, UNTRUSTED, Values(examples=[0.2])] = 0.3
    """The query names tags of the tool."""


class EmbeddingsSettings(SettingsSection, frozen=True):
    """A model that finds tools by meaning, beside the search by words."""

    provider: Annotated[
        Literal["none", "discovery", "static", "onnx", "openai", "http", "hash"],
        LOCAL,
        Values(examples=["discovery"]),
    ] = "none"
    """What computes the vectors: `discovery`, the model of the extra `model`, the word
    vectors that ship with the program (`static`), another model in a folder (`onnx`), OpenAI, a
    compatible address such as Ollama or TEI (`http`), nothing (`none`), or, for tests, a checksum
    of words (`hash`)."""
    model: Annotated[str, UNTRUSTED, Values(examples=["nomic-embed-text"])] = ""
    """The model's name there; of `openai` text-embedding-3-small if left out."""
    path: Annotated[str, Values(examples=["models/all-MiniLM-L6-v2"])] = ""
    """The folder with `model.onnx` and `tokenizer.json`; a relative path starts at the folder of
    this file."""
    url: Annotated[Template, Values(examples=["http://localhost:11434/v1"])] = ""
    """The address before `/embeddings`."""
    api_key: Annotated[Template, Values(examples=["${OPENAI_API_KEY}"])] = ""
    """The key for the address. Refer to it, do not write it."""
    dimensions: Annotated[int, UNTRUSTED, Values(ge=0, le=16_384, examples=[256])] = 0
    """How long vectors are asked for, where the model lets one choose; 0 leaves it to the model."""
    batch: Annotated[int, UNTRUSTED, Values(ge=1, le=2048, examples=[128])] = 32
    """How many texts are sent at once."""
    timeout: Annotated[float, UNTRUSTED, Values(gt=0, le=60, examples=[1])] = 0.3
    """Seconds that a search waits for the vector of its query; after that it answers by words
    alone."""

    @property
    def is_on(self) -> bool:
        return self.provider != "none"

    @property
    def is_remote(self) -> bool:
        """True if texts are sent to a URL."""
        return self.provider in ("openai", "http")

    @property
    def is_static(self) -> bool:
        """True if vectors are sums of word vectors, which rank worse than a sentence model."""
        return self.provider == "static"

    @property
    def is_english(self) -> bool:
        """True if the model reads only English."""
        return self.provider in ("discovery", "static")


class RerankerSettings(SettingsSection, frozen=True):
    """A model that orders the first ten tools of an answer, at an address."""

    url: Annotated[Template, Values(examples=["http://localhost:8000/v1"])] = ""
    """The address before `/rerank`, of Cohere, Jina, vLLM, llama.cpp, LiteLLM or another with the
    same API."""
    model: Annotated[str, Values(examples=["BAAI/bge-reranker-v2-m3"])] = ""
    """The model's name there."""
    api_key: Annotated[Template, Values(examples=["${JINA_API_KEY}"])] = ""
    """The key for the address. Refer to it, do not write it."""
    timeout: Annotated[float, UNTRUSTED, Values(gt=0, le=60, examples=[1])] = 0.3
    """Seconds that a search waits for the order at most; after that the first order is sent."""

    @property
    def is_on(self) -> bool:
        return bool(self.url)


class SearchSettings(SettingsSection, frozen=True):
    """How tools are searched for."""

    limit: Annotated[int, UNTRUSTED, Values(ge=1, le=1000, examples=[5])] = 10
    """The most tools in an answer, if the request names no limit."""
    weights: Annotated[Weights, Values(examples=[{"exact": 1.0, "partial": 0.6, "tag": 0.2}])] = (
        Weights()
    )
    """How much each part of a match counts."""
    max_tokens: Annotated[Tokens, UNTRUSTED, Values(examples=[400])] = 180
    """The most that an agent is answered to one query, in estimated tokens, if it does not ask for
    more."""
    min_confidence: Annotated[Weight, UNTRUSTED, Values(examples=[0.1])] = 0.15
    """An answer is that no tool fits if one of the first serves the query less probably than this,
    from 0 (never) to 1."""
    embeddings: Annotated[
        EmbeddingsSettings,
        Values(examples=[{"provider": "onnx", "path": "models/all-MiniLM-L6-v2"}]),
    ] = EmbeddingsSettings()
    """A model that finds tools by meaning, beside the search by words."""
    reranker: Annotated[
        RerankerSettings,
        Values(examples=[{"url": "http://localhost:8000/v1", "model": "reranker"}]),
    ] = RerankerSettings()
    """A model that orders the first ten tools of an answer, at an address."""
    synonyms: Annotated[
        tuple[tuple[str, ...], ...],
        UNTRUSTED,
        Values(examples=[[["ticket", "issue", "Vorgang"], ["PR", "pull request"]]]),
    ] = ()
    """Groups of words or phrases, in any language, that mean the same to you."""
    shipped_examples: Annotated[bool, UNTRUSTED, Values(examples=[False])] = True
    """Whether the typical requests that ship with the program help to find the tools of popular
    servers, which are recognised by their lists."""
    learn: Annotated[bool, UNTRUSTED, Values(examples=[True])] = False
    """Whether it is counted, on this machine only, which tools were found and then used, to put
    them before others that fit as well."""
    where: Annotated[SearchPlace, Values(examples=["database"])] = "memory"
    """Where the search index is: in the `memory` of each gateway, or in the `database` of
    `registry`, for catalogs of more than 200,000 tools."""

    @property
    def is_in_database(self) -> bool:
        return self.where == "database"


class EnrichSettings(SettingsSection, frozen=True):
    """The language model that writes typical requests, with `discovery tune enrich` alone."""

    url: Annotated[str, Values(examples=["http://localhost:11434/v1"])] = ""
    """The address before `/chat/completions`, of an endpoint that speaks OpenAI's protocol; https,
    or this machine."""
    model: Annotated[str, Values(examples=["llama3.1"])] = ""
    """The model's name there."""
    api_key: Annotated[Template, Values(examples=["${OPENAI_API_KEY}"])] = ""
    """The key for the address. Refer to it, do not write it."""
    languages: Annotated[tuple[str, ...], UNTRUSTED, Values(examples=[["de", "fr"]])] = ()
    """Codes of languages in which one more request is written for each tool, beside six in
    English."""
    concurrency: Annotated[int, AT_MOST_DEFAULT, Values(ge=1, le=32, examples=[1])] = 4
    """For how many tools the model is asked at the same time."""
    timeout: Annotated[float, UNTRUSTED, Values(gt=0, le=3600, examples=[300])] = 60.0
    """Seconds that the model has for an answer."""


class LogSettings(SettingsSection, frozen=True):
    """What is logged, and where to."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], UNTRUSTED, Values(examples=["debug"])
    ] = "info"
    """The least serious messages that are logged."""
    file: Annotated[Word | None, Values(examples=["~/discovery.log"])] = None
    """A file to write the log to as well."""
    stderr: Annotated[bool, UNTRUSTED, Values(examples=[False])] = True
    """Whether the log goes to the standard error stream."""
    calls: Annotated[
        Literal["off", "metadata", "redacted", "full"], Values(examples=["metadata"])
    ] = "redacted"
    """What `discovery logs` keeps of calls: nothing (`off`), all but arguments and results
    (`metadata`), these without secrets and up to 2 KB (`redacted`), or up to 64 KB and without
    known secrets only (`full`)."""
    keep_days: Annotated[float, AT_MOST_DEFAULT, Values(gt=0, le=3650, examples=[7])] = 30.0
    """Days after which an entry of `discovery logs` is deleted."""
    max_mib: Annotated[float, AT_MOST_DEFAULT, Values(ge=1, le=100_000, examples=[16])] = 64.0
    """The most MiB that `discovery logs` takes; then the oldest entries are deleted."""


class InputFile(SettingsSection, frozen=True):
    """A file that was read for the configuration; `digest` is None if it did not exist."""

    path: str
    digest: str | None


class Calibration(Struct, frozen=True):
    """Confidence that was fitted to the catalog of a configuration; the registry keeps it."""

    key: str
    """The ranking and the search settings that it was fitted with; see `calibration_key`."""
    first: tuple[float, ...]
    """The coefficients of the `FirstHitModel`."""
    slope: float
    """The factor of the log odds that one of the first hits fits."""
    offset: float
    """What is added to them then."""
    with_vectors: bool
    """Whether it is for answers that the vectors of a sentence model had a part in."""
    tools: int = 0
    """The number of tools that agents could use."""
    requests: int = 0
    """The number of requests that it was fitted with."""
    at: float = 0.0
    """Unix time in seconds."""


class Settings(SettingsSection, frozen=True, dict=True):
    """The configuration of `discovery`: servers, rules over their tools, and how to search."""

    # Empty for the path. Closed to files of untrusted origin, which could use another's decisions.
    name: Annotated[str, Values(examples=["work"])] = ""
    """What decisions (approvals, accepted tools) are kept under, so that they stay when the file is
    moved; with none they are kept for the path of the file."""

    enabled: Annotated[bool, UNTRUSTED, Values(examples=[False])] = True
    """Whether any tool is offered at all."""
    cache: Annotated[CacheSettings, Values(examples=[{"ttl": 7200}])] = CacheSettings()
    """Whether the registry is used, and how long listings stay valid."""
    registry: Annotated[RegistrySettings, Values(examples=[{"url": "${DATABASE_URL}"}])] = (
        RegistrySettings()
    )
    """Where the catalog and the owner's decisions are kept: `sqlite`, the file of the data folder,
    or a PostgreSQL database that several gateways share."""
    sources: Annotated[
        tuple[Source, ...],
        UNTRUSTED,
        Values(examples=[[{"type": "cursor"}, {"type": "custom", "path": "~/servers.json"}]]),
    ] = ()
    """Files of MCP clients whose servers are used as well."""
    servers: Annotated[
        tuple[ServerSettings, ...],
        UNTRUSTED,
        Values(examples=[{"time": {"command": "uvx", "args": ["mcp-server-time"]}}]),
    ] = ()
    """The MCP servers: a mapping from names, or a list in which each has a `name`."""
    server_rules: Annotated[
        tuple[Rule, ...], UNTRUSTED, Values(examples=[[{"pattern": "*-staging", "enabled": False}]])
    ] = ()
    """Rules that enable, disable and tag servers, tried in order."""
    tool_rules: Annotated[
        tuple[Rule, ...],
        UNTRUSTED,
        Values(examples=[[{"pattern": "*delete*", "enabled": False, "tags": ["dangerous"]}]]),
    ] = ()
    """Rules that enable, disable and tag tools, tried in order."""
    resource_rules: Annotated[
        tuple[Rule, ...],
        UNTRUSTED,
        Values(examples=[[{"pattern": "file:///etc/*", "enabled": False}]]),
    ] = ()
    """Rules that enable, disable and tag resources and their templates."""
    prompt_rules: Annotated[
        tuple[Rule, ...], UNTRUSTED, Values(examples=[[{"pattern": "*deploy*", "enabled": False}]])
    ] = ()
    """Rules that enable, disable and tag prompts."""
    # The approval of each server of an untrusted file is bound to all of them.
    overrides: Annotated[
        tuple[Override, ...],
        UNTRUSTED,
        Values(examples=[[{"pattern": "github:create_issue", "arguments": {"owner": "acme"}}]]),
    ] = ()
    """Descriptions, names, tags and pinned arguments of tools, instead of their servers' own."""

    search: Annotated[SearchSettings, Values(examples=[{"limit": 5}])] = SearchSettings()
    """How tools are searched for."""
    enrich: Annotated[
        EnrichSettings, Values(examples=[{"url": "http://localhost:11434/v1", "model": "llama3.1"}])
    ] = EnrichSettings()
    """The language model that writes typical requests, with `discovery tune enrich` alone."""
    marketplace: Annotated[
        MarketplaceSettings, Values(examples=[{"sources": [{"type": "mcp-registry"}]}])
    ] = MarketplaceSettings()
    """Where `discovery marketplace` looks for servers of others."""
    webhooks: Annotated[
        tuple[WebhookSettings, ...],
        Values(
            examples=[
                {"ops": {"url": "https://hooks.example.com/d", "secret": "${secret:HOOK_KEY}"}}
            ]
        ),
    ] = ()
    """Addresses to which events of servers and tools are sent, by names."""
    server: Annotated[ServeSettings, Values(examples=[{"maxConnecting": 4}])] = ServeSettings()
    """How upstream servers are held, and how `discovery serve` presents itself."""
    views: Annotated[
        tuple[ViewSettings, ...],
        UNTRUSTED,
        Values(examples=[{"readers": {"servers": ["github"], "tags": ["read"]}}]),
    ] = ()
    """What some clients see, by names: less than the rest of this file shows."""
    view: Annotated[str, INTERNAL] = ""
    """The view that these are the settings of; empty for the configuration itself."""
    log: Annotated[LogSettings, Values(examples=[{"level": "debug"}])] = LogSettings()
    """What is logged, and where to."""
    trust: Annotated[TrustPolicy, NOT_OPEN, Values(examples=["quarantine"])] = "on_first_use"
    """Tools that are new are used (`on_first_use`) or wait for review (`quarantine`); either way a
    change waits for review, unless with `open`."""
    path: Annotated[str | None, INTERNAL] = None
    """The `discovery.yaml` in use; None with built-in defaults."""
    is_untrusted_origin: Annotated[bool, INTERNAL] = False
    """True if the file was found in the working directory, not named, or others may write it."""
    frozen: Annotated[bool, INTERNAL] = False
    """True if only what the lock file pins may be used."""
    inputs: Annotated[tuple[InputFile, ...], INTERNAL] = ()
    registered: Annotated[str, INTERNAL] = ""
    """The mark of the registered servers and switches that these settings take into account."""
    calibration: Annotated[Calibration | None, INTERNAL] = None
    """The confidence that the registry has for this configuration; None for the shipped one."""
    remembered: Annotated[Literal["", "whole", "in part"], INTERNAL] = ""
    """Whether these are stored settings; whole if servers can be started with them."""
    warnings: Annotated[tuple[Diagnostic, ...], INTERNAL] = ()
    """Warnings for the owner that stop nothing, for example a source that is missing."""

    @cached_property
    def by_name(self) -> Mapping[ServerName, ServerSettings]:
        """The servers by their names, in the order of the settings."""
        return {server.name: server for server in self.servers}

    @cached_property
    def contexts(self) -> Mapping[ServerName, str]:
        """The contexts of the servers that have one, by name."""
        return {server.name: server.context for server in self.servers if server.context}

    @cached_property
    def descriptions(self) -> Mapping[ServerName, str]:
        """The descriptions of the servers by name, with their contexts, as search reads them."""
        return {s.name: f"{s.description} {s.context}".strip() for s in self.servers}

    @cached_property
    def principals(self) -> frozenset[str]:
        """The teams and users that a server or a rule is reserved for."""
        return self._reserved_for - {NOBODY}

    @property
    def reserves(self) -> bool:
        """True if a server or a rule is reserved, even if it is unknown for whom."""
        return bool(self._reserved_for)

    @cached_property
    def _reserved_for(self) -> frozenset[str]:
        rules = (self.server_rules, self.tool_rules, self.resource_rules, self.prompt_rules)
        reserved = [server.visible_to for server in self.servers]
        reserved += [rule.visible_to for rule in chain.from_iterable(rules)]
        return frozenset(chain.from_iterable(reserved))

    @cached_property
    def result_limits(self) -> tuple[int, ...]:
        """All limits on the tokens of a result, ascending; 0, which means no limit, is left out."""
        of_servers = (server.limits.max_result_tokens for server in self.servers)
        of_tools = (override.max_result_tokens for override in self.overrides)
        limits = {self.server.max_result_tokens, *of_servers, *of_tools}
        return tuple(sorted(limit for limit in limits if limit))


def with_default_sandbox(settings: Settings) -> Settings:
    """Return the settings with the default sandbox for programs that have none of their own.

    The sandbox of an entry replaces the default as a whole.
    """
    if not settings.server.sandbox.is_on:
        return settings
    sandbox = _from_its_folder(settings.server.sandbox, settings.path)
    servers = tuple(_sandboxed(server, sandbox) for server in settings.servers)
    return replace(settings, servers=servers)


def _sandboxed(server: ServerSettings, sandbox: SandboxSettings) -> ServerSettings:
    transport = server.transport
    if not isinstance(transport, StdioTransport) or transport.sandbox is not None:
        return server
    return replace(server, transport=replace(transport, sandbox=sandbox))


def _from_its_folder(sandbox: SandboxSettings, file: str | None) -> SandboxSettings:
    """Return the sandbox with absolute paths, because servers of other files have other folders."""
    folder = Path(file).parent if file else Path()
    read, write = (
        tuple(path if path.startswith("~") else str(folder / path) for path in paths)
        for paths in (sandbox.read, sandbox.write)
    )
    return replace(sandbox, read=read, write=write)
