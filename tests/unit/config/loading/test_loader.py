from __future__ import annotations

import os
from pathlib import Path

import pytest

from discovery_engine.config.loading.loader import load_settings
from discovery_engine.errors import ConfigurationError


@pytest.mark.requirement("CFG-30", "CFG-34")
def test_the_servers_of_sources_join_the_owners(tmp_path: Path) -> None:
    folder = tmp_path / "project" / ".discovery"
    folder.mkdir(parents=True)
    (folder / "servers.json").write_text('{"mcpServers": {"git": {"command": "uvx"}}}')
    (folder / "discovery.yaml").write_text(
        "servers: {time: {command: npx}}\n"
        "sources: [{type: custom, path: servers.json}, {type: custom, path: gone.json}]\n"
    )

    settings = load_settings(environ={}, cwd=tmp_path / "project", home=tmp_path)

    assert [(server.name, server.source) for server in settings.servers] == [
        ("time", "discovery.yaml"),
        ("git", "custom"),
    ]
    assert [Path(warning.origin.file).name for warning in settings.warnings] == ["gone.json"]


def test_a_client_without_a_path_is_looked_for_in_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text('{"mcpServers": {"git": {"command": "uvx"}}}')
    (tmp_path / "discovery.yaml").write_text("sources: [{type: cursor}]")

    settings = load_settings(environ={}, cwd=tmp_path, home=tmp_path / "home")

    assert [server.name for server in settings.servers] == ["git"]


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    for path, reason in ((tmp_path, "a folder"), (tmp_path / "pipe", "not a regular file")):
        with pytest.raises(ConfigurationError, match=f"cannot be read: {reason}"):
            load_settings(path)


def test_a_folder_without_a_name_is_the_working_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.yaml").write_text("servers: {time: {command: uvx}}")

    assert len(load_settings("here.yaml").servers) == 1
