"""Overrides from the file to the upstream: specs/overrides.md, on real child processes."""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.agent.definitions import META_TOOLS
from discovery_engine.agent.dispatch import Caller, call
from discovery_engine.config.loading.loader import load_settings
from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.serialization import serialize_redacted
from discovery_engine.engine import Engine
from discovery_engine.errors import (
    ConfigurationError,
    InvalidArgumentsError,
    ToolDisabledError,
    ToolNotFoundError,
)
from discovery_engine.evaluation.catalog_lint import lint_catalog
from discovery_engine.overrides.applying import Overrides
from discovery_engine.runtime.restore import stored_view
from discovery_engine.secrets.references import Reference
from tests.contract.discovery import Discovery
from tests.engines import Changing, Folder, good, python, tool_names
from tests.factories import make_definition, make_part, make_tool
from tests.forked import Preloaded
from tests.rows import rows
from tests.servers.programs import text_of
from tests.told import Told
from tests.unit.evaluation.runs import view_of

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "overrides" / "discovery.yaml"
SECRET = "hunter2hunter2"
SAY = {
    "pattern": "good:echo",
    "name": "say",
    "description": "Repeat what the parrot heard.",
    "tags": ["birds"],
}
PIN = {"pattern": "echo", "arguments": {"text": "${PARROT}"}}


async def shown_to_agents(engine: Engine) -> str:
    """All that an agent can get to see of a tool, and what it is told when it gets it wrong."""
    asked: dict[str, dict[str, Any]] = {
        "search_tools": {"query": "echo text"},
        "list_tools": {"server": "good"},
        "get_tool_details": {"server": "good", "tool": "echo"},
        "execute_tool": {"server": "good", "tool": "echo", "arguments": {"text": "mine"}},
    }
    answers = [
        await call(engine, META_TOOLS[name], given, Caller()) for name, given in asked.items()
    ]
    assert [answer["isError"] for answer in answers] == [False, False, False, True]
    return json.dumps(answers)


async def echoed(engine: Engine, tool: str, **arguments: Any) -> Any:
    """What the upstream got."""
    return json.loads(text_of(await engine.execute("good", tool, arguments)))


class TestAgents:
    @pytest.mark.requirement("OVR-3")
    async def test_what_agents_see_and_call_is_the_overridden_tool(self, folder: Folder) -> None:
        folder.write(good(), overrides=[SAY])

        async with folder.open() as engine:
            await engine.refresh()
            [hit, *_] = (await engine.search("what did the parrot hear")).hits
            entry = await engine.details("good", "say")
            result = await echoed(engine, "say", text="hello")
            with pytest.raises(ToolNotFoundError):
                await engine.details("good", "echo")
            names = tool_names(engine.view, "good")

        assert hit.entry is entry
        assert (entry.tool.summary, entry.verdict.tags) == (SAY["description"], ("birds",))
        assert result == {"text": "hello"}
        assert names == ["environment", "pid", "say"]

    @pytest.mark.requirement("OVR-4")
    async def test_what_the_server_said_is_kept_as_it_is(self, folder: Folder) -> None:
        folder.write(good())
        async with folder.open() as engine:
            await engine.refresh()
            before = (await engine.details("good", "echo")).tool
        folder.write(good(), overrides=[SAY, PIN])
        async with folder.open() as engine:
            after = (await engine.details("good", "say")).tool

        assert (after.source, after.fingerprint) == (before.source, before.fingerprint)

    @pytest.mark.requirement("OVR-5")
    async def test_a_name_that_is_taken_is_logged(
        self, folder: Folder, caplog: pytest.LogCaptureFixture
    ) -> None:
        folder.write(good(), overrides=[{"pattern": "echo", "name": "pid"}])

        with caplog.at_level(logging.WARNING):
            async with folder.open() as engine:
                await engine.refresh()
                names = tool_names(engine.view, "good")

        assert names == ["echo", "environment", "pid"]
        assert "cannot be called 'pid'" in caplog.text


EXAMPLES = {"pattern": "good:echo", "examples": ["squawk it back to me", "sag es noch einmal"]}


