"""What the README tells people to type is typed; `scripts/bookkeeping.py` reads the rest of it."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from discovery_engine.config.loading.loader import load_settings
from tests.e2e.commands import Shell, need
from tests.e2e.serving import ROOT

README = (ROOT / "README.md").read_text("utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCK.findall(README) if name == language]


def command_lines() -> Iterator[list[str]]:
    """Every command of every `sh` block; one line may hold several."""
    for block in blocks("sh"):
        for line in block.replace("\\\n", " ").splitlines():
            for command in line.split("#")[0].split("&&"):
                if words := shlex.split(command):
                    yield words


DISCOVERY = [words[1:] for words in command_lines() if words[0] == "discovery"]


@pytest.mark.e2e
@pytest.mark.parametrize("words", [pytest.param(w, id=" ".join(w)[:60]) for w in DISCOVERY])
def test_command_runs(quickstart: Shell, words: list[str]) -> None:
    if "doctor" in words or words[-1] == "refresh":
        need("everything", "filesystem")

    done = quickstart.run_afresh(words)

    assert done.code == 0, done.err


@pytest.mark.parametrize("text", blocks("yaml"))
def test_configuration_that_is_shown_is_a_good_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "discovery.yaml").write_text(text, "utf-8")

    settings = load_settings(str(tmp_path / "discovery.yaml"), environ={}, home=tmp_path)

    assert [server.problem for server in settings.servers if server.problem] == []


@pytest.mark.parametrize("text", blocks("python"))
def test_program_that_is_shown_is_python(text: str) -> None:
    compile(text, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
