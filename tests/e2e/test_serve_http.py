"""`discovery serve --http`, before the SDK's client and before requests that no client sends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.e2e.serving import Home, fault_entry, listening_at, text_of
from tests.ports import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]


async def lists_tools(client: Client) -> bool:
    return "execute_tool" in {tool.name for tool in (await client.list_tools()).tools}


@pytest.mark.requirement("SRV-1")
@pytest.mark.parametrize("mode", ["legacy", pytest.param("auto", marks=pytest.mark.matrix)])
async def test_agents_list_search_and_execute_side_by_side(home: Home, mode: str) -> None:
    home.write({"good": fault_entry()})
    heard: list[str] = []

    async def work(address: str, number: int) -> None:
        async with Client(address, mode=mode, read_timeout_seconds=60) as client:
            assert await lists_tools(client)
            await text_of(client, "search_tools", query="echo")
            arguments = {"text": str(number)}
            text = await text_of(client, "execute_tool", tool="good:echo", arguments=arguments)
            heard.append(json.loads(text)["text"])

    with home.http() as address, anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(work, address, number)

    assert sorted(heard) == ["0", "1", "2"]


@pytest.mark.requirement("CLI-91")
def test_commands_reach_the_servers_that_a_gateway_has_started(home: Home) -> None:
    home.write({"good": fault_entry()})
    bearer = f"Authorization: Bearer ${{file:{home.folder / 'data' / 'http-token'}}}"

    def execute(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "discovery_cli", "execute", *words]
        environ = {k: v for k, v in home.environ.items() if k != "DISCOVERY_CONFIG"}
        return subprocess.run(command, capture_output=True, check=False, env=environ, text=True)

    with home.http("127.0.0.1", "--new-token") as address:
        call = ("--url", address, "execute_tool", "tool=good:pid")
        first, second = (execute(*call, "--header", bearer) for _ in range(2))
        refused = execute(*call)

    assert int(first.stdout) == int(second.stdout)
    assert refused.returncode == 6


@pytest.mark.requirement("SRC-9")
async def test_a_gateway_that_a_client_reaches_over_http_is_none_of_its_servers(
    home: Home,
) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}/mcp"
    entries = {
        "good": fault_entry(),
        "direct": {"url": address},
        "proxied": {"command": "npx", "args": ["-y", "mcp-remote", f"http://localhost:{port}/mcp"]},
        "other": {"url": "http://127.0.0.1:9/mcp"},
    }
    (home.folder / "clients.json").write_text(json.dumps({"mcpServers": entries}))
    home.write({}, sources=[{"type": "custom", "path": "clients.json"}])

    with home.process("--http", f"127.0.0.1:{port}", "--no-token") as process:
        assert listening_at(process) == address
        async with Client(address, read_timeout_seconds=60) as client:
            listed = await text_of(client, "list_mcp_servers")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0

    assert "good" in listed
    assert "other" in listed
    assert "direct" not in listed
    assert "proxied" not in listed


@pytest.mark.requirement("SRV-10", "SRV-11")
async def test_other_machines_call_it_by_its_names_and_pages_by_none(home: Home) -> None:
    home.write({})

    with home.http("0.0.0.0", "--allow-remote", "--allowed-host", "tools.example") as address:
        port = httpx2.URL(address).port
        async with httpx2.AsyncClient(headers=home.authorization) as client:
            transport = streamable_http_client(address, http_client=client)
            async with Client(transport, read_timeout_seconds=60) as agent:
                assert await lists_tools(agent)
            answers = {
                name: (await client.post(address, headers={"host": f"{name}:{port}"})).status_code
                for name in ("tools.example", socket.gethostname(), "10.0.0.7", "evil.example")
            }

    assert answers.pop("evil.example") == 421
    assert set(answers.values()) == {415}  # let in, and without a message
