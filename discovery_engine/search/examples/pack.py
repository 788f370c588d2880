"""The pack of typical requests that ships with the program, for tools of popular servers.

A zip file that anyone can open: `manifest.json`, `signatures.json` with what tools are recognised
by, and a file with the requests of each server. The file of a server is read when one like it is
recognised. `scripts/pack_requests.py` makes it.
"""

from __future__ import annotations

import logging
import zipfile
import zlib
from collections import defaultdict
from functools import cached_property, lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from discovery_engine.search.examples.likeness import Signature, plain_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

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
        """By name of a server of the pack, which of these plain names of tools it has, too."""
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
