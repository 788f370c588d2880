"""Watching real files."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import watchfiles._rust_notify
from watchfiles._rust_notify import RustNotify

from discovery_engine.config.files.inputs import observe
from discovery_engine.engine.maintenance import changed_files

pytestmark = pytest.mark.anyio

NEVER = 3600.0  # seconds between two looks: what is noticed was heard


class Ears:
    """The foreign watcher, which also tells when somebody begins to listen."""

    listening = threading.Event()

    def __init__(self, *args: Any, **options: Any) -> None:
        self._notify = RustNotify(*args, **options)

    def watch(self, *args: Any) -> Any:
        self.listening.set()
        return self._notify.watch(*args)

    def close(self) -> None:
        self._notify.close()


@pytest.fixture(autouse=True)
def ears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchfiles._rust_notify, "RustNotify", Ears)


class Watching:
    """Files as they were last read; what changes is read again."""

    is_told_at_once = False

    def __init__(self, *paths: Path, poll_every: float = NEVER) -> None:
        self.inputs = [observe(str(path)) for path in paths]
        self._changes = changed_files(lambda: self.inputs, poll_every=poll_every)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Watching]:
        async with aclosing(self._changes):
            yield self

    async def after(self, change: Callable[[], object]) -> list[str]:
        """The names of the files that are told when `change` is made while somebody listens."""
        found: list[str] = []
        Ears.listening.clear()

        def make_it() -> None:
            assert self.is_told_at_once or Ears.listening.wait(20)
            change()

        async def listen() -> None:
            found.extend(await anext(self._changes))
            self.read_again()

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listen)
                await anyio.to_thread.run_sync(make_it)
        return [Path(path).name for path in found]

    def read_again(self) -> None:
        self.inputs = [observe(file.path) for file in self.inputs]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "conf" / "discovery.yaml"
    path.parent.mkdir()
    path.write_text("one", "utf-8")
    return path


def replaced(path: Path, text: str) -> None:
    """As a careful program writes a file."""
    beside = path.with_suffix(".tmp")
    beside.write_text(text, "utf-8")
    beside.replace(path)


def edited(path: Path, text: str) -> None:
    """As vim writes a file: the old one is moved away first."""
    (path.parent / "4913").touch()
    (path.parent / "4913").unlink()
    backup = path.with_name(path.name + "~")
    path.rename(backup)
    path.write_text(text, "utf-8")
    backup.unlink()


@pytest.mark.requirement("WAT-1")
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda path: path.write_text("two", "utf-8"), id="written in place"),
        pytest.param(lambda path: replaced(path, "two"), id="replaced"),
        pytest.param(lambda path: edited(path, "two"), id="moved away first"),
        pytest.param(lambda path: path.unlink(), id="removed"),
        pytest.param(lambda path: shutil.rmtree(path.parent), id="removed with its folder"),
    ],
)
async def test_a_change_is_reported(file: Path, change: Callable[[Path], object]) -> None:
    async with Watching(file).opened() as watching:
        told = await watching.after(lambda: change(file))

    assert told == ["discovery.yaml"]


@pytest.mark.requirement("WAT-1")
async def test_a_folder_that_is_removed_and_made_again_is_still_watched(file: Path) -> None:
    def make() -> None:
        file.parent.mkdir()
        file.write_text("two", "utf-8")

    async with Watching(file).opened() as watching:
        gone = await watching.after(lambda: shutil.rmtree(file.parent))
        back = await watching.after(make)
        changed = await watching.after(lambda: file.write_text("three", "utf-8"))

    assert gone == back == changed == ["discovery.yaml"]


@pytest.mark.requirement("WAT-1")
async def test_what_leaves_the_content_as_it_is_is_no_change(file: Path) -> None:
    def bustle() -> None:
        os.utime(file)
        replaced(file, "one")
        (file.parent / ".discovery.yaml.swp").write_text("x", "utf-8")
        (file.parent / "other.txt").write_text("x", "utf-8")

    async with Watching(file, file.parent / "b.json").opened() as watching:
        await anyio.to_thread.run_sync(bustle)
        told = await watching.after(lambda: (file.parent / "b.json").write_text("{}", "utf-8"))

    assert told == ["b.json"]


@pytest.mark.requirement("WAT-1")
@pytest.mark.parametrize(
    "before_the_end",
    [
        pytest.param(lambda number: "word " * number, id="longer and longer"),
        pytest.param(lambda _: "", id="from its beginning again and again"),
    ],
)
async def test_a_file_is_reported_when_it_is_written_to_the_end(
    file: Path, before_the_end: Callable[[int], str]
) -> None:
    def write_slowly() -> None:
        for number in range(15):
            file.write_text(before_the_end(number), "utf-8")
            Ears.listening.clear()
            Ears.listening.wait(20)
        file.write_text("all of it", "utf-8")

    async with Watching(file).opened() as watching:
        told = await watching.after(write_slowly)

        assert told == ["discovery.yaml"]
        assert watching.inputs == [observe(str(file))]


@pytest.mark.requirement("WAT-1")
async def test_a_change_that_was_not_accepted_is_reported_once_and_its_undoing_too(
    file: Path,
) -> None:
    class Refusing(Watching):
        def read_again(self) -> None:
            """The files are never read again."""

    async with Refusing(file).opened() as watching:
        broken = await watching.after(lambda: file.write_text("bad", "utf-8"))
        mended = await watching.after(lambda: file.write_text("one", "utf-8"))

    assert broken == mended == ["discovery.yaml"]


@pytest.mark.requirement("WAT-1")
async def test_where_nothing_can_be_watched_the_files_are_looked_at(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> RustNotify:
        raise OSError("too many watches")

    monkeypatch.setattr(watchfiles._rust_notify, "RustNotify", refuse)
    watching = Watching(file, poll_every=0.01)
    watching.is_told_at_once = True
    async with watching.opened():
        told = await watching.after(lambda: file.write_text("two", "utf-8"))

    assert told == ["discovery.yaml"]
