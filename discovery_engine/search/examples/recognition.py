"""Recognises servers of the pack by what they list, whatever their owner calls them.

A tool is *alike* one of the pack if both have the same name, and about the same parameters and
description. A server is recognised if enough of its tools are, with enough words in all: a tool
of a common name proves nothing. Of a recognised server the description of a tool may differ more,
since it is edited from version to version; but it must always have about the same words. So a
server that imitates another gets requests only for what the words of its tools are about.

Two things this does not do. Words are compared in no order, and by 16 bits of a checksum: a text
that was made for it is recognised although it says something else. And two servers that are equally
alike have the same requests: one may be a copy, or the owner's second account, which only the owner
knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from discovery_engine.search.examples.likeness import Likeness, Signature, plain_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from discovery_engine.search.examples.pack import Pack, PackedServer
    from discovery_engine.tools.model import Tool

# Chosen by `benchmarks/recognition.py`: of the tools that keep their names 91 % are recognised
# after all its changes together, and each of the 85 that are recognised in two public collections
# of 3,777 servers is that server, a fork of it, or has its tools.
_ALIKE = 0.4  # the least mean likeness of a tool that counts as proof, and of its description
_ENOUGH_OF_LIST = 0.3  # the least share of such tools in the shorter of both lists
_ENOUGH_WORDS = 15  # of descriptions and parameters that both have, of all such tools together
_FEW = 2  # tools of a server that may have fewer words in all
_SAME = 0.8  # the least likeness that proves such a server, among few other tools
_SAID = 0.3  # the least likeness of the description of a tool of a recognised server


class Recognized(NamedTuple):
    """A tool that is one of the pack."""

    server: str
    """The name of its server there."""
    requests: tuple[str, ...]


class _Match(NamedTuple):
    """The tools of the same names in a listed server and one of the pack."""

    likeness: Mapping[str, Likeness]
    """By their plain names."""
    alike: int
    """How many of them count as proof."""


def recognize(tools: Sequence[Tool], pack: Pack) -> dict[str, Recognized]:
    """The tools of one server that are in the pack, by the names that their server gave them."""
    named = {plain_name(tool.upstream_name): tool for tool in tools}
    recognitions: dict[str, Recognized] = {}
    for server, match in _recognized_servers(named, pack):
        requests = pack.requests(server)
        for name, likeness in match.likeness.items():
            if likeness.description >= _SAID and likeness.mean >= _ALIKE and name in requests:
                recognitions.setdefault(
                    named[name].upstream_name, Recognized(server, requests[name])
                )
    return recognitions


def _recognized_servers(named: Mapping[str, Tool], pack: Pack) -> list[tuple[str, _Match]]:
    """Return the recognized servers of the pack, those with the most proof first."""
    signatures: dict[str, Signature] = {}
    matches: list[tuple[str, _Match]] = []
    for server, shared in pack.candidates(named).items():
        packed = pack.server(server)
        if len(shared) < _least(named, packed):
            continue  # as most candidates; nothing of their tools is compared
        for name in shared:
            if name not in signatures:
                signatures[name] = Signature.of(named[name])
        likeness = {name: signatures[name].likeness(packed.signatures[name]) for name in shared}
        if match := _proof(likeness, named, packed):
            matches.append((server, match))
    return sorted(matches, key=lambda pair: (-pair[1].alike, pair[0]))


def _proof(
    likeness: Mapping[str, Likeness], named: Mapping[str, Tool], packed: PackedServer
) -> _Match | None:
    """The match, if it proves that the listed server is the one of the pack."""
    alike = [
        comparison
        for comparison in likeness.values()
        if min(comparison.description, comparison.mean) >= _ALIKE
    ]
    if len(alike) < _least(named, packed):
        return None
    is_small = len(packed) <= _FEW and len(named) <= 2 * _FEW
    is_same = is_small and all(
        min(comparison.parameters, comparison.description) >= _SAME for comparison in alike
    )
    if is_same or sum(comparison.shared for comparison in alike) >= _ENOUGH_WORDS:
        return _Match(likeness, len(alike))
    return None


def _least(named: Mapping[str, Tool], packed: PackedServer) -> float:
    """How many tools must be alike."""
    return max(1.0, _ENOUGH_OF_LIST * min(len(packed), len(named)))
