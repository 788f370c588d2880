"""The settings of the sections `server`, `views` and `sandbox`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Literal, TypeAlias, get_type_hints

from discovery_engine.config.settings_section import (
    AT_MOST_DEFAULT,
    INTERNAL,
    MAX_RESULT_TOKENS,
    RESULT_TOKENS,
    UNTRUSTED,
    InPlaceOf,
    Patterns,
    Rate,
    ResultTokens,
    Root,
    Seconds,
    SettingsSection,
    Template,
    Tokens,
    Values,
    VariablePatterns,
    Weight,
    Words,
)
from discovery_engine.rules.rule import Rule
from discovery_engine.tools.client_names import Naming, Style

SandboxKind: TypeAlias = Literal["none", "auto", "bubblewrap", "docker", "landlock"]


class SandboxSettings(SettingsSection, frozen=True):
    """Confinement of a server's program: folders, network, memory, processes."""

    kind: Annotated[SandboxKind, UNTRUSTED, Values(examples=["bubblewrap"])]
    """The sandbox to use: `bubblewrap` or `landlock` on Linux, `docker` for a command that is
    `docker run`, `auto` for the first of them that the system has, or `none`."""
    read: Annotated[tuple[str, ...], UNTRUSTED, Values(examples=[["~/notes"]])] = ()
    """Files and folders that it may read, besides those of the system; `~` is the home folder, of
    which it sees nothing else. A relative path starts at the folder of this file."""
    write: Annotated[tuple[str, ...], UNTRUSTED, Values(examples=[["~/project"]])] = ()
    """Files and folders that it may read and write."""
    network: Annotated[bool, UNTRUSTED, Values(examples=[True])] = False
    """Whether it may use the network."""
    memory_mib: Annotated[int, UNTRUSTED, Values(ge=16, le=16 * 1024 * 1024, examples=[512])] = 2048
    """The most memory that each of its processes may use, in MiB."""
    processes: Annotated[int, UNTRUSTED, Values(ge=1, le=1_000_000, examples=[64])] = 512
    """The most processes and threads that it may have at the same time."""

    @property
    def is_on(self) -> bool:
        return self.kind != "none"

    def __str__(self) -> str:
        """Describe the sandbox for people: its kind, the access that it grants, and its limits."""
        if not self.is_on:
            return self.kind
        granted = [f"reads {path}" for path in self.read]
        granted += [f"writes {path}" for path in self.write]
        granted.append("network" if self.network else "no network")
        limits = f"{self.memory_mib} MiB, {self.processes} processes"
        return "; ".join((self.kind, *granted, limits))


NO_SANDBOX = SandboxSettings("none")


RegistryTool: TypeAlias = Literal["off", "read", "ask"]
ServeMode: TypeAlias = Literal["meta", "direct", "dynamic", "auto"]
"""The tools that a client sees: the meta-tools, those of the servers, those that it has found, or
what suits its host."""


class PoolWeights(SettingsSection, frozen=True):
    """Parts of the weight of a tool that a search found; each from 0 to 1."""

    # See `discovery_server.tool_pool`.

    score: Annotated[Weight, UNTRUSTED, Values(examples=[0.5])] = 0.7
    """The part for its relevance to the search that found it."""
    freshness: Annotated[Weight, UNTRUSTED, Values(examples=[0.5])] = 0.3
    """The part for how recently it was found or called."""


class TruncateSettings(SettingsSection, frozen=True):
    """The way in which long results are cut."""

    style: Annotated[
        Literal["boundary", "head_tail"], UNTRUSTED, Values(examples=["head_tail"])
    ] = "boundary"
    """`boundary` leaves valid text or JSON and a handle to read on; `head_tail` keeps the beginning
    and the last 50 characters, and no more can be read."""
    characters: Annotated[int, UNTRUSTED, Values(ge=1, examples=[10_000])] = 20_000
    """With `head_tail`, the most characters that the texts of a result keep."""


