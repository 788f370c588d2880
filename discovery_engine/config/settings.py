"""The configuration as the rest of the engine sees it: checked, frozen, without positions.

`config.model` says what an owner may write; `config.loading` turns that into these values. They
need no parser and no pydantic, so that a stored configuration loads in microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Literal, TypeAlias

from msgspec import Struct, field

from discovery_engine.errors import Origin, Problem
from discovery_engine.overrides.override import Override
from discovery_engine.rules.rule import Rule
from discovery_engine.tools.model import ServerName

TrustPolicy: TypeAlias = Literal["open", "on_first_use", "quarantine"]
"""What becomes of a tool that nobody has accepted: used unwatched, used from now on, held back."""


class StdioTransport(Struct, frozen=True):
    """A program to start. Values may hold `${references}`, resolved when it is started."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None


class RemoteTransport(Struct, frozen=True):
    """An address to connect to. Values may hold `${references}`, resolved when it is reached."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["auto", "http", "sse"] = "auto"
    """`auto` tries streamable HTTP first and falls back to SSE."""


USUAL_CONNECT = 30.0  # seconds


class Timeouts(Struct, frozen=True):
    """Seconds that each step may take."""

    connect: float | None = None
    """None is the usual time, and longer for the first start of a program."""
    list: float = 30.0
    call: float = 60.0

    @property
    def reach(self) -> float:
        """Seconds until an address must be connected."""
        return self.connect or USUAL_CONNECT


class Limits(Struct, frozen=True):
    """The most that one server may have of anything."""

    calls: int = 16
    """Calls under way at the same time."""
    queue: int = 64
    """Calls that wait for one of these to end."""
    answer_mib: int = 8
    """The longest message, in MiB; a tool result of this size is already unusable to an agent."""
    sessions: int = 16
    """Sessions at the same time, where each client has its own: as many programs."""

    @property
    def answer_bytes(self) -> int:
        return self.answer_mib * 1024 * 1024


class ServerSettings(Struct, frozen=True):
    name: ServerName
    transport: StdioTransport | RemoteTransport | None
    """None in a remembered configuration, and in an entry that has a `problem`."""
    description: str = ""
    enabled: bool = True
    prefix: str = ""
    """Put before each of the server's tool names, and taken off again before a call."""
    tags: tuple[str, ...] = ()
    timeouts: Timeouts = Timeouts()
    limits: Limits = Limits()
    session: Literal["shared", "per_client"] = "shared"
    trust: TrustPolicy | None = None
    """None follows the settings' own."""
    is_untrusted_origin: bool = False
    """It stands in a file that nobody named: nothing is started before its owner approved it."""
    bound_to: str = ""
    """The digest of what else of that file an approval is bound to; may be empty."""
    origin: Origin = Origin("")
    source: str = "discovery.yaml"
    """The id of the source that it came from, for instance `cursor`."""
    problem: Problem | None = None
    """What is wrong with the entry; such a server is listed, and never connected."""


class Source(Struct, frozen=True):
    """A client's file, or any other list of servers, to be read along with `discovery.yaml`."""

    type: str
    path: str | None = None


class CacheSettings(Struct, frozen=True):
    enabled: bool = True
    ttl: float = 3600.0
    """Seconds after which a server's list of tools is asked for again."""


class Weights(Struct, frozen=True):
    exact: float = 1.0
    partial: float = 0.5
    tag: float = 0.3


class EmbeddingsSettings(Struct, frozen=True):
    """Who makes vectors of texts; `url` and `api_key` may hold `${references}`."""

    provider: Literal["none", "onnx", "openai", "http", "hash"] = "none"
    model: str = ""
    path: str = ""
    url: str = ""
    api_key: str = ""
    dimensions: int = 0
    """How long vectors are asked for; 0 leaves it to the model."""
    batch: int = 32
    timeout: float = 0.3
    """Seconds that a search waits for the vector of its query."""

    @property
    def is_on(self) -> bool:
        return self.provider != "none"


class SearchSettings(Struct, frozen=True):
    limit: int = 10
    weights: Weights = Weights()
    max_tokens: int = 180
    """The most that the answer to one query may take, in estimated tokens."""
    min_confidence: float = 0.15
    """The least probability of the best tool's being right at which it is a match."""
    embeddings: EmbeddingsSettings = EmbeddingsSettings()
    synonyms: tuple[tuple[str, ...], ...] = ()
    """Groups of words or phrases, in any language, that mean the same."""
    learn: bool = False
    """Whether tools that were found and then used come before others that fit as well."""


class ServeSettings(Struct, frozen=True):
    """How upstreams are held and how `discovery serve` presents itself."""

    max_connecting: int = 8
    idle_timeout: float = 300.0
    """Seconds without a call after which an upstream's session is closed."""
    instructions_tokens: int = 300
    """The most that the instructions for the agent may take, in estimated tokens."""
    list_tokens: int = 1200
    """The same for a list of tools or of servers."""
    details_tokens: int = 1000
    """The same for the details of a tool."""
    max_sessions: int = 256
    """Clients that have a session over HTTP at the same time."""
    max_own_sessions: int = 64
    """Sessions of all servers with `session: per_client`."""


class LogSettings(Struct, frozen=True):
    level: Literal["debug", "info", "warning", "error"] = "info"
    file: str | None = None
    stderr: bool = True


class InputFile(Struct, frozen=True):
    """A file that was read for the configuration; `digest` is None if it did not exist."""

    path: str
    digest: str | None


class Settings(Struct, frozen=True, dict=True):
    """The configuration as it is in force: checked, with its servers and those of its sources."""

    enabled: bool = True
    servers: tuple[ServerSettings, ...] = ()
    server_rules: tuple[Rule, ...] = ()
    tool_rules: tuple[Rule, ...] = ()
    overrides: tuple[Override, ...] = ()
    sources: tuple[Source, ...] = ()
    cache: CacheSettings = CacheSettings()
    search: SearchSettings = SearchSettings()
    server: ServeSettings = ServeSettings()
    log: LogSettings = LogSettings()
    trust: TrustPolicy = "on_first_use"
    path: str | None = None
    """The `discovery.yaml` in use; None with built-in defaults."""
    is_untrusted_origin: bool = False
    """That file was found in the working directory: nobody named it."""
    frozen: bool = False
    """Only what the lock file pins may be used."""
    inputs: tuple[InputFile, ...] = ()
    warnings: tuple[Problem, ...] = ()
    """What the owner should know, though it stops nothing (a source that is not there, say)."""

    @cached_property
    def by_name(self) -> Mapping[ServerName, ServerSettings]:
        """The servers by their names, in the order of the settings."""
        return {server.name: server for server in self.servers}
