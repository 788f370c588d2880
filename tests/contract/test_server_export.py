"""Servers exported as other clients write them: specs/api.md."""

from __future__ import annotations

import json
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from discovery_engine import load_settings
from tests.api_server import Api, serving
from tests.engines import Folder

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("API-25")]

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
SERVERS: dict[str, dict[str, Any]] = {
    "plain": {"command": "/usr/bin/mail", "args": ["a b", "'", "é"], "env": {"LEVEL": "debug"}},
    "remote": {"url": "https://mail.example.com/mcp", "headers": {"Accept": "text/plain"}},
    "mail": {
        "command": "npx",
        "args": ["-y", "@acme/mail@1.2.3", "--token", SECRET],
        "env": {"TOKEN": "${TOKEN}", "API_KEY": SECRET, "KEPT": "${secret:mail/KEPT}"},
    },
    "login": {
        "url": "https://mail.example.com/mcp",
        "headers": {"Authorization": "Bearer ${MAIL_TOKEN}", "X-Api-Key": SECRET},
    },
}
FILES = {
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "claude-code": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "codex": ".codex/config.toml",
    "gemini-cli": ".gemini/settings.json",
}


@asynccontextmanager
async def exporting(folder: Folder) -> AsyncIterator[Api]:
    folder.config.write_text(json.dumps({"servers": SERVERS}), "utf-8")
    async with folder.open() as engine, serving(engine, folder) as api:
        yield api


def transport_of(home: Path, client: str, name: str) -> Any:
    """What a configuration reads from the file of a client."""
    configuration = home / "discovery.yaml"
    configuration.write_text(json.dumps({"sources": [{"type": client}]}), "utf-8")
    elsewhere = home / "elsewhere"
    settings = load_settings(configuration, environ={}, cwd=elsewhere, home=home)
    return settings.by_name[name].transport  # type: ignore[index]


async def test_what_is_exported_is_the_same_server_to_the_reader_of_the_client(
    folder: Folder,
) -> None:
    faults = []
    async with exporting(folder) as api:
        own = load_settings(folder.config).by_name
        for client, path in FILES.items():
            for name in ("plain", "remote"):
                home = folder.path / client / name
                file = home / path
                file.parent.mkdir(parents=True)
                exported = await api.get(f"/servers/{name}/entry", client=client)
                file.write_text(exported["text"], "utf-8")
                transport, expected = transport_of(home, client, name), own[name].transport  # type: ignore[index]
                parts = ("command", "args", "env") if name == "plain" else ("url", "headers")
                if any(getattr(transport, one) != getattr(expected, one) for one in parts):
                    faults.append((client, name, transport))
        unknown = await api.ask("/servers/plain/entry?client=nothing")
        nobody = await api.ask("/servers/nobody/entry?client=cursor")

    assert faults == []
    assert (unknown.status_code, nobody.status_code) == (422, 404)


async def test_no_value_of_a_secret_is_exported_and_references_are_those_of_the_client(
    folder: Folder,
) -> None:
    entries = {}
    async with exporting(folder) as api:
        for client in ("discovery", *FILES):
            exported = await api.get("/servers/mail/entry", client=client)
            login = await api.get("/servers/login/entry", client=client)
            assert SECRET not in json.dumps([exported, login])
            assert {"TOKEN", "KEPT"} <= set(exported["values"])
            assert {"MAIL_TOKEN", "X-Api-Key"} <= set(login["values"])
            read = {"codex": tomllib.loads, "discovery": yaml.safe_load}.get(client, json.loads)
            [entries[client]] = [one["mail"] for one in read(exported["text"]).values()]
            if client == "claude-code":
                command = exported["command"]

    assert entries["discovery"]["env"]["KEPT"] == "${secret:mail/KEPT}"
    assert entries["claude-code"]["env"]["TOKEN"] == "${TOKEN}"
    assert entries["cursor"]["env"]["TOKEN"] == "${env:TOKEN}"
    assert entries["claude-desktop"]["env"]["TOKEN"] == "<TOKEN>"
    assert entries["codex"]["env_vars"] == ["TOKEN"]
    assert command.startswith("claude mcp add-json mail ")
