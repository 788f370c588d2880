from __future__ import annotations

from pathlib import Path

import click
import pytest

from discovery_cli.writing import replace_file


def test_a_file_that_cannot_be_written_is_reported_by_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")

    with pytest.raises(click.UsageError, match=r"file/new\.yaml cannot be written: "):
        replace_file(tmp_path / "file" / "new.yaml", "text")
