"""What an answer says: the tools, how sure it is of them, and what is missing from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discovery_engine import Decision, SearchAnswer
from discovery_engine.sync import SyncEngine, open_engine
from tests.agents import fields_of, text_of
from tests.catalogs import JSONObject, configure, environ_of, opened, schema, tool
from tests.forked import Preloaded
from tests.rows import rows

AGAIN = "Ask again with verb, object and product, in English, such as 'create issue github'."
TEXT = {"type": "string"}
CATALOGS: dict[str, list[JSONObject | str]] = {
    "files": [
        tool("read_file", "Read the contents of a file."),
        tool("write_file", "Write text to a file."),
        tool("list_directory", "List the entries of a directory."),
    ],
    "git": [
        tool("create_branch", "Create a branch of the repository."),
        tool("list_branches", "List the branches of the repository."),
        tool("log", "Show the commits of the repository."),
        tool("switch_branch", "Switch to another branch."),
        tool("reset", "Unstage all changes."),
    ],
    "wiki": [
        tool("list_spaces", "List the spaces of the wiki."),
        tool("get_space", "Get a space of the wiki."),
    ],
    **{
        server: [
            tool(
                "create_issue",
                "Create an issue.",
                inputSchema=schema(argument, "title", **{argument: TEXT}, title=TEXT),
            )
        ]
        for server, argument in (("github", "repo"), ("jira", "project"))
    },
}
HIDDEN = {"pattern": ["git:switch_branch", "git:reset"], "enabled": False}
FALSE = {"command": "/bin/false"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("answers")


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[SyncEngine]:
    with opened(folder, CATALOGS, toolRules=[HIDDEN]) as engine:
        yield engine


def asked(engine: SyncEngine, meta_tool: str, **arguments: Any) -> JSONObject:
    return engine.toolset().call_as_result(meta_tool, arguments)


def read(engine: SyncEngine, query: str, **arguments: Any) -> str:
    """What an agent reads."""
    return text_of(asked(engine, "search_tools", query=query, **arguments))


def codes(answer: SearchAnswer) -> list[str]:
    return [notice.code for notice in answer.notices]


@pytest.mark.requirement("ANS-1")
def test_what_is_merely_near_is_no_hit(tmp_path: Path) -> None:
    with opened(tmp_path, CATALOGS, search={"minConfidence": 0.9}) as engine:
        answer = engine.search("file a tax return")
        head, nearest, *_ = read(engine, "file a tax return").splitlines()
        many = engine.search("list the issue of a tax return")

    assert (answer.decision, answer.hits) == (Decision.NONE, ())
    assert "files:read_file" in {str(hit.entry.key) for hit in answer.nearest}
    assert len(many.nearest) == 3
    assert answer.uncovered == ("tax", "return")
    assert head == f"No tool fits: none mentions 'tax', 'return'. {AGAIN}"
    assert nearest.startswith("Nearest, but unlikely to fit: files:")


@pytest.mark.requirement("ANS-2")
@rows("name", ["list_directory", "listDirectory", "files:list_directory", "list_directroy"])
def test_a_name_is_a_match(engine: SyncEngine, name: str) -> None:
    answer = engine.search(name)

    assert answer.decision is Decision.MATCH
    assert answer.confidence == (pytest.approx(0.9) if "roy" in name else 0.99)
    assert read(engine, name).startswith("Match: sure.\nfiles:list_directory")


@pytest.mark.requirement("ANS-3")
def test_tools_that_fit_equally_well_are_shown_with_what_only_each_has(engine: SyncEngine) -> None:
    answer = engine.search("create_issue")

    assert [(one.server, one.required) for one in answer.alternatives] == [
        ("github", ("repo",)),
        ("jira", ("project",)),
    ]
    assert read(engine, "create_issue").splitlines()[0] == (
        "Match: sure. The first 2 fit equally well: only github:create_issue requires repo; "
        "only jira:create_issue requires project."
    )


@pytest.mark.requirement("ANS-6")
def test_an_unsure_answer_shows_the_nearest_tools_and_what_to_check(engine: SyncEngine) -> None:
    query = "delete all archived spaces of our team wiki"
    answer = engine.search(query)
    head, first, *_ = read(engine, query).splitlines()
    fields = fields_of(asked(engine, "search_tools", query=query))

    assert answer.decision is Decision.UNSURE
    assert head.startswith(
        "Unsure: these are only the nearest tools. Check before calling. "
        "No tool of wiki seems to delete or remove; none mentions 'delete', 'archived'"
    )
    assert first.startswith("wiki:")
    assert (fields["decision"], fields["certainty"]) == ("unsure", None)
    assert fields["undone"] == ["delete or remove"]


@pytest.mark.requirement("ANS-6")
def test_a_tool_that_does_something_else_than_is_asked_for_is_no_match(engine: SyncEngine) -> None:
    served = ("create a branch of the repository", "list the branches of the repository")
    near = ("delete a branch of the repository", "switch to a branch of the repository")

    decisions = {query: engine.search(query).decision for query in (*served, *near)}

    assert [query for query in served if decisions[query] is not Decision.MATCH] == []
    assert [query for query in near if decisions[query] is Decision.MATCH] == []


@pytest.mark.requirement("ANS-12")
def test_the_confidence_decides_and_does_not_depend_on_the_limit(
    tmp_path: Path, engine: SyncEngine
) -> None:
    queries = ("read a file", "delete all archived spaces of our team wiki", "transfer money")
    usual = [engine.search(query) for query in queries]
    limited = [engine.search(query, limit=1).confidence for query in queries]
    decisions = {}
    for least in (0.0, 1.0):
        config = configure(tmp_path, CATALOGS, search={"minConfidence": least})
        with open_engine(config, data_dir=tmp_path / "data") as other:
            other.refresh()
            decisions[least] = {str(other.search(query).decision) for query in queries[:2]}

    assert [answer.confidence for answer in usual] == limited
    assert [str(answer.decision) for answer in usual] == ["match", "unsure", "none"]
    assert usual[0].confidence >= 0.62 > usual[1].confidence >= 0.15 > usual[2].confidence >= 0
    assert usual[0].certainty == ("sure" if usual[0].confidence >= 0.9 else "likely")
    assert "none" not in decisions[0.0]
    assert decisions[1.0] == {"none"}


@pytest.mark.requirement("ANS-20")
def test_a_hidden_tool_that_fits_better_is_counted_and_named_to_its_owner_alone(
    engine: SyncEngine, folder: Path, forked: Preloaded
) -> None:
    read_first = read(engine, "unstage all changes").splitlines()[0]
    searched = forked(["search", "git:reset"], cwd=folder, environ=environ_of(folder))
    inspected = forked(["inspect", "git", "resett"], cwd=folder, environ=environ_of(folder))

    assert read_first == "Note: 1 tool that matches is disabled: a rule of the owner"
    assert searched.err.startswith("note: git:reset is disabled: rule 1 (")
    assert "near, but disabled: git:reset (rule 1 (" in inspected.err


@pytest.mark.requirement("ANS-24")
def test_agents_read_no_name_of_a_hidden_tool_no_pattern_and_no_path(
    tmp_path: Path,
) -> None:
    (home := tmp_path / "ann").mkdir()
    (tmp_path / "ann" / "bin").mkdir()
    config = configure(home, CATALOGS, toolRules=[HIDDEN], serverRules=[OFF])
    settings = json.loads(config.read_text())
    settings["servers"]["bad"] = {"command": str(home / "bin" / "nothing")}
    config.write_text(json.dumps(settings))
    calls: list[tuple[str, JSONObject]] = [
        ("list_mcp_servers", {}),
        ("search_tools", {"query": "unstage changes", "maxTokens": 1000}),
        ("search_tools", {"queries": ["unstage changes", "switch to a branch"]}),
        ("list_tools", {"server": "git", "includeDisabled": False}),
        ("list_tools", {"server": "wiki"}),
        ("list_tools", {"server": "bad"}),
        ("get_tool_details", {"tool": "git:swich_branch"}),
        ("execute_tool", {"tool": "swich_branch"}),
        ("execute_tool", {"server": "wiki", "tool": "work"}),
        ("execute_tool", {"server": "bad", "tool": "work"}),
    ]

    with open_engine(config, data_dir=home / "data") as engine:
        engine.refresh()
        answers = [json.dumps(asked(engine, name, **arguments)) for name, arguments in calls]
        answers.append(engine.toolset().instructions())
        named = text_of(asked(engine, "execute_tool", tool="git:reset"))

    secret = ("switch_branch", "git:reset", '"reset"', str(home))
    found = [(word, text[:300]) for text in answers for word in secret if word in text]
    assert found == []
    assert named.startswith("TOOL_DISABLED: tool 'git:reset' is disabled: a rule of the owner")


OFF = {"pattern": "wiki", "enabled": False}


@pytest.mark.requirement("ANS-21")
def test_a_limit_that_excludes_everything_is_named(engine: SyncEngine) -> None:
    for limits, said in (({"server": "jira"}, "server 'jira'"), ({"tags": ["x"]}, "tag 'x'")):
        [notice, *_] = engine.search("list the entries of a directory", **limits).notices  # type: ignore[arg-type]

        assert notice.code == "ANSWER_FILTERED"
        assert notice.message.startswith(f"without the limit to {said}, ")
        assert "files:list_directory" in notice.message


@pytest.mark.requirement("ANS-28")
def test_servers_that_are_missing_are_said_before_and_beside_the_hits(
    tmp_path: Path, forked: Preloaded
) -> None:
    config = configure(tmp_path, CATALOGS)
    settings = json.loads(config.read_text())
    settings["servers"] |= {"mail": FALSE, "post": FALSE}
    config.write_text(json.dumps(settings))
    with open_engine(config, data_dir=tmp_path / "data") as engine:
        engine.refresh()
        found, missed = read(engine, "read_file"), read(engine, "transfer money")
        (tmp_path / "files.json").unlink()
        engine.refresh()
        stale = read(engine, "read_file")
    shown = forked(["search", "read_file"], cwd=tmp_path, environ=environ_of(tmp_path))

    assert found.startswith("Match: sure.\nfiles:read_file")
    assert "Note: mail: failing: it exited with status 1" in found
    assert missed.startswith("2 of 7 servers are unavailable; no match in the others")
    assert "No tool fits" not in missed
    assert "files: failing: " in stale
    assert "its last known" in stale
    assert "servers are not available: " in shown.err


@pytest.mark.requirement("ANS-28")
@rows(
    ("servers", "reason"),
    [
        ({}, "No server is configured: "),
        ({"a": {**FALSE, "enabled": False}}, "There is no enabled tool."),
    ],
)
def test_without_any_tool_other_words_are_not_suggested(
    tmp_path: Path, servers: JSONObject, reason: str
) -> None:
    (tmp_path / "discovery.yaml").write_text(json.dumps({"servers": servers}))

    with open_engine(tmp_path / "discovery.yaml", data_dir=tmp_path / "data") as engine:
        text = read(engine, "send mail")

    assert reason in text
    assert "Ask again" not in text


@pytest.mark.requirement("ANS-25")
def test_servers_with_one_reason_share_a_line_for_people(tmp_path: Path, forked: Preloaded) -> None:
    unset = {"command": "x", "env": {"A": "${UNSET_VARIABLE}"}}
    servers = {"a": unset, "b": {"command": "x", "env": {"A": "${OTHER}"}}, "c": unset}
    (tmp_path / "discovery.yaml").write_text(json.dumps({"servers": servers}))
    environ = environ_of(tmp_path)
    forked(["refresh"], cwd=tmp_path, environ=environ)

    listed = forked(["list"], cwd=tmp_path, environ=environ).err
    searched = forked(["search", "send mail"], cwd=tmp_path, environ=environ).err

    assert "a, c: env.A: ${UNSET_VARIABLE} is not set" in listed
    assert "b: env.A: ${OTHER} is not set" in listed
    assert "`discovery doctor` explains" in searched
    assert searched.count("is not set") == 0