class TestExamples:
    @pytest.mark.requirement("OVR-7")
    @pytest.mark.parametrize("query", ["squawk back", "sage das noch einmal"])
    async def test_a_request_like_an_example_finds_the_tool(
        self, folder: Folder, query: str
    ) -> None:
        folder.write(good())
        async with folder.open() as engine:
            await engine.refresh()
            before = (await engine.search(query)).hits
        folder.write(good(), overrides=[EXAMPLES])
        async with folder.open() as engine:
            answer = await engine.search(query)

        assert "good:echo" not in [str(hit.entry.key) for hit in before]
        assert str(answer.hits[0].entry.key) == "good:echo"

    @pytest.mark.requirement("OVR-7")
    async def test_no_agent_is_shown_an_example(self, folder: Folder) -> None:
        folder.write(good(), overrides=[EXAMPLES, PIN])

        async with folder.open(environ={**os.environ, "PARROT": SECRET}) as engine:
            await engine.refresh()
            seen = await shown_to_agents(engine)

        assert "squawk" not in seen

    @pytest.mark.requirement("OVR-7")
    async def test_the_owner_is_shown_which_example_a_hit_comes_from(self, folder: Folder) -> None:
        folder.write(good(), overrides=[EXAMPLES])

        async with folder.open() as engine:
            await engine.refresh()
            answer = await engine.search("squawk")
            searcher = engine.view.searcher
            explanation = searcher.explain(searcher.analyze("squawk"), answer.hits[0])

        assert "'squawk' is in an example of a request for it" in map(str, explanation.shares)
        assert explanation.request in EXAMPLES["examples"]
        assert "squawk" in explanation.request

    @pytest.mark.requirement("OVR-2", "OVR-7")
    async def test_examples_of_several_entries_add_up(self) -> None:
        more = {"pattern": "echo", "examples": ["parrot that", "squawk it back to me"]}

        [tool] = Overrides(load([EXAMPLES, more])).applied([make_tool("echo", "good")])

        assert tool.overridden.examples == (*EXAMPLES["examples"], "parrot that")


