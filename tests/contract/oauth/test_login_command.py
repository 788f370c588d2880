"""`discovery login` and `discovery logout` as programs, and that no token is in what they leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.config.settings import LogSettings
from discovery_engine.engine import open_engine
from discovery_engine.errors import DiscoveryError
from discovery_server.logs import log_to
from tests.oauth import OAuthWorld

PATIENCE = 60.0


class Command:
    """One run, whose stderr is read for the address to open."""

    def __init__(self, words: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
        config = ["--config", str(folder / "discovery.yaml"), "--data-dir", str(folder / "data")]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "discovery_cli", *config, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "BROWSER": "/bin/false %s", **environ},
        )
        self.err = ""

    def address(self) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.err += line
            if line.startswith("  http"):
                return line.strip()
            if line.startswith("{"):
                return str(json.loads(line)["authorization_url"])
        raise AssertionError(self.err)

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, self.err + err


def run(words: str, folder: Path, **environ: str) -> tuple[int, str, str]:
    return Command(words.split(), folder, environ).end()


def log_in(world: OAuthWorld, folder: Path, *words: str) -> tuple[int, str, str]:
    command = Command(["login", "files", *words], folder, {})
    world.visit(command.address())
    return command.end()


@pytest.mark.requirement("AUT-1", "CLI-2")
def test_login_prints_the_address_waits_and_lists_the_tools(
    world: OAuthWorld, tmp_path: Path
) -> None:
    world.config(tmp_path)
    before = run("list --status", tmp_path)
    called = run("execute files read_file", tmp_path)
    refreshed = run("refresh", tmp_path)

    code, out, err = log_in(world, tmp_path)

    assert "needs_auth" in before[1]
    assert (called[0], refreshed[0]) == (6, 6)
    assert "hint: `discovery login files`" in called[2]
    assert (code, out) == (0, "")
    assert f"logged in to files at {world.issuer}" in err
    assert "files: 3 tools" in err
    assert run("execute files read_file", tmp_path)[:2] == (0, "done\n")
    assert run("health files", tmp_path)[0] == 0


@pytest.mark.requirement("CLI-3", "CLI-4", "AUT-26")
def test_the_answers_in_json_are_alone_on_stdout(world: OAuthWorld, tmp_path: Path) -> None:
    world.config(tmp_path)

    code, out, err = log_in(world, tmp_path, "--json")
    found = json.loads(out)
    logout = json.loads(run("logout files --json", tmp_path)[1])
    status = run("list --status", tmp_path)[1]
    world.control(denies=True)
    denied = log_in(world, tmp_path, "--json")

    assert code == 0
    assert [list(json.loads(line)) for line in err.splitlines()] == [
        ["schema_version", "authorization_url"]
    ]
    assert found["scopes"] == ["read"]
    assert (found["refreshable"], found["tool_count"], found["code"]) == (True, 3, None)
    assert (logout["deleted"], logout["revoked"], logout["failures"]) == (1, 1, [])
    assert "needs_auth" in status
    assert (denied[0], denied[1]) == (6, "")
    error = json.loads(denied[2].splitlines()[-1])["error"]
    assert (error["code"], error["exit_code"]) == ("LOGIN_FAILED", 6)


@pytest.mark.requirement("AUT-15")
def test_a_token_that_the_server_refuses_at_once_fails_the_command(
    world: OAuthWorld, tmp_path: Path
) -> None:
    world.config(tmp_path)
    world.control(audience="https://other.example/")

    code, _, err = log_in(world, tmp_path)

    assert code == 6
    assert "refuses the token of its login" in err


@pytest.mark.requirement("AUT-4")
def test_the_command_ends_when_nobody_comes_and_when_it_is_interrupted(
    world: OAuthWorld, tmp_path: Path
) -> None:
    world.config(tmp_path)
    late = run("login files --timeout 0.1", tmp_path)
    pressed = Command(["login", "files", "--no-browser"], tmp_path, {})
    pressed.address()
    pressed.process.send_signal(signal.SIGINT)

    assert late[0] == 6
    assert "nobody completed it" in late[2]
    code, _, err = pressed.end()
    assert (code, "Traceback" in err) == (130, False)


def test_a_logout_without_a_login_says_so(world: OAuthWorld, tmp_path: Path) -> None:
    world.config(tmp_path)

    code, _, err = run("logout files", tmp_path)
    unknown = run("logout filse", tmp_path)

    assert (code, err) == (0, "there was no login to files\n")
    assert unknown[0] == 2
    assert "did you mean 'files'" in unknown[2]


@pytest.mark.requirement("AUT-22")
def test_doctor_says_where_secrets_are_kept(world: OAuthWorld, tmp_path: Path) -> None:
    world.config(tmp_path)

    before = run("doctor", tmp_path)[1]
    log_in(world, tmp_path)
    after = run("doctor", tmp_path)[1]
    (tmp_path / "data" / "secrets.json").write_bytes(b"{")
    code, broken, _ = run("doctor", tmp_path)

    assert "none stored; their key would be in a file beside them" in before
    assert "1 secret, encrypted; the key is in a file beside them" in after
    assert code == 7
    assert "SECRET_STORE_ERROR" in broken


def contents(folder: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def leaks(secrets: Sequence[str], outputs: Mapping[str, bytes]) -> list[str]:
    """Where a part of a secret stands."""
    traces = [trace.encode() for one in secrets for trace in (one[:20], one[-12:], one[10:26])]
    return [name for name, data in outputs.items() if any(trace in data for trace in traces)]


@pytest.mark.requirement("AUT-24", "HEA-15")
@pytest.mark.anyio
async def test_no_file_log_error_event_or_output_holds_a_part_of_a_token(
    world: OAuthWorld, tmp_path: Path
) -> None:
    config = world.config(tmp_path)
    outputs: dict[str, bytes] = {}

    def keep(name: str, done: tuple[int, str, str]) -> None:
        outputs[name] = (done[1] + done[2]).encode()

    keep("login", log_in(world, tmp_path, "-vv"))
    for words in ("-vv execute files read_file", "-vv execute files tell_token", "-vv refresh"):
        keep(words, run(words, tmp_path))
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
        keep(words, run(words, tmp_path))
    keep("login again", log_in(world, tmp_path, "--json", "-vv"))
    keep("logout", run("-vv logout files --json", tmp_path))

    files = contents(tmp_path)
    assert len(world.issued) >= 4
    assert b"I was sent Bearer" in outputs["answers"]  # it was there to be redacted
    assert b"POST" in outputs["login"]
    assert leaks(world.issued, outputs | files) == []
