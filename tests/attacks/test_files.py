"""A01, A08, B11, H04, H06: files that are not what they should be."""

from __future__ import annotations

import json
import marshal
import os
import pickle
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.attacks.conftest import Repository
from tests.factories import make_definition
from tests.told import Told

LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{one}: &{one} [{','.join([f'*{before}'] * 9)}]\n"
    for before, one in zip("abcdefgh", "bcdefghi", strict=True)
)


def fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def device(path: Path, _: Path) -> None:
    path.symlink_to("/dev/zero")


def endless(path: Path, _: Path) -> None:
    path.write_bytes(b"#" * (2 * 1024 * 1024))


def deep(path: Path, _: Path) -> None:
    path.write_text("[" * 20_000, "utf-8")


def laughing(path: Path, _: Path) -> None:
    path.write_text(LAUGHS, "utf-8")


def hooked(path: Path, mark: Path) -> None:
    path.write_text(json.dumps({"listChangedExec": ["touch", str(mark)]}), "utf-8")


def hooking_server(path: Path, mark: Path) -> None:
    server = {"command": "true", "onListChanged": f"touch {mark}"}
    path.write_text(json.dumps({"servers": {"x": server}, "hooks": {"start": "touch x"}}), "utf-8")


def tagged(path: Path, mark: Path) -> None:
    path.write_text(f"x: !!python/object/apply:os.system ['touch {mark}']", "utf-8")


FILES: list[Callable[[Path, Path], None]] = [
    fifo, device, endless, deep, laughing, hooked, hooking_server, tagged,
]  # fmt: skip


@pytest.mark.requirement("CFG-13")
@pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__)
def test_a_configuration_that_is_a_trap_is_refused_and_does_nothing(
    repository: Repository, make: Callable[[Path, Path], None]
) -> None:
    make(repository.path / "discovery.yaml", repository.mark)

    done = [repository(*words) for words in (["list"], ["refresh"], ["config", "check"])]

    assert [one.code for one in done] == [2, 2, 2]
    assert not repository.is_sprung
    assert "Traceback" not in "".join(one.err for one in done)
    assert max(len(one.out + one.err) for one in done) < 50_000


class Bomb:
    """Touches a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.mark}",)


@pytest.mark.thorough
@pytest.mark.requirement("REL-44")
@pytest.mark.parametrize("kind", ["a pickle", "code", "cut short"])
def test_an_index_that_was_planted_is_built_anew(repository: Repository, kind: str) -> None:
    told = Told.beside(repository.home, make_definition("count", "Counts the words of a text."))
    command, *args = told.command
    config = repository.home / "discovery.yaml"
    config.write_text(json.dumps({"servers": {"told": {"command": command, "args": args}}}))
    environ = {"DISCOVERY_CONFIG": str(config)}
    assert repository("refresh", **environ).code == 0
    with closing(sqlite3.connect(repository.home / "data" / "registry.db")) as registry:
        [(kept,)] = registry.execute("SELECT data FROM indexes").fetchall()
        planted = {
            "a pickle": pickle.dumps(Bomb(repository.mark)),
            "code": marshal.dumps(compile(f"open({str(repository.mark)!r}, 'w')", "x", "exec")),
            "cut short": kept[: len(kept) // 2],
        }
        registry.execute("UPDATE indexes SET data = ?", (planted[kind],))
        registry.commit()

    done = repository("search", "count words", **environ)

    assert (done.code, "told:count" in done.out) == (0, True)
    assert not repository.is_sprung
