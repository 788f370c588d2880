"""What the sandbox of an installed server lets it use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONValue


class Grants(Struct, frozen=True):
    """What the owner grants a server, beside what its sandbox gives to any."""

    network: bool = True
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


def sandbox(
    grants: Grants, paths: Sequence[str] = (), folders: Sequence[Path] = ()
) -> str | dict[str, JSONValue]:
    """The `sandbox` of an entry: a kind alone, or with what is granted.

    Args:
        grants: By the owner.
        paths: What it may change, besides: what the owner named in its values, for example.
        folders: What it cannot start without.
    """
    granted: dict[str, JSONValue] = {}
    needed = (str(folder) for folder in folders if not folder.is_relative_to("/usr"))
    if read := list(dict.fromkeys((*grants.read, *needed))):
        granted["read"] = read
    if write := list(dict.fromkeys((*grants.write, *paths))):
        granted["write"] = write
    if grants.network:
        granted["network"] = True
    return {"kind": "auto", **granted} if granted else "auto"
