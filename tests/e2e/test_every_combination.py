"""Each era of a client with each era of a server; both are made with the SDK."""

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

    async def text(self, name: str, /, **arguments: Any) -> str:
        result = await self.client.call_tool(f"all__{name}", arguments)
        assert not result.is_error, result.content
        return "".join(block.text for block in result.content)


ERAS = ("handshake", "modern")
CELLS = [
    pytest.param((client, server), id=f"{client} client, {server} server")
    for client in ERAS
    for server in ERAS
]


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
    era, server_era = request.param
    entry = {
        "command": sys.executable,
        "args": ["-W", "ignore", str(SERVER), "stdio", "--era", server_era],
    }
    person = Person()
    home.write({"all": entry}, server={"mode": "direct", "poolLimit": 100})
    command, *args = home.command()
    program = StdioServerParameters(command=command, args=args, env=home.environ, cwd=home.folder)
    async with connected(home, program, person, era) as client:
        await until(partial(is_listed, client))
        yield Cell(client, era, person)


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


async def test_the_client_is_asked(cell: Cell) -> None:
    form = await cell.text("test_elicitation", message="Who are you?")
    address = await cell.text("test_url_elicitation")
    sample = await cell.text("test_sampling", prompt="Capital?")
    roots = await cell.text("test_roots")

    asked, shown, sampled = cell.person.asked
    assert form.startswith("User response: action=accept")
    assert "ann@example.com" in form
    assert "Who are you?" in asked.message
    assert set(asked.requested_schema["properties"]) == {"username", "email"}
    assert "action=accept" in address
    assert shown.url == "https://example.com/visit"
    assert sample == "LLM response: Paris"
    assert sampled.messages[0].content.text == "Capital?"
    assert roots == "file:///project"


async def test_resources_prompts_and_completion_pass(cell: Cell) -> None:
    uris = {str(one.uri) for one in (await cell.client.list_resources()).resources}
    templates = (await cell.client.list_resource_templates()).resource_templates
    binary = await cell.client.read_resource("test://static-binary")
    made = await cell.client.read_resource("test://template/7/data")
    prompts = {one.name for one in (await cell.client.list_prompts()).prompts}
    arguments = {"arg1": "a", "arg2": "b"}
    got = await cell.client.get_prompt("test_prompt_with_arguments", arguments)
    prompt = types.PromptReference(name="test_prompt_with_arguments")
    completed = await cell.client.complete(prompt, {"name": "arg1", "value": "par"})
    template = types.ResourceTemplateReference(uri="test://template/{id}/data")
    of_template = await cell.client.complete(template, {"name": "id", "value": "ro"})

    assert {"test://static-text", "test://static-binary", WATCHED} <= uris
    assert "test://template/{id}/data" in {one.uri_template for one in templates}
    assert binary.contents[0].blob
    assert '"id": "7"' in made.contents[0].text
    assert {"test_simple_prompt", "test_prompt_with_arguments"} <= prompts
    assert got.messages[0].content.text == "Prompt with arguments: arg1='a', arg2='b'"
    assert completed.completion.values == ["paris", "park", "party"]
    assert of_template.completion.values == ["rome"]


async def test_progress_and_log_messages_arrive_and_a_cancelled_call_is_cancelled(
    cell: Cell,
) -> None:
    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async def cancel(*_: object) -> None:
        waiting.cancel()

    async def is_cancelled() -> bool:
        return await cell.text("test_waited") == "1"

    if cell.era == "handshake":
        await cell.client.set_logging_level("info")
    await cell.client.call_tool("all__test_tool_with_progress", {}, progress_callback=note)
    await cell.text("test_tool_with_logging")
    await eventually(lambda: len(seen) == len(cell.person.logged) == 3)  # perhaps after the answer
    with anyio.CancelScope() as waiting:
        await cell.client.call_tool("all__test_wait", {}, progress_callback=cancel)
    await until(is_cancelled)

    assert seen == [0, 50, 100]
    assert "Tool execution started" in str(cell.person.logged[0].data)


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
