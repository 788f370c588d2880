"""The text of a tool in five degrees of detail, from which `budget` chooses.

    github:create_issue                                                          NAME
    github:create_issue(title, …)                                                ARGUMENTS
    github:create_issue(title, labels?, …) - Create an issue [write]             LINE
    github:create_issue(title: string, labels?, state?) - Create an issue …      SIGNATURE
      state?: "open"|"closed" = "open" - Whether it is done                      SCHEMA

A name is never cut, because a tool is called by it; either all required arguments are named or
none. Each text of a server becomes one line, so that it cannot forge another line.

Answers show the same tools again and again, so their texts are kept, with their prices.
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

from discovery_engine._util.text import named, one_line
from discovery_engine.agent.budget import Item, Variant
from discovery_engine.catalog import Entry
from discovery_engine.tools.model import Parameter, Tool, ToolKey
from discovery_engine.tools.signature import choice_text, parameter_line, typed

if TYPE_CHECKING:
    from discovery_engine.search.ranking.relevance import Hit


class Detail(IntEnum):
    """How much of a tool is shown, the least first; each includes those before it."""

    NAME = 0
    ARGUMENTS = 1
    """The names of the required arguments."""
    LINE = 2
    """Some optional arguments, a short summary, and the tags."""
    SIGNATURE = 3
    """The types of the required arguments and more optional ones: enough for most calls."""
    SCHEMA = 4
    """A further line for each argument, with its type, default and description."""


_VALUES = {
    Detail.NAME: 0.5,
    Detail.ARGUMENTS: 0.65,
    Detail.LINE: 0.8,
    Detail.SIGNATURE: 0.95,
    Detail.SCHEMA: 1.0,
}
# Of each detail: optional arguments named, characters of the summary.
_EXTENT = {
    Detail.ARGUMENTS: (0, 0),
    Detail.LINE: (2, 60),
    Detail.SIGNATURE: (6, 100),
    Detail.SCHEMA: (0, 120),
}
_ABOUT = 100  # characters of an argument's description

_CACHED = 6_000_000  # bytes of variants of tools that were found last
_OVERHEAD = 1500  # bytes of one tool's variants beside their texts and its definition


def hit_items(
    hits: Sequence[Hit], richest: Detail, names: Mapping[ToolKey, str] = MappingProxyType({})
) -> list[Item]:
    """Items for a plan; the weight of a hit is its relevance divided by its rank.

    In every ranking measured, about half of the right tools come first, and each further rank is
    right less often than the one before.
    """
    return [
        Item(hit.relevance / rank, _variants(hit.entry, _name(hit.entry.tool.key, names), richest))
        for rank, hit in enumerate(hits, start=1)
    ]


def _name(key: ToolKey, names: Mapping[ToolKey, str]) -> str:
    return names.get(key) or key.label


def tool_items(entries: Sequence[Entry], notes: Sequence[str], richest: Detail) -> list[Item]:
    """Items for a plan of a list, each with its note (which may be empty); all weigh the same."""
    return [
        Item(1.0, _variants(entry, named(entry.tool.name), richest, note))
        for entry, note in zip(entries, notes, strict=True)
    ]


def tool_text(entry: Entry, detail: Detail, *, name: str, note: str = "") -> str:
    """The text of a tool; `name` is the name that a caller must use."""
    return _text(entry, entry.tool.parameters, detail, name, note)


def argument_line(parameter: Parameter, tool: Tool, length: int) -> str:
    """An argument with its type, and at most `length` characters of its description."""
    return one_line(parameter_line(parameter, tool, cut(parameter.description, length)))


def tag_text(tags: Sequence[str]) -> str:
    """For instance `[read, slow]`; empty without tags."""
    return f"[{', '.join(map(named, tags))}]" if tags else ""


def cut(text: str, length: int) -> str:
    """At most `length` characters, cut at a word, with a mark where something is missing."""
    text = one_line(text)
    if len(text) <= length:
        return text
    return f"{text[:length].rsplit(' ', 1)[0].rstrip('.,;:')}…" if length else ""


def _variants(entry: Entry, name: str, richest: Detail, note: str = "") -> tuple[Variant, ...]:
    variants, _ = _short_variants(entry, name, note)
    if richest is Detail.SCHEMA:
        text = tool_text(entry, richest, name=name, note=note)
        return (*variants, Variant(text, _VALUES[richest]))
    return variants[: richest + 1]


# The key is the whole entry: with another definition, override or tag it is another one.
@cached(LRUCache(_CACHED, getsizeof=itemgetter(1)), lock=Lock())
def _short_variants(entry: Entry, name: str, note: str) -> tuple[tuple[Variant, ...], int]:
    """All variants but for the whole schema, and about how many bytes are kept for them."""
    variants = tuple(
        Variant(_text(entry, entry.tool.parameters, detail, name, note), _VALUES[detail])
        for detail in Detail
        if detail is not Detail.SCHEMA
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
    """All that are needed, then some optional ones; none if each has a line of its own."""
    if detail is Detail.SCHEMA or tool.takes_unnamed:
        return "…" if parameters or tool.takes_unnamed else ""
    is_typed = detail is Detail.SIGNATURE
    required = [typed(p, tool) if is_typed else named(p.name) for p in parameters if p.required]
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
