"""What is hidden is named to its owner, with the rule that hides it; to agents it is not."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from discovery_engine.agent import resources
from discovery_engine.agent.definitions import META_TOOLS
from discovery_engine.agent.dispatch import Caller, call
from discovery_engine.agent.instructions import render_instructions
from discovery_engine.catalog import Failure, ServerPart
from discovery_engine.diagnostics import Origin
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.view.view import Rejection, View
from tests.factories import (
    make_entry,
    make_part,
    make_problem,
    make_server,
    make_settings,
)
from tests.unit.cli.backends import NOW, run, view_of
from tests.unit.server.fakes import FakeEngine

FILE = "/home/ann/my project/discovery.yaml"
RULE = Rule(("git_commit", "git_reset"), enabled=False, origin=Origin(FILE, 25, 5))


def guarded() -> View:
    """Two tools are hidden, a server is disabled by a rule, and one has an entry that is wrong."""
    broken = make_problem(Origin(FILE, 9, 3), "servers.bad.command", "is missing")
    settings = make_settings(
        "git",
        "off",
        make_server("bad", transport=None, problem=broken),
        tool_rules=(RULE,),
        server_rules=(Rule(("off",), enabled=False, origin=Origin(FILE, 30, 5)),),
    )
    git = make_part(
        "git",
        make_entry("git_commit", "git", description="Record changes.", enabled=False),
        make_entry("git_reset", "git", description="Unstage all changes.", enabled=False),
        make_entry("git_status", "git", description="Show the working tree."),
        listed_at=NOW,
    )
    off = make_part("off", "work", verdict=Verdict(enabled=False, reason="rule", rule=0))
    rejection = Rejection((make_problem(Origin(FILE, 3, 1), "", "it is no YAML"),), 1000.0)
    return view_of(settings, git, off, make_part("bad", listed_at=None), rejection=rejection)


def agents_read(view: View, meta_tool: str, /, **arguments: Any) -> str:
    """All of an answer, its fields too."""

    async def answer() -> dict[str, Any]:
        return await call(FakeEngine(view), META_TOOLS[meta_tool], arguments, Caller())  # type: ignore[arg-type]

    return json.dumps(anyio.run(answer), ensure_ascii=False)


@pytest.mark.requirement("ANS-20")
def test_a_hidden_match_is_named_to_its_owner_with_its_rule_before_anything_else() -> None:
    done = run("search", "git_reset", recalled=guarded())
    form = json.loads(run("search", "git_reset", "--json", recalled=guarded()).stdout)

    named = f"git:git_reset is disabled: rule 1 ({FILE}:25:5)"
    assert done.stderr.startswith(f"note: {named}\n")
    assert form["notices"][0]["message"] == named


@pytest.mark.requirement("ANS-24")
def test_agents_read_no_name_of_a_hidden_tool_and_no_path() -> None:
    view = guarded()
    asked: list[tuple[str, dict[str, Any]]] = [
        ("list_mcp_servers", {}),
        ("search_tools", {"query": "git_reset"}),
        ("search_tools", {"query": "unstage changes", "maxTokens": 1000}),
        ("search_tools", {"queries": ["unstage changes", "record changes"]}),
        ("list_tools", {"server": "git"}),
        ("list_tools", {"server": "off"}),
        ("list_tools", {"server": "bad"}),
        ("get_tool_details", {"tool": "git:git_comit"}),
        ("execute_tool", {"tool": "git_comit"}),
        ("execute_tool", {"server": "off", "tool": "work"}),
        ("execute_tool", {"server": "bad", "tool": "work"}),
    ]

    answers = [agents_read(view, tool, **arguments) for tool, arguments in asked]
    answers += [
        render_instructions(view),
        resources.read_resource(view, "discovery://servers/git/info")[1],
    ]
    answers += [
        resources.read_resource(view, f"discovery://servers/{name}/info")[1]
        for name in ("off", "bad")
    ]

    for text in answers:
        assert "git_commit" not in text
        assert "ann" not in text
        assert "my project" not in text
    assert [text for text in answers if '"git_reset' in text] == []


@pytest.mark.requirement("ANS-25")
def test_servers_that_are_not_available_share_one_short_line_for_people() -> None:
    why = "server 'a' is unavailable: program 'uvx' is not on the PATH"
    down = Failure("SERVER_CONNECTION_ERROR", why, "pip install uv", NOW, detail="PATH is /x:/y")
    parts = [make_part(name, listed_at=None, failure=down) for name in ("a", "b")]
    git = make_part("git", make_entry("git_status", "git", description="Show."), listed_at=NOW)

    two = run("search", "git_status", recalled=view_of(make_settings("a", "b", "git"), *parts, git))
    one = run("search", "git_status", recalled=view_of(make_settings("a", "git"), parts[0], git))
    of_git = run(
        "search",
        "git_status",
        "--server",
        "git",
        recalled=view_of(make_settings("a", "git"), parts[0], git),
    )

    assert "note: 2 servers are not available: a, b; `discovery doctor` explains\n" in two.stderr
    assert "note: a is not available; `discovery health a` explains\n" in one.stderr
    assert "not available" not in of_git.stderr


@pytest.mark.requirement("ANS-28")
def test_where_there_is_no_tool_other_words_are_not_suggested() -> None:
    nobody = view_of(make_settings())
    unlisted = view_of(make_settings("a"), make_part("a", listed_at=None))
    toolless = view_of(make_settings("a"), make_part("a", listed_at=NOW))
    off = view_of(
        make_settings("a", enabled=False),
        make_part("a", make_entry("send_mail", "a", enabled=False)),
    )

    for view, why in [
        (nobody, "No server is configured: "),
        (unlisted, "No tool is known yet."),
        (toolless, "There is no enabled tool."),
        (off, "Every server is disabled: "),
    ]:
        text = agents_read(view, "search_tools", query="send mail")
        short = agents_read(view, "search_tools", query="send mail", maxTokens=50)
        assert why in text
        assert short.count("No ") or "There is no" in short or "is disabled" in short
        for part in ("none mentions", "Ask again", "no tool mentions"):
            assert part not in text + short
            assert part not in run("search", "send mail", recalled=view).stderr


@pytest.mark.requirement("ANS-27")
def test_servers_with_one_reason_and_one_next_step_share_a_line_of_the_list() -> None:
    def unset(name: str, variable: str) -> ServerPart:
        why = f"server {name!r} is unavailable: env.A: ${{{variable}}} is not set"
        failure = Failure(
            "SERVER_NEEDS_CONFIG", why, f"export {variable}", NOW, detail=f"see {name}.json"
        )
        return make_part(name, listed_at=None, failure=failure)

    view = view_of(make_settings("a", "b", "c"), unset("a", "X"), unset("b", "Y"), unset("c", "X"))

    assert run("list", recalled=view).stderr.splitlines()[1:] == [
        "a, c: env.A: ${X} is not set (export X; then `discovery refresh a c`)",
        "  a: see a.json",
        "  c: see c.json",
        "b: env.A: ${Y} is not set (export Y; then `discovery refresh b`)",
        "  see b.json",
    ]
