"""`discovery logs` and `discovery metrics`, as a person and as a script use them."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from discovery_engine import DiscoveryError, sync
from tests.contract.discovery import Discovery
from tests.forked import Preloaded

ESCAPES = "\x1b[2J\x1b]0;evil\x07\u202e"


@pytest.fixture
def discovery(tmp_path: Path, forked: Preloaded) -> Discovery:
    made = Discovery(tmp_path, forked)
    made.configure()
    return made


def call_some(discovery: Discovery) -> None:
    discovery("execute", "demo:echo", "text=hello")
    discovery("execute", "demo:boom")


@pytest.mark.thorough
@pytest.mark.requirement("LOG-11")
def test_a_call_on_the_command_line_is_in_the_log_as_a_persons(discovery: Discovery) -> None:
    call_some(discovery)

    shown = discovery("logs")

    echo, boom = shown.out.splitlines()
    assert "demo:echo" in echo
    assert echo.index("(person)") == boom.index("(person)") > 0
    assert "hello" in echo
    assert "tool_error" in boom
    assert "\x1b" not in shown.out
    chosen = discovery("logs", "--status", "error", "--kind", "call", "--server", "demo", "--json")
    assert [one["tool"] for one in chosen.json["entries"]] == ["boom"]
    assert discovery("logs", "--limit", "1").out.splitlines() == [boom]
    recent = discovery("logs", "--since", "1h", "--text", "HELLO")
    assert recent.out.split() == echo.split()
    assert discovery("logs", "--until", "1h").out == ""


@pytest.mark.thorough
@pytest.mark.requirement("LOG-11")
def test_the_log_is_followed_while_another_process_calls(discovery: Discovery) -> None:
    call_some(discovery)
    command = [sys.executable, "-m", "discovery_cli", "logs", "-f", "--json", "--limit", "1"]
    with subprocess.Popen(
        command, cwd=discovery.home, env=discovery.environ, stdout=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout
        lines: Iterator[str] = iter(following.stdout)
        assert json.loads(next(lines))["tool"] == "boom"
        discovery("execute", "demo:echo", "text=later")
        later = json.loads(next(lines))
        following.terminate()

    assert later["arguments"] == {"text": "later"}


@pytest.mark.requirement("LOG-12")
def test_what_a_server_wrote_controls_no_terminal_and_no_spreadsheet(discovery: Discovery) -> None:
    text = f"{ESCAPES}=cmd|' /C calc'!A0\nsecond, line\r\n"
    home = discovery.home
    environ = discovery.environ
    with sync.open_engine(
        home / "discovery.yaml", data_dir=home / "data", environ=environ
    ) as engine:
        engine.execute("demo", "echo", {"text": text})
        for tool in ("=1+1", f"@x{ESCAPES}"):
            with pytest.raises(DiscoveryError):
                engine.execute("demo", tool, {})

    shown = discovery("logs", "--kind", "call").out
    assert len(shown.splitlines()) == 3
    assert not any(code in shown for code in ("\x1b", "\x07", "\u202e", "\r"))

    lines = discovery("logs", "--kind", "call", "--export", "ndjson").out
    assert lines.isascii()
    assert json.loads(lines.splitlines()[0])["arguments"] == {"text": text}

    exported = discovery("logs", "--kind", "call", "--export", "csv").out
    rows = list(csv.DictReader(io.StringIO(exported)))
    assert rows[1]["tool"] == "'=1+1"
    assert rows[2]["tool"].startswith("'@x")
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row.values())


@pytest.mark.thorough
@pytest.mark.requirement("LOG-11")
def test_entries_are_exported_into_a_private_file_and_cleared(discovery: Discovery) -> None:
    call_some(discovery)
    file = discovery.home / "calls.ndjson"

    exported = discovery("logs", "--export", "ndjson", "-o", str(file))
    cleared = discovery("logs", "--clear", "--json")

    assert "2 entries written" in exported.err
    assert file.stat().st_mode & 0o777 == 0o600
    assert [json.loads(line)["tool"] for line in file.read_text("utf-8").splitlines()] == [
        "echo",
        "boom",
    ]
    assert cleared.json["cleared"] == 2
    assert "nothing was called yet" in discovery("logs").err


@pytest.mark.requirement("CLI-5")
def test_a_server_or_a_status_that_does_not_exist_is_named_where_nothing_is_found(
    discovery: Discovery,
) -> None:
    call_some(discovery)

    server = discovery("logs", "demmo")
    status = discovery("logs", "--status", "errror")

    assert (server.code, status.code) == (2, 2)
    assert "did you mean 'demo'?" in server.err
    assert "did you mean error?" in status.err
    assert discovery("logs", "--status", "TOOL_DISABLED").code == 0


@pytest.mark.requirement("MTR-1")
def test_metrics_are_shown_for_servers_and_for_the_tools_of_one(discovery: Discovery) -> None:
    assert "no call was counted yet" in discovery("metrics").err
    call_some(discovery)

    servers = discovery("metrics")
    tools = discovery("metrics", "demo")
    form = discovery("metrics", "--json").json["servers"][0]

    assert servers.out.splitlines()[1].split()[:4] == ["demo", "2", "1", "(50%)"]
    assert [line.split()[0] for line in tools.out.splitlines()] == ["TOOL", "boom", "echo"]
    assert (form["calls"], form["errors"], len(form["tools"])) == (2, 1, 2)
    assert discovery("metrics", "nowhere").code == 2
    reset = discovery("metrics", "--reset", "--json").json["servers"][0]
    assert (reset["calls"], reset["errors"]) == (2, 0)
