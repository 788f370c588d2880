"""The search index is read from a private file only: its form is not safe in other hands."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from discovery_engine.store.sqlite.sqlite_registry import open_sqlite
from tests.factories import make_settings

pytestmark = [
    pytest.mark.requirement("REG-15"),
    pytest.mark.skipif(os.name != "posix", reason="there are no such modes"),
]

SCOPE = "/home/someone/discovery.yaml"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    path = folder / "registry.db"
    with open_sqlite(path) as registry:
        registry.save_settings(SCOPE, make_settings("a"))
        registry.save_index(SCOPE, b"index")
    return path


def index(path: Path) -> bytes | None:
    with open_sqlite(path) as registry:
        return registry.load_index(SCOPE)


@contextmanager
def mode(path: Path, mode: int) -> Iterator[None]:
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        yield
    finally:
        path.chmod(before)


def test_a_private_file_keeps_its_index(path: Path) -> None:
    assert index(path) == index(path) == b"index"


@pytest.mark.parametrize("found", [0o666, 0o620, 0o602, 0o644, 0o700])
def test_an_index_in_a_file_that_was_open_to_others_is_dropped_for_good(
    path: Path, found: int
) -> None:
    path.chmod(found)

    assert index(path) is None
    assert path.stat().st_mode & 0o777 == 0o600
    assert index(path) is None


def test_what_else_is_in_such_a_file_stays(path: Path) -> None:
    path.chmod(0o666)

    with open_sqlite(path) as registry:
        loaded = registry.load(SCOPE)

    assert loaded is not None
    assert [server.name for server in loaded.settings.servers] == ["a"]


def test_an_index_is_not_read_where_others_may_replace_the_file(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with mode(path.parent, 0o777), caplog.at_level(logging.INFO, "discovery_engine"):
        assert index(path) is None

    assert "chmod go-w" in caplog.text
    assert index(path) is None


def test_no_index_is_written_where_others_may_replace_the_file(path: Path) -> None:
    with mode(path.parent, 0o777), open_sqlite(path) as registry:
        registry.save_index(SCOPE, b"newer")
    assert index(path) == b"index"


def test_an_index_of_another_user_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me = os.geteuid()
    with open_sqlite(path) as registry:
        monkeypatch.setattr(os, "geteuid", lambda: me + 1)

        assert registry.load_index(SCOPE) is None


def test_a_file_that_is_opened_to_others_later_is_noticed_when_it_is_read(path: Path) -> None:
    with open_sqlite(path) as registry:
        path.chmod(0o666)

        assert registry.load_index(SCOPE) is None
