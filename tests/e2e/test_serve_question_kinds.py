"""Less common questions of a server to the SDK's client, through the gateway, in both eras."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types
import pytest
from mcp import MCPError

from tests.e2e.serving import Home
from tests.e2e.test_serve_questions import (
    ERAS,
    User,
    client_of,
    execute,
    over_http,
    over_stdio,
    serve,
)
from tests.kinds import thinned

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.e2e,
    pytest.mark.filterwarnings("ignore:The sampling capability is deprecated"),
]

CHOICES = {
    "untitledSingle": "option2",
    "titledSingle": "value3",
    "legacyEnum": "opt1",
    "untitledMulti": ["option1", "option3"],
    "titledMulti": ["value1", "value2"],
}


class Chooser(User):
    async def elicit(self, ctx: Any, params: Any) -> types.ElicitResult:
        self.shown.append(params)
        given = CHOICES if isinstance(params, types.ElicitRequestFormParams) else None
        return types.ElicitResult(action="accept", content=given)

    async def sample(self, ctx: Any, params: Any) -> Any:
        self.shown.append(params)
        city = {"city": "Paris"}
        use = types.ToolUseContent(type="tool_use", id="u2", name="weather", input=city)
        return types.CreateMessageResultWithTools(
            role="assistant", content=[use], model="m", stop_reason="toolUse"
        )


@pytest.mark.parametrize("transport", thinned([over_stdio, over_http]))
@pytest.mark.parametrize(("client_era", "server_era"), ERAS)
@pytest.mark.requirement("QST-2", "QST-10", "QST-42")
async def test_choices_tools_and_addresses_reach_the_client_whole(
    home: Home, transport: Any, client_era: str, server_era: str
) -> None:
    serve(home, server_era)
    user = Chooser()
    tools = types.SamplingToolsCapability()
    more = {"sampling_capabilities": types.SamplingCapability(tools=tools)}
    with transport(home) as opened:
        async with client_of(opened, client_era, user, **more) as client:
            chosen = await execute(client, "test_elicitation_sep1330_enums")
            visited = await execute(client, "test_url_elicitation")
            used = json.loads(await execute(client, "test_sampling_tools"))

    form, visit, prompt = user.shown
    properties = form.requested_schema["properties"]
    several, one = properties["titledMulti"]["items"]["anyOf"], properties["titledSingle"]["oneOf"]
    assert several[1] == {"const": "value2", "title": "Option 2"}
    assert one[2] == {"const": "value3", "title": "Option 3"}
    assert properties["legacyEnum"]["enumNames"] == ["Option One", "Option Two", "Option Three"]
    assert properties["untitledMulti"]["items"]["enum"] == ["option1", "option2", "option3"]
    assert json.loads(chosen.partition("content=")[2]) == CHOICES
    assert (visit.url, "accept" in visited) == ("https://example.com/visit", True)
    assert [tool.name for tool in prompt.tools] == ["weather"]
    assert prompt.tool_choice.mode == "required"
    assert [message.role for message in prompt.messages] == ["user", "assistant", "user"]
    assert used[0] == "toolUse"
    calls = used[1] if isinstance(used[1], list) else [used[1]]
    assert [(one["name"], one["input"]) for one in calls] == [("weather", {"city": "Paris"})]


@pytest.mark.thorough
@pytest.mark.parametrize(("client_era", "server_era"), ERAS)
@pytest.mark.requirement("QST-1", "QST-41")
async def test_a_client_without_tools_in_samples_is_not_asked_for_them(
    home: Home, client_era: str, server_era: str
) -> None:
    serve(home, server_era)
    user = Chooser()
    with over_stdio(home) as opened:
        async with client_of(opened, client_era, user) as client:
            declared = json.loads(await execute(client, "test_declared"))
            try:
                refused = await execute(client, "test_sampling_tools")
            except MCPError as error:  # where questions pass, it is the answer to the request
                refused = error.message

    assert "tools" not in declared["sampling"]
    assert "sampling.tools" in refused
    assert user.shown == []


@pytest.mark.thorough
@pytest.mark.parametrize(("client_era", "server_era"), ERAS)
@pytest.mark.requirement("QST-41", "QST-53")
async def test_a_server_is_declared_the_roots_of_its_client_as_they_are(
    home: Home, client_era: str, server_era: str
) -> None:
    serve(home, server_era)
    with over_stdio(home) as opened:
        async with client_of(opened, client_era, User()) as client:
            declared = json.loads(await execute(client, "test_declared"))
            roots = await execute(client, "test_roots")

    told = client_era == server_era == "handshake"
    assert declared["roots"] == ({"listChanged": True} if told else {})
    assert roots == "file:///project/here"
