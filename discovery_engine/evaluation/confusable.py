"""Tools of several servers with nearly the same names and summaries.

Two tools are alike if their names are the same and their summaries share half of their words, or
if name and summary together share four words in five. Every such pair is found, without looking
at each: tools that share so much share one of their rarest words (prefix filtering, as in
similarity joins).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from discovery_engine.catalog import Entry
from discovery_engine.evaluation.vocabulary import name_stems, stems
from discovery_engine.tools.model import ServerName

_ALIKE = 0.8  # of the words of name and summary
_ALIKE_WITH_NAME = 0.5  # of the words of the summary, where the names are the same

Words: TypeAlias = frozenset[str]
Group: TypeAlias = tuple[Entry, ...]


class _Profile(Struct, frozen=True):
    """The parts of a tool that are compared."""

    entry: Entry
    name: Words
    summary: Words
    words: Words
    """All of both."""

    @property
    def server(self) -> ServerName:
        return self.entry.tool.server

    @classmethod
    def of(cls, entry: Entry) -> _Profile:
        own = frozenset(name_stems(entry.tool.name))
        # Many servers put their own name before each tool's, which is no information about it.
        name = own.difference(name_stems(entry.tool.server)) or own
        summary = frozenset(stems(entry.tool.summary))
        return cls(entry, name, summary, name | summary)


def confusable(entries: Iterable[Entry]) -> tuple[Group, ...]:
    """Groups of tools in which each is like the first, which is of another server.

    A tool is in one group at most: the first of its likes, in the order of the entries, leads.
    """
    profiles = [_Profile.of(entry) for entry in entries]
    candidates = _Candidates(profiles)
    taken: set[int] = set()
    groups = []
    for position, leader in enumerate(profiles):
        if position in taken:
            continue
        near = [
            other
            for other in sorted(candidates.of(position))
            if other > position and other not in taken and _are_alike(leader, profiles[other])
        ]
        if near:
            taken.update(near)
            groups.append((leader.entry, *(profiles[other].entry for other in near)))
    return tuple(groups)


class _Candidates:
    """Finds tools of other servers that may be alike, by a name or by one of the rarest words."""

    def __init__(self, profiles: Sequence[_Profile]) -> None:
        counts = Counter(word for profile in profiles for word in profile.words)
        self._servers = [profile.server for profile in profiles]
        self._keys: list[tuple[Words | str, ...]] = [
            (profile.name, *_rarest(profile.words, counts)) for profile in profiles
        ]
        self._found: defaultdict[Words | str, dict[ServerName, list[int]]] = defaultdict(dict)
        for position, (server, keys) in enumerate(zip(self._servers, self._keys, strict=True)):
            for key in keys:
                self._found[key].setdefault(server, []).append(position)

    def of(self, position: int) -> set[int]:
        own = self._servers[position]
        by_server = (item for key in self._keys[position] for item in self._found[key].items())
        return {other for server, positions in by_server if server != own for other in positions}


def _rarest(words: Words, counts: Counter[str]) -> list[str]:
    """The words of which two sets that are alike must share one."""
    ordered = sorted(words, key=lambda word: (counts[word], word))
    return ordered[: len(ordered) - math.ceil(_ALIKE * len(ordered)) + 1]


def _are_alike(one: _Profile, other: _Profile) -> bool:
    if one.name == other.name and one.name:
        return _likeness(one.summary, other.summary) >= _ALIKE_WITH_NAME
    return bool(one.words) and _likeness(one.words, other.words) >= _ALIKE


def _likeness(one: Words, other: Words) -> float:
    """The share of their words that both have; two without words are the same."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared) if one or other else 1.0


def group_labels(group: Group, most: int = 5) -> Iterator[str]:
    """The names of a group's tools, the first few of them spelled out."""
    yield from (entry.key.label for entry in group[:most])
    if len(group) > most:
        yield f"{len(group) - most} more"
