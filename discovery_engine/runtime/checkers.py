"""Compiled argument checkers, kept for the tools that were called lately."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from cachetools import LRUCache

from discovery_engine.tools.model import Tool, ToolKey

if TYPE_CHECKING:
    from discovery_engine.tools.arguments import Checker

_MOST = 2_000  # checkers: some megabytes

_Key: TypeAlias = tuple[ToolKey, str, frozenset[str]]


class CheckerCache:
    """Not for several threads at once."""

    def __init__(self, *, maxsize: int = _MOST) -> None:
        self._checkers: LRUCache[_Key, Checker] = LRUCache(maxsize)

    def get(self, tool: Tool) -> Checker:
        """The checker of a tool; another definition or other pinned arguments need another one."""
        # The definition itself, not its fingerprint: equal for equal fingerprints, and not hashed
        # for each call. Compiling ten string properties takes 24 us, a check of them 1 us.
        key = (tool.key, tool.source, frozenset(tool.overridden.pinned))
        if (checker := self._checkers.get(key)) is None:
            # It loads the library of JSON Schema: 4 MB that a gateway without calls does not need.
            from discovery_engine.tools.arguments import Checker  # noqa: PLC0415

            checker = self._checkers[key] = Checker(tool)
        return checker
