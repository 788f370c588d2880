"""The command that clients start, wherever this program was installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from discovery_engine.engine.owner.gateway_command import gateway_command


@pytest.mark.requirement("CON-1")
def test_a_program_in_the_cache_of_uvx_is_started_by_uvx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/home/me/.cache/uv/archive-v0/Xk3v9")

    command = gateway_command(Path("/home/me/d.yaml"), {"PATH": "/a:/b:/a"}, view="work")

    assert command.words == (
        *("uvx", "mcp-discovery-engine", "--config", "/home/me/d.yaml"),
        *("serve", "--view", "work"),
    )
    assert command.env == {"PATH": "/a:/b"}