class TestPinned:
    @pytest.mark.requirement("OVR-10")
    async def test_a_pinned_argument_always_arrives_and_is_never_seen(self, folder: Folder) -> None:
        folder.write(good(), overrides=[PIN])

        async with folder.open(environ={**os.environ, "PARROT": SECRET}) as engine:
            await engine.refresh()
            got = await echoed(engine, "echo")
            got_more = await echoed(engine, "echo", volume=11)
            seen = await shown_to_agents(engine)
            schema = (await engine.details("good", "echo")).tool.input_schema

        assert got == {"text": SECRET}
        assert got_more == {"text": SECRET, "volume": 11}
        assert schema == {"type": "object", "properties": {}}
        assert SECRET not in seen
        assert "PARROT" not in seen

    @pytest.mark.requirement("OVR-10", "CFG-20")
    async def test_values_may_come_from_a_secret_store(self, folder: Folder) -> None:
        class Vault:
            def value(self, reference: Reference, *, base_dir: str | None) -> str:
                return f"${{{reference.name}}} of the vault"

        transport = replace(good().transport, env={"KEY": "${KEY}"})
        keyed = replace(good(), transport=transport)
        folder.write(keyed, overrides=[PIN])

        async with folder.open(environ={}, secrets=Vault()) as engine:
            await engine.refresh()
            got = await echoed(engine, "echo")
            given = await engine.execute("good", "environment", {})

        assert got == {"text": "${PARROT} of the vault"}
        assert "${KEY} of the vault" in json.dumps(given)

    @pytest.mark.requirement("OVR-11")
    async def test_a_reference_without_a_value_stops_the_call(self, folder: Folder) -> None:
        folder.write(good(), overrides=[PIN])

        async with folder.open(environ={}) as engine:
            await engine.refresh()
            with pytest.raises(ConfigurationError) as caught:
                await echoed(engine, "echo")

        [problem] = caught.value.problems
        assert (problem.subject, problem.message) == (
            "overrides.0.arguments.text",
            "${PARROT} is not set",
        )
        assert problem.origin.file == str(folder.config)

    @pytest.mark.requirement("OVR-11")
    async def test_nothing_is_sent_without_a_value(self, folder: Folder) -> None:
        told = Told.beside(folder.path, make_definition("say"), make_definition("other"))
        pinned = [{"pattern": "say", "arguments": {"text": "${PARROT}"}}]
        folder.write(told.server(), overrides=pinned)

        async with folder.open(environ={}) as engine:
            await engine.refresh()
            with pytest.raises(ConfigurationError):
                await engine.execute("told", "say", {})
            refused = told.calls
            await engine.execute("told", "other", {})

        assert (refused, told.calls) == (0, 1)

    @pytest.mark.requirement("OVR-12", "OVR-13")
    async def test_a_caller_who_gives_it_is_refused(self, folder: Folder) -> None:
        folder.write(good(), overrides=[{"pattern": "echo", "arguments": {"text": SECRET}}])

        async with folder.open() as engine:
            await engine.refresh()
            with pytest.raises(InvalidArgumentsError) as caught:
                await echoed(engine, "echo", text="mine")

        assert "text is given by the configuration" in caught.value.message
        assert SECRET not in f"{caught.value}{caught.value.hint}"

    @pytest.mark.requirement("OVR-14")
    async def test_a_value_is_not_remembered_and_not_shown(self, folder: Folder) -> None:
        pins = {"text": SECRET, "who": {"key": [SECRET, "${TOKEN}", 1234567, True]}}
        folder.write(good(), overrides=[{"pattern": "echo", "arguments": pins}])

        async with folder.open() as engine:
            await engine.refresh()
            arguments = serialize_redacted(engine.settings)["overrides"][0]["arguments"]

        remembered = b"".join(file.read_bytes() for file in folder.data.iterdir())
        assert SECRET.encode() not in remembered
        assert b"1234567" not in remembered
        assert arguments == {"text": "••••", "who": {"key": ["••••", "${TOKEN}", "••••", True]}}

    @pytest.mark.requirement("OVR-14", "OVR-10")
    async def test_another_value_counts_after_a_restart(self, folder: Folder) -> None:
        for text in ("one", "two"):
            folder.write(good(), overrides=[{"pattern": "echo", "arguments": {"text": text}}])
            async with folder.open() as engine:
                assert await echoed(engine, "echo") == {"text": text}

    @pytest.mark.requirement("OVR-15")
    async def test_a_misspelt_argument_is_logged(
        self, folder: Folder, caplog: pytest.LogCaptureFixture
    ) -> None:
        folder.write(good(), overrides=[{"pattern": "echo", "arguments": {"txet": "x"}}])

        with caplog.at_level(logging.WARNING):
            async with folder.open() as engine:
                await engine.refresh()

        assert "overrides.0.arguments.txet" in caplog.text
        assert "does not take 'txet'" in caplog.text


class TestRules:
    @pytest.mark.requirement("OVR-20")
    @pytest.mark.parametrize("pattern", ["echo", "say", "good:say", "good:echo"])
    async def test_a_denied_tool_stays_denied_under_either_name(
        self, folder: Folder, pattern: str
    ) -> None:
        deny = {"pattern": pattern, "enabled": False}
        folder.write(good(), overrides=[SAY], toolRules=[deny])

        async with folder.open() as engine:
            await engine.refresh()
            with pytest.raises(ToolDisabledError):
                await engine.details("good", "say")

    @pytest.mark.requirement("OVR-20", "OVR-2")
    async def test_tags_of_rules_come_first_and_a_new_name_is_tagged_too(
        self, folder: Folder
    ) -> None:
        folder.write(good(), overrides=[SAY], toolRules=[{"pattern": "say", "tags": ["loud"]}])

        async with folder.open() as engine:
            await engine.refresh()
            entry = await engine.details("good", "say")

        assert entry.verdict.tags == ("loud", "birds")


