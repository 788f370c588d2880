from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from discovery_cli.detail_output import DetailPrinter
from discovery_cli.output import Output
from discovery_cli.results import show_failure
from discovery_engine.agent import resources
from discovery_engine.agent.budget import Budget
from discovery_engine.agent.instructions import render_instructions
from discovery_engine.agent.render.calls import error_result
from discovery_engine.agent.render.details import details_result
from discovery_engine.agent.render.search import search_result
from discovery_engine.agent.render.servers import servers_result
from discovery_engine.agent.render.tools import tools_result
from discovery_engine.agent.tool_text import Detail
from discovery_engine.catalog import Failure, ServerPart
from discovery_engine.errors import ServerNotFoundError
from discovery_engine.tools.model import ServerName
from tests.factories import make_entry, make_part
from tests.kinds import thinned
from tests.unit.server.fakes import make_view
from tests.unit.util.test_text import HIDDEN

AMPLE = Budget(10_000)

# Where a stranger's text comes from.
CHANNELS: dict[str, Callable[[str], ServerPart]] = {
    "name": lambda text: make_part("github", make_entry(f"do_{text}it")),
    "description": lambda text: make_part("github", make_entry("do", description=f"Do {text}it.")),
    "parameter": lambda text: make_part(
        "github",
        make_entry(
            "do",
            inputSchema={
                "type": "object",
                "properties": {"how": {"type": "string", "description": f"How {text}to do"}},
            },
        ),
    ),
    "title": lambda text: make_part(
        "github", make_entry("do", title=f"Do{text}", annotations={"title": f"Do {text}it"})
    ),
    "instructions": lambda text: make_part("github", "do", instructions=f"Do {text}it"),
    "error": lambda text: make_part(
        "github", "do", failure=Failure("X", f"it {text}broke", f"mend {text}it", 1000.0)
    ),
}


def agent_texts(part: ServerPart) -> Iterator[str]:
    view = make_view(part)
    [entry] = part.entries
    failed = part.failure.message if part.failure else part.instructions
    for result in (
        search_result(view.search("do"), AMPLE, Detail.SCHEMA),
        tools_result(view.list_tools("github"), AMPLE, Detail.SCHEMA),
        servers_result(view.servers(), AMPLE),
        details_result(entry, AMPLE),
        error_result(ServerNotFoundError(failed or entry.tool.name, [])),
    ):
        yield result["content"][0]["text"]
    yield render_instructions(view)
    yield resources.read_resource(view, "discovery://servers/github/info")[1]
    yield resources.read_resource(view, "discovery://servers/github/tools")[1]


def show(part: ServerPart) -> None:
    view = make_view(part)
    [entry] = part.entries
    output = Output()
    DetailPrinter(output, now=1000.0).servers(view, {ServerName("github"): part.entries})
    output.line(entry.tool.description)
    said = part.failure.message if part.failure else part.instructions
    show_failure(output, entry, {"content": [{"type": "text", "text": said}], "isError": True})


@pytest.mark.requirement("TXT-1")
@pytest.mark.parametrize("channel", thinned(CHANNELS))
def test_no_hidden_character_reaches_an_agent(channel: str) -> None:
    reached = [c for c in HIDDEN if any(c in text for text in agent_texts(CHANNELS[channel](c)))]

    assert reached == []


@pytest.mark.requirement("TXT-1")
@pytest.mark.parametrize("channel", CHANNELS)
def test_no_hidden_character_reaches_a_terminal(
    channel: str, capsys: pytest.CaptureFixture[str]
) -> None:
    reached = []
    for character in HIDDEN:
        show(CHANNELS[channel](character))
        written = capsys.readouterr()
        if character in written.out + written.err:
            reached.append(character)

    assert reached == []
