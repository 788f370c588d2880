"""`discovery execute` with a server that asks: a person answers in a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from discovery_engine._util.json import JSONObject
from tests.engines import Folder
from tests.servers.programs import fault_server

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

PROGRAM = (sys.executable, "-m", "discovery_cli")


def command(folder: Path, mode: str, *options: str) -> list[str]:
    home = Folder(folder)
    home.write(fault_server(mode, era="legacy", name="asking", program="asking_server.py"))
    given = ["--config", str(home.config), "--data-dir", str(home.data)]
    return [*PROGRAM, *given, "execute", "asking", "echo", *options]


def in_terminal(arguments: list[str], typed: str) -> tuple[int, str, str]:
    """The exit code, the stdout, and what the terminal showed, after a person typed."""
    ours, theirs = pty.openpty()
    os.write(ours, typed.encode())
    with subprocess.Popen(
        arguments, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs
    ) as process:
        os.close(theirs)
        assert process.stdout
        printed = process.stdout.read().decode()
        code = process.wait(60)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:  # Linux: the other side is closed
        pass
    os.close(ours)
    return code, printed, shown.decode()


def answered(printed: str) -> JSONObject:
    answer: JSONObject = json.loads(printed)[0]
    return answer


@pytest.mark.requirement("QST-50")
def test_a_person_fills_in_a_form(tmp_path: Path) -> None:
    code, printed, shown = in_terminal(
        command(tmp_path, "form"), "y\nAda\nno number\n36\ns3cret\n2\n"
    )

    assert code == 0, shown
    assert answered(printed)["result"] == {
        "action": "accept",
        "content": {"name": "Ada", "age": 36, "password": "s3cret", "colour": "blue"},
    }
    assert "asking asks:" in shown
    assert "  | Who are you?" in shown
    assert "it must be a whole number" in shown


@pytest.mark.requirement("QST-50")
def test_a_person_declines(tmp_path: Path) -> None:
    code, printed, shown = in_terminal(command(tmp_path, "form"), "n\n")

    assert code == 0, shown
    assert answered(printed)["result"] == {"action": "decline"}


@pytest.mark.requirement("QST-50")
def test_an_address_is_shown_and_not_opened(tmp_path: Path) -> None:
    code, printed, shown = in_terminal(command(tmp_path, "address"), "y\n")

    assert code == 0, shown
    assert answered(printed)["result"] == {"action": "accept"}
    assert "https://example.org/login" in shown


@pytest.mark.requirement("QST-51")
def test_a_script_gives_the_answer_beforehand(tmp_path: Path) -> None:
    given = '{"name": "Ada", "age": 36, "password": "x", "other": 1}'
    options = command(tmp_path, "form", "--answer", given)

    done = subprocess.run(options, check=False, capture_output=True, stdin=subprocess.DEVNULL)

    assert done.returncode == 0, done.stderr
    assert answered(done.stdout.decode())["result"]["content"] == {
        "name": "Ada",
        "age": 36,
        "password": "x",
    }


@pytest.mark.requirement("QST-51")
@pytest.mark.parametrize("options", [[], ["--answer", "{}"], ["--json"]])
def test_a_script_without_the_answer_fails_and_reads_what_to_do(
    tmp_path: Path, options: list[str]
) -> None:
    done = subprocess.run(
        command(tmp_path, "fails_form", *options),
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    text = (done.stdout + done.stderr).decode()

    assert done.returncode == 3, text
    assert ("TOOL_NEEDS_INPUT" in text) is ("--json" in options)
    assert "--answer" in text
    assert "Who are you?" in text
