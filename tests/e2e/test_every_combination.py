"""Each era of a client with each era of a server: what passes between them directly passes here.

The SDK is the client, and the server is made with the SDK, too. Each cell runs without the gateway
first, so that it is known to be possible.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from tests.e2e.serving import Home
from tests.servers.programs import eventually

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.e2e,
    pytest.mark.requirement("SRV-60"),
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"),
]

SERVER = Path(__file__).parent.parent / "servers" / "everything_server.py"
MODES = {"handshake": "legacy", "modern": "2026-07-28"}
WATCHED = "test://watched-resource"


@dataclass
class Person:
    """Who answers, and what was seen."""

    asked: list[Any] = field(default_factory=list)
    logged: list[types.LoggingMessageNotificationParams] = field(default_factory=list)
    received: list[Any] = field(default_factory=list)

    def forget(self) -> None:
        for seen in (self.asked, self.logged, self.received):
            seen.clear()

    async def elicit(self, _: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params)
        content = {"username": "ann", "email": "ann@example.com"}
        is_form = isinstance(params, types.ElicitRequestFormParams)
        return types.ElicitResult(action="accept", content=content if is_form else None)

    async def sample(
        self, _: Any, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        self.asked.append(params)
        said = types.TextContent(text="Paris")
        return types.CreateMessageResult(role="assistant", content=said, model="a model")

    async def roots(self, _: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///project", name="project")])

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logged.append(params)

    async def receive(self, message: Any) -> None:
        self.received.append(message)

    def connect(self, transport: Any, era: str) -> Client:
        return Client(
            transport,
            mode=MODES[era],
            read_timeout_seconds=60,
            elicitation_callback=self.elicit,
            sampling_callback=self.sample,
            list_roots_callback=self.roots,
            logging_callback=self.log,
            log_level="info" if era == "modern" else None,
            message_handler=self.receive,
        )


@dataclass(frozen=True)
class Cell:
    client: Client
    era: str
    person: Person
    tool: Callable[[str], str]
    """The name of a tool towards this client."""

    async def text(self, name: str, /, **arguments: Any) -> str:
        result = await self.client.call_tool(self.tool(name), arguments)
        assert not result.is_error, result.content
        return "".join(block.text for block in result.content)


ERAS = ("handshake", "modern")
CELLS = [
    *(
        pytest.param(("directly", era, era), id=f"{era}, directly", marks=pytest.mark.matrix)
        for era in ERAS
    ),
    *(
        pytest.param(("gateway", client, server), id=f"{client} client, {server} server")
        for client in ERAS
        for server in ERAS
    ),
]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """That of a fixture which outlives a test has to outlive it, too."""
    return "asyncio"


@pytest.fixture
def cell(shared_cell: Cell) -> Cell:
    """Nobody was asked and nothing was logged yet."""
    shared_cell.person.forget()
    return shared_cell


@pytest.fixture(scope="module", params=CELLS)
async def shared_cell(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Cell]:
    """One connection for all tests of a cell: to start the three programs takes 1.5 s of CPU."""
    home = Home(tmp_path_factory.mktemp("home"))
    way, era, server_era = request.param
    entry = {
        "command": sys.executable,
        "args": ["-W", "ignore", str(SERVER), "stdio", "--era", server_era],
    }
    person = Person()
    if way == "directly":
        program = StdioServerParameters(**entry)
        async with connected(home, program, person, era) as client:
            yield Cell(client, era, person, str)
        return
    home.write({"all": entry}, server={"mode": "direct", "poolLimit": 100})
    command, *args = home.command()
    program = StdioServerParameters(command=command, args=args, env=home.environ, cwd=home.folder)
    async with connected(home, program, person, era) as client:
        await until(partial(is_listed, client))
        yield Cell(client, era, person, lambda name: f"all__{name}")


@asynccontextmanager
async def connected(
    home: Home, program: StdioServerParameters, person: Person, era: str
) -> AsyncIterator[Client]:
    with (home.folder / "stderr.log").open("a", encoding="utf-8") as errors:
        async with person.connect(stdio_client(program, errlog=errors), era) as client:
            yield client


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(60):
        while not await check():  # noqa: ASYNC110 - another process alone knows
            await anyio.sleep(0.05)


async def is_listed(client: Client) -> bool:
    """The first start lists the server in the background."""
    return any("test_roots" in tool.name for tool in await tools_of(client))


async def tools_of(client: Client) -> list[types.Tool]:
    found: list[types.Tool] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        found += page.tools
        if not (cursor := page.next_cursor):
            return found


@pytest.mark.thorough
async def test_form_is_filled_in(cell: Cell) -> None:
    answer = await cell.text("test_elicitation", message="Who are you?")

    assert answer.startswith("User response: action=accept")
    assert "ann@example.com" in answer
    [asked] = cell.person.asked
    assert "Who are you?" in asked.message
    assert set(asked.requested_schema["properties"]) == {"username", "email"}


async def test_url_is_shown(cell: Cell) -> None:
    assert "action=accept" in await cell.text("test_url_elicitation")
    [asked] = cell.person.asked
    assert asked.url == "https://example.com/visit"


@pytest.mark.thorough
async def test_model_is_sampled(cell: Cell) -> None:
    assert await cell.text("test_sampling", prompt="Capital?") == "LLM response: Paris"
    [asked] = cell.person.asked
    assert asked.messages[0].content.text == "Capital?"


async def test_roots_are_listed(cell: Cell) -> None:
    assert await cell.text("test_roots") == "file:///project"


@pytest.mark.thorough
async def test_progress_arrives_in_order(cell: Cell) -> None:
    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    name = cell.tool("test_tool_with_progress")
    await cell.client.call_tool(name, {}, progress_callback=note)

    await eventually(lambda: len(seen) == 3)  # the client may pass it on after the answer
    assert seen == [0, 50, 100]


@pytest.mark.thorough
async def test_cancelled_call_is_cancelled_at_the_server(cell: Cell) -> None:
    async def cancel(*_: object) -> None:
        waiting.cancel()

    with anyio.CancelScope() as waiting:
        name = cell.tool("test_wait")
        await cell.client.call_tool(name, {}, progress_callback=cancel)

    async def is_cancelled() -> bool:
        return await cell.text("test_waited") == "1"

    await until(is_cancelled)


@pytest.mark.thorough
async def test_log_messages_of_a_call_reach_its_client(cell: Cell) -> None:
    if cell.era == "handshake":
        await cell.client.set_logging_level("info")

    await cell.text("test_tool_with_logging")

    await eventually(lambda: len(cell.person.logged) == 3)
    assert "Tool execution started" in str(cell.person.logged[0].data)


async def test_resources_are_listed_and_read(cell: Cell) -> None:
    uris = {str(one.uri) for one in (await cell.client.list_resources()).resources}
    templates = (await cell.client.list_resource_templates()).resource_templates
    static = await cell.client.read_resource("test://static-text")
    binary = await cell.client.read_resource("test://static-binary")
    made = await cell.client.read_resource("test://template/7/data")

    assert {"test://static-text", "test://static-binary", WATCHED} <= uris
    assert "test://template/{id}/data" in {one.uri_template for one in templates}
    assert static.contents[0].text == "This is the content of the static text resource."
    assert binary.contents[0].blob
    assert '"id": "7"' in made.contents[0].text


async def test_prompts_are_listed_and_got(cell: Cell) -> None:
    names = {one.name for one in (await cell.client.list_prompts()).prompts}
    arguments = {"arg1": "a", "arg2": "b"}
    got = await cell.client.get_prompt("test_prompt_with_arguments", arguments)

    assert {"test_simple_prompt", "test_prompt_with_arguments"} <= names
    assert got.messages[0].content.text == "Prompt with arguments: arg1='a', arg2='b'"


async def test_arguments_are_completed(cell: Cell) -> None:
    prompt = types.PromptReference(name="test_prompt_with_arguments")
    completed = await cell.client.complete(prompt, {"name": "arg1", "value": "par"})
    template = types.ResourceTemplateReference(uri="test://template/{id}/data")
    of_template = await cell.client.complete(template, {"name": "id", "value": "ro"})

    assert completed.completion.values == ["paris", "park", "party"]
    assert of_template.completion.values == ["rome"]


@pytest.mark.thorough
async def test_changes_are_announced(cell: Cell) -> None:
    if cell.era == "modern":
        listening = cell.client.listen(
            prompts_list_changed=True,
            resources_list_changed=True,
            tools_list_changed=True,
            resource_subscriptions=[WATCHED],
        )
        seen: list[str] = []
        async with listening as events:
            await cell.text("test_change_lists")
            with anyio.fail_after(60):
                async for event in events:
                    seen.append(type(event).__name__)
                    if "ResourceUpdated" in seen:
                        break
        return
    await cell.client.subscribe_resource(WATCHED)
    await cell.text("test_change_lists")

    def updated() -> bool:
        kinds = [getattr(one, "method", "") for one in cell.person.received]
        return "notifications/resources/updated" in kinds

    await eventually(updated)
