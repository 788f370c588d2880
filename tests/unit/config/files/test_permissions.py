"""Whose word a file is: it, and every folder above it, as sshd looks at keys."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from discovery_engine.config.files.permissions import may_others_write, writable_by_others
from tests.rows import rows

ME, OTHER, ROOT = 4_000_001, 4_000_002, 0
GROUP = 4_000_003  # one that there is not


def status(mode: int, owner: int = ME, group: int = GROUP) -> os.stat_result:
    return os.stat_result((mode, 0, 0, 1, owner, group, 0, 0, 0, 0))


FILE, FOLDER = stat.S_IFREG, stat.S_IFDIR
MINE = status(FILE | 0o644)


@pytest.mark.requirement("TRU-2")
@rows(
    ("info", "inside", "is_open"),
    [
        (status(FILE | 0o644), None, False),
        (status(FILE | 0o666), None, True),
        (status(FILE | 0o664), None, True),
        (status(FILE | 0o664, group=0), None, False),
        (status(FILE | 0o600, owner=OTHER), None, True),
        (status(FILE | 0o600, owner=ROOT), None, False),
        (status(FOLDER | 0o755), MINE, False),
        (status(FOLDER | 0o777), MINE, True),
        (status(FOLDER | 0o775), MINE, True),
        (status(FOLDER | 0o755, owner=OTHER), MINE, True),
        (status(FOLDER | 0o1777, owner=ROOT), MINE, False),
        (status(FOLDER | 0o1775, owner=ROOT), MINE, False),
        (status(FOLDER | 0o1777, owner=ROOT), status(FILE | 0o644, owner=OTHER), True),
        (status(FOLDER | 0o1777, owner=OTHER), MINE, True),
        (status(FILE | 0o1666), None, True),
    ],
)
def test_others_may_write(
    info: os.stat_result, inside: os.stat_result | None, is_open: bool
) -> None:
    assert may_others_write(info, inside, user=ME) is is_open


@pytest.mark.requirement("TRU-2")
def test_root_in_a_container_is_not_asked_whose_a_file_is() -> None:
    assert not may_others_write(status(FILE | 0o644, owner=OTHER), None, user=ROOT)
    assert may_others_write(status(FILE | 0o646, owner=OTHER), None, user=ROOT)


@pytest.mark.requirement("TRU-2")
def test_a_link_counts_where_it_stands_and_where_it_leads(tmp_path: Path) -> None:
    safe, shared = tmp_path / "safe", tmp_path / "shared"
    for folder in (safe, shared):
        folder.mkdir()
        (folder / "discovery.yaml").write_text("{}", "utf-8")
    shared.chmod(0o777)
    (shared / "link.yaml").symlink_to(safe / "discovery.yaml")
    (safe / "link.yaml").symlink_to(shared / "discovery.yaml")

    assert writable_by_others(str(shared / "link.yaml")) == str(shared)
    assert writable_by_others(str(safe / "link.yaml")) == str(shared)
    assert writable_by_others(str(safe / "discovery.yaml")) is None
    shared.chmod(0o1777)
    assert writable_by_others(str(shared / "link.yaml")) is None


@pytest.mark.requirement("TRU-2")
def test_a_link_on_the_way_counts_where_it_stands(tmp_path: Path) -> None:
    safe, shared, real = tmp_path / "safe", tmp_path / "shared", tmp_path / "real"
    for folder in (safe, shared, real):
        folder.mkdir()
    (real / "discovery.yaml").write_text("{}", "utf-8")
    (shared / "link").symlink_to("../real")
    (safe / "link").symlink_to(shared / "link")
    file = safe / "link" / "discovery.yaml"
    assert writable_by_others(str(file)) is None

    shared.chmod(0o777)

    assert writable_by_others(str(file)) == str(shared)
    assert writable_by_others(str(safe / "link" / ".." / "real" / "discovery.yaml")) == str(shared)


@pytest.mark.requirement("TRU-2")
def test_links_in_a_circle_are_untrusted(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")

    assert writable_by_others(str(tmp_path / "one" / "discovery.yaml")) is not None


@pytest.mark.requirement("TRU-2")
def test_where_anybody_may_put_files_the_link_of_another_is_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, shared = tmp_path / "real", tmp_path / "shared"
    real.mkdir()
    shared.mkdir()
    (real / "discovery.yaml").write_text("{}", "utf-8")
    (shared / "link").symlink_to(real)
    shared.chmod(0o1777)
    file = str(shared / "link" / "discovery.yaml")
    assert writable_by_others(file) is None
    if os.geteuid():
        pytest.skip("only root may give a link away")

    os.lchown(shared / "link", OTHER, GROUP)
    monkeypatch.setattr(os, "geteuid", lambda: ME)
    for place in (tmp_path, *tmp_path.parents, real, real / "discovery.yaml"):
        if place.stat().st_uid not in (0, ME):
            pytest.skip("the folders above are of another user")

    assert writable_by_others(file) == str(shared)
