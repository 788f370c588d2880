"""`discovery logs` and `discovery metrics`, as a person and as a script use them."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.call_log.call_log import CallLog
from discovery_engine.call_log.log_entry import LogEntry
from discovery_engine.config.settings import Settings
from tests.contract.discovery import Discovery
from tests.forked import Preloaded
from tests.kinds import thinned

ESCAPES = "\x1b[2J\x1b]0;evil\x07\u202e"


@pytest.fixture
def discovery(tmp_path: Path, forked: Preloaded) -> Discovery:
    made = Discovery(tmp_path, forked)
    made.configure()
    return made


def call_some(discovery: Discovery) -> None:
    discovery("execute", "demo:echo", "text=hello")
    discovery("execute", "demo:boom")


def recorded(discovery: Discovery, *entries: tuple[LogEntry, JSONObject]) -> None:
    """Entries as if a gateway with the same configuration had written them."""
    settings = Settings()
    scope = os.path.realpath(discovery.home / "discovery.yaml")
    log = CallLog(discovery.home / "data", scope, lambda: settings, clock=lambda: 1.8e9)
    for entry, result in entries:
        log.record(entry, result=result)
    log.close()


def entry(tool: str, **fields: object) -> LogEntry:
    return LogEntry(1.8e9, "call", "demo", tool, "ok", 0.1, **fields)  # type: ignore[arg-type]


@pytest.mark.thorough
@pytest.mark.requirement("LOG-7")
@pytest.mark.requirement("LOG-11")
def test_a_call_on_the_command_line_is_in_the_log_as_a_persons(discovery: Discovery) -> None:
    call_some(discovery)

    shown = discovery("logs")

    echo, boom = shown.out.splitlines()
    assert "demo:echo" in echo
    assert "(person)" in echo
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
def test_the_log_is_readable_with_an_invalid_configuration(discovery: Discovery) -> None:
    call_some(discovery)
    (discovery.home / "discovery.yaml").write_text("servers: [", "utf-8")

    shown = discovery("logs")

    assert (shown.code, len(shown.out.splitlines())) == (0, 2)


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


@pytest.mark.requirement("LOG-11")
def test_the_columns_of_entries_line_up(discovery: Discovery) -> None:
    read = LogEntry(1.8e9, "resource-read", "demo", "file:///a/long/address/of/a/file.txt", "ok")
    recorded(discovery, (entry("echo"), {}), (read, {}))

    lines = discovery("logs").out.splitlines()

    assert len({line.index("demo:") for line in lines}) == 1
    assert len({line.index("  ok") for line in lines}) == 1


@pytest.mark.requirement("LOG-12")
def test_what_a_server_wrote_controls_no_terminal_and_no_spreadsheet(discovery: Discovery) -> None:
    text = f"{ESCAPES}=cmd|' /C calc'!A0\nsecond, line\r\n"
    recorded(
        discovery,
        (entry("=1+1"), {"text": text}),
        (entry(f"@x{ESCAPES}"), {"text": "-2"}),
        (LogEntry(1.8e9, "stderr", "demo"), text),  # type: ignore[arg-type]
    )

    shown = discovery("logs").out
    assert len(shown.splitlines()) == 3
    assert not any(code in shown for code in ("\x1b", "\x07", "\u202e", "\r"))

    lines = discovery("logs", "--export", "ndjson").out
    assert lines.isascii()
    assert [json.loads(line)["kind"] for line in lines.splitlines()] == ["call", "call", "stderr"]
    assert json.loads(lines.splitlines()[0])["result"] == {"text": text}

    rows = list(csv.DictReader(io.StringIO(discovery("logs", "--export", "csv").out)))
    assert len(rows) == 3
    assert rows[0]["tool"] == "'=1+1"
    assert rows[1]["tool"].startswith("'@x")
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row.values())


@pytest.mark.requirement("LOG-15")
def test_times_are_written_for_people_and_for_programs(discovery: Discovery) -> None:
    recorded(discovery, (entry("echo"), {}))
    at = discovery("logs", "--json").json["entries"][0]["at"]

    whole = json.loads(discovery("logs", "--export", "ndjson").out)
    [row] = csv.DictReader(io.StringIO(discovery("logs", "--export", "csv").out))
    [shown] = discovery("logs", "--json").json["entries"]

    assert list(whole)[:3] == list(row)[:3] == ["id", "time", "at"]
    assert whole["time"] == row["time"] == shown["time"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", shown["time"])
    assert abs(datetime.fromisoformat(shown["time"]).timestamp() - at) < 0.001


@pytest.mark.requirement("LOG-16")
@pytest.mark.parametrize(
    ("file", "hint"),
    thinned(
        [
            ("missing/deep/x.csv", "mkdir -p"),
            ("discovery.yaml/x.csv", "is no folder"),
            (".", None),
            ("/dev/full", "free space"),
        ]
    ),
)
def test_a_file_that_cannot_be_written_is_named_with_a_way_out(
    discovery: Discovery, file: str, hint: str | None
) -> None:
    recorded(discovery, (entry("echo"), {}))
    discovery.configure()

    refused = discovery("logs", "--export", "csv", "-o", str(discovery.home / file))

    assert refused.code == 2
    if hint:
        assert "cannot be written" in refused.err
        assert hint in refused.err
        assert "--help" not in refused.err


@pytest.mark.thorough
@pytest.mark.requirement("LOG-13")
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


@pytest.mark.parametrize(
    "words",
    [
        ("-f", "--clear"),
        ("-o", "x"),
        ("--since", "yesterday"),
        ("--export", "xml"),
        ("--limit", "0"),
    ],
)
@pytest.mark.requirement("LOG-13")
def test_options_that_do_not_fit_are_refused(discovery: Discovery, words: tuple[str, ...]) -> None:
    assert discovery("logs", *words).code == 2


@pytest.mark.thorough
@pytest.mark.requirement("LOG-2")
def test_an_empty_log_says_why(discovery: Discovery) -> None:
    discovery.configure(rules="log: {calls: off}\n")
    call_some(discovery)

    assert "`log.calls` is off" in discovery("logs").err


@pytest.mark.requirement("CLI-5")
def test_a_server_or_a_status_that_does_not_exist_is_named_where_nothing_is_found(
    discovery: Discovery,
) -> None:
    call_some(discovery)

    server = discovery("logs", "--server", "demmo")
    status = discovery("logs", "--status", "errror")

    assert (server.code, status.code) == (2, 2)
    assert "did you mean 'demo'?" in server.err
    assert "did you mean error?" in status.err
    assert discovery("logs", "--status", "TOOL_DISABLED").code == 0


@pytest.mark.requirement("MTR-4")
def test_metrics_are_shown_for_servers_and_for_the_tools_of_one(discovery: Discovery) -> None:
    assert "no call was counted yet" in discovery("metrics").err
    call_some(discovery)

    servers = discovery("metrics")
    tools = discovery("metrics", "--server", "demo")
    form = discovery("metrics", "--json").json["servers"][0]

    assert servers.out.splitlines()[1].split()[:4] == ["demo", "2", "1", "(50%)"]
    assert [line.split()[0] for line in tools.out.splitlines()] == ["TOOL", "boom", "echo"]
    assert (form["calls"], form["errors"], len(form["tools"])) == (2, 1, 2)
    assert discovery("metrics", "--server", "nowhere").code == 2
    reset = discovery("metrics", "--reset", "--json").json["servers"][0]
    assert (reset["calls"], reset["errors"]) == (2, 0)
