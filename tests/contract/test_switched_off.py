"""`enabled: false` of the whole configuration is told as itself, wherever one looks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.conftest import Repository
from tests.canaries import Place, command_outputs, gateway_outputs, leaks, place_in
from tests.forked import Preloaded

pytestmark = pytest.mark.anyio

SAID = "the configuration has `enabled: false`"
NEVER = (
    "not known yet",
    "pending",
    "ask again in",
    "none is configured",
    "no server is configured",
)


@pytest.fixture
def home(tmp_path: Path, forked: Preloaded) -> Repository:
    """A configuration of one server, which is known, and one that was never asked."""
    place, path = tmp_path / "home", tmp_path / "project"
    place.mkdir()
    path.mkdir()
    made = Repository(path, place, forked)
    configure(made)
    return made


def configure(home: Repository, **more: object) -> None:
    servers = {"trap": home.trap(), "other": {"command": "no-such-program"}}
    folder = home.home / "config" / "discovery"
    folder.mkdir(parents=True, exist_ok=True)
    home.write(str(folder / "discovery.yaml"), {"servers": servers, **more})


@pytest.mark.requirement("CFG-8")
def test_every_command_says_that_all_is_switched_off(home: Repository) -> None:
    assert home("refresh", "trap").code == 0
    home.mark.unlink()
    configure(home, enabled=False)

    for words in (
        ["list"],
        ["list", "--status"],
        ["search", "spring"],
        ["tools", "trap"],
        ["inspect", "trap"],
        ["health", "--all"],
        ["doctor"],
        ["refresh"],
        ["refresh", "trap"],
        ["execute", "trap:spring"],
    ):
        done = home(*words)
        said = done.out + done.err
        assert "enabled: false" in said, words
        assert not any(word in said for word in NEVER), (words, said)

    assert home("execute", "trap:spring").code == 4
    assert home("list", "--json").json["servers"][0]["status"] == "disabled"
    assert home("search", "spring", "--json").json["results"] == []
    assert not home.is_sprung


@pytest.mark.requirement("CFG-8")
def test_every_answer_to_an_agent_reports_it(home: Repository) -> None:
    home("refresh", "trap")
    home.mark.unlink()
    configure(home, enabled=False)

    answers = home.served(
        ("list_mcp_servers", {}),
        ("search_tools", {"query": "spring"}),
        ("list_tools", {"server": "trap"}),
        ("get_tool_details", {"tool": "trap:spring"}),
        ("execute_tool", {"tool": "trap:spring", "arguments": {}}),
    )

    for answer in answers:
        text = answer["result"]["content"][0]["text"]
        assert SAID in text, text
        assert not any(word in text for word in NEVER)
    assert not home.is_sprung


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place_in(tmp_path_factory.mktemp("place")) as place:
        yield place


@pytest.mark.requirement("HEA-15", "SEC-7")
@pytest.mark.requirement("HEA-7")
async def test_no_answer_log_or_file_of_a_gateway_holds_a_part_of_a_secret(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    answers, others = await gateway_outputs(place)

    written = capfd.readouterr()
    streams = {"stderr": written.err.encode(), "stdout": written.out.encode()}

    assert leaks(answers | others | streams | place.files()) == []
    assert b"invalid token" in others["log"]  # it was there to be redacted
    assert b"/no/such/work-place" not in b"\n".join(answers.values())
    # What a program writes to stderr is for its owner.
    crash = b"\n".join(data for name, data in answers.items() if "crash" in name)
    assert b"invalid token" not in crash


@pytest.mark.requirement("HEA-15", "SEC-7")
@pytest.mark.thorough
async def test_no_output_of_a_command_holds_a_part_of_a_secret(place: Place) -> None:
    outputs = await command_outputs(place)

    assert all(b"Traceback" not in data for data in outputs.values())
    assert leaks(outputs | place.files()) == []
    assert b"invalid token" in outputs["health crash"]  # owners read what a program wrote
