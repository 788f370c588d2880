"""Programs of servers: what they are given, what they write, and that none outlives us."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from discovery_engine import ServerState
from tests.engines import Folder
from tests.server_entries import (
    Entry,
    call,
    configure,
    engine_of,
    fault,
    pid_of,
    report_of,
    shell,
    until,
)
from tests.servers.programs import descendants, eventually, is_running

pytestmark = pytest.mark.anyio

PASSED = (
    *("ALL_PROXY", "HTTPS_PROXY", "NO_PROXY", "https_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("UV_INDEX_URL", "PIP_EXTRA_INDEX_URL", "NPM_CONFIG_REGISTRY", "npm_config_registry"),
    *("XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
)
WITHHELD = (
    *("DOCKER_HOST", "SSH_AUTH_SOCK", "UV_PUBLISH_TOKEN", "GITHUB_TOKEN", "MY_UV_X", "AWS_KEY"),
    *("LD_PRELOAD", "PYTHONPATH", *(f"CANARY_{number}" for number in range(50))),
)


@pytest.mark.requirement("UPS-20", "UPS-12")
async def test_a_program_sees_only_what_is_harmless_what_reaches_the_network_and_its_own(
    folder: Folder,
) -> None:
    ours = {name: f"of-{name}" for name in (*PASSED, *WITHHELD)}
    ours |= {"PATH": os.environ["PATH"], "HTTP_PROXY": "() { :; }", "SECRET": "s3cret"}
    servers = {"s": fault(env={"TOKEN": "${SECRET}"}), "other": fault()}
    options = {"passEnv": ["SSH_AUTH_SOCK", "AWS_*"]}
    given = []

    for section in ({}, options):
        async with engine_of(folder.path, servers, environ=ours, server=section) as engine:
            seen = json.loads(await call(engine, "s", "environment"))
            other = json.loads(await call(engine, "other", "environment"))
        given.append({name for name, value in seen.items() if value == f"of-{name}"})

    assert given == [{*PASSED}, {*PASSED, "SSH_AUTH_SOCK", "AWS_KEY"}]
    assert "HTTP_PROXY" not in seen
    assert seen["TOKEN"] == "s3cret"
    assert {"TOKEN", "SECRET"}.isdisjoint(other)


@pytest.mark.requirement("UPS-21")
async def test_no_shell_reads_a_command_and_arguments_arrive_as_they_are(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder.path))
    place = folder.path / "place"
    place.mkdir()
    attacks = ("x; touch M", "$(touch M)", "`touch M`", "true && touch M", "true\ntouch M")
    servers: dict[str, Entry] = {
        f"attack{number}": {"command": command, "args": [], "cwd": str(place)}
        for number, command in enumerate(attacks)
    }
    arguments = [*attacks, "~/notes", "*", ""]
    script = "import json, os, sys; json.dump([os.getcwd(), sys.argv[1:]], open('seen', 'w'))"
    servers["words"] = {
        "command": sys.executable,
        "args": ["-c", script, *arguments],
        "cwd": "~/place",
    }

    async with engine_of(folder.path, servers) as engine:
        await engine.refresh()

    seen = json.loads((place / "seen").read_text("utf-8"))
    assert seen == [str(place), [*attacks, f"{folder.path}/notes", "*", ""]]
    assert [file.name for file in place.iterdir()] == ["seen"]


@pytest.mark.requirement("UPS-22")
async def test_a_program_and_what_it_started_end_with_its_session_and_all_with_the_engine(
    folder: Folder,
) -> None:
    inner = fault("stubborn")
    starts = "import subprocess, sys; subprocess.call(sys.argv[1:])"
    parent = {"command": sys.executable, "args": ["-c", starts, inner["command"], *inner["args"]]}
    servers = {f"s{number}": fault("stubborn") for number in range(3)}
    before = descendants()

    async with engine_of(folder.path, servers | {"parent": parent}) as engine:
        await engine.refresh(servers)
        others = descendants() - before
        await engine.refresh(["parent"])
        family = descendants() - before - others
        await engine.restart("parent")
        await eventually(lambda: not any(map(is_running, family)))
        are_running = [*map(is_running, others)]
        began = anyio.current_time()

    assert len(family) == 2
    assert are_running == [True] * 4  # and the reaper
    assert not any(map(is_running, descendants() - before))
    assert anyio.current_time() - began < 50


GATEWAY = """
import anyio, sys
from discovery_engine import open_engine

