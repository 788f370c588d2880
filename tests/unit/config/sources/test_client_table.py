"""Where each client keeps its files, on every platform."""

from __future__ import annotations

from pathlib import Path

from discovery_engine.config.settings import Source
from discovery_engine.config.sources import SOURCE_TYPES, client_files, source_of_file
from tests.contract.test_sources import ROWS, Row, lay_out
from tests.rows import rows

WITHOUT_A_FIXTURE = {"custom", "docker-mcp", "docker-mcp-gateway", "cherry-studio"}


@rows("layout", ["linux", "darwin", "windows"])
@rows("row", ROWS, ids=lambda row: row.client)
def test_a_client_file_is_found_without_opening_it(row: Row, layout: str, tmp_path: Path) -> None:
    environ = {"APPDATA": str(tmp_path / "AppData/Roaming")} if layout == "windows" else {}
    path = lay_out(row, layout, tmp_path)
    path.write_bytes(b"\0 no file of any client")

    found = client_files(environ=environ, home=tmp_path, cwd=tmp_path / "work", platform=layout)

    assert [(file.client, file.path, file.scope) for file in found] == [
        (row.client, str(path), "user")
    ]


@rows("row", ROWS, ids=lambda row: row.client)
def test_a_copy_of_a_clients_file_is_recognized_by_the_end_of_its_path(
    row: Row, tmp_path: Path
) -> None:
    path = lay_out(row, "linux", tmp_path / "copy")

    source = source_of_file(path, environ={}, home=tmp_path, cwd=tmp_path, platform="linux")

    assert source == Source(row.client, str(path))


def test_every_client_of_the_table_has_a_fixture() -> None:
    assert {row.client for row in ROWS} | WITHOUT_A_FIXTURE == set(SOURCE_TYPES)