class ServeSettings(SettingsSection, frozen=True):
    """Settings of the connections to servers, and of `discovery serve`."""

    max_connecting: Annotated[int, UNTRUSTED, Values(ge=1, le=1000, examples=[4])] = 8
    """The most servers that are being connected at the same time."""
    idle_timeout: Annotated[float, UNTRUSTED, Values(gt=0, examples=[600])] = 300.0
    """Seconds without a call after which a connection is closed."""
    instructions_tokens: Annotated[int, UNTRUSTED, Values(ge=0, le=100_000, examples=[200])] = 300
    """The most that the instructions for the agent may take, in estimated tokens."""
    list_tokens: Annotated[Tokens, UNTRUSTED, Values(examples=[600])] = 1200
    """The most that a list of tools or servers may take, in estimated tokens, if the agent does not
    ask for more."""
    details_tokens: Annotated[Tokens, UNTRUSTED, Values(examples=[500])] = 1000
    """The most that the details of a tool may take, in estimated tokens, if the agent does not ask
    for more."""
    max_sessions: Annotated[int, AT_MOST_DEFAULT, Values(ge=1, le=10_000, examples=[32])] = 256
    """The most clients that have a session over HTTP at the same time; a further one ends
    the session that has been idle the longest."""
    max_own_sessions: Annotated[int, AT_MOST_DEFAULT, Values(ge=1, le=10_000, examples=[16])] = 64
    """The most sessions that servers with `session: per_client` have in all."""
    question_timeout: Annotated[Seconds, AT_MOST_DEFAULT, Values(examples=[300])] = 120.0
    """Seconds that a question of a server to its user waits for its answer; then it counts as
    declined."""
    pass_env: Annotated[VariablePatterns, Values(examples=[["SSH_AUTH_SOCK", "AWS_*"]])] = ()
    """Variables of discovery's own environment that the program of every server is given, by names
    or patterns, besides those that are harmless and those of certificates, proxies and package
    runners."""
    roots: Annotated[tuple[Root, ...], Values(examples=[["~/project", "file:///srv/data"]])] = ()
    """Folders, or addresses that begin with `file://`, that servers are given when they ask for
    their roots; the client is asked if there are none. A relative folder starts at the folder of
    this file, and `~` is the home folder."""
    mode: Annotated[ServeMode, UNTRUSTED, Values(examples=["direct"])] = "meta"
    """What a client is shown: the meta-tools (`meta`), the tools of the servers themselves
    (`direct`), one search, and the tools that it found (`dynamic`), or all tools if its host
    searches them itself, and else the meta-tools (`auto`)."""
    expose: Annotated[Patterns, UNTRUSTED, Values(examples=[["github:*", "!*delete*"]])] = ()
    """Which tools a client may use by name: patterns as in `toolRules`; all
    that are enabled if there is none."""
    pins: Annotated[Patterns, UNTRUSTED, Values(examples=[["github:create_issue"]])] = ()
    """Tools that are listed before all others, and that no search evicts: patterns as in
    `toolRules`."""
    pool_limit: Annotated[int, UNTRUSTED, Values(ge=1, le=10_000, examples=[30])] = 15
    """The most tools of servers in the list of a client, with `direct` and `dynamic`."""
    pool_weights: Annotated[PoolWeights, Values(examples=[{"score": 0.5, "freshness": 0.5}])] = (
        PoolWeights()
    )
    """The weight of each tool that a search found; the lightest are evicted first."""
    pool_fresh_for: Annotated[Seconds, UNTRUSTED, Values(examples=[600])] = 1800.0
    """Seconds in which the freshness of a found tool falls from 1 to 0."""
    max_tool_name_length: Annotated[int, UNTRUSTED, Values(ge=10, le=200, examples=[60])] = 64
    """The most characters in the name of a tool towards clients."""
    tool_name_style: Annotated[Style, UNTRUSTED, Values(examples=["gemini"])] = "standard"
    """The alphabet of these names: `a-z A-Z 0-9 _ -` (`standard`), or lower case without a dash,
    beginning with a letter (`gemini`)."""
    on_list_changed: Annotated[
        tuple[Template, ...], Values(examples=[["notify-send", "The tools have changed"]])
    ] = ()
    """A program and its arguments, run without a shell after the list of tools of a client has
    changed, for at most 60 seconds."""
    max_result_tokens: Annotated[ResultTokens, RESULT_TOKENS, Values(examples=[10_000])] = (
        MAX_RESULT_TOKENS
    )
    """The most that an agent gets of one result at once, in estimated tokens; it reads on with
    `read_result`. 0 passes every result whole."""
    truncate: Annotated[
        TruncateSettings, Values(examples=[{"style": "head_tail", "characters": 10_000}])
    ] = TruncateSettings()
    """How a longer result is cut."""
    steps: Annotated[bool, UNTRUSTED, Values(examples=[True])] = False
    """Whether agents have `execute_steps`, which makes several calls in one."""
    script: Annotated[bool, Values(examples=[True])] = False
    """Whether agents have `execute_script`, which runs Python that calls tools, without access to
    this machine; it needs the extra `script`."""
    registry_tool: Annotated[RegistryTool, Values(examples=["read"])] = "off"
    """Whether agents have the tool `registry`: `read` to look for servers, `ask` to ask you for
    them as well. No agent can install one."""
    sandbox: Annotated[
        SandboxSettings, Values(examples=["auto", {"kind": "auto", "network": True}])
    ] = NO_SANDBOX
    """The sandbox of every server's program, unless its entry has a `sandbox` of its own; a kind
    alone, or a kind with the access that it grants."""

    @property
    def naming(self) -> Naming:
        """The naming of tools towards clients."""
        return Naming(self.max_tool_name_length, self.tool_name_style)


