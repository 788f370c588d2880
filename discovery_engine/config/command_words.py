r"""The words of a command, whatever system its entry was written for.

cmd /c npx.cmd -y mail          starts what `npx.cmd -y mail` starts
C:\node\npx.cmd -y mail         has the name `npx`
"""

from __future__ import annotations

import re
from collections.abc import Sequence

PACKAGE_RUNNERS = frozenset(
    (
        *("npx", "npm", "pnpx", "pnpm", "yarn", "bun", "bunx", "deno"),
        *("uvx", "uv", "pipx", "docker", "podman", "nerdctl"),
        *("go", "cargo", "dotnet", "dnx", "nix", "nix-shell", "jbang"),
    )
)
"""Programs that may download what they start."""
INTERPRETER = "cmd"
"""The command interpreter of Windows, which entries for Windows start other programs with."""

_ENDING = re.compile(r"\.(?:exe|cmd|bat|ps1)$", re.IGNORECASE)
_WORD = re.compile(r'"([^"]*)"|(\S+)')
_SCRIPT = re.compile(r"[&|<>^%]")


def command_words(command: str, args: Sequence[str]) -> list[str]:
    """The words of a command, without the interpreter of Windows where it only starts it."""
    options = [word.lower() for word in args]
    at = (
        options.index("/c")
        if "/c" in options and program_name(command) == INTERPRETER
        else len(args)
    )
    started = [*args[at + 1 :]]
    is_plain = all(word.startswith("/") for word in args[:at])
    if not started or not is_plain or any(map(_SCRIPT.search, started)):
        return [command, *args]
    if len(started) == 1 and not _ENDING.search(started[0]):  # a whole line
        started = [quoted or bare for quoted, bare in _WORD.findall(started[0])]
    return started


def program_name(word: str) -> str:
    """The name of a program without its folder and its ending on Windows, in lower case."""
    return _ENDING.sub("", re.split(r"[/\\]", word)[-1].lower())
