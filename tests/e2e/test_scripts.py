"""Scripts of several clients of one gateway, which wait on calls of a server."""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import AsyncExitStack

import anyio
import pytest
from mcp import Client

from discovery_engine._util.json import JSONObject
from tests.e2e.serving import ROOT, Home, text_of
from tests.servers.programs import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.e2e, pytest.mark.requirement("STP-7")]

SERVER = ROOT / "tests" / "servers" / "results_server.py"


async def test_no_client_takes_the_scripts_of_others(home: Home) -> None:
    log = home.folder / "calls.jsonl"
    log.touch()
    program = {"command": sys.executable, "args": [str(SERVER), str(log)]}
    home.write({"results": program}, trust="open", server={"script": True})

    def events() -> list[JSONObject]:
        return [json.loads(line) for line in log.read_text("utf-8").splitlines()]

    def begun(client: int) -> int:
        return sum(event["tool"] == "hold" and of(event) == client for event in events())

    def of(event: JSONObject) -> int:
        value: int = event["arguments"]["value"]
        return value

    async with AsyncExitStack() as stack:
        address = stack.enter_context(home.http())
        connections = [Client(address, mode="legacy", read_timeout_seconds=120) for _ in range(6)]
        clients = [await stack.enter_async_context(client) for client in connections]
        tasks = await stack.enter_async_context(anyio.create_task_group())
        with anyio.fail_after(120):
            for number, client in enumerate(clients[:5]):
                code = f'await call("results:hold", until="{log.parent / "open"}", value={number})'
                for _ in range(5):
                    tasks.start_soon(lambda c=client, s=code: text_of(c, "execute_script", code=s))
                if not number:
                    await eventually(lambda: begun(0) == 4)
                    other = await text_of(clients[5], "execute_script", code="6 * 7")
                    held = begun(0)
            await eventually(lambda: sum(map(begun, range(5))) == 16)
            (log.parent / "open").touch()
            await eventually(lambda: len(events()) == 50)

    running, most, most_of_one = Counter[int](), 0, 0
    for event in events():
        running[of(event)] += 1 if event["tool"] == "hold" else -1
        most, most_of_one = max(most, running.total()), max(most_of_one, *running.values())
    assert (other, held) == ("42", 4)
    assert (most, most_of_one) == (16, 4)