class ViewLimits(SettingsSection, frozen=True):
    """Limits for the calls of all clients of a view together."""

    calls_per_minute: Annotated[Rate | None, UNTRUSTED, Values(examples=[60])] = None
    """Calls in a minute, on average; a further one is refused, with the time to wait. By default
    there is no limit."""
    burst: Annotated[Rate | None, UNTRUSTED, Values(examples=[10])] = None
    """With `callsPerMinute`, the most calls at once after a pause; by default a sixth of that."""


class ViewSettings(SettingsSection, frozen=True):
    """A part of the configuration for some clients; it never shows more than the whole."""

    # None means the value that applies without the view.

    name: Annotated[str, INTERNAL]
    rules: Annotated[
        tuple[Rule, ...], UNTRUSTED, Values(examples=[[{"pattern": "*delete*", "enabled": False}]])
    ] = ()
    """Rules over the visible tools, as `toolRules`. What they enable must also be enabled without
    the view."""
    resource_rules: Annotated[
        tuple[Rule, ...],
        UNTRUSTED,
        Values(examples=[[{"pattern": "file:///etc/*", "enabled": False}]]),
    ] = ()
    """The same over resources and templates, as `resourceRules`."""
    prompt_rules: Annotated[
        tuple[Rule, ...], UNTRUSTED, Values(examples=[[{"pattern": "*deploy*", "enabled": False}]])
    ] = ()
    """The same over prompts, as `promptRules`."""
    servers: Annotated[Patterns, UNTRUSTED, Values(examples=[["github", "jira-*"]])] = ()
    """The only servers of this view, as patterns; all if there is none."""
    tags: Annotated[Words, UNTRUSTED, Values(examples=[["read"]])] = ()
    """Only tools, resources and prompts that carry one of these tags; all if there is none."""
    mode: Annotated[ServeMode | None, UNTRUSTED, InPlaceOf("server", "mode")] = None
    expose: Annotated[Patterns | None, UNTRUSTED, InPlaceOf("server", "expose")] = None
    pins: Annotated[Patterns | None, UNTRUSTED, InPlaceOf("server", "pins")] = None
    pool_limit: Annotated[int | None, UNTRUSTED, InPlaceOf("server", "pool_limit")] = None
    search_limit: Annotated[int | None, UNTRUSTED, InPlaceOf("search", "limit")] = None
    search_tokens: Annotated[Tokens | None, UNTRUSTED, InPlaceOf("search", "max_tokens")] = None
    min_confidence: Annotated[Weight | None, UNTRUSTED, InPlaceOf("search", "min_confidence")] = (
        None
    )
    instructions_tokens: Annotated[
        int | None, UNTRUSTED, InPlaceOf("server", "instructions_tokens")
    ] = None
    list_tokens: Annotated[Tokens | None, UNTRUSTED, InPlaceOf("server", "list_tokens")] = None
    details_tokens: Annotated[Tokens | None, UNTRUSTED, InPlaceOf("server", "details_tokens")] = (
        None
    )
    limits: Annotated[
        ViewLimits, UNTRUSTED, Values(examples=[{"callsPerMinute": 60, "burst": 10}])
    ] = ViewLimits()
    """Limits for the calls of all clients of this view together."""


@cache
def replaced_settings() -> Mapping[str, InPlaceOf]:
    """The settings that a view replaces for its clients, by the names of its fields."""
    hints = get_type_hints(ViewSettings, include_extras=True).items()
    marks = ((name, mark) for name, hint in hints for mark in getattr(hint, "__metadata__", ()))
    return {name: mark for name, mark in marks if isinstance(mark, InPlaceOf)}
