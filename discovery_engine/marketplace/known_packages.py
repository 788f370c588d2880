"""Well-known MCP servers on PyPI and npm: a dated list that ships with the program.

PyPI has no search, and neither have many private registries of npm packages: there, this list and
exact names are what is found. A name that differs from one of these by a letter is suspicious.
What a package is for is said in the words of this project, not of its publisher.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from zlib import crc32

from msgspec import Struct

_FILE = Path(__file__).with_name("known_packages.json")


class KnownPackages(Struct, frozen=True):
    """The purpose of each known package, by its name."""

    date: str
    """ISO 8601: when the list was checked."""
    pypi: Mapping[str, str]
    npm: Mapping[str, str]
    etag: str = ""
    """Another one for each change of the list."""

    def of(self, registry_type: str) -> Mapping[str, str]:
        """Return the packages of a registry; none if the list does not cover that registry."""
        return {"npm": self.npm, "pypi": self.pypi}.get(registry_type, {})


@cache
def known_packages() -> KnownPackages:
    content = _FILE.read_bytes()
    return KnownPackages(**json.loads(content), etag=f"{crc32(content):08x}")
