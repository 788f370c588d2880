"""Overrides from the file to the upstream: specs/overrides.md, on real child processes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from discovery_engine import Engine, load_settings
from discovery_engine.errors import (
    ConfigurationError,
    InvalidArgumentsError,
    ToolDisabledError,
    ToolNotFoundError,
)
from discovery_server.gateway import Gateway
from tests.contract.discovery import Discovery
from tests.engines import Changing, Folder, good, tool_names
from tests.forked import Preloaded
from tests.rows import rows
from tests.servers.programs import text_of
from tests.unit.server.sdk_client import connected

pytestmark = pytest.mark.anyio

SECRET = "hunter2hunter2"
SAY = {
    "pattern": "good:echo",
    "name": "say",
    "description": "Repeat what the parrot heard.",
    "tags": ["birds"],
}
PIN = {"pattern": "echo", "arguments": {"text": "${PARROT}"}}
EXAMPLES = {"pattern": "good:echo", "examples": ["squawk it back to me", "sag es noch einmal"]}


async def shown_to_agents(engine: Engine) -> str:
    """All that an agent can get to see of a tool, and what it is told when it gets it wrong."""
    asked: dict[str, dict[str, Any]] = {
        "search_tools": {"query": "echo text"},
        "list_tools": {"server": "good"},
        "get_tool_details": {"server": "good", "tool": "echo"},
        "execute_tool": {"server": "good", "tool": "echo", "arguments": {"text": "mine"}},
    }
    async with connected(Gateway(engine)) as client:
        answers = [await client.call_tool(name, given) for name, given in asked.items()]
    assert [answer.is_error for answer in answers] == [False, False, False, True]
    return "".join(answer.model_dump_json() for answer in answers)


async def echoed(engine: Engine, tool: str, **arguments: Any) -> Any:
    """What the upstream got."""
    return json.loads(text_of(await engine.execute("good", tool, arguments)))


@pytest.mark.requirement("OVR-3")
async def test_what_agents_see_and_call_is_the_overridden_tool(folder: Folder) -> None:
    folder.write(good())
    async with folder.open() as engine:
        await engine.refresh()
        before = (await engine.details("good", "echo")).tool
    folder.write(good(), overrides=[SAY])

    async with folder.open() as engine:
        [hit, *_] = (await engine.search("what did the parrot hear")).hits
        entry = await engine.details("good", "say")
        result = await echoed(engine, "say", text="hello")
        with pytest.raises(ToolNotFoundError):
            await engine.details("good", "echo")
        names = tool_names(engine.view, "good")

    assert hit.entry is entry
    assert (entry.tool.summary, entry.verdict.tags) == (SAY["description"], ("birds",))
    assert entry.tool.fingerprint == before.fingerprint
    assert result == {"text": "hello"}
    assert names == ["environment", "pid", "say"]


@pytest.mark.requirement("OVR-2")
async def test_a_later_entry_wins_field_by_field_and_tags_add_up(folder: Folder) -> None:
    later = {"pattern": "echo", "description": "Later.", "tags": ["loud", "birds"]}
    nobodys = {"pattern": "say", "description": "Of no tool of the server."}
    folder.write(
        good(), overrides=[SAY, later, nobodys], toolRules=[{"pattern": "say", "tags": ["first"]}]
    )

    async with folder.open() as engine:
        await engine.refresh()
        entry = await engine.details("good", "say")

    assert entry.tool.description == "Later."
    assert entry.verdict.tags == ("first", "birds", "loud")


@pytest.mark.requirement("OVR-7")
async def test_a_request_like_an_example_finds_the_tool_and_agents_do_not_see_it(
    folder: Folder,
) -> None:
    queries = ("squawk back", "sage das noch einmal")
    folder.write(good())
    async with folder.open() as engine:
        await engine.refresh()
        before = [hit for query in queries for hit in (await engine.search(query)).hits]
    folder.write(good(), overrides=[EXAMPLES, PIN])
    async with folder.open(environ={**os.environ, "PARROT": SECRET}) as engine:
        answers = [await engine.search(query) for query in queries]
        seen = await shown_to_agents(engine)

    assert "good:echo" not in [str(hit.entry.key) for hit in before]
    assert [str(answer.hits[0].entry.key) for answer in answers] == ["good:echo"] * 2
    assert "squawk" not in seen


@pytest.mark.requirement("OVR-10", "OVR-14")
async def test_a_pinned_argument_always_arrives_and_is_never_seen(folder: Folder) -> None:
    folder.write(good(), overrides=[PIN])

    async with folder.open(environ={**os.environ, "PARROT": SECRET}) as engine:
        await engine.refresh()
        got = await echoed(engine, "echo")
        got_more = await echoed(engine, "echo", volume=11)
        seen = await shown_to_agents(engine)
        schema = (await engine.details("good", "echo")).tool.input_schema
        with pytest.raises(InvalidArgumentsError) as caught:
            await echoed(engine, "echo", text="mine")

    assert got == {"text": SECRET}
    assert got_more == {"text": SECRET, "volume": 11}
    assert schema == {"type": "object", "properties": {}}
    assert "text is given by the configuration" in caught.value.message
    assert SECRET not in f"{seen}{caught.value}{caught.value.hint}"
    assert "PARROT" not in seen


@pytest.mark.requirement("OVR-10", "CFG-20")
async def test_values_may_come_from_a_secret_store(folder: Folder) -> None:
    class Vault:
        def value(self, reference: Any, *, base_dir: str | None) -> str:
            return f"${{{reference.name}}} of the vault"

    folder.write(good(), overrides=[PIN])

    async with folder.open(environ={}, secrets=Vault()) as engine:
        await engine.refresh()
        assert await echoed(engine, "echo") == {"text": "${PARROT} of the vault"}


@pytest.mark.requirement("OVR-14")
def test_a_pinned_value_is_neither_stored_nor_shown(tmp_path: Path, forked: Preloaded) -> None:
    discovery = Discovery(tmp_path, forked)
    pins = {"text": SECRET, "who": {"key": [SECRET, "${TOKEN}", 1234567, True]}}
    entries = [{"pattern": "echo", "arguments": pins}]
    discovery.configure(rules=yaml.safe_dump({"overrides": entries}))
    discovery("refresh")

    shown = discovery("config", "show", "--json").json["configuration"]["overrides"][0]

    stored = b"".join(file.read_bytes() for file in (tmp_path / "data").iterdir())
    assert SECRET.encode() not in stored
    assert b"1234567" not in stored
    assert shown["arguments"] == {
        "text": "••••",
        "who": {"key": ["••••", "${TOKEN}", "••••", True]},
    }


@pytest.mark.requirement("OVR-20")
async def test_a_new_name_evades_no_rule_and_enables_nothing(folder: Folder) -> None:
    verdicts = {
        (("echo", False),): False,
        (("say", False),): False,
        (("good:say", False),): False,
        (("say", True),): False,
        (("say", True), ("echo", False)): False,
        (("echo", True),): True,
        (("echo", True), ("say", False)): True,
    }
    folder.write(good())
    found = {}

    async with folder.open() as engine:
        await engine.refresh()
        for rules in verdicts:
            written = [{"pattern": pattern, "enabled": enabled} for pattern, enabled in rules]
            folder.write(good(), overrides=[SAY], toolRules=written)
            await engine.reload()
            try:
                await engine.details("good", "say")
                found[rules] = True
            except ToolDisabledError:
                found[rules] = False

    assert found == verdicts


@pytest.mark.requirement("OVR-33")
async def test_other_overrides_are_applied_without_asking_anybody(folder: Folder) -> None:
    changing = Changing.beside(folder.path, "tell_time")
    folder.write(changing.server("clock"))
    async with folder.open() as engine:
        await engine.refresh()

        folder.write(changing.server("clock"), overrides=[{"pattern": "*", "name": "hour"}])
        await engine.reload()
        renamed = tool_names(engine.view, "clock")
        [by_word] = (await engine.search("hour")).hits

        folder.write(changing.server("clock"))
        await engine.reload()
        plain = tool_names(engine.view, "clock")

    assert (renamed, plain) == (["hour"], ["tell_time"])
    assert by_word.entry.tool.upstream_name == "tell_time"
    assert changing.asked == 1


@pytest.mark.requirement("OVR-5", "OVR-14")
def test_why_and_inspect_name_the_entries_and_what_is_wrong(
    tmp_path: Path, forked: Preloaded
) -> None:
    discovery = Discovery(tmp_path, forked)
    taken = {"pattern": "echo", "name": "boom", "arguments": {"txet": SECRET}}
    deny = {"pattern": "say", "enabled": False}
    sections = {"overrides": [{**SAY, "pattern": "delete_all"}, taken], "toolRules": [deny]}
    discovery.configure(rules=yaml.safe_dump(sections))
    discovery("refresh")

    for word in ("why", "inspect"):
        said, told = discovery(word, "demo:say").out, discovery(word, "demo:echo").out
        assert "name 'say', description, tags birds" in said
        assert "disabled" in said
        assert "pins txet" in told
        assert re.search(r"discovery\.yaml:\d+:3", told)
        assert "it cannot be called 'boom', which another tool of demo is" in told
        assert "it does not take 'txet', which is pinned" in told
        assert SECRET not in said + told
    assert discovery("why", "demo:say", "--json").json["overridden"]["given_name"] == "delete_all"


@pytest.mark.requirement("OVR-33")
@rows(
    ("entry", "told"),
    [
        ({"pattern": "x"}, "the entry does nothing"),
        ({"pattern": "x", "examples": ["a"] * 21}, "has 21 examples"),
        ({"pattern": "x", "examples": ["a", "b" * 201]}, "example 2 has 201 characters"),
        ({"pattern": [], "name": "x"}, "names no tool"),
        ({"pattern": "/(/", "name": "x"}, "cannot be used"),
        ({"name": "x"}, "overrides.0.pattern: is missing"),
        (SAY | {"name": "a:b"}, "cannot be the name of a tool"),
        (PIN | {"arguments": {"A": None}}, "arguments.A: has no value"),
        (PIN | {"arguments": {"a b": 1}}, "is no name for an argument"),
        (PIN | {"arguments": {"a": [SECRET, "${"]}}, "has no closing"),
        (PIN | {"arguments": "a"}, "a mapping of names to values"),
    ],
)
def test_an_entry_that_cannot_be_is_refused_without_its_values(
    tmp_path: Path, entry: dict[str, Any], told: str
) -> None:
    file = tmp_path / "discovery.yaml"
    file.write_text(yaml.safe_dump({"overrides": [entry]}))

    with pytest.raises(ConfigurationError) as caught:
        load_settings(file)

    assert told in str(caught.value)
    assert SECRET not in f"{caught.value}{caught.value.problems[0].excerpt}"
