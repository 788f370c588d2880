"""`discovery serve` over stdio, before the SDK's client and before bare pipes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import IO, Any

import anyio
import anyio.to_thread
import pytest

from discovery_engine._util.json import JSONObject
from tests.e2e.serving import (
    Home,
    answered_without,
    fault_entry,
    found_by,
    text_of,
    time_entry,
)
from tests.servers.programs import eventually, is_running
from tests.unit.server.wire import INITIALIZE, INITIALIZED, PROBE, call, request

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]

ERAS = pytest.mark.parametrize("mode", ["legacy", pytest.param("auto", marks=pytest.mark.matrix)])


def tell(process: subprocess.Popen[bytes], *messages: JSONObject) -> None:
    assert process.stdin is not None
    process.stdin.write(b"".join(json.dumps(m).encode() + b"\n" for m in messages))
    process.stdin.flush()


def hear(process: subprocess.Popen[bytes]) -> JSONObject:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def shake_hands(process: subprocess.Popen[bytes]) -> None:
    tell(process, INITIALIZE)
    assert hear(process)["id"] == INITIALIZE["id"]
    tell(process, INITIALIZED)


def text_told(process: subprocess.Popen[bytes], name: str, /, **arguments: Any) -> str:
    tell(process, call(9, name, **arguments))
    return hear(process)["result"]["content"][0]["text"]


@ERAS
@pytest.mark.requirement("SRV-1")
async def test_agent_lists_searches_inspects_and_executes(home: Home, mode: str) -> None:
    home.write({"time": time_entry()})

    async with home.client(mode) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        found = await found_by(client, "what time is it in another zone", "time")
        details = await text_of(client, "get_tool_details", tool="time:get_current_time")
        zone = {"timezone": "Asia/Tokyo"}
        executed = await text_of(
            client, "execute_tool", tool="time:get_current_time", arguments=zone
        )

    assert {"search_tools", "execute_tool"} <= set(tools)
    assert "time:get_current_time(timezone: string)" in found
    assert details.startswith("time:get_current_time")
    assert json.loads(executed)["timezone"] == "Asia/Tokyo"


@pytest.mark.thorough
@ERAS
async def test_broken_servers_are_explained_and_hold_up_nothing(home: Home, mode: str) -> None:
    home.write(
        {
            "good": fault_entry(),
            "missing": {"command": "no-such-program-anywhere"},
            "hanging": fault_entry("hang_start"),
            "malformed": fault_entry("bad_tools"),
            "crashing": fault_entry("crash_start"),
        }
    )

    async with home.client(mode) as client:
        found = await found_by(client, "echo", "good")
        executed = await text_of(
            client, "execute_tool", tool="good:echo", arguments={"text": "hello"}
        )
        malformed = await answered_without(
            "malformed: starting", client, "list_tools", server="malformed"
        )
        missing = await text_of(client, "execute_tool", server="missing", tool="x")
        crashing = "crashing (0 tools) starting"
        servers = await answered_without(crashing, client, "list_mcp_servers")

    assert found.startswith("Match: sure.\ngood:echo(text?) - The tool echo")
    assert "more unavailable" in found or "Note: " in found
    assert json.loads(executed) == {"text": "hello"}
    assert "first(" in malformed
    assert "last(" in malformed
    assert missing.startswith("SERVER_CONNECTION_ERROR: server 'missing' is unavailable")
    states = {line.split(" ")[0]: line for line in servers.splitlines()}
    assert "failing" in states["missing"]
    assert "no-such-program-anywhere" in states["missing"]
    assert "failing" in states["crashing"]
    assert "starting" in states["hanging"]


@pytest.mark.thorough
@pytest.mark.requirement("SRV-2")
async def test_restart_answers_from_what_is_remembered(home: Home) -> None:
    home.write({"good": fault_entry()})
    async with home.client() as client:
        await found_by(client, "echo", "good")
    home.write({"good": fault_entry()}, cache={"ttl": 86400})

    async with home.client() as client:
        assert "- good (3): such as echo" in (client.instructions or "")
        assert (await text_of(client, "search_tools", query="echo")).startswith(
            "Match: sure.\ngood:echo"
        )


@pytest.mark.thorough
@ERAS
@pytest.mark.requirement("MET-20")
async def test_progress_of_a_tool_reaches_the_client(home: Home, mode: str) -> None:
    home.write({"slow": fault_entry("progress")})
    told: list[float] = []
    finished = anyio.Event()

    async def on_progress(progress: float, _: float | None, __: str | None) -> None:
        told.append(progress)
        if len(told) == 3:
            finished.set()

    async with home.client(mode) as client:
        arguments = {"tool": "slow:echo"}
        await client.call_tool("execute_tool", arguments, progress_callback=on_progress)
        await finished.wait()

    assert sorted(told) == [1, 2, 3]


@pytest.mark.requirement("SRV-9")
async def test_closed_stdin_ends_it_and_its_children(home: Home) -> None:
    home.write({"good": fault_entry()})
    with home.process() as process:
        shake_hands(process)
        child = int(text_told(process, "execute_tool", tool="good:pid"))

        assert process.stdin is not None
        process.stdin.close()

        assert process.wait(60) == 0
    await eventually(lambda: not is_running(child))


@pytest.mark.thorough
@pytest.mark.requirement("SRV-3")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_signal_ends_it_and_its_children(home: Home, number: signal.Signals) -> None:
    home.write({"good": fault_entry()})
    with home.process() as process:
        shake_hands(process)
        child = int(text_told(process, "execute_tool", tool="good:pid"))

        process.send_signal(number)

        assert process.wait(60) == 0
    await eventually(lambda: not is_running(child))


@pytest.mark.thorough
@pytest.mark.requirement("SRV-3")
async def test_a_second_signal_ends_it_at_once_and_its_children_soon(home: Home) -> None:
    home.write({"stubborn": fault_entry("stubborn")})
    with home.process() as process:
        shake_hands(process)
        child = int(text_told(process, "execute_tool", tool="stubborn:pid"))

        process.send_signal(signal.SIGTERM)
        while process.poll() is None:  # the first may still be on its way
            process.send_signal(signal.SIGTERM)

        assert process.wait(60) == -signal.SIGTERM
    await eventually(lambda: not is_running(child))


@pytest.mark.requirement("SRV-4")
async def test_hangup_reads_the_configuration_again(home: Home) -> None:
    home.write({"good": fault_entry()})
    with home.process() as process:
        shake_hands(process)
        text_told(process, "list_mcp_servers")

        home.config.write_text("servers: [", encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        await told_on_stderr(process, "The configuration was not reloaded")
        before = text_told(process, "list_mcp_servers")
        home.write({"good": fault_entry(), "new": fault_entry()})
        process.send_signal(signal.SIGHUP)
        await told_on_stderr(process, "The configuration was reloaded")
        after = text_told(process, "list_mcp_servers")

    assert "new" not in before
    assert "new" in after


async def told_on_stderr(process: subprocess.Popen[bytes], what: str) -> str:
    """The line on stderr that says so, waited for."""

    def look(stream: IO[bytes]) -> str:
        for line in stream:
            if what in line.decode():
                return line.decode()
        raise AssertionError(f"{what!r} was never said")

    assert process.stderr is not None
    with anyio.fail_after(60):
        return await anyio.to_thread.run_sync(look, process.stderr)


@pytest.mark.requirement("SRV-6")
async def test_stdout_carries_messages_only(home: Home) -> None:
    home.write({"noisy": fault_entry("noise"), "loud": fault_entry("stderr_flood")})
    with home.process() as process:
        shake_hands(process)
        text_told(process, "search_tools", query="echo")
        text_told(process, "execute_tool", tool="loud:echo", arguments={"text": "x"})
        assert process.stdin is not None
        process.stdin.close()

        assert process.stdout is not None
        assert process.stdout.read() == b""
        assert process.wait(60) == 0


@pytest.mark.thorough
@pytest.mark.requirement("SRV-7")
async def test_client_that_probes_and_hurries_is_served_the_handshake(home: Home) -> None:
    home.write({"good": fault_entry()})
    with home.process() as process:
        tell(process, PROBE, INITIALIZE)

        refused, initialized = hear(process), hear(process)

    assert (refused["id"], refused["error"]["code"]) == (PROBE["id"], -32601)
    assert initialized["result"]["protocolVersion"] == "2025-11-25"


LIBRARIES = {"mcp", "mcp_types", "starlette", "pydantic"}
SDK = {"mcp", "mcp_types", "starlette"}


def loaded_by_serving(home: Home, *messages: JSONObject) -> tuple[list[JSONObject], set[str]]:
    """The answers of a gateway, and which of `LIBRARIES` it had loaded when its client left."""
    program = (
        "import sys; started_with = set(sys.modules)\n"  # by measuring coverage, for instance
        "from discovery_cli.main import main\n"
        "try: main()\n"
        f"finally: print(*{LIBRARIES} & set(sys.modules) - started_with, file=sys.stderr)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, "serve"],
        env=home.environ,
        cwd=home.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        tell(process, INITIALIZE, INITIALIZED, *messages)
        answers = [hear(process) for _ in range(len(messages) + 1)]
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    return answers[1:], set(errors.decode().splitlines()[-1].split())


@pytest.mark.thorough
@pytest.mark.requirement("SRV-38", "SRV-43")
def test_a_client_is_served_without_the_sdk_and_when_all_is_known_without_pydantic(
    home: Home,
) -> None:
    home.write({"good": fault_entry()}, cache={"ttl": 86400})
    execute = call(3, "execute_tool", tool="good:echo", arguments={"text": "hello"})
    search = call(4, "search_tools", query="echo")

    [executed], of_a_call = loaded_by_serving(home, execute)
    [_, found], of_a_search = loaded_by_serving(home, request(3, "tools/list"), search)

    assert json.loads(executed["result"]["content"][0]["text"]) == {"text": "hello"}
    assert found["result"]["content"][0]["text"].startswith("Match: sure.\ngood:echo")
    assert not of_a_call & SDK
    assert of_a_search == set()


@pytest.mark.thorough
@pytest.mark.requirement("SRV-5")
async def test_log_goes_to_the_file_that_the_environment_names(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.write({"missing": {"command": "no-such-program-anywhere"}})
    log = home.folder / "logs" / "serve.log"
    monkeypatch.setenv("DISCOVERY_LOG_FILE", str(log))
    monkeypatch.setenv("DISCOVERY_LOG_LEVEL", "debug")

    async with home.client() as client:
        await text_of(client, "search_tools", query="x")

    assert log.exists()
