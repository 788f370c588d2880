"""A scope: the part of a view that some clients see. It hides tools, and shows none.

A scope is a filter over the snapshot, not a copy. Tools, verdicts, the index and the parts of
servers that it shows whole are shared; of the other parts it has a tuple of the entries that stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.catalog import Catalog, ServerPart
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from discovery_engine.rules.ruleset import ToolRules
    from discovery_engine.view.view import View

_ENABLED = Verdict()


class Scope(Struct, frozen=True):
    """Which tools are shown, of those that are visible without it."""

    rules: tuple[Rule, ...] = ()
    """Like `toolRules`: what they disable is not shown. What they enable is shown only if it is
    visible without the scope."""

    @classmethod
    def of_patterns(cls, patterns: Sequence[str]) -> Scope:
        """The tools that a list of patterns matches, as in a rule; all if there is none."""
        return cls((Rule(patterns=tuple(patterns), enabled=True),) if patterns else ())


class ShownView:
    """What a scope shows of the current view."""

    def __init__(self, scope: Scope, current: Callable[[], View]) -> None:
        self._current = current
        self._catalogs = ScopedCatalogs(scope)
        self._of: View | None = None
        self._shown: View | None = None

    def view(self) -> View:
        """The same view again, as long as the current one is the same."""
        current = self._current()
        if self._shown is None or current is not self._of:
            self._shown = current.within(self._catalogs.of(current.catalog))
            self._of = current
        return self._shown


class ScopedCatalogs:
    """The catalogs of a scope, each made of the one before: only changed servers are judged."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._whole: Catalog | None = None
        self._scoped = Catalog()
        self._parts: Mapping[ServerName, tuple[ServerPart, ServerPart]] = MappingProxyType({})

    def of(self, whole: Catalog) -> Catalog:
        """What the scope shows of a catalog."""
        if whole is not self._whole:
            known = self._parts
            self._parts = {
                name: seen
                if (seen := known.get(name)) and seen[0] is part
                else (part, self._scoped_part(part))
                for name, part in whole.parts.items()
            }
            parts = {name: scoped for name, (_, scoped) in self._parts.items()}
            self._scoped = Catalog(whole.revision, MappingProxyType(parts))
            self._whole = whole
        return self._scoped

    def _scoped_part(self, part: ServerPart) -> ServerPart:
        if not self.scope.rules or not part.entries:
            return part
        verdicts = self._rules.verdicts([entry.tool for entry in part.entries], _ENABLED)
        entries = tuple(
            entry for entry, verdict in zip(part.entries, verdicts, strict=True) if verdict.enabled
        )
        return part if len(entries) == len(part.entries) else replace(part, entries=entries)

    @cached_property
    def _rules(self) -> ToolRules:
        # Compiling patterns loads a library that a remembered catalog is read without.
        from discovery_engine.rules.ruleset import ToolRules  # noqa: PLC0415

        return ToolRules(self.scope.rules)
