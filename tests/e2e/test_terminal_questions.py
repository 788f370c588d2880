"""Commands whose server asks something: a person answers in a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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


@pytest.mark.landing
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


@pytest.mark.requirement("QST-50")
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


@dataclass
class Terminal:
    """A command at its controlling terminal, as in a window of its own."""

    process: subprocess.Popen[bytes]
    ours: int
    shown: bytes = b""

    def until(self, text: str) -> None:
        while text.encode() not in self.shown:
            self.shown += os.read(self.ours, 4096)

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    @property
    def is_hidden(self) -> bool:
        return not termios.tcgetattr(self.ours)[3] & termios.ECHO

    def close(self) -> None:
        os.close(self.ours)
        self.ours = -1


@contextmanager
def at_terminal(arguments: list[str]) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    take = "import fcntl, os, signal, sys, termios; os.setsid();"
    take += "signal.signal(signal.SIGHUP, signal.SIG_DFL);"  # also where tests run under nohup
    take += "fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    take += "os.execv(sys.argv[1], sys.argv[1:])"
    with subprocess.Popen(
        [sys.executable, "-c", take, *arguments], stdin=theirs, stdout=subprocess.PIPE,
        stderr=theirs,
    ) as process:  # fmt: skip
        terminal = Terminal(process, ours)
        try:
            yield terminal
        finally:
            process.kill()
            os.close(theirs)
            if terminal.ours >= 0:
                terminal.close()


CTRL_C, CTRL_D = "\x03", "\x04"


@pytest.mark.requirement("QST-50")
@pytest.mark.parametrize(
    ("key", "code"), [pytest.param(CTRL_C, 130, id="Ctrl-C"), pytest.param(CTRL_D, 0, id="Ctrl-D")]
)
def test_a_key_cancels_the_form_and_the_terminal_shows_what_is_typed_again(
    tmp_path: Path, key: str, code: int
) -> None:
    with at_terminal(command(tmp_path, "form")) as terminal:
        terminal.until("[y/n]: ")
        terminal.type("y\nAda\n36\n")
        terminal.until("password (text, optional): ")
        while not terminal.is_hidden:  # it is hidden right after the prompt
            pass
        terminal.type(key)
        assert terminal.process.stdout
        printed = terminal.process.stdout.read().decode()

        assert terminal.process.wait(60) == code
        assert not terminal.is_hidden
    assert answered(printed)["result"] == {"action": "cancel"}
