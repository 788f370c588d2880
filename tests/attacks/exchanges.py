"""Ways to put other content where an approved program or script was."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from tests.attacks.conftest import Repository


class Script(Struct, frozen=True):
    """A file of the project, and the command that runs it."""

    file: str
    command: list[str]

    def write(self, repository: Repository, *, is_springing: bool) -> Path:
        """Write it, so that it leaves the mark or does nothing."""
        is_python = "python3" in self.command
        mark = f"open({str(repository.mark)!r}, 'a')" if is_python else f"touch {repository.mark}"
        text = f"#!/bin/sh\n{mark if is_springing else ''}\n"
        return written(repository.path / self.file, text, mode=0o755)

    def configure(self, repository: Repository) -> None:
        command, *args = self.command
        repository.configure(db={"command": command, "args": args})


def springing(repository: Repository) -> str:
    return f"#!/bin/sh\ntouch {repository.mark}\n"


def written(path: Path, text: str, *, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


SCRIPTS = {
    "a program": Script("srv", ["./srv"]),
    "a script of Python": Script("srv.py", ["python3", "srv.py"]),
    "a script behind options": Script("srv.py", ["python3", "-u", "-B", "srv.py", "--port", "1"]),
    "a script below": Script("dist/index.js", ["sh", "dist/index.js"]),
    "a script without a suffix": Script("run", ["sh", "run"]),
    "a script that looks like data": Script("notes.txt", ["sh", "notes.txt"]),
    "a command line": Script("srv.sh", ["sh", "-c", "exec sh ./srv.sh"]),
    "behind an equals sign": Script("hook.sh", ["env", "A=./hook.sh", "sh", "-c", '. "$A"']),
    "from a folder": Script("part/srv.sh", ["env", "--chdir", "part", "sh", "srv.sh"]),
    "from a folder behind =": Script("part/srv.sh", ["env", "--chdir=part", "sh", "srv.sh"]),
    "from a folder of a shell": Script("part/srv.sh", ["sh", "-c", "cd part && sh srv.sh"]),
    "in a shell's list": Script("srv.sh", ["sh", "-c", "sh ./srv.sh;true"]),
    "a module": Script("srv.py", ["python3", "-m", "srv"]),
    "a module of a package": Script("a/srv.py", ["python3", "-u", "-m", "a.srv"]),
    "a package": Script("srv/__main__.py", ["python3", "-m", "srv"]),
    "a package's own code": Script("a/__init__.py", ["python3", "-m", "a"]),
    "a folder": Script("srv/__main__.py", ["python3", "srv"]),
    "an interpreter behind others": Script("srv/__main__.py", ["env", "python3", "srv"]),
    "with an attribute": Script(
        "server.py", ["sh", "-c", 'IFS=:; set -- $0; . "./$1"', "server.py:app"]
    ),
}
PLAIN = Script("srv.sh", ["sh", "srv.sh"])


def becomes_a_link(repository: Repository) -> None:
    other = written(repository.path / "other.sh", springing(repository))
    (repository.path / "srv.sh").unlink()
    (repository.path / "srv.sh").symlink_to(other)


def becomes_a_link_to_elsewhere(repository: Repository) -> None:
    other = written(repository.home / "elsewhere.sh", springing(repository))
    (repository.path / "srv.sh").unlink()
    (repository.path / "srv.sh").symlink_to(other)


def becomes_a_folder(repository: Repository) -> None:
    (repository.path / "srv.sh").unlink()
    written(repository.path / "srv.sh" / "__main__.py", "raise SystemExit")


def becomes_a_pipe(repository: Repository) -> None:
    (repository.path / "srv.sh").unlink()
    os.mkfifo(repository.path / "srv.sh")


def goes_away(repository: Repository) -> None:
    (repository.path / "srv.sh").unlink()


OTHER_THINGS: tuple[Callable[[Repository], None], ...] = (
    becomes_a_link,
    becomes_a_link_to_elsewhere,
    becomes_a_folder,
    becomes_a_pipe,
    goes_away,
)
"""What stands in the place of `PLAIN` afterwards."""


class Exchange(Struct, frozen=True):
    """What is approved, and what becomes of it."""

    script: Script
    after: Callable[[Repository], None]
    is_there: bool = True
    """Whether the file is there when it is approved."""


def leads_elsewhere(repository: Repository) -> None:
    """The folder of the script becomes a link."""
    written(repository.home / "evil" / "index.js", springing(repository))
    (repository.path / "dist").rename(repository.home / "lib")
    (repository.path / "dist").symlink_to(repository.home / "evil")


def springs(script: Script) -> Callable[[Repository], None]:
    def write(repository: Repository) -> None:
        script.write(repository, is_springing=True)

    return write


EXCHANGES = [
    *(Exchange(script, springs(script)) for script in SCRIPTS.values()),
    *(Exchange(PLAIN, after) for after in OTHER_THINGS),
    Exchange(SCRIPTS["a script below"], leads_elsewhere),
    *(
        Exchange(script, springs(script), is_there=False)
        for script in (SCRIPTS["a program"], SCRIPTS["a script below"])
    ),
]
