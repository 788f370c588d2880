"""The result of reading a source, and the rules made from a client's lists of tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONValue
from discovery_engine.config.settings import InputFile, ServerSettings
from discovery_engine.config.sources.client_table import Scope
from discovery_engine.errors import Diagnostic, Origin
from discovery_engine.rules.rule import Rule
from discovery_engine.tools.model import ServerName


class SourceResult(Struct, frozen=True):
    servers: tuple[ServerSettings, ...] = ()
    """The servers, those of the strongest file first, in its order; names are unique."""
    tool_rules: tuple[Rule, ...] = ()
    """The rules, each for one server by name; none enables anything."""
    inputs: tuple[InputFile, ...] = ()
    """The files that were read or were missing."""
    warnings: tuple[Diagnostic, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    """The names of entries that were left out, with the reasons."""

    def renamed(self, names: Mapping[ServerName, ServerName]) -> SourceResult:
        """Return the result with new names for some servers, in the rules, too."""
        patterns = {literal_pattern(old): literal_pattern(new) for old, new in names.items()}
        servers = (
            replace(server, name=names[server.name], renamed_from=server.name)
            if server.name in names
            else server
            for server in self.servers
        )
        rules = (
            replace(rule, servers=tuple(patterns.get(pattern, pattern) for pattern in rule.servers))
            for rule in self.tool_rules
        )
        return replace(self, servers=tuple(servers), tool_rules=tuple(rules))

    def restrictions(self, names: Mapping[ServerName, ServerName]) -> tuple[Rule, ...]:
        """Return the rules that deny tools of these servers, with the servers' new names."""
        servers = {(literal_pattern(old),): (literal_pattern(new),) for old, new in names.items()}
        return tuple(
            replace(rule, servers=servers[rule.servers])
            for rule in self.tool_rules
            if rule.enabled is False and rule.servers in servers
        )

    def without(self, names: frozenset[ServerName]) -> SourceResult:
        """Return the result without some servers, their rules and their warnings."""
        patterns = {(literal_pattern(name),) for name in names}
        places = [
            (server.origin.file, f".{server.name}")
            for server in self.servers
            if server.name in names
        ]
        servers = tuple(server for server in self.servers if server.name not in names)
        rules = tuple(rule for rule in self.tool_rules if rule.servers not in patterns)
        warnings = tuple(
            warning
            for warning in self.warnings
            if not any(
                warning.origin.file == file and f".{warning.subject}".endswith(entry)
                for file, entry in places
            )
        )
        return replace(self, servers=servers, tool_rules=rules, warnings=warnings)


class ClientFile(Struct, frozen=True):
    """An existing file of a client, which has not been opened."""

    client: str
    """The client's id, as in `sources: [{type: …}]`."""
    label: str
    path: str
    scope: Scope


# Tool lists of clients become rules: hidden tools stay hidden, approved tools only get a tag. A
# client's allow list must not turn all rules into an allow list, so it becomes a deny rule: one for
# that server that disables every tool but the listed ones.

_SPECIAL = re.compile(r"[*?\[\]{}\\:!|]")
_SPECIAL_IN_GLOB = re.compile(r"[\[\]{}\\!]")
_EVERYTHING = "*"


def literal_pattern(name: str) -> str:
    """Return the pattern that matches `name` only.

    For a name with special characters it is a regular expression.
    """
    if not _SPECIAL.search(name) and not name.startswith("/"):
        return name
    body = re.sub(r"[^\w ]", lambda match: f"\\x{ord(match[0]):02x}", name, flags=re.ASCII)
    return rf"/\A{body}\Z/"


def allow_rule(server: str, names: Sequence[str], origin: Origin) -> Rule | None:
    """Return the rule that leaves only `names` of a server's tools; None if `*` is in them."""
    if _EVERYTHING in names:
        return None
    patterns = tuple(f"!{literal_pattern(name)}" for name in names)
    return Rule(patterns, (literal_pattern(server),), enabled=False, origin=origin)


def deny_rule(server: str, names: Sequence[str], origin: Origin) -> Rule | None:
    """Return the rule that disables `names` of a server's tools; None without names."""
    if not names:
        return None
    return Rule(_patterns(names), (literal_pattern(server),), enabled=False, origin=origin)


def approval_rule(server: str, names: Sequence[str], client: str, origin: Origin) -> Rule | None:
    """Return the rule that tags the tools that a client approves; it enables nothing."""
    if not names:
        return None
    tags = (f"approved-in:{client}",)
    return Rule(_patterns(names), (literal_pattern(server),), tags=tags, origin=origin)


def _patterns(names: Sequence[str]) -> tuple[str, ...]:
    """Return a pattern for each name; with `*`, none, which matches every tool."""
    return () if _EVERYTHING in names else tuple(map(literal_pattern, names))


def switch_rules(
    servers: Mapping[str, str], switches: Mapping[str, JSONValue], origin: Origin
) -> tuple[Rule, ...]:
    """Return rules for a map from globs over `server_tool` to on or off.

    A longer glob is more specific, and makes exceptions to shorter ones.

    Args:
        servers: Our names of servers, by the client's.
        switches: The states by globs: false, true, or a word such as `deny`.
        origin: The place of the map.
    """
    states = {glob: _is_off(value) for glob, value in switches.items() if _is_switch(value)}
    return tuple(
        Rule(patterns, (literal_pattern(server),), enabled=False, origin=origin)
        for known_as, server in servers.items()
        for glob, is_off in states.items()
        if is_off and (patterns := _off(known_as, glob, states))
    )


def _off(server: str, glob: str, states: Mapping[str, bool]) -> tuple[str, ...]:
    """Return the patterns of a server's tools that a glob disables; empty if it means others."""
    exceptions = (
        pattern for pattern, is_off in states.items() if not is_off and len(pattern) > len(glob)
    )
    excepted = (f"!{rest}" for exception in exceptions for rest in _rests(server, exception))
    rests = _rests(server, glob)
    return (*rests, *excepted) if rests else ()


def _is_switch(value: JSONValue) -> bool:
    return value in (True, False, "true", "false", "allow", "ask", "deny")


def _is_off(value: JSONValue) -> bool:
    return value in (False, "false", "deny")


def _rests(server: str, glob: str) -> list[str]:
    """Return the parts of a glob over `server_tool` that can match the tool."""
    rests = {glob}
    for letter in re.sub(r"[^A-Za-z0-9_-]", "_", server) + "_":
        waiting = {rest for rest in rests if rest.startswith("*")}
        tried = rests | {rest.lstrip("*") for rest in waiting}
        rests = waiting | {rest[1:] for rest in tried if rest.startswith((letter, "?"))}
    return sorted(_SPECIAL_IN_GLOB.sub(r"\\\g<0>", rest) for rest in rests if rest)


def tools_by_server(references: Iterable[JSONValue]) -> dict[str, list[str]]:
    """Return the tools by server of a list such as `["@git/status", "@time"]`; `*` for all."""
    tools: dict[str, list[str]] = {}
    for reference in references:
        if isinstance(reference, str) and reference.startswith("@"):
            server, _, tool = reference[1:].partition("/")
            tools.setdefault(server, []).append(tool or _EVERYTHING)
    return tools
