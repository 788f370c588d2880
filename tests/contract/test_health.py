"""Health, on real servers of each broken class: specs/health.md."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, suppress
from typing import Any

import anyio
import pytest
from click.testing import CliRunner, Result

from discovery_cli.program import cli
from discovery_engine import DiscoveryError, Engine, ServerReport, stored_view
from tests.engines import Folder, good, program
from tests.servers.programs import fault_server, http_server, remote_server

pytestmark = pytest.mark.anyio

SECRET = "s3cr3t-t0ken"
LAST_WORDS = "import os, sys; sys.exit('no user for ' + os.environ['TOKEN'])"


def write_leaky(folder: Folder) -> None:
    """A program that writes its secret as it dies."""
    leaky = {"command": sys.executable, "args": ["-I", "-c", LAST_WORDS]}
    servers = {"leaky": {**leaky, "env": {"TOKEN": "${TOKEN}"}}}
    folder.config.write_text(json.dumps({"servers": servers}), "utf-8")


def by_name(servers: tuple[ServerReport, ...]) -> dict[str, ServerReport]:
    return {server.name: server for server in servers}


BROKEN: dict[str, tuple[Any, str, str]] = {
    "dies": (fault_server("crash_start"), "failing", "exited with status 3"),
    "missing": (program("x", "no-such-program"), "failing", "is not on the PATH"),
    "unset": (fault_server(env={"TOKEN": "${UNSET_X}"}), "needs_config", "UNSET_X"),
    "no_lists": (fault_server("list_dies"), "failing", "exited with status 6"),
    "nonsense": (fault_server("handshake_error"), "failing", ""),
}
REMOTE = {
    "login": ("status_401", "needs_auth", "401"),
    "refused": ("status_403", "needs_auth", "403"),
    "errors": ("status_500", "failing", "500"),
    "page": ("html", "failing", "text/html"),
}


@pytest.mark.requirement("HEA-2")
async def test_each_class_of_broken_server_is_distinguished(folder: Folder) -> None:
    entries: dict[str, Any] = {"fine": as_entry(good())}
    entries |= {name: as_entry(server) for name, (server, _, _) in BROKEN.items()}
    expected = {name: (status, words) for name, (_, status, words) in BROKEN.items()}
    with ExitStack() as stack:
        for name, (mode, status, words) in REMOTE.items():
            entries[name] = as_entry(remote_server(stack.enter_context(http_server(mode))))
            expected[name] = (status, words)
        folder.config.write_text(json.dumps({"servers": entries}), "utf-8")

        async with folder.open() as engine:
            with anyio.fail_after(60):
                await engine.refresh()
            found = by_name(await engine.health())

    assert found.pop("fine").state == "ready"
    assert {name: str(one.state) for name, one in found.items()} == {
        name: status for name, (status, _) in expected.items()
    }
    for name, (_, words) in expected.items():
        assert words in found[name].reason
        assert found[name].since is not None


@pytest.mark.requirement("HEA-7")
async def test_last_lines_of_stderr_outlive_the_program_and_the_run_without_its_secret(
    folder: Folder,
) -> None:
    write_leaky(folder)
    async with folder.open(environ={"TOKEN": SECRET, "PATH": ""}) as engine:
        report = await engine.refresh()
        answer = await engine.toolset().call_as_result("list_mcp_servers", {})
        with pytest.raises(DiscoveryError) as raised:
            await engine.details("leaky", "any")

    view = stored_view(folder.config, data_dir=folder.data)
    assert view is not None
    [remembered] = view.servers()
    failure = report.servers[0][1]
    assert failure is not None
    assert failure.stderr == remembered.stderr == "no user for ••••"
    assert getattr(raised.value, "stderr", "") == "no user for ••••"
    assert "no user" not in json.dumps(answer)
    for file in folder.data.iterdir():
        assert SECRET.encode() not in file.read_bytes()


@pytest.mark.requirement("UPS-20", "HEA-7")
async def test_credentials_in_what_a_program_inherits_are_redacted(folder: Folder) -> None:
    ours = {
        "HTTPS_PROXY": "http://me:pr0xy-pass@proxy.example:3128",
        "UV_INDEX_URL": "https://__token__:idx-t0ken-91@index.example/simple",
        "NPM_CONFIG__AUTH": "bnBtLWF1dGg6c2VjcmV0",
        "SHOP_TOKEN": "sh0p-t0ken-17",
        "NO_PROXY": "intern.example",
    }
    words = "import os, sys; sys.exit(' '.join(os.environ[name] for name in sys.argv[1:]))"
    server = program("shop", sys.executable, "-I", "-c", words, *ours)
    folder.write(server, server={"passEnv": ["SHOP_*"]})

    async with folder.open(environ={**ours, "PATH": ""}) as engine:
        report = await engine.refresh()

    failure = report.servers[0][1]
    assert failure is not None
    assert failure.stderr == (
        "http://••••@proxy.example:3128 https://__token__:••••@index.example/simple"
        " •••• •••• intern.example"
    )
    stored = b"".join(file.read_bytes() for file in folder.data.iterdir())
    assert [
        name for name in ("pr0xy-pass", "idx-t0ken-91", "sh0p-t0ken-17") if name.encode() in stored
    ] == []


@pytest.mark.requirement("HEA-2")
async def test_a_server_that_was_never_asked_says_which_value_it_lacks(folder: Folder) -> None:
    folder.write(fault_server(name="notes", env={"KEY": "${NOTES_KEY}"}))
    why = "env.KEY: ${NOTES_KEY} is not set"

    def run(*words: str, **environ: str) -> Result:
        where = ["--config", str(folder.config), "--data-dir", str(folder.data)]
        return CliRunner(env={"NOTES_KEY": None, **environ}).invoke(cli, [*where, *words])

    def look() -> dict[str, Result]:
        return {command: run(command) for command in ("health", "list", "doctor")}

    looked = await anyio.to_thread.run_sync(look)
    async with folder.open(environ={"PATH": ""}) as engine:
        answer = await engine.toolset().call_as_result("list_mcp_servers", {})
    given = await anyio.to_thread.run_sync(lambda: run("health", NOTES_KEY="n-1"))
    looked["health again"] = await anyio.to_thread.run_sync(lambda: run("health"))

    assert {command: one.exit_code for command, one in looked.items()} == {
        "health": 7,
        "list": 0,
        "doctor": 7,
        "health again": 7,
    }
    for one in (*looked.values(), answer):
        assert why in " ".join(str(getattr(one, "output", one)).split())
    assert " secrets set" in looked["health"].output
    assert (given.exit_code, "pending" in given.output) == (0, True)


@pytest.mark.requirement("HEA-7")
async def test_every_command_reports_the_last_lines_of_stderr(folder: Folder) -> None:
    write_leaky(folder)
    async with folder.open(environ={"TOKEN": SECRET, "PATH": ""}) as engine:
        await engine.refresh()

    def run(words: str) -> str:
        where = ["--config", str(folder.config), "--data-dir", str(folder.data)]
        done = CliRunner(env={"TOKEN": SECRET}).invoke(cli, [*where, *words.split()])
        return done.stdout + done.stderr

    for words in ("list --status", "doctor", "health leaky", "list --json"):
        shown = await anyio.to_thread.run_sync(run, words)
        assert "no user for" in shown, words
        assert SECRET not in shown, words


@pytest.mark.requirement("HEA-10")
async def test_what_a_server_does_wrong_is_counted_for_it_alone(
    folder: Folder,
) -> None:
    counted = {"calls": 1, "garbage": 200, "strays": 200}
    folder.write(fault_server("strays", program="wire_server.py", name="odd"), good())

    async with folder.open() as engine:
        await engine.refresh()
        for server in ("odd", "good"):
            with suppress(DiscoveryError):
                await engine.execute(server, "echo", {"text": "x"})
        await eventually_counted(engine, "odd", counted)
        found = by_name(await engine.health())

    assert counts(found["odd"]) == counted
    assert counts(found["good"]) == {"calls": 1}


COUNTERS = ("calls", "failures", "refused", "restarts", "garbage", "strays", "duplicates")


def counts(health: ServerReport) -> dict[str, int]:
    """The counters of a server that are not zero."""
    assert health.stats is not None
    found = {name: getattr(health.stats, name) for name in COUNTERS}
    return {name: count for name, count in found.items() if count}


async def eventually_counted(engine: Engine, server: str, counted: dict[str, int]) -> None:
    """Wait until what a server wrote behind its answer has been read."""
    with anyio.fail_after(60):
        while counts(by_name(await engine.health())[server]) != counted:  # noqa: ASYNC110
            await anyio.sleep(0.01)


def as_entry(server: Any) -> dict[str, Any]:
    transport = server.transport
    if hasattr(transport, "url"):
        return {"url": transport.url}
    env = dict(transport.env)
    return {"command": transport.command, "args": list(transport.args), "env": env}


class Clock:
    """A minute passes with each look at it."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        self.time += 61.0
        return self.time


@pytest.mark.requirement("OWN-32")
async def test_the_package_that_a_command_names_is_known(folder: Folder) -> None:
    named = {"command": "npx", "args": ["-y", "@acme/mail@1.2.3"], "enabled": False}
    folder.config.write_text(json.dumps({"servers": {"mail": named}}), "utf-8")

    async with folder.open() as engine:
        [found] = await engine.health()
        installed = await engine.servers.list(installed_only=True)

    assert found.package == "@acme/mail@1.2.3"
    assert installed == ()
