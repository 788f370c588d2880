"""Which sandbox counts for a server: that of its entry, or the one of `server.sandbox`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from discovery_engine.config.loading.loader import load_settings
from discovery_engine.config.serve_settings import NO_SANDBOX, SandboxSettings
from discovery_engine.config.settings import ServerSettings
from tests.rows import rows

AUTO = SandboxSettings("auto")


def loaded(folder: Path, **keys: object) -> Mapping[str, ServerSettings]:
    path = folder / "discovery.yaml"
    path.write_text(json.dumps(keys), "utf-8")
    return load_settings(path).by_name


@pytest.mark.requirement("SBX-1")
def test_the_sandbox_of_an_entry_counts_alone(tmp_path: Path) -> None:
    servers = loaded(
        tmp_path,
        server={"sandbox": {"kind": "auto", "network": True, "write": ["/srv"]}},
        servers={
            "usual": {"command": "a"},
            "narrow": {"command": "b", "sandbox": "auto"},
            "free": {"command": "c", "sandbox": "none"},
            "remote": {"url": "http://localhost:1/mcp"},
        },
    )

    assert servers["usual"].sandbox == SandboxSettings("auto", network=True, write=("/srv",))
    assert servers["narrow"].sandbox == AUTO
    assert servers["free"].sandbox == NO_SANDBOX
    assert servers["remote"].sandbox == NO_SANDBOX


@pytest.mark.requirement("SBX-1")
def test_servers_of_other_clients_get_the_default_too(tmp_path: Path) -> None:
    theirs = tmp_path / "elsewhere" / "servers.json"
    theirs.parent.mkdir()
    theirs.write_text(json.dumps({"mcpServers": {"b": {"command": "y"}}}), "utf-8")

    servers = loaded(
        tmp_path,
        server={"sandbox": {"read": ["data", "~/notes"]}},
        sources=[{"type": "custom", "path": str(theirs)}],
    )

    expected = (str(tmp_path / "data"), "~/notes")
    assert servers["b"].sandbox == SandboxSettings("auto", read=expected)


@pytest.mark.requirement("SBX-1")
@rows(
    ("sandbox", "problem"),
    [
        ("landlok", "did you mean 'landlock'?"),
        ({"kind": "auto", "reed": ["/x"]}, "did you mean 'read'?"),
        ({"read": ["${HOME}/x"]}, "must not hold ${references}"),
        ({"read": ["~nobody-of-that-name/x"]}, "the home folder of an unknown user"),
        ({"memoryMib": 1}, "16"),
        (True, "must be"),
    ],
)
def test_what_is_no_sandbox_disables_its_server_alone(
    tmp_path: Path, sandbox: object, problem: str
) -> None:
    servers = loaded(
        tmp_path, servers={"a": {"command": "x", "sandbox": sandbox}, "b": {"command": "y"}}
    )

    assert problem in str(servers["a"].problem)
    assert servers["b"].problem is None
