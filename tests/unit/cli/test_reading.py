"""The commands that read, answered from a view made by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from discovery_engine.catalog import DroppedTool, Failure, ServerPart
from discovery_engine.diagnostics import Origin
from discovery_engine.errors import ConfigurationError
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import ServerState, StateInfo
from discovery_engine.view.view import View
from tests.factories import (
    make_entry,
    make_part,
    make_problem,
    make_server,
    make_settings,
)
from tests.unit.cli.backends import NOW, FakeEngine, nothing_known, run, usual_view, view_of

DOWN = Failure("SERVER_CONNECTION_ERROR", "server 'down' is unavailable: it exited", "mend it", NOW)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def view_with_outage() -> View:
    settings = make_settings("down", "time")
    part = make_part("down", listed_at=None, failure=DOWN)
    return view_of(settings, part, make_part("time", "convert_time", listed_at=NOW - 60))


def test_list_has_a_row_for_each_server() -> None:
    done = run("list", recalled=usual_view())

    assert rows(done.stdout) == [
        ["✓", "github", "2", "of", "3", "tools", "Code", "and", "issues."],
        ["✓", "time", "2", "tools"],
    ]
    assert done.stderr == "2 servers, 5 tools (1 disabled)\n"


def test_list_reports_what_is_wrong_with_a_server() -> None:
    plain = run("list", recalled=view_with_outage())
    full = run("list", "--status", recalled=view_with_outage())

    assert plain.stdout.splitlines()[0] == "✗  down  -       failing"
    assert full.stdout.splitlines()[0] == "✗  down  -       on  failing  it exited"
    assert "down: it exited (mend it; then `discovery refresh down`)\n" in plain.stderr


def test_list_with_tools_shows_the_enabled_ones() -> None:
    done = run("list", "--tools", recalled=usual_view())
    form = json.loads(run("list", "--tools", "--json", recalled=usual_view()).stdout)

    assert "create_issue" in done.stdout
    assert "delete_issue" not in done.stdout
    assert form["servers"][0]["tools"] == ["create_issue", "status"]


def test_list_without_servers_says_how_to_get_some() -> None:
    done = run("list", recalled=view_of(make_settings()))

    assert (done.stdout, done.exit_code) == ("", 0)
    assert "`discovery init --global`" in done.stderr


def test_list_with_tools_of_a_server_that_has_no_part() -> None:
    view = view_of(make_settings(make_server("off", enabled=False)))

    assert rows(run("list", "--tools", recalled=view).stdout) == [
        ["✗", "off", "-", "disabled", *["its", "entry", "has", "enabled:", "false"]]
    ]


def test_search_shows_the_best_first() -> None:
    done = run("search", "create", "issue", "--limit", "1", recalled=usual_view())

    assert "✓  github:create_issue" in done.stdout
    assert done.stdout.endswith("  [write] Create an issue in a repository.\n")
    assert done.stderr == "sure match: 1 tool\n"


def test_a_search_for_nothing_is_a_mistake() -> None:
    done = run("search", "", " ", recalled=usual_view())

    assert (done.stdout, done.exit_code) == ("", 2)
    assert done.stderr.startswith("error: the query is empty; give the words to search for\n")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        pytest.param(["status", "--server", "time"], ["time:status"], id="server"),
        pytest.param(["issue", "--tag", "write"], ["github:create_issue"], id="tag"),
        pytest.param(["delete_issue", "--limit", "1", "--all"], ["github:delete_issue"], id="all"),
    ],
)
def test_search_is_narrowed(words: list[str], found: list[str]) -> None:
    form = json.loads(run("search", *words, "--json", recalled=usual_view()).stdout)

    assert [f"{hit['server']}:{hit['tool']}" for hit in form["results"]] == found


@pytest.mark.requirement("REL-52")
def test_search_explains_each_match_below_it() -> None:
    done = run("search", "new", "issue", "quux", "--explain", recalled=usual_view())

    match, *told = done.stdout.splitlines()
    sentences = [line.strip().partition("  ")[2] for line in told]
    assert "github:create_issue" in match
    assert sentences[0] == "'issue' is in its name"
    assert "'new' means the same as 'create', in its name" in sentences
    assert "it has no word for 'quux'" in sentences


@pytest.mark.requirement("REL-52")
@pytest.mark.parametrize(
    ("least", "key"),
    [pytest.param(0.0, "results", id="match"), pytest.param(1.0, "nearest", id="nearest")],
)
def test_explanations_are_in_the_json_and_add_up(least: float, key: str) -> None:
    view = usual_view()
    search = replace(view.settings.search, min_confidence=least)
    view = replace(view, settings=replace(view.settings, search=search))

    form = json.loads(run("search", "an issue", "--explain", "--json", recalled=view).stdout)

    assert form[key]
    for hit in form[key]:
        shares = hit["explanation"]["shares"]
        assert sum(share["adds"] for share in shares) == pytest.approx(hit["relevance"], abs=1e-9)
        assert all(share["text"] for share in shares)


@pytest.mark.requirement("ANS-6")
def test_a_search_that_is_unsure_shows_the_nearest_tools_and_what_no_tool_has() -> None:
    view = usual_view()
    search = replace(view.settings.search, min_confidence=0.0)
    view = replace(view, settings=replace(view.settings, search=search))
    request = ("search", "an", "issue", "of", "stamps", "and", "coins")

    done = run(*request, recalled=view)
    form = json.loads(run(*request, "--json", recalled=view).stdout)

    assert (done.exit_code, form["decision"], form["certainty"]) == (0, "unsure", None)
    assert "github:create_issue" in done.stdout
    assert form["results"][0]["tool"] == "create_issue"
    assert done.stderr == (
        "unsure: 1 near tool, check before you use one; none mentions 'stamps', 'coins'\n"
    )


def test_a_search_without_a_result_advises_a_person() -> None:
    done = run("search", "zebra", recalled=usual_view())

    assert done.exit_code == 2
    assert done.stderr == (
        "note: no tool fits; try other words, or `discovery tools SERVER`\n"
        "no tool mentions 'zebra'\n"
    )


def test_tools_shows_disabled_ones_with_the_reason() -> None:
    done = run("tools", "github", "--all", "--tags", recalled=usual_view())

    assert "✓  create_issue  [write]  Create an issue" in done.stdout
    assert "✗  delete_issue           disabled: rule 1 disables" in done.stdout
    assert done.stderr == "3 tools\n"


def test_tools_of_a_server_that_was_never_reached_gives_the_reason() -> None:
    done = run("tools", "down", recalled=view_with_outage())
    form = json.loads(run("tools", "down", "--json", recalled=view_with_outage()).stdout)

    assert (done.stdout, done.exit_code) == ("", 5)
    assert "note: down: failing: it exited" in done.stderr
    assert form["notices"][0]["server"] == "down"


@pytest.mark.requirement("CLI-1")
def test_tools_of_a_server_whose_entry_cannot_be_used_names_the_key() -> None:
    problem = make_problem(Origin("d.yaml", 3), "servers.wrong.args", "must be a list", "use [ ]")

    done = run(
        "tools", "wrong", recalled=view_of(make_settings(make_server("wrong", problem=problem)))
    )

    assert (done.stdout, done.exit_code) == ("", 2)
    assert "note: wrong: needs_config: servers.wrong.args: must be a list (use [ ])" in done.stderr


def test_tools_of_a_disabled_server_is_refused_unless_all_are_wanted() -> None:
    view = view_of(make_settings(make_server("off", enabled=False)))

    assert run("tools", "off", recalled=view).exit_code == 4
    assert run("tools", "off", "--all", recalled=view).exit_code == 0


def test_inspect_shows_a_tool_with_its_arguments() -> None:
    done = run("inspect", "github:create_issue", recalled=usual_view())

    assert done.stdout.splitlines() == [
        "✓  github:create_issue  enabled",
        "  | Create an issue in a repository. It is numbered.",
        "  tags    write",
        "  claims  readOnlyHint: false",
        "  title   string   required  What it is about",
        "  labels  any[]    optional",
        "  urgent  boolean  optional",
        "  example: discovery execute github:create_issue title=...",
    ]


def test_inspect_shows_a_server_with_its_tools() -> None:
    done = run("inspect", "github", recalled=usual_view())

    assert done.stdout.splitlines() == [
        "✓  github  2 of 3 tools  idle  Code and issues.",
        "  from    discovery.yaml",
        "  listed  1 min ago",
        "  ✓  create_issue  Create an issue in a repository.",
        "  ✓  status        Whether it is up.",
    ]


@pytest.mark.parametrize(
    ("words", "tools"),
    [
        pytest.param([], ["create_issue", "status"], id="enabled by default"),
        pytest.param(["--enabled"], ["create_issue", "status"], id="enabled"),
        pytest.param(["--disabled"], ["delete_issue"], id="disabled"),
        pytest.param(["--all"], ["create_issue", "delete_issue", "status"], id="all"),
    ],
)
def test_inspect_lists_the_tools_that_are_wanted(words: list[str], tools: list[str]) -> None:
    done = run("inspect", "--server", "github", *words, "--compact", recalled=usual_view())
    form = json.loads(run("inspect", "github", *words, "--json", recalled=usual_view()).stdout)

    assert [row[1] for row in rows(done.stdout)[1:]] == tools
    assert [tool["tool"] for tool in form["server"]["tools"]] == tools


def test_inspect_adds_arguments_and_examples_to_a_list() -> None:
    done = run("inspect", "github", "--args", "--examples", recalled=usual_view())
    compact = run("inspect", "github", "--compact", "--args", recalled=usual_view())

    assert "      title   string   required  What it is about" in done.stdout
    assert "      discovery execute github:status" in done.stdout
    assert "      no arguments" in compact.stdout
    assert "Whether it is up." not in compact.stdout


def test_inspect_of_one_tool_on_one_line() -> None:
    done = run("inspect", "create_issue", "--compact", recalled=usual_view())

    assert rows(done.stdout) == [["✓", "create_issue"]]


def test_inspect_reports_tools_that_cannot_be_used() -> None:
    part = make_part("time", dropped=(DroppedTool("odd", "no schema"),), listed_at=NOW)
    view = view_of(make_settings(make_server("time", tags=("clock",))), part)

    done = run("inspect", "time", recalled=view)

    assert "unusable  odd (no schema)" in done.stdout
    assert "tags      clock" in done.stdout


def test_inspect_reports_what_a_failing_server_is_for() -> None:
    settings = make_settings(make_server("down", description="Everything"))
    view = view_of(settings, make_part("down", listed_at=None, failure=DOWN))

    done = run("inspect", "down", recalled=view)

    assert "about   Everything" in done.stdout
    assert "listed  never" in done.stdout
    assert "note: down: failing" in done.stderr


def test_inspect_shows_one_target_at_a_time() -> None:
    done = run("inspect", "github", "status", "more", recalled=usual_view())

    assert done.exit_code == 2
    assert "'more' is one word too many" in done.stderr


def test_inspect_without_a_target_connects_to_everything() -> None:
    engine = FakeEngine(nothing_known(usual_view()), after=usual_view())

    plain = run("inspect", engine=engine)
    with_tools = run("inspect", "--tools", engine=engine)
    form = json.loads(run("inspect", "--json", engine=engine).stdout)

    assert engine.asked[0] == ["github", "time"]
    assert [row[1] for row in rows(plain.stdout)] == ["github", "time"]
    assert "convert_time" in with_tools.stdout
    assert form["kind"] == "servers"
    assert [server["tools"] for server in form["servers"]] == [[], []]


def test_inspect_names_the_servers_that_it_did_not_wait_for() -> None:
    view = replace(usual_view(), live={"time": StateInfo(ServerState.STARTING)})

    done = run("inspect", engine=FakeEngine(view))

    assert "no answer within 10 s yet: time" in done.stderr


def test_a_list_has_room_for_what_disables_a_tool_and_not_for_where_that_stands() -> None:
    rule = Rule(("delete_*",), enabled=False, origin=Origin("/a/long/path/d.yaml", 9, 3))
    view = usual_view()
    view = replace(view, settings=replace(view.settings, tool_rules=(rule,)))

    told = run("tools", "github", "--all", recalled=view).stdout
    form = json.loads(run("tools", "github", "--all", "--json", recalled=view).stdout)

    assert "disabled: rule 1 disables tools matching 'delete_*'" in told
    assert any("/a/long/path/d.yaml:9:3" in tool["reason"] for tool in form["tools"])


def test_why_shows_what_each_rule_did() -> None:
    late = Rule(("*",), enabled=True, tags=("all",), origin=Origin("d.yaml", 9, 3))
    view = usual_view()
    rules = (
        *view.settings.tool_rules,
        late,
        Rule(("none",), tags=("x",)),
        Rule(("*_issue",), tags=("y",)),
    )
    view = replace(view, settings=replace(view.settings, tool_rules=rules))

    done = run("why", "github", "delete_issue", recalled=view)
    undecided = json.loads(run("why", "time:status", "--json", recalled=usual_view()).stdout)

    assert [" ".join(row) for row in rows(done.stdout)] == [
        "✗ github:delete_issue disabled: rule 1 disables tools matching 'delete_*'",
        "rule 1 decides: disabled",
        "rule 2 matches, comes too late tags all d.yaml:9:3",
        "rule 3 does not match",
        "rule 4 matches tags y",
    ]
    assert undecided["deciding_rule"] is None


def test_why_names_a_rule_that_is_too_slow() -> None:
    slow = Rule(("/(a|aa)+$/",), tags=("x",))
    view = usual_view()
    entry = make_entry("a" * 50 + "!", "time")
    view = view_of(replace(view.settings, tool_rules=(slow,)), make_part("time", entry))

    done = run("why", f"time:{'a' * 50}!", recalled=view)

    assert "timed out" in done.stdout


@pytest.mark.requirement("CLI-42")
@pytest.mark.parametrize("command", ["why", "inspect"])
@pytest.mark.parametrize(
    ("code", "exit_code"), [("SERVER_CONNECTION_ERROR", 5), ("SERVER_NEEDS_CONFIG", 6)]
)
def test_a_tool_of_a_server_that_never_listed_any_is_not_said_to_be_missing(
    command: str, code: str, exit_code: int
) -> None:
    down = Failure(code, "server 'down' is unavailable: it exited", "mend it", NOW)
    view = view_of(make_settings("down"), make_part("down", listed_at=None, failure=down))

    done = run(command, "down:any", recalled=view)

    assert done.exit_code == exit_code
    assert done.stderr == "error: server 'down' is unavailable: it exited\n  hint: mend it\n"


@pytest.mark.requirement("CLI-42")
@pytest.mark.parametrize("command", ["why", "inspect"])
def test_a_tool_of_a_disabled_server_is_not_said_to_be_missing(command: str) -> None:
    off = make_server("off", enabled=False)
    view = view_of(make_settings(off), make_part("off", listed_at=None))

    done = run(command, "off:any", recalled=view)

    assert done.exit_code == 4
    assert done.stderr.startswith("error: server 'off' is disabled: ")


def test_why_is_about_one_tool() -> None:
    assert run("why", "time", "status", "more", recalled=usual_view()).exit_code == 2


def test_lint_reports_findings_and_leaves_with_2() -> None:
    view = usual_view()
    rules = (*view.settings.tool_rules, Rule(("nothing",), enabled=False))
    view = replace(view, settings=replace(view.settings, tool_rules=rules))

    done = run("lint", recalled=view)

    assert done.exit_code == 2
    assert done.stdout.startswith("warning: rule 2")
    assert done.stderr == (
        "1 finding in 2 rules over 5 tools\n0 suspicious texts of servers\n"
        "0 findings about the catalog itself\n"
    )
    assert run("lint", "--exit-zero", recalled=view).exit_code == 0
    assert run("lint", recalled=usual_view()).exit_code == 0


@pytest.mark.requirement("CAC-5")
def test_cache_info_shows_what_is_known_of_each_server() -> None:
    stale = make_part("time", "a", listed_at=NOW - 60, failure=DOWN)
    view = view_of(make_settings("time", "new"), stale, make_part("new", listed_at=None))

    done = run("cache", "info", "--data-dir", "/nowhere", recalled=view)
    form = json.loads(run("cache", "info", "--json", recalled=view).stdout)

    assert "✗  time  1 tool   listed 1 min ago  last known" in done.stdout
    assert "✗  new   0 tools  never listed" in done.stdout
    assert done.stderr == "1 tool in /nowhere/registry.db (0 kB)\n"
    assert [s["age_seconds"] for s in form["servers"]] == [None, 60.0]


def test_cache_info_reads_the_configuration_where_nothing_fits_it() -> None:
    engine = FakeEngine(usual_view())

    assert run("cache", "info", engine=engine).exit_code == 0
    assert engine.asked == []


@pytest.mark.requirement("CAC-12")
def test_cache_reindex_reports_what_it_made() -> None:
    engine = FakeEngine(usual_view())
    without = FakeEngine(usual_view(), has_embedder=False)

    done = run("cache", "reindex", engine=engine)
    form = json.loads(run("cache", "reindex", "--json", engine=engine).stdout)

    assert done.stderr == "indexed 5 tools, and made 5 vectors\n"
    assert (form["tool_count"], form["vector_count"]) == (5, 5)
    assert "no vectors" in run("cache", "reindex", engine=without).stderr


def test_cache_clear_reports_how_much_is_gone() -> None:
    engine = FakeEngine(usual_view())

    done = run("cache", "clear", "time", engine=engine)
    form = json.loads(run("cache", "clear", "--json", engine=engine).stdout)

    assert done.stderr == "forgot 5 tools\n"
    assert form["forgotten"] == 5
    assert engine.asked == [("time",), None]


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        pytest.param(["list"], ["github", "time"], id="all"),
        pytest.param(["tools", "time"], ["time"], id="a server"),
        pytest.param(["search", "x", "--server", "time"], ["time"], id="search in a server"),
        pytest.param(["inspect", "time:status"], ["time"], id="a tool's server"),
        pytest.param(["inspect", "TIME", "status"], ["time"], id="in another case"),
        pytest.param(["why", "convert_time"], ["github", "time"], id="a tool of any server"),
    ],
)
def test_only_the_servers_that_matter_are_asked(words: list[str], asked: list[str]) -> None:
    unknown = nothing_known(usual_view())
    engine = FakeEngine(unknown, after=usual_view())

    run(*words, recalled=unknown, engine=engine)

    assert engine.asked == [asked]


def half_known() -> View:
    """The view in which `time` is known, and `github` never was listed."""
    usual = usual_view()
    parts = {**usual.catalog.parts, ServerName("github"): ServerPart(ServerName("github"))}
    return view_of(usual.settings, *parts.values())


@pytest.mark.requirement("CLI-43")
@pytest.mark.parametrize("command", ["why", "inspect"])
def test_a_tool_that_a_known_server_has_is_shown_without_asking_another(command: str) -> None:
    done = run(command, "convert_time", recalled=half_known())
    of_server = run(command, "time:convert_time", recalled=half_known())

    assert done.exit_code == of_server.exit_code == 0
    assert "time:convert_time" in done.stdout
    assert "may have a tool of that name, too: github" in done.stderr
    assert "github" not in of_server.stderr


@pytest.mark.requirement("CLI-43")
@pytest.mark.parametrize("command", ["why", "inspect"])
def test_a_tool_that_no_known_server_has_is_looked_for_in_the_others_for_a_while(
    command: str,
) -> None:
    engine = FakeEngine(half_known(), after=usual_view())
    slow = FakeEngine(nothing_known(usual_view()), after=half_known())

    found = run(command, "delete_issue", recalled=half_known(), engine=engine)
    not_found = run(command, "delete_issue", recalled=slow.view, engine=slow)

    assert (found.exit_code, engine.asked) == (0, [["github"]])
    assert slow.max_wait == 10.0
    assert not_found.exit_code == 2
    assert "may have a tool of that name, too: github" in not_found.stderr


@pytest.mark.requirement("CLI-35")
@pytest.mark.parametrize(("words", "max_wait"), [(["list"], 10.0), (["tools", "time"], None)])
def test_a_slow_server_is_waited_for_where_the_question_is_of_it(
    words: list[str], max_wait: float | None
) -> None:
    unknown = nothing_known(usual_view())
    engine = FakeEngine(unknown, after=usual_view())

    run(*words, recalled=unknown, engine=engine)

    assert engine.max_wait == max_wait


@pytest.mark.requirement("CLI-35")
def test_a_slow_server_is_waited_for_to_the_end_if_there_is_nothing_else_to_answer_from() -> None:
    unknown = nothing_known(usual_view())
    engine = FakeEngine(unknown, after=usual_view(), is_slow=True)

    done = run("search", "convert", "a", "time", recalled=unknown, engine=engine)

    assert done.exit_code == 0
    assert engine.asked == [["github", "time"], ["github", "time"]]
    assert engine.max_wait is None


@pytest.mark.requirement("CLI-35")
def test_the_question_after_one_that_left_a_slow_server_waits_for_it() -> None:
    usual = usual_view()
    parts = {**usual.catalog.parts, ServerName("time"): ServerPart(ServerName("time"))}
    left = view_of(usual.settings, *parts.values())
    engine = FakeEngine(left, after=usual, is_slow=True)

    run("search", "convert", "a", "time", recalled=left, engine=engine)

    assert engine.asked == [["time"], ["time"]]
    assert engine.max_wait is None


@pytest.mark.requirement("CLI-35")
def test_a_slow_server_is_a_note_if_others_are_known() -> None:
    usual = usual_view()
    parts = {**usual.catalog.parts, ServerName("time"): ServerPart(ServerName("time"))}
    live = {
        ServerName("time"): StateInfo(
            ServerState.STARTING, starting_for=12.9, stderr="Resolving\nDownloading \x1b[1m40 %"
        )
    }
    slow = view_of(usual.settings, *parts.values(), live=live)

    done = run("search", "issue", recalled=slow, engine=FakeEngine(slow))

    assert done.exit_code == 0
    assert "create_issue" in done.stdout
    assert (
        'note: time: starting, 12 s, "Downloading 40 %"; `discovery refresh time` waits for it\n'
    ) in done.stderr


@pytest.mark.requirement("CLI-35")
def test_a_server_that_is_still_starting_is_shown_as_neither_good_nor_bad() -> None:
    live = {
        ServerName("time"): StateInfo(ServerState.STARTING, starting_for=3.0, stderr="Downloading")
    }
    slow = nothing_known(usual_view())
    slow = view_of(slow.settings, *slow.catalog.parts.values(), live=live)

    done = run("list", "--status", recalled=slow, engine=FakeEngine(slow))

    assert "… time" in " ".join(done.stdout.split())
    assert 'starting, 3 s, "Downloading"' in done.stdout
    assert "\u2713" not in done.stdout


def test_a_configuration_that_changed_is_read_again() -> None:
    engine = FakeEngine(usual_view())

    assert run("list", recalled=None, engine=engine).exit_code == 0
    assert engine.asked == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"enabled": False}, id="switched off"),
        pytest.param({"problem": make_problem(Origin("f"), "", "wrong")}, id="broken entry"),
    ],
)
def test_a_server_that_cannot_be_asked_is_not(change: dict[str, Any]) -> None:
    view = view_of(make_settings(make_server("time", **change)))

    assert run("list", recalled=view).exit_code == 0


def test_a_server_that_a_rule_disables_is_not_asked() -> None:
    off = Verdict(enabled=False, reason="rule", rule=0)
    settings = make_settings("time", server_rules=(Rule(("*",), enabled=False),))
    view = view_of(settings, make_part("time", listed_at=None, verdict=off))

    assert run("list", recalled=view).exit_code == 0


def test_nothing_is_asked_where_everything_is_switched_off() -> None:
    view = nothing_known(usual_view())
    off = replace(view, settings=replace(view.settings, enabled=False))

    assert run("list", recalled=off).exit_code == 0


@pytest.mark.parametrize(
    ("count", "named"),
    [(1, "(s0)"), (5, "(s0, s1, s2, s3, s4)"), (7, "(s0, s1, s2, s3, s4 and 2 more)")],
)
def test_old_knowledge_is_reported_with_its_servers(count: int, named: str) -> None:
    names = [f"s{n}" for n in range(count)]
    parts = [make_part(name, "tool", listed_at=NOW - 7200) for name in names]
    view = view_of(make_settings(*names), *parts)

    done = run("list", recalled=view)

    assert done.stderr.startswith(f"as listed 2 h ago {named}; `discovery refresh` asks again\n")


def test_a_configuration_that_cannot_be_used_is_an_error() -> None:
    broken = ConfigurationError([make_problem(Origin("f", 1, 2), "a", "wrong")])

    done = run("list", failing=broken)

    assert (done.exit_code, done.stderr) == (2, "error: f:1:2: a: wrong [CONFIG_INVALID_VALUE]\n")


def test_a_command_that_is_like_no_other_has_no_suggestion() -> None:
    assert run("xyzzy").stderr.startswith("error: there is no command 'xyzzy'\n")


def test_a_group_without_a_command_shows_its_help() -> None:
    done = run("cache")

    assert done.exit_code == 2
    assert " discovery cache " in done.stderr.splitlines()[0]


def test_the_version_is_an_option_too() -> None:
    assert run("--version").stdout == run("version").stdout


@pytest.mark.parametrize("words", ["list", "health", "inspect", "search x"])
def test_a_beginner_without_servers_gets_what_helps_and_nothing_else(words: str) -> None:
    empty = view_of(make_settings())

    done = run(*words.split(), recalled=empty, engine=FakeEngine(empty))

    assert done.stdout == ""
    assert done.stderr.startswith("note: no server is configured: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.requirement("ANS-13")
def test_people_read_how_sure_a_match_is_and_no_relevance_unless_they_ask() -> None:
    usual = run("search", "create", "issue", recalled=usual_view())
    explained = run("search", "create", "issue", "--explain", recalled=usual_view())
    form = json.loads(run("search", "create", "issue", "--json", recalled=usual_view()).stdout)

    assert usual.stderr.startswith("sure match: ")
    assert "%" not in usual.stdout + usual.stderr
    assert "% relevance  github:create_issue" in explained.stdout
    assert form["certainty"] == "sure"
    assert 0 < form["results"][0]["relevance"] <= 1


def test_what_merely_comes_near_is_explained_without_the_mark_of_a_match() -> None:
    done = run("search", "create", "a", "zebra", "stripe", "--explain", recalled=usual_view())

    assert "unsure" in done.stderr
    assert "✓" not in done.stdout


@pytest.mark.requirement("CLI-85")
def test_tokens_compares_all_tools_up_front_with_what_a_request_needs() -> None:
    done = run("tokens", "create", "an", "issue", "--json", recalled=usual_view())

    answer = json.loads(done.stdout)
    ways = {way["way"]: way for way in answer["ways"]}
    assert list(ways) == ["all", "meta", "select"]
    assert (answer["drafted"], answer["requests"]) == (False, 1)
    assert (ways["all"]["tools"], ways["all"]["calls"]) == (4, 0)
    assert (ways["meta"]["tools"], ways["meta"]["calls"]) == (6, 2)
    assert ways["select"]["tools"] == 2 + 1  # the search, what reads results, and the tool itself
    assert 0 < ways["meta"]["answer_tokens"] < ways["meta"]["definition_tokens"]
    assert ways["select"]["answer_tokens"] == 0


def test_tokens_drafts_requests_where_none_is_given() -> None:
    done = run("tokens", recalled=usual_view())

    assert [row[0] for row in rows(done.stdout)[1:]] == ["all", "meta:", "select:"]
    assert done.stderr == "4 tools of 2 servers; estimated tokens, the mean of 1 drafted request\n"


def test_tokens_without_a_tool_has_exit_code_2() -> None:
    done = run("tokens", recalled=view_of(make_settings("time"), make_part("time")))

    assert (done.exit_code, done.stdout) == (2, "")
    assert "discovery list" in done.stderr
