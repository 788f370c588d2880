"""Questions of real servers to the SDK's client, through the gateway: each era with each era."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.e2e.serving import Home, text_of
from tests.kinds import thinned

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.e2e,
    pytest.mark.filterwarnings("ignore:The logging capability is deprecated"),
]

EVERYTHING = Path(__file__).parents[1] / "servers" / "everything_server.py"
CLIENTS = {"handshake": "legacy", "modern": "2026-07-28"}
# All are crossed before a change lands, too, but in `test_every_combination.py`.
ERAS = [
    ("handshake", "handshake"),
    pytest.param("handshake", "modern", marks=pytest.mark.matrix),
    pytest.param("modern", "handshake", marks=pytest.mark.matrix),
    pytest.param("modern", "modern", marks=pytest.mark.matrix),
]


class User:
    """Who answers, at the client; notes what was shown."""

    def __init__(self) -> None:
        self.shown: list[Any] = []
        self.logged: list[Any] = []

    async def elicit(self, ctx: Any, params: Any) -> types.ElicitResult:
        self.shown.append(params)
        if isinstance(params, types.ElicitRequestURLParams):
            return types.ElicitResult(action="accept")
        return types.ElicitResult(action="accept", content={"username": "ann", "name": "Ann"})

    async def sample(self, ctx: Any, params: Any) -> types.CreateMessageResult:
        self.shown.append(params)
        text = types.TextContent(type="text", text="Paris")
        return types.CreateMessageResult(role="assistant", content=text, model="m")

    async def roots(self, ctx: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///project/here")])

    async def log(self, params: Any) -> None:
        self.logged.append(params)

    @property
    def callbacks(self) -> dict[str, Any]:
        return {
            "elicitation_callback": self.elicit,
            "sampling_callback": self.sample,
            "list_roots_callback": self.roots,
            "logging_callback": self.log,
        }


@pytest.fixture
def user() -> User:
    return User()


@contextmanager
def over_stdio(home: Home) -> Iterator[Any]:
    command, *args = home.command()
    program = StdioServerParameters(command=command, args=args, env=home.environ, cwd=home.folder)
    with (home.folder / "stderr.log").open("a", encoding="utf-8") as errors:
        yield lambda: stdio_client(program, errlog=errors)


@contextmanager
def over_http(home: Home) -> Iterator[Any]:
    with home.http() as address:
        yield lambda: streamable_http_client(address)


@asynccontextmanager
async def client_of(transport: Any, era: str, user: User, **more: Any) -> AsyncIterator[Client]:
    callbacks = {**user.callbacks, **more}
    with anyio.fail_after(100):
        async with Client(
            transport(), mode=CLIENTS[era], read_timeout_seconds=60, **callbacks
        ) as client:
            yield client


def serve(home: Home, era: str, **sections: Any) -> None:
    arguments = ["-W", "ignore", str(EVERYTHING), "stdio", "--era", era]
    home.write({"everything": {"command": sys.executable, "args": arguments}}, **sections)


async def execute(client: Client, tool: str, **arguments: Any) -> str:
    return await text_of(client, "execute_tool", tool=f"everything:{tool}", arguments=arguments)


@pytest.mark.requirement("QST-2", "QST-4", "QST-10")
@pytest.mark.parametrize("transport", thinned([over_stdio, over_http]))
@pytest.mark.parametrize(("client_era", "server_era"), ERAS)
async def test_a_question_of_every_kind_reaches_the_user_and_its_answer_the_server(
    home: Home, user: User, transport: Any, client_era: str, server_era: str
) -> None:
    serve(home, server_era)
    with transport(home) as opened:
        async with client_of(opened, client_era, user) as client:
            form = await execute(client, "test_elicitation", message="Who are you?")
            url = await execute(client, "test_url_elicitation")
            sampled = await execute(client, "test_sampling", prompt="Capital of France?")
            roots = await execute(client, "test_roots")

    assert "action=accept" in form
    assert '"username": "ann"' in form
    assert "action=accept" in url
    assert sampled == "LLM response: Paris"
    assert roots == "file:///project/here"
    asked, visit, prompt = user.shown
    assert asked.message == "everything asks: Who are you?"
    assert set(asked.requested_schema["properties"]) == {"username", "email"}
    assert (visit.message, visit.url) == (
        "everything asks: Please visit",
        "https://example.com/visit",
    )
    assert prompt.messages[0].content.text == "Capital of France?"


@pytest.mark.requirement("QST-1")
@pytest.mark.parametrize(("client_era", "server_era"), ERAS)
async def test_a_client_that_cannot_be_asked_reads_what_was_wanted(
    home: Home, user: User, client_era: str, server_era: str
) -> None:
    serve(home, server_era)
    nothing: dict[str, Any] = dict.fromkeys(user.callbacks)
    with over_stdio(home) as opened:
        async with client_of(opened, client_era, user, **nothing) as client:
            refused = await execute(client, "test_elicitation", message="Who are you?")
            fine = await execute(client, "test_simple_text")

    assert "TOOL_NEEDS_INPUT" in refused
    assert "elicitation" in refused
    assert fine == "This is a simple text response for testing."
    assert user.shown == []


@pytest.mark.requirement("NTF-20")
@pytest.mark.parametrize("transport", thinned([over_stdio, over_http]))
@pytest.mark.parametrize(("client_era", "server_era"), ERAS)
async def test_log_messages_reach_the_client_of_the_call_with_the_servers_name(
    home: Home, user: User, transport: Any, client_era: str, server_era: str
) -> None:
    serve(home, server_era)
    more = {"log_level": "debug"} if client_era == "modern" else {}
    with transport(home) as opened:
        async with client_of(opened, client_era, user, **more) as client:
            if client_era == "handshake":
                await client.set_logging_level("debug")
            await execute(client, "test_tool_with_logging")

    lines = [(one.level, one.logger, one.data) for one in user.logged]
    assert lines == [
        ("info", "everything/everything", f"Tool {line}")
        for line in ("execution started", "processing data", "execution completed")
    ]
