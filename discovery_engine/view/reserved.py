"""Reservations for other teams and users, as a scope that hides what they reserve.

A server or tool with `visibleTo` is shown to those who stand for one of its teams and users. Each
rule that matches can only take away, so that no order of rules, and no further rule, shows more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from discovery_engine.rules.rule import Rule
from discovery_engine.view.scope import Scope

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.tools.model import ServerName


def scope_for(settings: Settings, principals: frozenset[str]) -> Scope:
    """Return the scope of these teams and users; `Scope()` if it shows everything."""
    if not settings.reserves:
        return Scope()
    return Scope(
        hidden_servers=frozenset(_hidden_servers(settings, principals)),
        rules=_hiding(settings.tool_rules, principals),
        resource_rules=_hiding(settings.resource_rules, principals),
        prompt_rules=_hiding(settings.prompt_rules, principals),
    )


def _hidden_servers(settings: Settings, principals: frozenset[str]) -> Iterable[ServerName]:
    # Compiling patterns loads a library that a remembered catalog is read without.
    from discovery_engine.rules.ruleset import ServerRules  # noqa: PLC0415

    rules = ServerRules(_hiding(settings.server_rules, principals))

    def is_hidden(server: ServerSettings) -> bool:
        # Of an entry that cannot be used it is not known what it says about visibility.
        if server.problem or not _admits(server.visible_to, principals):
            return True
        return not rules.verdict(server.name, server.tags, enabled=True).enabled

    return (server.name for server in settings.servers if is_hidden(server))


def _hiding(rules: Iterable[Rule], principals: frozenset[str]) -> tuple[Rule, ...]:
    """Rules that disable what others are reserved for."""
    return tuple(
        Rule(rule.patterns, rule.servers, rule.annotations, rule.has_tags, enabled=False)
        for rule in rules
        if not _admits(rule.visible_to, principals)
    )


def _admits(visible_to: tuple[str, ...], principals: frozenset[str]) -> bool:
    return not visible_to or not principals.isdisjoint(visible_to)
