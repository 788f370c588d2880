"""What `doctor` and `health` show of sandboxes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from discovery_cli.program import cli
from discovery_engine._util.json import JSONObject
from discovery_engine.engine.doctor import checks
from discovery_engine.upstream.stdio.sandbox.choice import Choice
from discovery_engine.upstream.stdio.sandbox.means import MeansState
from tests.rows import rows
from tests.servers.programs import HERE

SERVER = HERE / "trespassing_server.py"
ENTRY: JSONObject = {"command": sys.executable, "args": ["-I", "-S", str(SERVER)]}


def said(folder: Path, *words: str, env: dict[str, str] | None = None, **servers: Any) -> Any:
    config = folder / "discovery.yaml"
    config.write_text(json.dumps({"servers": servers}), "utf-8")
    where = ["--json", "--config", str(config), "--data-dir", str(folder / "data")]
    return json.loads(CliRunner(env=env).invoke(cli, [*where, *words]).stdout)


def check_of(subject: str, found: Any) -> JSONObject:
    [check] = (one for one in found["checks"] if one["subject"] == subject)
    return dict(check)


@pytest.mark.requirement("SBX-20")
def test_doctor_shows_what_there_is_and_what_confines_each_server(tmp_path: Path) -> None:
    image = {"command": "docker", "args": ["run", "-i", "mcp/time"], "sandbox": "auto"}

    found = said(tmp_path, "doctor", plain=ENTRY, image=image)

    check = check_of("sandbox", found)
    assert check["code"] == "CHECK_PASSED"
    assert "image in docker" in check["message"]
    assert "plain" not in check["message"]


@pytest.mark.requirement("SBX-20")
def test_doctor_names_the_server_whose_means_is_missing(tmp_path: Path) -> None:
    found = said(
        tmp_path,
        "doctor",
        env={"PATH": str(tmp_path)},
        wrapped={**ENTRY, "sandbox": "bubblewrap"},
    )

    check = check_of("server wrapped", found)
    assert check["code"] == "SERVER_NEEDS_CONFIG"
    assert "bwrap is not on the PATH" in check["message"]
    assert "apt install bubblewrap" in check["hint"]


@pytest.mark.requirement("SBX-20")
def test_a_server_that_auto_cannot_confine_is_a_note() -> None:
    missing = [MeansState("landlock", problem="needs Linux", hint="use docker")]

    check = checks.sandboxes(missing, {"notes": Choice("none")})

    assert (check.code, check.level) == ("SANDBOX_UNAVAILABLE", "note")
    assert check.message == "notes run without one; landlock: needs Linux"
    assert check.hint == "use docker"


@pytest.mark.requirement("SBX-20")
def test_health_shows_the_sandbox_of_an_open_session(tmp_path: Path) -> None:
    sandbox = {"kind": "auto", "read": [str(SERVER)]}

    found = said(tmp_path, "health", "--online", "a", a={**ENTRY, "sandbox": sandbox})

    [server] = found["servers"]
    kind = server["session"]["confined_with"].partition(" ")[0]
    assert kind in ("bubblewrap", "landlock", "none")


@pytest.mark.requirement("SBX-20")
@rows("words", ["inspect a", "health a", "list"])
def test_the_sandbox_of_a_server_is_shown_while_it_does_not_run(tmp_path: Path, words: str) -> None:
    entry = {**ENTRY, "sandbox": {"read": [str(SERVER)], "network": True}}
    said(tmp_path, "refresh", "a", a=entry)

    found = said(tmp_path, *words.split(), a=entry)

    shown = found["servers"][0] if "servers" in found else found["server"]
    assert shown["sandbox"] == f"auto; reads {SERVER}; network; 2048 MiB, 512 processes"


@pytest.mark.requirement("SBX-1")
def test_a_server_that_fails_in_its_sandbox_names_the_way_out(tmp_path: Path) -> None:
    found = said(tmp_path, "health", "--online", "a", a={**ENTRY, "sandbox": "auto"})

    [server] = found["servers"]
    if "sandbox" not in server["hint"]:
        pytest.skip("this system has no means")
    assert "`read`, `write` or `network` under `sandbox`" in server["hint"]
    assert (
        server["hint"]
        in said(tmp_path, "health", "a", a={**ENTRY, "sandbox": "auto"})["servers"][0]["hint"]
    )
