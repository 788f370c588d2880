"""`discovery login` and `discovery logout` as programs, and that no token is in what they leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.config.settings import LogSettings
from discovery_engine.engine import open_engine
from discovery_engine.errors import DiscoveryError
from discovery_server.logs import log_to
from tests.forked import Finished, Preloaded, drained
from tests.oauth import OAuthWorld

PATIENCE = 60.0


class Command:
    """One run, whose stderr is read for the address to open."""

    def __init__(self, forked: Preloaded, words: Sequence[str], folder: Path) -> None:
        self._forked = forked
        out, outlet = os.pipe()
        err, errlet = os.pipe()
        streams = (os.open(os.devnull, os.O_RDONLY), outlet, errlet)
        config = ["--config", str(folder / "discovery.yaml"), "--data-dir", str(folder / "data")]
        environ = {**os.environ, "BROWSER": "/bin/false %s"}
        forked.start([*config, *words], streams, cwd=folder, environ=environ)
        self._out = ThreadPoolExecutor(1).submit(drained, out)
        self._stderr = os.fdopen(err, encoding="utf-8")
        self._err = ""

    def address(self) -> str:
        for line in self._stderr:
            self._err += line
            if line.startswith("  http"):
                return line.strip()
            if line.startswith("{"):
                return str(json.loads(line)["authorization_url"])
        raise AssertionError(self._err)

    def end(self) -> Finished:
        with self._stderr:
            err = self._err + self._stderr.read()
        out = self._out.result(PATIENCE)
        return Finished(self._forked.wait(), out.decode(), err)


class Terminal:
    """What runs commands in one folder."""

    def __init__(self, forked: Preloaded, world: OAuthWorld, folder: Path) -> None:
        self._forked = forked
        self._world = world
        self.folder = folder
        world.config(folder)

    def run(self, words: str) -> Finished:
        return Command(self._forked, words.split(), self.folder).end()

    def log_in(self, *words: str) -> Finished:
        command = Command(self._forked, ["login", "files", *words], self.folder)
        self._world.visit(command.address())
        return command.end()


@pytest.fixture
def terminal(forked: Preloaded, world: OAuthWorld, tmp_path: Path) -> Terminal:
    return Terminal(forked, world, tmp_path)


@pytest.mark.requirement("AUT-1", "CLI-2")
def test_login_prints_the_address_waits_and_lists_the_tools(
    world: OAuthWorld, terminal: Terminal
) -> None:
    before = terminal.run("list --status")
    called = terminal.run("execute files read_file")
    refreshed = terminal.run("refresh")

    done = terminal.log_in()

    assert "needs_auth" in before.out
    assert (called.code, refreshed.code) == (6, 6)
    assert " login files`" in called.err
    assert (done.code, done.out) == (0, "")
    assert f"logged in to files at {world.issuer}" in done.err
    assert "files: 3 tools" in done.err
    again = terminal.run("execute files read_file")
    assert (again.code, again.out) == (0, "done\n")
    assert terminal.run("health files").code == 0


@pytest.mark.requirement("CLI-3", "AUT-26")
def test_the_answers_in_json_are_alone_on_stdout(world: OAuthWorld, terminal: Terminal) -> None:
    done = terminal.log_in("--json")
    found = done.json
    logout = terminal.run("logout files --json").json
    status = terminal.run("list --status").out
    world.control(denies=True)
    denied = terminal.log_in("--json")

    assert done.code == 0
    assert [list(json.loads(line)) for line in done.err.splitlines()] == [
        ["schema_version", "authorization_url"]
    ]
    assert found["scopes"] == ["read"]
    assert (found["refreshable"], found["tool_count"], found["code"]) == (True, 3, None)
    assert (logout["deleted"], logout["revoked"], logout["failures"]) == (1, 1, [])
    assert "needs_auth" in status
    assert (denied.code, denied.out) == (6, "")
    error = json.loads(denied.err.splitlines()[-1])["error"]
    assert (error["code"], error["exit_code"]) == ("LOGIN_FAILED", 6)


@pytest.mark.requirement("AUT-15")
def test_a_token_that_the_server_refuses_at_once_fails_the_command(
    world: OAuthWorld, terminal: Terminal
) -> None:
    world.control(audience="https://other.example/")

    done = terminal.log_in()

    assert done.code == 6
    assert "refuses the token of its login" in done.err


@pytest.mark.requirement("AUT-4")
def test_the_command_ends_when_nobody_comes(terminal: Terminal) -> None:
    late = terminal.run("login files --timeout 0.1")

    assert late.code == 6
    assert "it was not completed in the browser" in late.err


@pytest.mark.thorough
@pytest.mark.requirement("AUT-4")
def test_an_interrupted_login_ends(world: OAuthWorld, tmp_path: Path) -> None:
    where = ["--config", str(world.config(tmp_path)), "--data-dir", str(tmp_path / "data")]
    command = [sys.executable, "-m", "discovery_cli", *where, "login", "files", "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert any(line.startswith("  http") for line in process.stderr)
        process.send_signal(signal.SIGINT)
        err = process.stderr.read()

    assert (process.returncode, "Traceback" in err) == (130, False)


def test_a_logout_without_a_login_says_so(terminal: Terminal) -> None:
    done = terminal.run("logout files")
    unknown = terminal.run("logout filse")

    assert (done.code, done.err) == (0, "there was no login to files\n")
    assert unknown.code == 2
    assert "did you mean 'files'" in unknown.err


@pytest.mark.requirement("AUT-22")
def test_doctor_says_where_secrets_are_kept(terminal: Terminal) -> None:
    before = terminal.run("doctor").out
    terminal.log_in()
    after = terminal.run("doctor").out
    (terminal.folder / "data" / "secrets.json").write_bytes(b"{")
    broken = terminal.run("doctor")

    assert "none stored; their key would be in a file beside them" in before
    assert "1 secret, encrypted; the key is in a file beside them" in after
    assert broken.code == 7
    assert "SECRET_STORE_ERROR" in broken.out


def contents(folder: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def leaks(secrets: Sequence[str], outputs: Mapping[str, bytes]) -> list[str]:
    """Where a part of a secret stands."""
    traces = [trace.encode() for one in secrets for trace in (one[:20], one[-12:], one[10:26])]
    return [name for name, data in outputs.items() if any(trace in data for trace in traces)]


@pytest.mark.thorough
@pytest.mark.requirement("AUT-24", "HEA-15")
@pytest.mark.anyio
async def test_no_file_log_error_event_or_output_holds_a_part_of_a_token(
    world: OAuthWorld, terminal: Terminal, tmp_path: Path
) -> None:
    config = world.config(tmp_path)
    outputs: dict[str, bytes] = {}

    def keep(name: str, done: Finished) -> None:
        outputs[name] = (done.out + done.err).encode()

    keep("login", terminal.log_in("-vv"))
    for words in ("-vv execute files read_file", "-vv execute files tell_token", "-vv refresh"):
        keep(words, terminal.run(words))
    log = tmp_path / "gateway.log"
    answers: list[Any] = []
    with log_to(LogSettings(level="debug", file=str(log)), {}):
        async with open_engine(config, data_dir=tmp_path / "data") as engine:
            with engine.subscribe() as events:
                await engine.refresh()
                for tool in ("tell_token", "write_file", "read_file"):
                    try:
                        answers.append(await engine.execute("files", tool, {}))
                    except DiscoveryError as error:
                        answers.append([error.message, error.hint, error.detail, repr(error)])
                world.control(end=True)
                with pytest.raises(DiscoveryError):
                    await engine.execute("files", "read_file", {})
                answers += [repr(await engine.health()), repr(engine.settings)]
                answers.append("\n".join(map(repr, events.drain())))
    outputs["answers"] = json.dumps(answers).encode()
    for words in ("list --status --json", "health files --json", "doctor --json", "config show"):
        keep(words, terminal.run(words))
    keep("login again", terminal.log_in("--json", "-vv"))
    keep("logout", terminal.run("-vv logout files --json"))

    files = contents(tmp_path)
    assert len(world.issued) >= 4
    assert b"I was sent Bearer" in outputs["answers"]  # it was there to be redacted
    assert b"POST" in outputs["login"]
    assert leaks(world.issued, outputs | files) == []
