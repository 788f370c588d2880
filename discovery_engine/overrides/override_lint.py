"""Overrides without effect on the tools of a catalog.

A diagnostic is advice, as one about a rule is: the tool may be one that is not known yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from discovery_engine.diagnostics import Diagnostic
from discovery_engine.overrides.override import Override
from discovery_engine.tools.model import Tool


def lint_overrides(entries: Sequence[Override], tools: Iterable[Tool]) -> tuple[Diagnostic, ...]:
    """At most one diagnostic for each of `entries`, in their order.

    `tools` are all that are known, with these entries applied; without any nothing is found.
    """
    listed_tools = list(tools)
    effective = {index for tool in listed_tools for index in tool.overridden.by}
    return tuple(_unmatched(entries, effective)) if listed_tools else ()


def _unmatched(entries: Sequence[Override], effective: set[int]) -> Iterator[Diagnostic]:
    for index, entry in enumerate(entries):
        if index not in effective:
            place = f" ({entry.origin})" if str(entry.origin) else ""
            yield Diagnostic(
                "OVERRIDE_UNMATCHED",
                f"override {index + 1}{place} matches no tool of the catalog",
                "its pattern reads the name that the server gave; check how it is spelled, and"
                " whether its server has been listed",
                f"overrides.{index}",
                entry.origin,
            )
