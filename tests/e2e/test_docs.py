"""Pages for users: what they tell people to type is typed, and prints what they show.

A block of `sh` is run whole. Of one of `console` each `$` line is run, and prints what stands below
it; a line `…` stands for any lines. Of one of `bash` it is only checked that its commands exist.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import click
import pytest

from discovery_cli.program import cli
from discovery_engine.config.loading.loader import load_settings
from discovery_engine.config.sources import SOURCE_TYPES
from scripts import docs
from tests.e2e.commands import NODE_SERVERS, need
from tests.e2e.serving import REAL_SERVERS, ROOT

PAGES = [ROOT / "README.md", *sorted(docs.DOCS.rglob("*.md"))]
FIRST = {ROOT / "README.md", *(docs.DOCS / "start").glob("*.md")}  # of a person's first hour
BLOCK = re.compile(r"^( *)```(\w+)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
WAITING = re.compile(r"^starting \w+, \d+ s.*\n", re.MULTILINE)  # on a slow computer
PROMPT = re.compile(r"^\$ ", re.MULTILINE)
SPAN = re.compile(r"`(discovery [a-z][^`]*)`")
PLACEHOLDER = re.compile(r"^[A-Z=|]+$|…|\$")


def blocks(page: Path, *languages: str) -> Iterator[tuple[str, str]]:
    """The language and the text of each fenced block of some languages."""
    for _, language, text in BLOCK.findall(page.read_text("utf-8")):
        if language in languages:
            yield language, dedent(text)


def with_blocks(*languages: str) -> pytest.MarkDecorator:
    """One case for each page that has blocks of some languages."""
    pages = [page for page in PAGES if any(blocks(page, *languages))]
    return pytest.mark.parametrize("page", pages, ids=_name)


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Computer:
    """A person's home: Cursor has four servers, and `discovery init` was told to use them."""

    folder: Path
    template: Path

    def reset(self, *, is_new: bool) -> None:
        """Bring it back to where it was, or to before `discovery init`."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.template, self.folder)
        if is_new:
            for folder in (".config", ".local"):
                shutil.rmtree(self.folder / "home" / folder)

    def run(self, script: str) -> str:
        """What a script prints, its stderr among it, and its exit code unless it is 0."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DISCOVERY_", "XDG_"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            check=False,
            cwd=self.folder / "project",
            env=kept | {"HOME": str(self.folder / "home"), "PATH": path},
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=120,
        )
        output = WAITING.sub("", done.stdout)
        return output + (f"[exit code {done.returncode}]" if done.returncode else "")


@pytest.fixture(scope="session")
def computer(tmp_path_factory: pytest.TempPathFactory) -> Computer:
    need("time", "git", *NODE_SERVERS)
    folder = tmp_path_factory.mktemp("computer")
    computer = Computer(folder / "now", folder / "before")
    project = computer.folder / "project"
    project.mkdir(parents=True)
    node = "node_modules/.bin/mcp-server-"
    commands = {
        "time": ["time/bin/mcp-server-time", "--local-timezone", "Etc/UTC"],
        "git": ["git/bin/mcp-server-git"],
        "everything": [f"everything/{node}everything"],
        "filesystem": [f"filesystem/{node}filesystem", str(project)],
    }
    servers = {
        name: {"command": str(REAL_SERVERS / program), "args": arguments}
        for name, (program, *arguments) in commands.items()
    }
    client = computer.folder / "home" / ".cursor" / "mcp.json"
    client.parent.mkdir(parents=True)
    client.write_text(json.dumps({"mcpServers": servers}, indent=2))
    computer.run("discovery init --global --yes && discovery refresh")
    shutil.copytree(computer.folder, computer.template)
    return computer


@pytest.mark.e2e
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=_name(page), marks=[] if page in FIRST else [pytest.mark.thorough])
        for page in PAGES
        if any(blocks(page, "sh", "console"))
    ],
)
def test_page_shows_what_its_commands_print(computer: Computer, page: Path) -> None:
    typed = list(blocks(page, "sh", "console"))
    computer.reset(is_new=any("discovery init" in text for _, text in typed))

    for language, text in typed:
        if language == "sh":
            output = computer.run(text)
            assert "[exit code" not in output, f"{text}\n{output}"
        for part in PROMPT.split(text)[1:] if language == "console" else ():
            command, _, expected = part.partition("\n")
            output = computer.run(command)
            assert _pattern(expected).fullmatch(output), f"{command}\n{output}"


def _pattern(expected: str) -> re.Pattern[str]:
    """The lines that a page shows of an output, whatever the number of blanks between words."""
    lines = [
        r"(?:.*\n)*" if line == "…" else rf" *{' +'.join(map(re.escape, line.split()))} *\n"
        for line in expected.strip().splitlines()
    ]
    text = "".join(lines).replace("…", ".*")
    return re.compile(rf"\s*{text}(?:\[exit code \d+\])?")


@pytest.mark.parametrize("page", [*PAGES, docs.CURES], ids=_name)
def test_commands_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    lines = [line for _, block in blocks(page, "bash") for line in block.splitlines()]
    for command in [*SPAN.findall(text), *lines]:
        words = shlex.split(command, comments=True)
        if words[:1] == ["discovery"]:
            _check(
                words[1:], cli, click.Context(cli, info_name="discovery", **cli.context_settings)
            )


def _check(words: list[str], command: click.Command, context: click.Context) -> None:
    """Fail unless the words are commands, their options and arguments."""
    options = {name: option for option in command.params for name in option.opts}
    while words:
        word = words.pop(0)
        if word == "--":
            return
        if word.startswith("--"):
            name, equals, _ = word.partition("=")
            assert name in options, f"{context.command_path} has no option {name}"
            if not equals and not getattr(options[name], "is_flag", False) and words:
                words.pop(0)
        elif command.name == "connect":
            assert word in SOURCE_TYPES or PLACEHOLDER.search(word), f"{word} is no client"
        elif isinstance(command, click.Group):
            inner = command.get_command(context, word)
            if inner is not None:
                _check(words, inner, click.Context(inner, info_name=word, parent=context))
            else:
                assert PLACEHOLDER.search(word), f"{context.command_path} has no command {word}"
            return


@with_blocks("yaml")
def test_configurations_that_a_page_shows_are_good_ones(tmp_path: Path, page: Path) -> None:
    for _, text in blocks(page, "yaml"):
        (tmp_path / "discovery.yaml").write_text(text, "utf-8")

        settings = load_settings(str(tmp_path / "discovery.yaml"), environ={}, home=tmp_path)

        assert [server.problem for server in settings.servers if server.problem] == []


@with_blocks("python")
def test_programs_that_a_page_shows_are_python(page: Path) -> None:
    for _, text in blocks(page, "python"):
        compile(text, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_site_is_built_from_links_that_lead_somewhere(tmp_path: Path) -> None:
    assert docs.main(tmp_path / "site") == 0

    assert "guides/rules.md" in (tmp_path / "site" / "llms.txt").read_text("utf-8")
