"""The pack of typical requests that ships with the program, for tools of popular servers.

A zip file that anyone can open: `manifest.json`, `signatures.json` with what tools are recognised
by, and a file with the requests of each server. The file of a server is read when one like it is
recognised. `scripts/pack_requests.py` makes it.
"""

from __future__ import annotations

import logging
import re
import zipfile
import zlib
from collections import defaultdict
from functools import cached_property, lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from discovery_engine.tools.model import Tool

_SEPARATORS = re.compile(r"[\W_]+")
_WORDS = re.compile(r"[^\W_]+")  # not the tokenizer of search: with that one the pack would change
_MAX_COMPARED_LENGTH = 1_000  # characters of a description; what it does stands at its beginning
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "a all an and any are as at be by can for from get if in into is it its of on or returns"
        " that the this to use used which will with you your",
    )
)  # words that any two descriptions share
_WORD = 0xFFFF  # of two descriptions of 25 words each, one pair in a hundred has an equal digest
_HEX = 4  # digits of a word


class Likeness(NamedTuple):
    """The likeness of two definitions."""

    parameters: float
    """The likeness of the parameters, from 0 to 1 like the others."""
    description: float
    shared: int
    """The number of parameters and words that both have."""

    @property
    def mean(self) -> float:
        return (self.parameters + self.description) / 2


class Signature(Struct, frozen=True):
    """The parts of a definition that are compared."""

    parameters: frozenset[int]
    """Digests of the names of its parameters, however they are spelled."""
    description: frozenset[int]
    """Digests of the words at the beginning of its description."""

    @classmethod
    def of(cls, tool: Tool) -> Signature:
        """Make the signature of the server's definition; the owner's overrides do not count."""
        properties = tool.upstream_schema.get("properties")
        names = properties if isinstance(properties, dict) else ()
        text = tool.definition.get("description")
        text = text[:_MAX_COMPARED_LENGTH] if isinstance(text, str) else ""
        return cls(
            _digests(map(plain_name, names)), _digests({*_WORDS.findall(text.casefold())} - _COMMON)
        )

    @classmethod
    def from_text(cls, parameters: str, description: str) -> Signature:
        """Read the texts that `to_text` returned."""
        return cls(_numbers(parameters), _numbers(description))

    def to_text(self) -> tuple[str, str]:
        return _text(self.parameters), _text(self.description)

    def likeness(self, other: Signature) -> Likeness:
        parameters = self.parameters & other.parameters
        description = self.description & other.description
        return Likeness(
            _dice(parameters, self.parameters, other.parameters),
            _dice(description, self.description, other.description),
            len(parameters) + len(description),
        )


def plain_name(name: str) -> str:
    """A name however it is spelled: `getUser`, `get_user` and `get-user` are one."""
    return _SEPARATORS.sub("", name.casefold()) or name


def _dice(shared: frozenset[int], ours: frozenset[int], theirs: frozenset[int]) -> float:
    return 2 * len(shared) / (len(ours) + len(theirs)) if ours or theirs else 1.0


def _digests(texts: Iterable[str]) -> frozenset[int]:
    return frozenset(zlib.crc32(text.encode("utf-8", "replace")) & _WORD for text in texts)


def _text(numbers: Iterable[int]) -> str:
    return "".join(f"{number:0{_HEX}x}" for number in sorted(numbers))


def _numbers(text: str) -> frozenset[int]:
    return frozenset(int(text[at : at + _HEX], 16) for at in range(0, len(text), _HEX))


logger = logging.getLogger(__name__)

FILE = Path(__file__).parent / "data" / "typical_requests.zip"
MANIFEST = "manifest.json"
SIGNATURES = "signatures.json"


class PackedServer:
    """A server of the pack: its tools by their plain names."""

    def __init__(self, name: str, signatures: Mapping[str, tuple[str, str]]) -> None:
        self.name = name
        self._texts = signatures

    def __len__(self) -> int:
        return len(self._texts)

    @cached_property
    def signatures(self) -> Mapping[str, Signature]:
        return {name: Signature.from_text(*text) for name, text in self._texts.items()}


class Pack:
    """An open pack."""

    def __init__(self, file: Path) -> None:
        """Read what tools are recognised by.

        Raises:
            UNREADABLE: If it cannot be read.
        """
        # In memory, half a megabyte: reading its directory for each server doubled the time.
        self._files = zipfile.ZipFile(BytesIO(file.read_bytes()))
        tables = msgspec.json.decode(
            self._files.read(SIGNATURES), type=dict[str, dict[str, tuple[str, str]]]
        )
        self.is_damaged = False
        """True if the requests of some server could not be read."""
        self._servers = {name: PackedServer(name, table) for name, table in tables.items()}
        self._by_tool: defaultdict[str, list[str]] = defaultdict(list)
        for name, table in tables.items():
            for tool in table:
                self._by_tool[tool].append(name)

    def candidates(self, tools: Collection[str]) -> Mapping[str, Collection[str]]:
        """Return the pack's servers by name, each with those of these plain names that it has."""
        tools_by_server: defaultdict[str, list[str]] = defaultdict(list)
        for tool in tools:
            for server in self._by_tool.get(tool, ()):
                tools_by_server[server].append(tool)
        return tools_by_server

    def server(self, name: str) -> PackedServer:
        return self._servers[name]

    def requests(self, server: str) -> Mapping[str, tuple[str, ...]]:
        """The requests of a server's tools, by the plain names of these.

        Raises:
            UNREADABLE: If they cannot be read.
        """
        text = self._files.read(f"{server}.json")
        tools = msgspec.json.decode(text, type=dict[str, tuple[str, ...]])
        return {plain_name(name): requests for name, requests in tools.items()}


UNREADABLE = (
    *(OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error),
    RuntimeError,  # as if it were encrypted, or of a later version of the format
)
"""The exceptions that a missing or damaged pack raises."""


@lru_cache(maxsize=1)
def shipped_pack() -> Pack | None:
    """The pack of this program; None if it cannot be read, which is logged once."""
    return opened(FILE)


def opened(file: Path) -> Pack | None:
    """A pack; None if it cannot be read, which is logged."""
    try:
        return Pack(file)
    except UNREADABLE as error:
        logger.warning("The typical requests of tools cannot be read: %s", error)
        return None


# A tool is *alike* one of the pack if both have the same name, and about the same parameters and
# description. A server is recognised if enough of its tools are, with enough words in all: a tool
# of a common name proves nothing. Of a recognised server the description of a tool may differ more,
# since it is edited from version to version; but it must always have about the same words. So a
# server that imitates another gets requests only for what the words of its tools are about.
#
# Two things this does not do. Words are compared in no order, and by 16 bits of a checksum: a text
# that was made for it is recognised although it says something else. And two servers that are
# equally alike have the same requests: one may be a copy, or the owner's second account, which only
# the owner knows.

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
    """The likeness of each tool, by its plain name."""
    alike: int
    """The number of them that count as proof."""


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
    """The number of tools that must be alike."""
    return max(1.0, _ENOUGH_OF_LIST * min(len(packed), len(named)))
