"""What a client and a server notify each other of beside calls, through the gateway."""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
import mcp_types as types
import pytest

from tests.e2e.serving import Home
from tests.e2e.test_serve_questions import User, client_of, execute, over_http, over_stdio
from tests.servers.programs import HERE, eventually

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.e2e,
    pytest.mark.filterwarnings("ignore:The roots capability is deprecated"),
]

TRANSPORTS = pytest.mark.parametrize("transport", [over_stdio, over_http])


def serve(home: Home, mode: str) -> None:
    arguments = ["-I", "-S", str(HERE / "asking_server.py"), mode, "--era", "legacy"]
    home.write({"everything": {"command": sys.executable, "args": arguments}})


@pytest.mark.thorough
@TRANSPORTS
@pytest.mark.requirement("QST-53")
async def test_a_server_learns_that_the_roots_of_its_client_have_changed(
    home: Home, transport: Any
) -> None:
    serve(home, "roots")
    user = User()
    with transport(home) as opened:
        async with client_of(opened, "handshake", user) as client:
            found = json.loads(await execute(client, "echo"))
            await client.send_roots_list_changed()
            with anyio.fail_after(60):
                while not found["answers"]:
                    await anyio.sleep(0.05)
                    found = json.loads(await execute(client, "echo"))

    assert found["changes"] == 1
    assert found["declared"]["roots"] == {"listChanged": True}
    assert found["answers"][0]["result"]["roots"] == [{"uri": "file:///project/here"}]


@pytest.mark.thorough
@TRANSPORTS
@pytest.mark.requirement("QST-48")
async def test_a_client_learns_after_its_call_that_an_address_is_done_with(
    home: Home, transport: Any
) -> None:
    serve(home, "late")
    done: list[str] = []

    async def handle(message: Any) -> None:
        if isinstance(message, types.ElicitCompleteNotification):
            done.append(message.params.elicitation_id)

    user = User()
    with transport(home) as opened:
        async with client_of(opened, "handshake", user, message_handler=handle) as client:
            await execute(client, "environment")
            await eventually(lambda: bool(done))

    assert [one.elicitation_id for one in user.shown] == done == ["one"]
