"""The command that clients start, wherever this program was installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from discovery_cli.output import Output
from discovery_engine.engine.owner.gateway_command import gateway_command
from tests.rows import rows


@pytest.mark.requirement("CON-1", "CLI-88")
@rows(
    ("folder", "runner"),
    [
        ("/home/me/.cache/uv/archive-v0/Xk3v9", ["uvx"]),
        ("/home/me/.cache/pipx/5d3f", ["pipx", "run"]),
        ("/home/me/.local/share/pipx/.cache/5d3f", ["pipx", "run"]),
    ],
)
def test_a_program_in_the_cache_of_a_runner_is_started_by_it(
    monkeypatch: pytest.MonkeyPatch, folder: str, runner: list[str]
) -> None:
    monkeypatch.setattr(sys, "prefix", folder)

    path = f"{folder}/bin:/a:/b:/a"
    command = gateway_command(Path("/home/me/d.yaml"), {"PATH": path}, view="work")

    assert command.words == (
        *(*runner, "mcp-discovery-engine", "--config", "/home/me/d.yaml"),
        *("serve", "--view", "work"),
    )
    assert command.env == {"PATH": "/a:/b"}
    words = " ".join(runner)
    hint = Output(options="-c d.yaml").hint("next: `discovery list`; discovery is a gateway")
    assert hint == f"next: `{words} mcp-discovery-engine -c d.yaml list`; discovery is a gateway"


@pytest.mark.requirement("CON-1")
def test_what_pipx_has_installed_is_started_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/home/me/.local/share/pipx/venvs/mcp-discovery-engine")

    assert "pipx" not in gateway_command(None, {"PATH": "/a"}).words
