"""Health, on real servers of each broken class: specs/health.md."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine import DiscoveryError, Engine, LogFilter, ServerReport, stored_view
from tests.contract.discovery import Discovery
from tests.engines import Folder, broken, good, program
from tests.forked import Preloaded
from tests.servers.programs import HERE, fault_server, http_server, remote_server

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


@pytest.mark.requirement("HEA-10")
async def test_what_a_server_does_wrong_is_counted_for_it_alone(folder: Folder) -> None:
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


@pytest.mark.requirement("OWN-32")
async def test_the_package_that_a_command_names_is_known(folder: Folder) -> None:
    named = {"command": "npx", "args": ["-y", "@acme/mail@1.2.3"], "enabled": False}
    folder.config.write_text(json.dumps({"servers": {"mail": named}}), "utf-8")

    async with folder.open() as engine:
        [found] = await engine.health()
        installed = await engine.servers.list(installed_only=True)

    assert found.package == "@acme/mail@1.2.3"
    assert installed == ()


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}}


class Gateway:
    """A `discovery serve` that is spoken to on its standard streams."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._count = 0
        client = {"clientInfo": {"name": "test", "version": "1"}}
        self.ask("initialize", {**HELLO, **client})
        self._send(method="notifications/initialized")

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._count += 1
        self._send(id=self._count, method=method, params=params)
        assert self.process.stdout
        for line in self.process.stdout:
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self._count:
                return answer
        raise AssertionError("the gateway ended")

    def call(self, tool: str) -> dict[str, Any]:
        return self.ask("tools/call", {"name": "execute_tool", "arguments": {"tool": tool}})

    def _send(self, **message: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()


@contextmanager
def gateway(home: Discovery) -> Iterator[Gateway]:
    with subprocess.Popen(
        [sys.executable, "-m", "discovery_cli", "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=home.home,
        env=home.environ,
    ) as process:
        try:
            yield Gateway(process)
        finally:
            process.kill()


def configured(folder: Path, forked: Preloaded, *words: str) -> Discovery:
    """A home with a server of this folder's, whose tools are known."""
    (folder / "tools.txt").write_text("hang pid")
    script, *rest = words
    args = ["-I", "-S", str(HERE / script), *rest]
    entry = {"command": sys.executable, "args": args, "timeouts": {"call": 1}}
    (folder / "discovery.yaml").write_text(json.dumps({"servers": {"sick": entry}}), "utf-8")
    home = Discovery(folder, forked)
    assert home("refresh").code == 0
    return home


async def until_said(home: Discovery, count: int, status: str) -> list[dict[str, Any]]:
    """What the gateways say of the server, once so many do and the worst is that."""
    with anyio.fail_after(60):
        while True:
            [server] = (await anyio.to_thread.run_sync(home, "health", "--json")).json["servers"]
            said: list[dict[str, Any]] = server["gateways"]
            if len(said) == count and said[0]["status"] == status:
                return said


@pytest.mark.thorough
@pytest.mark.requirement("HEA-30")
async def test_what_a_running_gateway_calls_sick_is_never_reported_as_well(
    tmp_path: Path, forked: Preloaded
) -> None:
    home = configured(tmp_path, forked, "changing_server.py", "tools.txt")
    with gateway(home) as opened:
        opened.call("sick:hang")
        [said] = await until_said(home, 1, "degraded")
        health, doctor, listed = home("health"), home("doctor"), home("list", "--status")
        pid = opened.process.pid
    after = home("health")

    assert said["pid"] == pid
    for done in (health, doctor, listed):
        [line] = [line for line in done.out.splitlines() if "sick " in line]
        assert line.startswith("✗")
        assert f"process {pid}" in line
    assert (health.code, doctor.code, after.code) == (7, 7, 0)
    assert list((tmp_path / "data" / "gateways").iterdir()) == []


RULES = "toolRules: [{pattern: boom, enabled: false}]\n"


@pytest.fixture
def home(tmp_path: Path, forked: Preloaded) -> Discovery:
    made = Discovery(tmp_path, forked)
    made.configure(broken={"command": "no-such-program"}, rules=RULES)
    made("refresh")
    return made


@pytest.mark.requirement("CLI-42")
def test_a_server_that_was_never_listed_is_not_said_to_lack_a_tool(home: Discovery) -> None:
    starts = home.starts
    for command in ("why", "inspect"):
        refused = home(command, "broken:anything")
        assert refused.code == 5
        assert "program 'no-such-program' is not on the PATH" in refused.err
        assert "no tool" not in refused.err
        assert home(command, "demo:echo").code == 0

    assert home.starts == starts


def fleet(folder: Folder) -> None:
    folder.write(
        fault_server(era="legacy", name="old"),
        fault_server(era="modern", name="new"),
        broken(good("dead")),
        fault_server("hang_start", name="late"),
        good("off", enabled=False),
    )


@pytest.mark.requirement("HEA-40")
@pytest.mark.thorough
async def test_every_server_is_asked_at_once_and_none_delays_the_others(folder: Folder) -> None:
    fleet(folder)
    async with folder.open() as engine:
        with anyio.fail_after(60):
            results = await engine.probe(max_wait=5)
        pings = await engine.call_log.entries(LogFilter(kinds=("ping",)))
        states = {one.name: one.state for one in await engine.health()}

    by_name = {one.server: one.to_json() for one in results}
    assert by_name.keys() == {"old", "new", "dead", "late"}
    assert by_name["old"]["status"] == by_name["new"]["status"] == "healthy"
    assert by_name["old"]["latency_ms"] > 0
    assert by_name["dead"]["code"] == "SERVER_CONNECTION_ERROR"
    assert (by_name["late"]["status"], by_name["late"]["error"]) == (
        "unhealthy",
        "it did not answer within 5 s",
    )
    assert states["late"] == "starting"
    assert {one.server: one.outcome for one in pings} == {
        "old": "ok",
        "new": "ok",
        "dead": "SERVER_CONNECTION_ERROR",
        "late": "TOOL_EXECUTION_TIMEOUT",
    }


@pytest.mark.requirement("HEA-40")
async def test_an_answer_resets_the_errors_of_the_server(folder: Folder) -> None:
    folder.write(good(), broken(good("dead")))
    async with folder.open() as engine:
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "echo", {"text": 7})
        [before] = await engine.metrics("good")
        well, dead = [one.to_json() for one in await engine.probe(["good", "dead"])]
        [after] = await engine.metrics("good")

    assert (well["server"], well["status"], well["error"]) == ("good", "healthy", None)
    assert well["latency_ms"] > 0
    assert (dead["status"], dead["latency_ms"], dead["code"]) == (
        "unhealthy",
        None,
        "SERVER_CONNECTION_ERROR",
    )
    assert (before.total.errors, after.total.errors, after.total.calls) == (1, 0, 1)
