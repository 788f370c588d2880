"""The sections `server` and `views` as the rest of the engine sees them: what clients are shown."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from discovery_engine.config.sandbox_settings import NO_SANDBOX, SandboxSettings
from discovery_engine.config.settings_section import (
    AT_MOST_DEFAULT,
    INTERNAL,
    MAX_RESULT_TOKENS,
    RESULT_TOKENS,
    UNTRUSTED,
    SettingsSection,
)
from discovery_engine.rules.rule import Rule
from discovery_engine.tools.client_names import Naming, Style

RegistryTool: TypeAlias = Literal["off", "read", "ask"]
ServeMode: TypeAlias = Literal["meta", "direct", "dynamic"]
"""What a client is shown: the meta-tools, the tools of the servers, or those that it searched."""


class PoolWeights(SettingsSection, frozen=True):
    """What keeps a tool in the pool of a client; see `discovery_server.tool_pool`."""

    score: Annotated[float, UNTRUSTED] = 0.7
    freshness: Annotated[float, UNTRUSTED] = 0.3


class TruncateSettings(SettingsSection, frozen=True):
    """How a long result is cut."""

    style: Annotated[Literal["boundary", "head_tail"], UNTRUSTED] = "boundary"
    """At a boundary, with a handle to read on; or plainly in the middle of each text."""
    characters: Annotated[int, UNTRUSTED] = 20_000
    """What `head_tail` leaves of the texts of a result."""


class ServeSettings(SettingsSection, frozen=True):
    """How upstreams are held and how `discovery serve` presents itself."""

    max_connecting: Annotated[int, UNTRUSTED] = 8
    idle_timeout: Annotated[float, UNTRUSTED] = 300.0
    """Seconds without a call after which an upstream's session is closed."""
    instructions_tokens: Annotated[int, UNTRUSTED] = 300
    """The most that the instructions for the agent may take, in estimated tokens."""
    list_tokens: Annotated[int, UNTRUSTED] = 1200
    """The same for a list of tools or of servers."""
    details_tokens: Annotated[int, UNTRUSTED] = 1000
    """The same for the details of a tool."""
    max_sessions: Annotated[int, AT_MOST_DEFAULT] = 256
    """Clients that have a session over HTTP at the same time."""
    max_own_sessions: Annotated[int, AT_MOST_DEFAULT] = 64
    """Sessions of all servers with `session: per_client`."""
    question_timeout: Annotated[float, AT_MOST_DEFAULT] = 120.0
    """Seconds that a question of a server to its user waits for its answer."""
    pass_env: tuple[str, ...] = ()
    """Names and patterns of variables that programs inherit besides the usual ones."""
    roots: tuple[str, ...] = ()
    """Folders, or `file://` addresses, that answer `roots/list` of every server."""
    mode: Annotated[ServeMode, UNTRUSTED] = "meta"
    expose: Annotated[tuple[str, ...], UNTRUSTED] = ()
    """Patterns of the tools that clients may use in the modes `direct` and `dynamic`; all if none
    is given."""
    pins: Annotated[tuple[str, ...], UNTRUSTED] = ()
    """Patterns of tools that are listed before all others, and never evicted."""
    pool_limit: Annotated[int, UNTRUSTED] = 15
    """The most tools of servers that a client is shown in its list of tools."""
    pool_weights: PoolWeights = PoolWeights()
    pool_fresh_for: Annotated[float, UNTRUSTED] = 1800.0
    """Seconds in which the freshness of a tool in the pool falls from 1 to 0."""
    max_tool_name_length: Annotated[int, UNTRUSTED] = 64
    tool_name_style: Annotated[Style, UNTRUSTED] = "standard"
    on_list_changed: tuple[str, ...] = ()
    """The program that is run when the pool of a client changed, and its arguments."""
    max_result_tokens: Annotated[int, RESULT_TOKENS] = MAX_RESULT_TOKENS
    """The most that an agent gets of one result, in estimated tokens; 0 for all of it."""
    truncate: TruncateSettings = TruncateSettings()
    steps: Annotated[bool, UNTRUSTED] = False
    """Whether agents have `execute_steps`."""
    registry_tool: RegistryTool = "off"
    """Whether agents have `registry`, to look for servers, or also to ask their owner for them."""
    sandbox: SandboxSettings = NO_SANDBOX
    """Of every program whose entry has none of its own."""

    @property
    def naming(self) -> Naming:
        """How tools are named towards clients."""
        return Naming(self.max_tool_name_length, self.tool_name_style)


class ViewLimits(SettingsSection, frozen=True):
    """How many calls all clients of a view make together; None for any number."""

    calls_per_minute: Annotated[int | None, UNTRUSTED] = None
    """On average."""
    burst: Annotated[int | None, UNTRUSTED] = None
    """At once, after a pause; None for what ten seconds allow."""


class ViewSettings(SettingsSection, frozen=True):
    """What some clients see: less than without the view. None is as without it."""

    name: Annotated[str, INTERNAL]
    rules: Annotated[tuple[Rule, ...], UNTRUSTED] = ()
    """Of tools."""
    resource_rules: Annotated[tuple[Rule, ...], UNTRUSTED] = ()
    """Of resource templates, too."""
    prompt_rules: Annotated[tuple[Rule, ...], UNTRUSTED] = ()
    servers: Annotated[tuple[str, ...], UNTRUSTED] = ()
    """Patterns of the only servers."""
    tags: Annotated[tuple[str, ...], UNTRUSTED] = ()
    """Of these a tool, a resource or a prompt must carry one."""
    mode: Annotated[ServeMode | None, UNTRUSTED] = None
    expose: Annotated[tuple[str, ...] | None, UNTRUSTED] = None
    pins: Annotated[tuple[str, ...] | None, UNTRUSTED] = None
    pool_limit: Annotated[int | None, UNTRUSTED] = None
    search_limit: Annotated[int | None, UNTRUSTED] = None
    search_tokens: Annotated[int | None, UNTRUSTED] = None
    min_confidence: Annotated[float | None, UNTRUSTED] = None
    instructions_tokens: Annotated[int | None, UNTRUSTED] = None
    list_tokens: Annotated[int | None, UNTRUSTED] = None
    details_tokens: Annotated[int | None, UNTRUSTED] = None
    limits: Annotated[ViewLimits, UNTRUSTED] = ViewLimits()
