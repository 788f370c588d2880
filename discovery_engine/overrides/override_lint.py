"""Overrides that do nothing: found by what the tools of a catalog say of them.

A finding is advice, as one about a rule is: the tool may be one that is not known yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from discovery_engine.errors import Origin
from discovery_engine.overrides.override import Override
from discovery_engine.tools.model import Tool


class OverrideFinding(Struct, frozen=True):
    kind: Literal["matches nothing"]
    override: int
    """The index of the entry that has no effect."""
    origin: Origin
    message: str
    hint: str


def findings(entries: Sequence[Override], tools: Iterable[Tool]) -> tuple[OverrideFinding, ...]:
    """At most one finding for each of `entries`, in their order.

    `tools` are all that are known, with these entries applied; without any nothing is found.
    """
    known = list(tools)
    effective = {index for tool in known for index in tool.overridden.by}
    return tuple(_unmatched(entries, effective)) if known else ()


def _unmatched(entries: Sequence[Override], effective: set[int]) -> Iterator[OverrideFinding]:
    for index, entry in enumerate(entries):
        if index not in effective:
            place = f" ({entry.origin})" if str(entry.origin) else ""
            yield OverrideFinding(
                "matches nothing",
                index,
                entry.origin,
                f"override {index + 1}{place} matches no tool of the catalog",
                "its pattern reads the name that the server gave; check how it is spelled, and"
                " whether its server has been listed",
            )
