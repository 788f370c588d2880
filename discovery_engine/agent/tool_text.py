"""Renders a tool at five levels of detail, among which `budget` chooses.

    github:create_issue                                                          NAME
    github:create_issue(title, …)                                                ARGUMENTS
    github:create_issue(title, labels?, …) - Create an issue [write]             LINE
    github:create_issue(title: string, labels?, state?) - Create an issue …      SIGNATURE
      state?: "open"|"closed" = "open" - Whether it is done                      SCHEMA

A name is never truncated, because calls need it; either all required arguments are named or none.
Line breaks in texts of servers are removed, so that they cannot forge another line.

The rendered variants are cached with their token costs, because many answers show the same tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from operator import itemgetter
from sys import getsizeof
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING

from cachetools import LRUCache, cached

from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine._util.text import cut, named, one_line
from discovery_engine.agent.budget import Item, Variant
from discovery_engine.catalog import Entry
from discovery_engine.tools.model import Parameter, Tool, ToolKey
from discovery_engine.tools.signature import choice_text, members_text, parameter_line, typed

if TYPE_CHECKING:
    from discovery_engine.search.ranking.relevance import Hit


class Detail(IntEnum):
    """Levels of detail in ascending order; each includes the levels before it."""

    NAME = 0
    ARGUMENTS = 1
    """The names of the required arguments."""
    LINE = 2
    """Some optional arguments, a short summary, and the tags."""
    SIGNATURE = 3
    """The types of the required arguments and more optional ones: enough for most calls."""
    SCHEMA = 4
    """One more line for each argument, with its type, default and description."""


_VALUES = {
    Detail.NAME: 0.5,
    Detail.ARGUMENTS: 0.65,
    Detail.LINE: 0.8,
    Detail.SIGNATURE: 0.95,
    Detail.SCHEMA: 1.0,
}
# The number of optional arguments and the characters of the summary at each level.
_EXTENT = {
    Detail.ARGUMENTS: (0, 0),
    Detail.LINE: (2, 60),
    Detail.SIGNATURE: (6, 100),
    Detail.SCHEMA: (0, 120),
}
_LINES = 4
"""Hits with a line; one in twenty of the right tools is behind them, and has its name alone."""
_WORDS = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_ARTICLES = frozenset(("the", "a", "an", "of", "this"))
_ABOUT = 100  # characters of an argument's description

_CACHED = 6_000_000  # bytes of the cached variants
_OVERHEAD = 1500  # bytes per tool besides its texts and its definition


def hit_items(
    hits: Sequence[Hit], richest: Detail, names: Mapping[ToolKey, str] = MappingProxyType({})
) -> list[Item]:
    """Return budget items for hits; the weight of a hit is its relevance divided by its rank.

    In every measured ranking the right tool is first in about half of the cases, and less often at
    each further rank.
    """
    return [
        Item(
            hit.relevance / rank,
            _variants(hit.entry, _name(hit.entry.tool.key, names), _richest(rank, richest)),
        )
        for rank, hit in enumerate(hits, start=1)
    ]


def _richest(rank: int, richest: Detail) -> Detail:
    """Return the most detail of a hit; a caller that asks for schemas gets those of all."""
    if rank == 1 or richest is Detail.SCHEMA:
        return richest
    return Detail.LINE if rank <= _LINES else Detail.NAME


def _name(key: ToolKey, names: Mapping[ToolKey, str]) -> str:
    return names.get(key) or key.label


def tool_items(entries: Sequence[Entry], notes: Sequence[str], richest: Detail) -> list[Item]:
    """Return budget items of equal weight for a list; `notes` has a text per entry, maybe empty."""
    return [
        Item(1.0, _variants(entry, named(entry.tool.name), richest, note))
        for entry, note in zip(entries, notes, strict=True)
    ]


def tool_text(entry: Entry, detail: Detail, *, name: str, note: str = "") -> str:
    """Return the text of a tool; `name` is the name that a caller must use."""
    return _text(entry, entry.tool.parameters, detail, name, note)


def argument_line(parameter: Parameter, tool: Tool, length: int) -> str:
    """Return an argument with its type and at most `length` characters of its description."""
    about = "" if _repeats_name(parameter) else cut(parameter.description, length)
    return one_line(parameter_line(parameter, tool, about))


def _repeats_name(parameter: Parameter) -> bool:
    """Return whether a description has no word that the name lacks: `The user ID` of `user_id`."""
    said = {*_WORDS.findall(parameter.description.lower())} - _ARTICLES
    return said <= {word.lower() for word in _WORDS.findall(parameter.name)}


def tag_text(tags: Sequence[str]) -> str:
    """Return tags in brackets, such as `[read, slow]`; empty without tags."""
    return f"[{', '.join(map(named, tags))}]" if tags else ""


def _variants(entry: Entry, name: str, richest: Detail, note: str = "") -> tuple[Variant, ...]:
    variants, _ = _short_variants(entry, name, note, min(richest, Detail.SIGNATURE))
    if richest is Detail.SCHEMA:
        text = tool_text(entry, richest, name=name, note=note)
        return (*variants, Variant(text, _VALUES[richest]))
    return variants


# The key contains the whole entry, so a new definition, override or tag gives a new key.
@cached(LRUCache(_CACHED, getsizeof=itemgetter(1)), lock=Lock())
def _short_variants(
    entry: Entry, name: str, note: str, richest: Detail
) -> tuple[tuple[Variant, ...], int]:
    """Return the variants up to `richest`, and their approximate size in bytes."""
    parameters = entry.tool.parameters if richest > Detail.NAME else ()
    variants = tuple(
        Variant(_text(entry, parameters, detail, name, note), _VALUES[detail])
        for detail in tuple(Detail)[: richest + 1]
    )
    texts = [entry.tool.source, *(variant.text for variant in variants)]
    return variants, _OVERHEAD + sum(map(getsizeof, texts))


def _text(
    entry: Entry, parameters: Sequence[Parameter], detail: Detail, name: str, note: str
) -> str:
    if detail is Detail.NAME:
        return _line(name, note)
    tool = entry.tool
    optional, length = _EXTENT[detail]
    about = cut(tool.summary, length) if length else ""
    tags = tag_text(entry.verdict.tags) if length else ""
    line = f"{name}({_arguments(tool, parameters, detail, optional)})"
    line = _line(line + (f" - {about}" if about else ""), tags, note)
    if detail is not Detail.SCHEMA:
        return line
    choices = (f"  Needed: {choice_text(choice)}" for choice in tool.choices)
    arguments = (f"  {argument_line(p, tool, _ABOUT)}" for p in parameters)
    return "\n".join([line, *choices, *arguments])


def _arguments(tool: Tool, parameters: Sequence[Parameter], detail: Detail, optional: int) -> str:
    """Return the required arguments and some optional ones; `…` if each has its own line."""
    if detail is Detail.SCHEMA or tool.takes_unnamed:
        return "…" if parameters or tool.takes_unnamed else ""
    is_typed = detail is Detail.SIGNATURE
    needed = [p for p in parameters if p.required]
    required = [typed(p, tool) if is_typed else named(p.name) for p in needed]
    if not is_typed and len(needed) == 1:
        required = [f"{required[0]}{members_text(needed[0], tool)}"]
    choices = tool.choices
    chosen = {
        name
        for choice in choices
        for alternative in choice.alternatives
        for name in alternative.needed
    }
    others = [p.name for p in parameters if not p.required and p.name not in chosen]
    left = ["…"] if len(others) > optional else []
    texts = [*required, *map(choice_text, choices)]
    return ", ".join([*texts, *(f"{named(name)}?" for name in others[:optional]), *left])


def _line(*parts: str) -> str:
    return one_line(" ".join(filter(None, parts)))
