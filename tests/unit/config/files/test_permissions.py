"""Whose word a file is: it, and every folder above it, as sshd looks at keys."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.config.files.location import locate
from discovery_engine.config.files.permissions import may_others_write, writable_by_others
from discovery_engine.config.loading.loader import load_settings
from discovery_engine.config.loading.untrusted import is_untrusted_origin
from tests.rows import rows

ME, OTHER, ROOT = 4_000_001, 4_000_002, 0
GROUP = 4_000_003  # one that there is not


def status(mode: int, owner: int = ME, group: int = GROUP) -> os.stat_result:
    return os.stat_result((mode, 0, 0, 1, owner, group, 0, 0, 0, 0))


FILE, FOLDER = stat.S_IFREG, stat.S_IFDIR
MINE = status(FILE | 0o644)


@pytest.mark.requirement("TRU-52")
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


@pytest.mark.requirement("TRU-52")
def test_root_in_a_container_is_not_asked_whose_a_file_is() -> None:
    assert not may_others_write(status(FILE | 0o644, owner=OTHER), None, user=ROOT)
    assert may_others_write(status(FILE | 0o646, owner=OTHER), None, user=ROOT)


@pytest.mark.requirement("TRU-52")
def test_a_group_of_ones_own_is_nobody_else() -> None:
    grp, pwd = pytest.importorskip("grp"), pytest.importorskip("pwd")
    for user in pwd.getpwall():
        if user.pw_uid and _is_own(user, grp):
            mine = status(FILE | 0o664, owner=user.pw_uid, group=user.pw_gid)
            assert not may_others_write(mine, None, user=user.pw_uid)
            return
    pytest.skip("no user of this machine has a group of their own")


def _is_own(user: Any, grp: Any) -> bool:
    try:
        group = grp.getgrgid(user.pw_gid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and not group.gr_mem


@pytest.mark.requirement("TRU-52")
@rows("where", ["the file", "its folder", "a folder above"])
def test_one_open_place_is_enough_and_is_named_with_the_way_to_close_it(
    tmp_path: Path, where: str
) -> None:
    file = tmp_path / "a" / "b" / "discovery.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("servers: {x: {command: 'true'}}\ntrust: open\n", "utf-8")
    assert not is_untrusted_origin(locate(file))
    assert load_settings(file).trust == "open"
    place = {"the file": file, "its folder": file.parent, "a folder above": file.parents[1]}[where]

    place.chmod(place.stat().st_mode | 0o002)

    settings = load_settings(file)
    assert writable_by_others(str(file)) == str(place)
    assert is_untrusted_origin(locate(file))
    assert (settings.is_untrusted_origin, settings.trust) == (True, "on_first_use")
    assert str(place) in settings.warnings[0].message
    assert f"`chmod go-w {place}`" in settings.warnings[0].hint
    place.chmod(place.stat().st_mode & ~0o002)
    assert not load_settings(file).is_untrusted_origin


@pytest.mark.requirement("TRU-52")
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


@pytest.mark.requirement("TRU-52")
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


@pytest.mark.requirement("TRU-52")
def test_links_in_a_circle_are_untrusted(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")

    assert writable_by_others(str(tmp_path / "one" / "discovery.yaml")) is not None


@pytest.mark.requirement("TRU-52")
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
