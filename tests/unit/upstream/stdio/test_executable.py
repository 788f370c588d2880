"""How a command is read on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from discovery_engine.config.settings import StdioTransport
from discovery_engine.errors import UnavailableError
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.stdio.executable import on_this_machine

CMD = r"C:\Windows\System32\cmd.exe"
ROWS: list[tuple[list[str], list[str]]] = [
    (["npx", "-y", "mail"], ["npx", "-y", "mail"]),
    (["cmd", "/c", "npx", "-y", "mail"], ["npx", "-y", "mail"]),
    ([CMD, "/D", "/S", "/C", "NPX.CMD", "-y", "mail"], ["npx", "-y", "mail"]),
    (["cmd", "/c", r'"C:\Program Files\npx.cmd" -y "a b"'], ["npx", "-y", "a b"]),
    (["cmd", "/c", r"C:\Program Files\npx.cmd"], ["npx"]),
    (["cmd", "/c", "notes.exe", "/c"], ["notes", "/c"]),
    (["npx.cmd", "-y", "mail"], ["npx", "-y", "mail"]),
    ([r"C:\Program Files\nodejs\npx.cmd", "-y", "mail"], ["npx", "-y", "mail"]),
    (["odd.cmd", "x"], ["odd.cmd", "x"]),
    (["~/bin/notes", "~/a", "~", "x/~/y", "~x"], ["~/bin/notes", "HOME/a", "HOME", "x/~/y", "~x"]),
    (["ssh", "box", "~/bin/notes"], ["ssh", "box", "~/bin/notes"]),
    (
        ["docker", "run", "-v", "~/a:/a", "--env-file", "~/e", "image", "~/a"],
        ["docker", "run", "-v", "HOME/a:/a", "--env-file", "HOME/e", "image", "~/a"],
    ),
    (["docker", "exec", "-i", "box", "~/a"], ["docker", "exec", "-i", "box", "~/a"]),
    (["cmd", "/c", "cd x && npx mail"], ["cmd: not found"]),
    (["cmd", "/k", "npx", "mail"], ["cmd: not found"]),
    ([r"C:\tools\notes.exe"], ["notes.exe: not found"]),
]


@pytest.mark.requirement("UPS-21")
def test_a_command_of_windows_and_paths_in_the_home_folder_are_those_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, path = tmp_path / "home", tmp_path / "path"
    for program in (home / "bin" / "notes", *(path / n for n in ("npx", "notes", "ssh", "docker"))):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch(0o700)
    (path / "odd.cmd").touch(0o700)
    monkeypatch.setenv("HOME", str(home))

    def read(command: str, *args: str) -> list[str]:
        stdio = StdioTransport(command, args, cwd="~")
        try:
            found = on_this_machine(ServerName("s"), stdio, {"PATH": str(path)})
        except UnavailableError as error:
            return [f"{str(error).split(chr(39))[3]}: not found"]
        assert found.cwd == str(home)
        short = found.command.replace(f"{path}/", "").replace(str(home), "~")
        return [short, *(arg.replace(str(home), "HOME") for arg in found.args)]

    read_as = [(words, read(*words), expected) for words, expected in ROWS]

    assert [row for row in read_as if row[1] != row[2]] == []
