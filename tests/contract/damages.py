"""Ways to damage the files that keep decisions, and a home in which there are some."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.contract.discovery import Discovery, Finished
from tests.factories import make_definition
from tests.told import Told
from tests.unit.trust.mutations import MUTATIONS, TOOL

DATABASE, MARK = "registry.db", "registry.mark"
OTHER = make_definition("other", "Another one.")
NEWER = make_definition("newer", "Came later.")
EVIL = MUTATIONS["description"]


def random_bytes(path: Path) -> None:
    path.write_bytes(random.Random(7).randbytes(path.stat().st_size))


def no_bytes(path: Path) -> None:
    path.write_bytes(b"")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "random bytes": random_bytes,
    "no bytes": no_bytes,
    "removed": Path.unlink,
}


def cut_off(path: Path, place: int) -> None:
    path.write_bytes(path.read_bytes()[:place])


def flip_bytes(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    start = chance.randrange(len(content))
    content[start : start + 40] = chance.randbytes(40)
    path.write_bytes(content)


@dataclass(frozen=True)
class AcceptedHome:
    """A configuration with one server, whose tools were accepted."""

    discovery: Discovery
    told: Told

    @classmethod
    def of(cls, discovery: Discovery) -> Self:
        told = Told.beside(discovery.home, TOOL, OTHER)
        command, *args = told.command
        content = {"servers": {"told": {"command": command, "args": args}}}
        (discovery.home / "discovery.yaml").write_text(json.dumps(content), "utf-8")
        home = cls(discovery, told)
        assert home("refresh").code == 0
        assert home.usable() == ["other", "send_mail"]
        return home

    def __call__(self, *words: str) -> Finished:
        return self.discovery(*words)

    @property
    def data(self) -> Path:
        return self.discovery.home / "data"

    def usable(self) -> list[str]:
        servers = self("list", "--json", "--tools").json["servers"]
        return next(list(one["tools"]) for one in servers if one["name"] == "told")