class TestRemembered:
    @pytest.mark.requirement("OVR-30")
    async def test_what_only_reads_loads_neither_yaml_nor_a_pattern(self, folder: Folder) -> None:
        folder.write(good(), overrides=[SAY, PIN])
        async with folder.open() as engine:
            await engine.refresh()

        told = await python(f"""
import sys
from discovery_engine.runtime.restore import stored_view
view = stored_view({str(folder.config)!r}, data_dir={str(folder.data)!r})
tool = view.details("good", "say").tool
print(tool.description, tool.parameters, view.search("parrot").hits[0].entry.key)
print({{"yaml", "pydantic", "mcp", "wcmatch", "regex"}} & set(sys.modules))
""")

        assert told.splitlines() == [f"{SAY['description']} () good:say", "set()"]

    @pytest.mark.requirement("OVR-30")
    async def test_other_overrides_are_applied_without_asking_anybody(self, folder: Folder) -> None:
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

    @pytest.mark.requirement("OVR-30")
    async def test_the_same_overrides_cost_a_start_nothing(self, folder: Folder) -> None:
        folder.write(good(), overrides=[SAY, PIN])
        async with folder.open() as engine:
            await engine.refresh()
        before = stored_view(folder.config, data_dir=folder.data)

        async with folder.open() as engine:
            after = engine.view

        assert before is not None
        assert list(after.catalog) == list(before.catalog)


