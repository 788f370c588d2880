"""What an answer says: the tools, how sure it is of them, and what is missing from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from discovery_engine import Decision
from discovery_engine.sync import SyncEngine, open_engine
from tests.agents import text_of
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
    "trello": [
        tool("list_boards", "List them."),
        tool(
            "delete_label", "Delete a label.", inputSchema=schema("board", board=TEXT, label=TEXT)
        ),
        *(tool(f"{verb}_card", f"{verb.title()} a card.") for verb in ("get", "add", "archive")),
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
def test_a_tool_that_does_something_else_than_is_asked_for_is_no_match(engine: SyncEngine) -> None:
    served = ("create a branch of the repository", "list the branches of the repository")
    near = (
        "delete a branch of the repository",
        "switch to a branch of the repository",
        "create a space, Wiki",
        "delete board, Trello",
        "create an issue, Linear",
        "show the commits in jira",
    )

    decisions = {query: engine.search(query).decision for query in (*served, *near)}

    assert [query for query in served if decisions[query] is not Decision.MATCH] == []
    assert [query for query in near if decisions[query] is Decision.MATCH] == []


@pytest.mark.requirement("ANS-6")
def test_a_product_that_a_tool_only_mentions_is_not_the_product_of_the_tool(tmp_path: Path) -> None:
    products = ("GitHub", "Slack", "S3", "Hooli")
    hosting = [
        tool(f"application-save{name}Provider", f"Saves the {name} provider of an application.")
        for name in products
    ]
    others = ("domain", "port", "mount", "backup", "volume", "server", "registry", "certificate")
    hosting += [tool(f"{name}-create", f"Create a {name} of an application.") for name in others]
    bundle = [tool(f"{name.lower()}_list_items", f"List items of {name}.") for name in products]

    drafts = [tool("save_draft", "Save a mail as a draft."), tool("list_mails", "List mails.")]
    catalog = {"dokploy": hosting, "bundle": bundle, "icloud-mail": drafts}

    with opened(tmp_path, catalog) as engine:
        near = [engine.search(f"create issue, {name}").decision for name in products]
        near += [engine.search("save a draft in Gmail, not in the mail app").decision]
        served = [engine.search(f"list items, {name}").decision for name in products]
        served += [engine.search("save a draft in iCloud Mail").decision]

    assert Decision.MATCH not in near
    assert served == [Decision.MATCH] * (len(products) + 1)


@pytest.mark.requirement("ANS-6")
@rows(
    ("query", "lack"),
    [
        ("show the commits in jira", "The first is not of jira."),
        ("delete the space of the wiki", "No tool of wiki seems to delete or remove."),
        ("create an issue, Linear", "None of these is of Linear."),
    ],
)
def test_an_unsure_answer_says_what_the_nearest_tools_lack(
    engine: SyncEngine, query: str, lack: str
) -> None:
    head, *_ = read(engine, query).splitlines()

    assert head == f"Unsure: these are only the nearest tools. Check before calling. {lack}"


@pytest.mark.requirement("ANS-6")
def test_what_is_missing_is_said_of_the_server_that_is_meant(tmp_path: Path) -> None:
    inner = schema("name", name=TEXT, size={"type": "integer"})
    hosting = [
        tool(f"create_{name}", f"Create a {name}.", inputSchema=schema("params", params=inner))
        for name in ("volume", "network", "server", "firewall")
    ]
    backups = [tool("create_snapshot", "Create a snapshot of a machine.")]

    with opened(tmp_path, {"hetzner": hosting, "proxmox": backups}) as engine:
        named = read(engine, "create server snapshot, Hetzner")
        foreign = read(engine, "create a snapshot of a machine, Vultr")
        vague = read(engine, "my machine should have a snapshot at Vultr, please see to that")

    head, *lines = named.splitlines()
    assert head.endswith("The first is not of hetzner; no tool of hetzner mentions 'snapshot'.")
    assert any("params: {name, size?}" in line for line in lines)
    assert foreign.splitlines()[0].endswith("None of these is of Vultr.")
    assert len(foreign.splitlines()) <= 1 + 3
    assert AGAIN in vague


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
    assert usual[0].confidence >= 0.5 > usual[1].confidence >= 0.15 > usual[2].confidence >= 0
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
def test_agents_read_no_name_of_a_hidden_tool_no_pattern_and_no_path(tmp_path: Path) -> None:
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
        assert notice.message.startswith(f"nothing fits within {said}, but ")
        assert "files:list_directory" in notice.message


@pytest.mark.requirement("REL-40")
def test_results_below_a_relevance_are_left_out_and_counted(
    engine: SyncEngine, folder: Path, forked: Preloaded
) -> None:
    searched = ["search", "change the branch of the repository", "--limit=9", "--json"]
    home = {"cwd": folder, "environ": environ_of(folder)}
    [best, *others] = [row["relevance"] for row in forked(searched, **home).json["results"]]

    some = forked([*searched, "--min-relevance", f"{best}"], **home).json
    none = forked([*searched[:2], "--min-relevance", "1"], **home)

    assert [row["relevance"] for row in some["results"]] == [best]
    [notice] = [one["message"] for one in some["notices"] if one["kind"] == "filtered"]
    weak = f"{len(others)} results with less relevance than {best:g} left out"
    assert notice == f"{weak}, at most {others[0]:.2f}"
    assert none.code == 2
    assert "less relevance than 1 left out" in none.err
    assert "match" not in none.out


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
    assert missed.startswith("2 of 8 servers are unavailable; no match in the others")
    assert "No tool fits" not in missed
    assert "files: failing: " in stale
    assert "its last known" in stale
    assert "servers are not available: " in shown.err


SERVED = {
    "travel/search_flights": """
        I am putting together a short trip for two colleagues who have to attend a workshop in
        Lisbon next month, and the office manager wants a proposal on her desk by Thursday. They
        start from Hamburg, and one of them has a bad back, so long waits in between should be
        avoided if at all possible. Find flights between the two airports on the evening before the
        workshop begins and on the afternoon after it has ended. Prefer direct connections, note
        the total travel time of each, and list at most five options per direction in a small table
        that can be pasted into an email. Mention anything unusual, for instance an overnight stop.
        If nothing suitable turns up, say so plainly instead of stretching the criteria, because
        the date of the workshop itself is not going to move any more.""",
    "github/merge_pull_request": """
        The release manager is on holiday and I promised to look after the housekeeping of our main
        project while she is away. Most of it is routine, yet I do not want to break anything on my
        second day. There is one change that two people have approved and that all checks have
        passed for, and the author has been waiting since Monday. Please merge that pull request
        into its base branch, and afterwards add a comment that thanks the reviewers by name. Do
        not touch anything else, in particular none of the older proposals that are still under
        discussion. Keep a friendly tone, since the author is new to the team. When everything is
        done, tell me in two sentences what happened and whether I need to do anything myself.""",
}
UNSERVED = [
    """
        We run a small laboratory for soil samples and have been asked to join a comparison between
        institutes across the country. Every participant receives the same twelve jars and reports
        what was measured, so that the organisers can see how far the methods agree. Titrate each
        of the samples against the standard solution, centrifuge what is left over at the agreed
        speed, and record the hue of the sediment with the spectrometer in the basement. The jars
        must never be warmer than fourteen degrees, and gloves are mandatory for the whole morning.
        Whoever signs the protocol vouches for it, therefore take your time. A second technician
        repeats everything in the afternoon without having seen the earlier figures.""",
    """
        Our orchard stands on a slope above the river, twenty old trees of which nobody remembers
        the names, and this winter they have to be pruned before the sap rises. My uncle did it as
        long as his knees allowed, and he was particular about it. Saw off the dead limbs close to
        the collar, thin the crowns so that a hat can be thrown through them, and paint the larger
        wounds with tar. Then graft two scions of the yellow variety on the youngest trunk. The
        ladder in the barn wobbles, so let somebody hold it. Do not work in the frost, as the wood
        splinters then. We are happy to pay in cider, of which there is more than we can drink.""",
]


@pytest.fixture(scope="module")
def languages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SyncEngine]:
    described = yaml.safe_load(Path(__file__).with_name("languages.yaml").read_text("utf-8"))
    catalogs = {
        server: [tool(name, text) for name, text in tools.items()]
        for server, tools in described["servers"].items()
    }
    with opened(tmp_path_factory.mktemp("described"), catalogs) as languages:
        yield languages


@pytest.mark.requirement("ANS-14")
@rows("tool", SERVED)
def test_task_description_whose_tool_is_found_is_answered(languages: SyncEngine, tool: str) -> None:
    answer = languages.search(" ".join(SERVED[tool].split()))

    assert answer.decision is not Decision.NONE
    assert tool in [str(hit.entry.key).replace(":", "/") for hit in answer.hits[:5]]


@pytest.mark.requirement("ANS-14")
def test_task_descriptions_that_nothing_serves_get_none(languages: SyncEngine) -> None:
    for description in UNSERVED:
        assert languages.search(" ".join(description.split())).decision is Decision.NONE
