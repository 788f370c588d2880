"""The demo of `init --demo`: three made up servers, four commands, no network and no trace."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from discovery_engine.engine.owner.demo_server import demo_servers

_STEPS = (
    (
        "Three servers with 30 tools. A tool is found by what it should do:",
        "search when are all guests free",
    ),
    (
        "It is called; arguments are checked before it is sent:",
        'execute calendar:find_free_time guests="Ada, Bob" minutes=30',
    ),
    ("What a rule forbids is refused, with the rule:", "execute files:delete_file path=notes.txt"),
    ("What no tool does is not guessed:", "search order a pizza"),
    ("An agent is spared all definitions but those it needs:", "tune tokens"),
)


class Step(Struct, frozen=True):
    about: str
    command: str
    code: int
    shown: str
    """What the command wrote."""


def run_demo() -> Iterator[Step]:
    """Run each command as a person would, in a folder that is gone afterwards."""
    rules = [{"pattern": ["*delete*"], "enabled": False}]
    with TemporaryDirectory(prefix="discovery-demo-") as folder:
        config = Path(folder) / "discovery.yaml"
        text = json.dumps({"servers": demo_servers(), "toolRules": rules}, indent=2)
        config.write_text(text, encoding="utf-8")
        program = [sys.executable, "-m", "discovery_cli", "--no-progress"]
        program += ["--config", str(config), "--data-dir", f"{folder}/data"]
        _shown([*program, "refresh"])
        for about, words in _STEPS:
            code, text = _shown([*program, *shlex.split(words)])
            options = f"--config {config} --data-dir {folder}/data "
            shown = text.replace(options, "").replace(f"{folder}/", "")
            yield Step(about, f"discovery {words}", code, shown)


def _shown(command: list[str]) -> tuple[int, str]:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr
