"""The installation without extras does all that is not what an extra is for."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import httpx2
import pytest

from discovery_cli.program import cli
from tests.e2e.serving import found_by, text_of
from tests.forked import Finished, Preloaded
from tests.shipped.command_lines import COMMAND_LINES
from tests.shipped.conftest import ROOT, Installation, PlainHome, install
from tests.unit.server.wire import INITIALIZE

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]
POSTGRES = "discovery_engine.store.postgres."
OF_EXTRAS = ("discovery_engine.integrations.", "discovery_engine.search.arrays", POSTGRES)
"""Modules that need an extra as soon as they are imported."""
COMMAND = re.compile(r"pip install 'mcp-discovery-engine\[([a-z-]+)\]'")
NO_DOCUMENT = ("completion", "serve", "fleet worker")
FALSE_ALARMS = ("withheld", "were lost", "downloaded")
UNEXPECTED = ("error: unexpected ", "UNEXPECTED_ERROR", "Traceback", "ModuleNotFoundError")

UNIMPORTABLE = """
import importlib, json, pkgutil, sys
failures = {}
for package in map(importlib.import_module, PACKAGES):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if module.name.startswith(tuple(sys.argv[1:])) and not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except Exception as error:
                failures[module.name] = str(error)
print(json.dumps(failures))
""".replace("PACKAGES", "('discovery_engine', 'discovery_server', 'discovery_cli')")

DATABASE = {"registry": {"url": "postgresql://user@localhost:9/tools"}}


def by_meaning(**embeddings: str) -> dict[str, Any]:
    return {"search": {"embeddings": embeddings}}


NEEDS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("postgres", DATABASE, ["list", "search repeat", "refresh", "review", "health", "doctor"]),
    (
        "postgres",
        DATABASE,
        ["serve", "fleet worker --once", "token list", "tune plan", "registry reindex"],
    ),
    ("postgres", DATABASE, ["registry info", "registry migrate"]),
    ("postgres", {}, ["registry copy --to postgresql://user@localhost:9/tools"]),
    ("vectors", by_meaning(provider="static"), ["search repeat", "doctor"]),
    ("vectors", by_meaning(provider="http", model="m", url="http://[::1]:9/v1"), ["doctor"]),
    ("onnx", by_meaning(provider="onnx", path="."), ["search repeat", "doctor"]),
    ("model", by_meaning(provider="discovery"), ["tune model install", "search repeat", "doctor"]),
    ("openapi", {}, ["add pets --yes --openapi /pets.json"]),
    ("otel", {}, ["--verbose serve"]),
    ("keyring", {}, ["secrets rotate-key", "doctor"]),
]
"""The extra, the configuration and the command lines that need it."""

LIBRARY = """
import asyncio, json
from discovery_engine import open_engine
async def main():
    async with open_engine("discovery.yaml") as engine:
        await engine.refresh()
        answer = await engine.search("repeat a text")
        tool = answer.hits[0].entry.tool
        result = await engine.execute(tool.server, tool.name, {"text": "hello"})
        print(json.dumps([answer.decision, tool.name, str(result)]))
asyncio.run(main())
"""


@pytest.mark.requirement("CLI-88")
def test_every_command_runs_without_extras(
    forked: Preloaded, plain: Installation, tmp_path: Path
) -> None:
    faults = [
        f"{name}: is not both a command and in the table"
        for name in set(commands(cli)) ^ COMMAND_LINES.keys()
    ]
    for options in ((), ("--json",)):
        home = PlainHome(tmp_path / f"home{len(options)}", plain.folder)
        furnish(home)
        for name, line in COMMAND_LINES.items():
            lines = [(line.right, line.code), (line.wrong, line.wrong_code)]
            for rest, code in lines if options else lines[:1]:
                words = [*options, *name.split(), *shlex.split(rest.format(home=home.folder))]
                done = forked(words, cwd=home.folder, environ=home.environ, stdin=b"value\n")
                if why := fault(done, code, has_document=options and name not in NO_DOCUMENT):
                    faults.append(f"{' '.join(words)}: {why}")
        done = forked(["doctor", "--files", "--json"], cwd=home.folder, environ=home.environ)
        faults += [
            f"`doctor --files` does not know {file['path']}"
            for file in json.loads(done.out)["files"]
            if "not of this program" in file["purpose"]
        ]

    assert not faults, "\n".join(faults)


def commands(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[str]:
    """The words of every command that does something."""
    if not isinstance(command, click.Group):
        yield " ".join(words)
        return
    if command.invoke_without_command and words:
        yield " ".join(words)
    context = click.Context(command)
    for name in command.list_commands(context):
        if found := command.get_command(context, name):
            yield from commands(found, (*words, name))


def furnish(home: PlainHome) -> None:
    """Make a home with all files that the command lines name."""
    home.folder.mkdir()
    home.configure(marketplace={"sources": [{"type": "file", "path": "team.yaml"}]})
    docs = {"url": "https://docs.example/mcp", "description": "Documents of the team"}
    remote = {"type": "streamable-http", "url": docs["url"]}
    query = {"query": "repeat a text", "tools": ["tiny:echo"]}
    contents = {
        "team.yaml": {"servers": [{"name": "acme-docs", "remotes": [remote]}]},
        "setup.yaml": {"servers": {"third": docs}},
        "queries.yaml": {"queries": [query]},
    }
    for name, content in contents.items():
        (home.folder / name).write_text(json.dumps(content), "utf-8")


def fault(done: Finished, code: int, *, has_document: object) -> str:
    """The reason why this is no end of a command; empty if it is one."""
    if word := next((word for word in UNEXPECTED if word in done.out + done.err), None):
        return f"{word!r} in {done.err[-500:]}"
    if done.code != code:
        return f"ends with {done.code} instead of {code}: {done.out[-300:]}{done.err[-300:]}"
    if has_document:
        try:
            json.loads(done.out or done.err)
        except ValueError:
            return f"no JSON: {(done.out or done.err)[:300]}"
    return ""


@pytest.mark.requirement("CLI-88")
def test_a_missing_extra_is_one_sentence_with_the_command_that_installs_it(
    forked: Preloaded, home: PlainHome
) -> None:
    def run(words: list[str], environ: dict[str, str]) -> str:
        done = forked(words, cwd=home.folder, environ=environ, stdin=b"value")
        return done.out + done.err

    faults = [
        f"{line} without {extra}: {text}"
        for extra in dict.fromkeys(extra for extra, *_ in NEEDS)
        for line, text in needing(extra, home, run)
        if COMMAND.findall(text) != [extra]
        or any(word in text for word in (*UNEXPECTED, *FALSE_ALARMS))
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.packages
@pytest.mark.requirement("CLI-88")
@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_what_needs_it(
    extra: str, wheel: Path, model_wheel: Path, home: PlainHome, tmp_path: Path
) -> None:
    installed = install(tmp_path / "environment", wheel, extra, links=model_wheel)

    def run(words: list[str], environ: dict[str, str]) -> str:
        command = [installed.folder / "bin" / "discovery", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run(
            command, input="value", env=environ, cwd=home.folder, check=False, timeout=200, **pipes
        )
        return done.stdout

    failures = installed.json(UNIMPORTABLE, *OF_EXTRAS, home=home)
    faults = [f"{name}: {text}" for name, text in failures.items() if f"[{extra}]" in text]
    if extra == "postgres":
        faults += [name for name in failures if name.startswith(POSTGRES)]
    faults += [
        f"{line}: {text}"
        for line, text in needing(extra, home, run)
        if extra in COMMAND.findall(text) or any(word in text for word in UNEXPECTED)
    ]
    assert not faults, "\n".join(faults)


def needing(
    extra: str, home: PlainHome, run: Callable[[list[str], dict[str, str]], str]
) -> Iterator[tuple[str, str]]:
    """The command lines that need an extra, with what they print."""
    for _, sections, command_lines in (row for row in NEEDS if row[0] == extra):
        home.configure(**sections)
        environ = home.environ
        if extra == "otel":
            environ["OTEL_TRACES_EXPORTER"] = "console"
        if extra == "keyring":
            run(["secrets", "set", "KEY"], environ)
            secrets = home.folder / "data" / "secrets.json"
            secrets.write_text(secrets.read_text("utf-8").replace('"file"', '"keyring"'), "utf-8")
        for line in command_lines:
            yield line, run(line.split(), environ)


@pytest.mark.requirement("CLI-88")
def test_the_installation_without_extras_has_at_most_75_megabytes(plain: Installation) -> None:
    files = [file for file in plain.folder.rglob("*") if file.suffix != ".pyc"]

    assert sum(file.lstat().st_size for file in files if file.is_file()) <= 75_000_000


@pytest.mark.requirement("CLI-88")
def test_the_program_has_two_names_and_is_a_module(plain: Installation, home: PlainHome) -> None:
    starts = (["discovery"], ["mcp-discovery-engine"], ["python", "-m", "discovery_cli"])

    assert len({plain.run(*start, "version", home=home) for start in starts}) == 1


@pytest.mark.requirement("CLI-88")
def test_the_library_finds_and_calls_a_tool_without_extras(
    plain: Installation, home: PlainHome
) -> None:
    decision, name, result = plain.json(LIBRARY, home=home)

    assert (decision, name) == ("match", "echo")
    assert "hello" in result


@pytest.mark.anyio
@pytest.mark.requirement("CLI-88")
async def test_serve_answers_on_stdio_and_http_without_extras(home: PlainHome) -> None:
    async with home.client() as client:
        assert "echo" in await found_by(client, "repeat a text", "tiny")
        answer = await text_of(
            client, "execute_tool", server="tiny", tool="echo", arguments={"text": "hello"}
        )
    with home.http("127.0.0.1", "--allowed-host", "localhost") as address:
        origin, headers = address.removesuffix("/mcp"), home.authorization
        accepted = headers | {"Accept": "application/json, text/event-stream"}
        initialized = httpx2.post(address, json=INITIALIZE, headers=accepted)
        tools = httpx2.get(f"{origin}/api/tools", headers=headers)
        page = httpx2.get(f"{origin}/", headers=headers)

    assert "hello" in answer
    assert "serverInfo" in initialized.text
    assert "echo" in tools.text
    assert "<html" in page.text or page.text.startswith("There is no page")
