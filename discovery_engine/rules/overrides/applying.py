"""Applies overrides: the owner's names, descriptions, tags and pinned arguments of tools.

Patterns of entries are matched against the name that the server gave a tool, never against a name
from another entry, so applying entries is idempotent. If several entries match, the last one wins
for each field, while tags and examples add up. If a pattern times out, an entry that pins arguments
counts as a match and any other does not: an agent must not choose what the owner wanted to pin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

from msgspec.structs import replace

from discovery_engine.errors import Diagnostic
from discovery_engine.rules.overrides.override import Override
from discovery_engine.rules.patterns import DEFAULT_LIMIT, Positions, TimeLimit
from discovery_engine.rules.rule import Rule
from discovery_engine.rules.ruleset import PatternMatcher, ToolBatch, ToolCondition
from discovery_engine.tools.model import NO_OVERRIDE, AppliedOverride, Tool
from discovery_engine.tools.schemas import may_take

T = TypeVar("T")


class Overrides:
    """Applies entries to tools, those of one server at a time."""

    def __init__(self, entries: Sequence[Override], *, limit: TimeLimit = DEFAULT_LIMIT) -> None:
        """Compile the entries.

        Raises:
            PatternError: If a pattern is invalid or too large.
        """
        self._entries = tuple(entries)
        self._conditions = [
            ToolCondition.of(Rule(patterns=entry.patterns, servers=entry.servers))
            for entry in entries
        ]
        self._limit = limit
        self._problems: dict[tuple[int, str], Diagnostic] = {}

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """The problems found so far, each once."""
        return tuple(self._problems.values())

    def applied(self, tools: Sequence[Tool]) -> list[Tool]:
        """Return the tools of one server, in the same order, with the overrides applied."""
        matching: list[list[int]] = [[] for _ in tools]
        for index, positions in enumerate(self._matches(tools)):
            for position in positions:
                matching[position].append(index)
        applied = [self._joined(indices) for indices in matching]
        taken = _with_a_taken_name(tools, applied)
        checked = (
            self._checked(tool, override, has_taken_name=position in taken)
            for position, (tool, override) in enumerate(zip(tools, applied, strict=True))
        )
        return [
            tool if tool.overridden == overridden else replace(tool, overridden=overridden)
            for tool, overridden in zip(tools, checked, strict=True)
        ]

    def _matches(self, tools: Sequence[Tool]) -> Iterator[Positions]:
        matcher = PatternMatcher(self._limit)
        batch = ToolBatch(tools, [tool.given_name for tool in tools], matcher)
        for index, condition in enumerate(self._conditions):
            selection = condition.select(batch)
            for pattern, name in matcher.cut_off:
                message = f"pattern {pattern.text!r} was too slow on {name!r} and cut off"
                self._note("OVERRIDE_PATTERN_SLOW", index, "pattern", message)
            matcher.cut_off.clear()
            yield (
                selection.hits | selection.slow
                if self._entries[index].arguments
                else selection.hits
            )

    def _joined(self, by: Sequence[int]) -> AppliedOverride:
        """Merge the entries with the indices `by` into one override."""
        if not by:
            return NO_OVERRIDE
        entries = [self._entries[index] for index in by]
        return AppliedOverride(
            name=_last(entry.name for entry in entries),
            description=_last(entry.description for entry in entries),
            tags=_united(entry.tags for entry in entries),
            examples=_united(entry.examples for entry in entries),
            pinned={name: index for index in by for name in self._entries[index].arguments},
            by=tuple(by),
        )

    def _checked(
        self, tool: Tool, applied: AppliedOverride, *, has_taken_name: bool
    ) -> AppliedOverride:
        """Return the override with its problems, and without a name that is already taken."""
        problems = []
        if has_taken_name:
            problems.append(
                f"it cannot be called {applied.name!r}, which another tool of {tool.server} is"
            )
            index = max(index for index in applied.by if self._entries[index].name)
            message = f"{tool.given_name!r}: {problems[-1]}"
            self._note("OVERRIDE_NAME_TAKEN", index, "name", message)
        for name, index in applied.pinned.items():
            if not may_take(tool.upstream_schema, name):
                problems.append(f"it does not take {name!r}, which is pinned")
                message = f"{tool.given_name!r}: {problems[-1]}"
                self._note("OVERRIDE_ARGUMENT_UNKNOWN", index, f"arguments.{name}", message)
        if not problems:
            return applied
        return replace(
            applied, name=None if has_taken_name else applied.name, problems=tuple(problems)
        )

    def _note(self, code: str, index: int, field: str, message: str) -> None:
        path, origin = f"overrides.{index}.{field}", self._entries[index].origin
        problem = Diagnostic(code, message, subject=path, origin=origin)
        self._problems.setdefault((index, message), problem)


def _with_a_taken_name(tools: Sequence[Tool], applied: Sequence[AppliedOverride]) -> set[int]:
    """Return the positions of tools whose new name collides with another one.

    These keep the name that their server gave them. If two tools would get the same name, both
    keep theirs, because the order of a server's list means nothing.
    """
    positions: set[int] = set()
    while any(override.name for override in applied):
        names = [
            (None if position in positions else override.name) or tool.given_name
            for position, (tool, override) in enumerate(zip(tools, applied, strict=True))
        ]
        counts = Counter(names)
        taken = {
            position
            for position, override in enumerate(applied)
            if position not in positions and override.name and counts[names[position]] > 1
        }
        if not taken:
            break
        positions |= taken
    return positions


def _united(values: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(values)))


def _last(values: Iterable[T | None]) -> T | None:
    candidates = [value for value in values if value is not None]
    return candidates[-1] if candidates else None