class TestPeople:
    @pytest.mark.requirement("OVR-31", "OVR-5", "OVR-15")
    def test_why_and_inspect_name_the_entries(self, tmp_path: Path, forked: Preloaded) -> None:
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

    @pytest.mark.requirement("OVR-31")
    def test_scripts_get_the_entries_too(self, tmp_path: Path, forked: Preloaded) -> None:
        discovery = Discovery(tmp_path, forked)
        entry = {"pattern": "echo", "name": "say", "arguments": {"text": SECRET}}
        discovery.configure(rules=yaml.safe_dump({"overrides": [entry]}))
        discovery("refresh")

        why = discovery("--json", "why", "demo:say").json
        inspected = discovery("--json", "inspect", "demo:say").json["tool"]
        result = discovery("execute", "demo:say")

        assert why["overridden"] == inspected["overridden"]
        assert why["overridden"] == {
            "given_name": "echo",
            "overrides": [
                {
                    "index": 0,
                    "origin": f"{tmp_path / 'discovery.yaml'}:3:3",
                    "gives": "name 'say', pins text",
                }
            ],
            "pinned": ["text"],
            "problems": [],
        }
        assert json.loads(result.out) == {"text": SECRET}

    @pytest.mark.requirement("OVR-34")
    def test_an_entry_that_matches_no_known_tool_is_found(
        self, tmp_path: Path, forked: Preloaded
    ) -> None:
        discovery = Discovery(tmp_path, forked)
        lost = {"pattern": "demo:ehco", "tags": ["birds"]}
        entries = [{"pattern": "echo", "name": "say"}, lost]
        discovery.configure(rules=yaml.safe_dump({"overrides": entries}))
        before = discovery("config", "validate", "--json")
        discovery("refresh")

        lint = discovery("lint")
        validated = discovery("config", "validate", "--json")
        checks = discovery("doctor", "--json").json["checks"]

        place = f"{tmp_path / 'discovery.yaml'}:5:3"
        message = f"override 2 ({place}) matches no tool of the catalog"
        assert lint.code == 2
        assert lint.out.startswith(f"warning: {message} [OVERRIDE_UNMATCHED]\n")
        assert "1 finding in 0 rules and 2 overrides over" in lint.err
        [finding] = validated.json["findings"]
        assert (finding["rule"], finding["override"]) == (None, 1)
        assert (finding["origin"], finding["message"]) == (place, message)
        assert [c["message"] for c in checks if c["subject"] == "overrides"] == [message]
        assert before.json["findings"] == []

    @pytest.mark.requirement("OVR-32")
    @given(
        name=st.text(st.sampled_from("ab*?[]{}\\!/ -,.|^$é日"), min_size=1, max_size=6),
        parameter=st.text(st.sampled_from("ab ,=$\"'"), min_size=1, max_size=4),
        value=st.none() | st.text(max_size=6) | st.integers() | st.just("${x}"),
        description=st.text(max_size=20),
    )
    def test_drafts_of_lint_load_and_match(
        self, name: str, parameter: str, value: Any, description: str
    ) -> None:
        large = {parameter: {"default": value, "title": "x" * 9000}, "id": {"type": "string"}}
        schema = {"type": "object", "properties": large, "required": ["id"]}
        tool = make_tool(name, "s", description=description, inputSchema=schema)
        renamed = Overrides(load([{"pattern": "*", "name": "renamed"}])).applied([tool])

        for one in (tool, *renamed):
            drafts = [
                d for f in lint_catalog(view_of(make_part("s", one))).findings for d in f.overrides
            ]
            assert drafts
            for draft in drafts:
                [after] = Overrides(load([draft])).applied([tool])
                assert after.overridden.by == (0,)

    @pytest.mark.requirement("OVR-33")
    @rows(
        ("entry", "told"),
        [
            pytest.param({"pattern": "x"}, "the entry does nothing", id="nothing"),
            pytest.param(
                {"pattern": "x", "examples": ["a"] * 21}, "has 21 examples", id="many examples"
            ),
            pytest.param(
                {"pattern": "x", "examples": ["a", "b" * 201]},
                "example 2 has 201 characters",
                id="a long example",
            ),
            pytest.param({"pattern": [], "name": "x"}, "names no tool", id="no tool"),
            pytest.param({"pattern": "/(/", "name": "x"}, "cannot be used", id="pattern"),
            pytest.param({"name": "x"}, "overrides.0.pattern: is missing", id="no pattern"),
            pytest.param(SAY | {"name": "a b"}, "cannot be the name of a tool", id="blank"),
            pytest.param(SAY | {"name": "a:b"}, "cannot be the name of a tool", id="colon"),
            pytest.param(PIN | {"arguments": {"A": None}}, "arguments.A: has no value", id="null"),
            pytest.param(PIN | {"arguments": {"a b": 1}}, "is no name for an argument", id="odd"),
            pytest.param(PIN | {"arguments": {"a": ["${"]}}, "has no closing", id="reference"),
            pytest.param(PIN | {"arguments": "a"}, "a mapping of names to values", id="text"),
        ],
    )
    def test_an_entry_that_cannot_be_is_refused(self, entry: dict[str, Any], told: str) -> None:
        with pytest.raises(ConfigurationError) as caught:
            load([entry])

        assert told in str(caught.value)

    @pytest.mark.requirement("OVR-33")
    def test_values_are_what_yaml_makes_of_them(self) -> None:
        text = """
overrides:
  - pattern: a
    description: Costs ${5} and no more
    arguments: {n: 3, off: no, no: "no", yes: true, f: 1.5, deep: {"Due date": [null, 007, x]}}
"""

        [override] = parse_settings(text.encode(), file="f").overrides

        assert override.description == "Costs ${5} and no more"
        assert override.arguments == {
            "n": 3,
            "off": "no",
            "no": "no",
            "yes": True,
            "f": 1.5,
            "deep": {"Due date": [None, "007", "x"]},
        }

    @pytest.mark.requirement("OVR-33")
    def test_a_value_is_in_no_message_about_its_entry(self) -> None:
        text = f"""
overrides:
  - {{pattern: a, arguments: {{a: {SECRET}, b: {{c: "{SECRET}", d: "${{"}}}}}}
"""

        with pytest.raises(ConfigurationError) as caught:
            parse_settings(text.encode(), file="f")

        [problem] = caught.value.problems
        assert SECRET not in f"{problem}{problem.excerpt}"


def test_the_example_does_what_its_comments_say() -> None:
    settings = load_settings(EXAMPLE, environ={}, cwd=EXAMPLE.parent, home=EXAMPLE.parent)
    schema = {"type": "object", "properties": {"repo_path": {}, "max_count": {}}}
    tools = [make_tool(name, "git", inputSchema=schema) for name in ("git_log", "git_diff_staged")]

    log, diff = Overrides(settings.overrides).applied(tools)

    assert settings.warnings == ()
    assert (log.name, log.overridden.tags) == ("recent_changes", ("release", "reading"))
    assert (diff.name, diff.overridden.tags) == ("git_diff_staged", ("reading",))
    for tool in (log, diff):
        assert [parameter.name for parameter in tool.parameters] == ["max_count"]
        assert tool.overridden.problems == ()


def load(entries: list[dict[str, Any]]) -> Any:
    text = yaml.safe_dump({"overrides": entries}, allow_unicode=True)
    return parse_settings(text.encode(), file="f").overrides