async def main():
    async with open_engine(sys.argv[1], data_dir=sys.argv[2]) as engine:
        await engine.refresh()
        print("ready", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""
LEAVE = {
    "session": "os.setsid()",
    "group": "os.setpgid(0, 0)",
    "twice": "os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0)",
}


def leaving(how: str, file: Path) -> Entry:
    """A server whose child leaves its group, ignores what can be ignored, and is noted."""
    server = fault("stubborn")
    script = f"""
import os, signal, sys, time
if os.fork() == 0:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    {LEAVE[how]}
    with open({str(file)!r}, "a") as file:
        file.write(f"{{os.getpid()}}\\n")
    time.sleep(600)
os.execv(sys.argv[1], sys.argv[1:])
"""
    command = [server["command"], *server["args"]]
    return {"command": sys.executable, "args": ["-I", "-S", "-c", script, *command]}


@pytest.mark.requirement("UPS-24")
@pytest.mark.skipif(sys.platform != "linux", reason="the subreaper of Linux")
def test_nothing_is_left_of_a_gateway_that_is_killed(tmp_path: Path) -> None:
    left = tmp_path / "left"
    servers = {how: leaving(how, left) for how in LEAVE}
    servers |= {"stubborn": fault("stubborn"), "shell": shell('"$0" "$@"; true', *words(fault()))}
    config = configure(tmp_path, servers)
    command = [sys.executable, "-c", GATEWAY, str(config), str(tmp_path / "data")]

    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        anyio.run(eventually, lambda: len(numbers(left)) == len(LEAVE))
        started = descendants(process.pid)
        process.kill()
        process.wait()
        anyio.run(eventually, lambda: not any(map(is_running, {*started, *numbers(left)})))

    assert len(started) >= 8  # five servers, a child, a shell, the reaper


def words(entry: Entry) -> list[str]:
    return [entry["command"], *entry["args"]]


def numbers(file: Path) -> list[int]:
    return [int(line) for line in file.read_text("ascii").split()] if file.exists() else []


@pytest.mark.requirement("UPS-24")
async def test_programs_end_with_a_killed_reaper_and_the_next_call_starts_them(
    folder: Folder,
) -> None:
    async with engine_of(folder.path, {"a": fault(), "b": fault("stubborn")}) as engine:
        pids = [await pid_of(engine, name) for name in ("a", "b")]
        os.kill(parent_of(pids[0]), signal.SIGKILL)
        for name in ("a", "b"):
            await until(engine, name, lambda report: report.state is not ServerState.READY)
        await eventually(lambda: not any(map(is_running, pids)))
        others = [await pid_of(engine, name) for name in ("a", "b")]

    assert not {*others} & {*pids}


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[1])


LEAKS = r"import os, sys; sys.stderr.write('\x1b[31mkey %s\nlast words' % os.environ['KEY'])"


@pytest.mark.requirement("UPS-25")
async def test_stderr_is_logged_with_the_servers_name_bounded_and_redacted(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "discovery_engine")
    leaky = {"command": sys.executable, "args": ["-c", LEAKS], "env": {"KEY": "tr0ub4dor"}}
    long = shell("head -c 2000 /dev/zero | tr '\\0' x >&2; exit 1")
    servers = {"leaky": leaky, "flood": fault("stderr_flood"), "long": long}

    async with engine_of(folder.path, servers) as engine:
        await engine.refresh()
        last = (await engine.stderr("flood"), await engine.stderr("leaky"))
        flood = (await report_of(engine, "flood")).state

    lines = {name: [m for m in caplog.messages if m.startswith(f"{name}: ")] for name in servers}
    assert lines["leaky"][-2:] == ["leaky: <U+001B>[31mkey ••••", "leaky: last words"]
    assert lines["long"][-1:] == [f"long: {'x' * 500}…"]
    assert 20 <= len(lines["flood"]) <= 51
    assert (len(last[0]), last[1][-1]) == (20, "last words")
    assert flood == "ready"
    assert "tr0ub4dor" not in caplog.text
