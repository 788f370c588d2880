from __future__ import annotations

import stat
from pathlib import Path

import pytest

from discovery_engine._util.files import replace_file
from tests.power_cuts import recorded_disk


def test_a_new_file_is_private_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    new, old = tmp_path / "folder" / "new", tmp_path / "old"
    old.write_text("before")
    old.chmod(0o640)

    replace_file(new, "a\r\n")
    replace_file(old, "b")

    assert new.read_bytes() == b"a\r\n"
    assert [stat.S_IMODE(file.stat().st_mode) for file in (new, old)] == [0o600, 0o640]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("before")
    link.symlink_to(target)

    replace_file(link, "after")

    assert link.is_symlink()
    assert target.read_text() == "after"


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("before")

    with pytest.raises(UnicodeEncodeError):
        replace_file(file, "\ud800")

    assert [f.name for f in tmp_path.iterdir()] == ["file"]
    assert file.read_text() == "before"


def test_after_a_power_cut_a_file_has_what_was_put_there_last(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    with recorded_disk(folder) as disk:
        for number in range(20):
            replace_file(folder / "file", f"{number} " * 400)
            disk.note(number)

    for image in disk.images(seed=3, count=100):
        found = image.files.get("file", b"").split()
        newest = int(found[0]) if found else -1
        assert found in ([], [str(newest).encode()] * 400)
        assert newest >= max(image.noted, default=-1)
