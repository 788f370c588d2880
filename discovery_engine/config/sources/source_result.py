"""The result of reading a source."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.config.settings import InputFile, ServerSettings
from discovery_engine.config.sources.client_table import Scope
from discovery_engine.config.sources.tool_lists import literal_pattern
from discovery_engine.diagnostics import Diagnostic
from discovery_engine.rules.rule import Rule
from discovery_engine.tools.model import ServerName


class SourceResult(Struct, frozen=True):
    servers: tuple[ServerSettings, ...] = ()
    """Strongest file first, in the order of the file; no name comes twice."""
    tool_rules: tuple[Rule, ...] = ()
    """Each restricted to one server by name; none mentions `enabled: true`."""
    inputs: tuple[InputFile, ...] = ()
    """The files that were read, or do not exist."""
    warnings: tuple[Diagnostic, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    """Names of entries that were left alone, and why."""

    def renamed(self, names: Mapping[ServerName, ServerName]) -> SourceResult:
        """The same with new names for some servers, in the rules as well."""
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
        """Return the rules that deny tools of these servers, rewritten for their new names."""
        servers = {(literal_pattern(old),): (literal_pattern(new),) for old, new in names.items()}
        return tuple(
            replace(rule, servers=servers[rule.servers])
            for rule in self.tool_rules
            if rule.enabled is False and rule.servers in servers
        )

    def without(self, names: frozenset[ServerName]) -> SourceResult:
        """The same without some servers, the rules for them and the warnings about them."""
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
    """A client's file that is there; it has not been opened."""

    client: str
    """The word for it in `sources: [{type: …}]`."""
    label: str
    path: str
    scope: Scope
