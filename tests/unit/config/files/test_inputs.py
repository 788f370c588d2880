from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from discovery_engine.config.files.inputs import is_current, observe, read_input


def test_what_was_read_is_current_until_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "discovery.yaml"
    file.write_text("a: 1")
    content, read = read_input(str(file), limit=100)
    assert content == b"a: 1"
    assert is_current([read])

    file.write_text("a: 2")
    assert not is_current([read])

    file.unlink()
    assert not is_current([read])


def test_what_was_not_there_is_current_until_it_appears(tmp_path: Path) -> None:
    absent = observe(str(tmp_path / "discovery.yaml"))
    assert absent.digest is None
    assert is_current([absent])

    (tmp_path / "discovery.yaml").touch()

    assert not is_current([absent])


def test_a_pipe_is_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert observe(str(tmp_path / "pipe")).digest is None
    with pytest.raises(OSError, match="not a regular file"):
        read_input(str(tmp_path / "pipe"), limit=100)


def test_a_folder_and_a_large_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"12345")

    with pytest.raises(IsADirectoryError):
        read_input(str(tmp_path), limit=100)
    with pytest.raises(OSError, match="larger than 4 bytes") as caught:
        read_input(str(tmp_path / "large"), limit=4)
    assert caught.value.errno == errno.EFBIG
