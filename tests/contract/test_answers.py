"""What specs/answers.md promises, asked of a view and of what agents and programs get of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.agent.budget import Budget
from discovery_engine.agent.render.search import search_result
from discovery_engine.agent.tool_text import Detail
from discovery_engine.catalog import Failure, ServerPart
from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.settings import SearchSettings
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.search.searcher import build_searcher
from discovery_engine.search.vectors import Vectors, pack
from discovery_engine.view.search_answers import Decision, SearchAnswer
from discovery_engine.view.view import View
from tests.factories import make_catalog, make_entry, make_part, make_settings
from tests.rows import rows

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry

AGAIN = "with verb, object and product, in English, such as 'create issue github'."
DENY = Rule(patterns=("secret*",), enabled=False)
FILES = make_part(
    "files",
    make_entry("read_file", "files", description="Read the contents of a file."),
    make_entry("write_file", "files", description="Write text to a file."),
    make_entry("list_directory", "files", description="List the entries of a directory."),
)
TRACKERS = [
    make_part(
        server,
        make_entry(
            "create_issue",
            server,
            description="Create an issue.",
            inputSchema={
                "type": "object",
                "properties": {argument: {"type": "string"}, "title": {"type": "string"}},
                "required": [argument, "title"],
            },
        ),
    )
    for server, argument in (("github", "repo"), ("jira", "project"))
]
WORDS = ["create", "list", "issue", "secret", "user", "file", "forecast", "mail", "zebra"]
TEXTS = ["", "Creates what the user lists.", "Mails a forecast of issues.", "Lists files."]
names = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map("_".join)
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)


def make_view(*parts: ServerPart, least: float = 0.2, **fields: Any) -> View:
    catalog = make_catalog(*parts)
    settings = make_settings(
        *sorted(part.server for part in parts),
        tool_rules=(DENY,),
        search=SearchSettings(min_confidence=least),
    )
    return View(settings, catalog, lambda: build_searcher(catalog, settings.search), **fields)


@st.composite
def parts(draw: st.DrawFn) -> list[ServerPart]:
    made = []
    for server in sorted(draw(st.sets(st.sampled_from(["github", "jira", "mail"]), min_size=1))):
        tools = draw(st.dictionaries(names, st.sampled_from(TEXTS), min_size=1))
        entries = [
            make_entry(name, server, description=text, enabled=not name.startswith("secret"))
            for name, text in tools.items()
        ]
        made.append(make_part(server, *entries))
    return made


def named(answer: SearchAnswer) -> list[Entry]:
    return [hit.entry for hit in (*answer.hits, *answer.nearest)]


def codes(answer: SearchAnswer) -> list[str]:
    return [notice.code for notice in answer.notices]


def told(answer: SearchAnswer, tokens: int = 10_000) -> str:
    [text] = search_result(answer, Budget(tokens), Detail.SCHEMA)["content"]
    return str(text["text"])


@pytest.mark.requirement("ANS-1")
def test_what_is_merely_near_is_no_hit() -> None:
    answer = make_view(FILES, least=0.9).search("file a tax return")

    assert (answer.decision, answer.hits) == (Decision.NONE, ())
    assert "files:read_file" in {str(hit.entry.key) for hit in answer.nearest}
    assert answer.uncovered == ("tax", "return")
    assert codes(answer) == ["ANSWER_NO_MATCH"]


@pytest.mark.requirement("ANS-1")
@given(parts(), texts, st.floats(0, 1))
def test_nearest_are_at_most_three_and_only_where_nothing_fits(made, query, least) -> None:
    answer = make_view(*made, least=least).search(query)

    assert (answer.decision is Decision.NONE) == (not answer.hits)
    assert len(answer.nearest) <= (0 if answer.hits else 3)


@pytest.mark.requirement("ANS-2")
@rows("name", ["list_directory", "listDirectory", "files:list_directory"])
def test_name_is_a_match(name: str) -> None:
    answer = make_view(FILES, *TRACKERS).search(name)

    assert (answer.decision, answer.confidence) == (Decision.MATCH, 0.99)


@pytest.mark.requirement("ANS-2")
def test_slip_in_a_name_is_a_match() -> None:
    answer = make_view(FILES, *TRACKERS).search("list_directroy")

    assert answer.decision is Decision.MATCH
    assert 0.9 <= answer.confidence < 0.99


@pytest.mark.requirement("ANS-2", "ANS-3")
def test_name_that_two_servers_have_is_a_match_and_they_are_distinguished() -> None:
    answer = make_view(FILES, *TRACKERS).search("create_issue")

    assert answer.decision is Decision.MATCH
    assert [(one.server, one.words, one.required) for one in answer.alternatives] == [
        ("github", (), ("repo",)),
        ("jira", (), ("project",)),
    ]
    assert told(answer).splitlines()[0] == (
        "Match: sure. The first 2 fit equally well: only github:create_issue requires repo; "
        "only jira:create_issue requires project."
    )


@pytest.mark.requirement("ANS-3")
@given(parts(), texts)
def test_alternatives_are_as_relevant_as_the_first(made, query) -> None:
    answer = make_view(*made, least=0.0).search(query)

    for hit in answer.hits[: answer.alike]:
        assert hit.relevance >= 0.97 * answer.hits[0].relevance
    is_match = answer.decision is Decision.MATCH
    assert len(answer.alternatives) == (answer.alike if is_match and answer.alike > 1 else 0)


@pytest.mark.requirement("ANS-4")
@given(parts(), texts)
def test_far_tail_is_not_sent(made, query) -> None:
    view = make_view(*made, least=0.0)

    hits = view.search(query).hits

    analyzed = view.searcher.analyze(query)
    found = view.searcher.search(analyzed, limit=10, accepts=lambda entry: entry.is_visible)
    assert list(hits) == [h for h in found if h.relevance >= 0.35 * found[0].relevance]


@pytest.mark.requirement("ANS-5")
def test_agent_reads_first_that_nothing_fits() -> None:
    answer = make_view(FILES, least=0.9).search("file a tax return")

    head, nearest = told(answer).splitlines()
    assert head.startswith("No tool fits: none mentions 'tax', 'return'.")
    assert nearest.startswith("Nearest, but unlikely to fit: files:")


@pytest.mark.requirement("ANS-5")
@given(parts(), texts, st.integers(50, 200))
def test_no_answer_without_a_match_looks_like_one(made, query, tokens) -> None:
    answer = make_view(*made, least=1.0).search(query)

    assert told(answer, tokens).startswith(("No tool fits", "There is no enabled tool"))


@pytest.mark.requirement("ANS-10")
@given(parts(), texts, st.integers(1, 20))
def test_confidence_depends_neither_on_order_nor_on_the_limit(made, query, limit) -> None:
    answer = make_view(*made).search(query)
    turned = make_view(*reversed(made)).search(query, limit=limit)

    assert 0 <= answer.confidence <= 1
    assert turned.confidence == answer.confidence
    assert (turned.decision is Decision.NONE) == (answer.decision is Decision.NONE)


@pytest.mark.requirement("ANS-12")
@given(parts(), texts)
def test_least_confidence_moves_the_decision(made, query) -> None:
    usual = make_view(*made).search(query)

    assert make_view(*made, least=0.0).search(query).hits or not named(usual)
    assert make_view(*made, least=1.0).search(query).decision is Decision.NONE
    assert bool(usual.hits) == (bool(named(usual)) and usual.confidence >= 0.2)


@pytest.mark.requirement("ANS-12")
@given(parts(), texts)
def test_the_least_confidence_is_confident_enough(made, query) -> None:
    usual = make_view(*made, least=0.0).search(query)

    again = make_view(*made, least=usual.confidence).search(query)

    assert (again.decision, again.hits) == (usual.decision, usual.hits)


@pytest.mark.requirement("ANS-12")
@given(parts(), texts)
def test_unless_the_owner_says_otherwise_a_match_has_a_confidence_of_15_percent(
    made, query
) -> None:
    usual = make_view(*made, least=parse_settings(b"", file="").search.min_confidence)

    assert usual.search(query) == make_view(*made, least=0.15).search(query)


@pytest.mark.requirement("ANS-12")
def test_a_match_needs_more_confidence_where_tools_are_found_by_a_sentence_model_too() -> None:
    tools = [entry.tool for entry in FILES.entries]
    stored = [pack((1.0, 0.0)), pack((0.6, 0.8)), pack((0.0, 1.0))]
    view = make_view(FILES)

    def found(vectors: Vectors) -> SearchAnswer:
        return replace(view, vectors=vectors).search("read a file", query_vectors=[(1.0, 0.0)])

    by_words = view.search("read a file")
    by_word_vectors = found(Vectors(tools, stored, is_static=True))
    by_both = found(Vectors(tools, stored))

    said = {0.61: "unsure", 0.62: "match", 0.69: "match", 0.7: "match"}
    assert {c: replace(by_words, confidence=c).decision for c in said} == said
    assert {c: replace(by_word_vectors, confidence=c).decision for c in said} == said
    said |= dict.fromkeys((0.62, 0.69), "unsure")
    assert {c: replace(by_both, confidence=c).decision for c in said} == said


@pytest.mark.requirement("EMB-41")
def test_the_confidence_in_given_tools_is_the_same_with_word_vectors() -> None:
    tools = [entry.tool for entry in FILES.entries]
    stored = [pack((1.0, 0.0)), pack((0.6, 0.8)), pack((0.0, 1.0))]
    searcher = build_searcher(make_catalog(FILES), SearchSettings())
    query = searcher.analyze("which notes are in here, read them to me")
    hits = searcher.search(query, limit=9, accepts=lambda _: True)

    def confidence(vectors: Vectors) -> float:
        return searcher.assess(query, hits, vectors.compare([(1.0, 0.0)])).confidence

    by_words = searcher.assess(query, hits).confidence
    assert confidence(Vectors(tools, stored, is_static=True)) == by_words
    assert confidence(Vectors(tools, stored)) != by_words


@pytest.mark.requirement("ANS-20")
def test_better_match_that_a_rule_hides_is_counted_beside_hits() -> None:
    hidden = make_entry("secret_report", "files", description="Send a report.", enabled=False)
    part = replace(FILES, entries=(*FILES.entries, hidden))

    shown = make_view(part, least=0.0).search("secret report of a file")
    plain = make_view(part).search("read the contents of a file")

    assert [str(hit.entry.key) for hit in shown.hits]
    [notice] = shown.notices
    assert notice.code == "TOOL_DISABLED"
    assert "disabled: a rule" in notice.message
    assert plain.notices == ()


BRANCHES = make_part(
    "git",
    make_entry("create_branch", "git", description="Create a branch of the repository."),
    make_entry("list_branches", "git", description="List the branches of the repository."),
    make_entry("log", "git", description="Show the commits of the repository."),
)


@pytest.mark.requirement("ANS-31")
def test_no_match_is_a_tool_that_does_something_else_than_the_request_says() -> None:
    view = make_view(BRANCHES)
    served = ("create a branch of the repository", "list the branches of the repository")
    near = ("delete a branch of the repository", "delete all branches of the repository")

    decisions = {query: view.search(query).decision for query in (*served, *near)}
    named = view.search("delete create_branch")

    assert [query for query in served if decisions[query] is not Decision.MATCH] == []
    assert [query for query in near if decisions[query] is Decision.MATCH] == []
    assert view.search(near[0]).hits  # they are sent all the same, to be checked
    assert named.hits[0].entry.tool.name == "create_branch"


@pytest.mark.requirement("ANS-31")
def test_no_match_is_beside_a_hidden_tool_that_fits_better() -> None:
    hidden = make_entry("switch_branch", "git", description="Switch to a branch.", enabled=False)
    request = "switch to a branch of the repository"
    part = replace(BRANCHES, entries=(*BRANCHES.entries, hidden))

    alone = make_view(BRANCHES, least=0.0).search(request)
    beside = make_view(part, least=0.0).search(request)

    assert beside.hits[0].entry == alone.hits[0].entry
    assert beside.decision is Decision.UNSURE
    assert beside.notices[0].code == "TOOL_DISABLED"
    assert "switch_branch" not in told(beside)


@pytest.mark.requirement("ANS-33")
def test_words_that_no_tool_would_mention_are_not_said_to_be_missing() -> None:
    view = make_view(FILES, least=1.0)

    missing = {
        query: view.search(query).uncovered
        for query in ("the last three still in the fridge today", "\u628a\u51b0\u7bb1\u6253\u5f00")
    }

    assert list(missing.values()) == [("fridge",), ()]


@pytest.mark.requirement("ANS-21")
@rows(
    ("limits", "said"),
    [
        pytest.param({"server": "jira"}, "server 'jira'", id="server"),
        pytest.param({"tags": ["read"]}, "tag 'read'", id="tag"),
    ],
)
def test_limit_that_excludes_everything_is_named(limits: dict[str, Any], said: str) -> None:
    answer = make_view(FILES, *TRACKERS).search("list the entries of a directory", **limits)

    [notice] = answer.notices
    assert notice.code == "ANSWER_FILTERED"
    assert notice.message.startswith(f"without the limit to {said}, ")
    assert "files:list_directory" in notice.message


@pytest.mark.requirement("ANS-22")
def test_servers_that_cannot_be_asked_are_named_beside_hits() -> None:
    failure = Failure("SERVER_CONNECTION_ERROR", "refused", "do it", 5.0)
    stale = make_part("jira", "search", failure=failure, listed_at=1_700_000_000.0)

    answer = make_view(FILES, stale, ServerPart("mail")).search("read_file")

    assert answer.hits
    assert [notice.message for notice in answer.notices] == [
        "jira: failing: refused; its last known tools are used, of 2023-11-14 22:13 UTC (do it)",
        "mail: pending; its tools are not known yet; ask again in a few seconds",
    ]


DOWN = Failure("SERVER_CONNECTION_ERROR", "refused", "do it", 5.0)


@pytest.mark.requirement("ANS-29")
@rows(
    ("missing", "first"),
    [
        ([ServerPart("mail")], "1 of 3 servers has not answered yet; no match in the others"),
        (
            [ServerPart("mail"), ServerPart("wiki")],
            "2 of 4 servers have not answered yet; no match in the others",
        ),
        (
            [make_part("mail", listed_at=None, failure=DOWN)],
            "1 of 3 servers is unavailable; no match in the others",
        ),
        (
            [ServerPart("mail"), make_part("wiki", listed_at=None, failure=DOWN)],
            "1 of 4 servers has not answered yet and 1 is unavailable; no match in the others",
        ),
    ],
)
@rows("hides", [False, True])
def test_an_answer_without_a_match_begins_with_the_servers_that_are_missing_from_it(
    missing: list[ServerPart], first: str, *, hides: bool
) -> None:
    bank = make_part("bank", make_entry("transfer_money", "bank", enabled=False))
    known = [FILES, bank] if hides else [FILES, make_part("jira", "search")]

    answer = make_view(*known, *missing).search("transfer money")

    assert answer.decision is Decision.NONE
    assert answer.notices[hides].code == "ANSWER_INCOMPLETE"
    assert answer.notices[hides].message.startswith(first)
    assert "ANSWER_NO_MATCH" not in codes(answer)
    for tokens in (50, 1000):
        [content] = search_result(answer, Budget(tokens), Detail.SCHEMA)["content"]
        lines = content["text"].splitlines()
        # That a tool which would fit is disabled is no answer that another question changes.
        assert lines[hides].startswith(first.partition(";")[0])
        assert "No tool fits" not in content["text"]


@pytest.mark.requirement("ANS-29")
def test_a_server_whose_last_known_tools_are_used_is_not_missing() -> None:
    stale = make_part("jira", "search", failure=DOWN, listed_at=1_700_000_000.0)

    answer = make_view(FILES, stale).search("transfer money")

    assert codes(answer) == ["ANSWER_NO_MATCH", "SERVER_CONNECTION_ERROR"]


@pytest.mark.requirement("ANS-29")
def test_a_server_that_is_switched_off_is_not_missing() -> None:
    off = ServerPart("mail", verdict=Verdict(enabled=False))

    answer = make_view(FILES, off).search("transfer money")

    assert codes(answer) == ["ANSWER_NO_MATCH"]


@pytest.mark.requirement("ANS-29")
@rows(
    ("limits", "said"),
    [
        ({"server": "mail"}, "no tool of server 'mail' is known yet"),
        ({"tags": ["post"]}, "1 of 4 servers has not answered yet; "),
    ],
)
def test_a_limit_does_not_hide_that_servers_are_missing(limits: dict[str, Any], said: str) -> None:
    answer = make_view(FILES, *TRACKERS, ServerPart("mail")).search("read_file", **limits)

    missing, filtered, starting = answer.notices
    assert missing.message.startswith(said)
    assert filtered.code == "ANSWER_FILTERED"
    assert starting.code == "SERVER_STARTING"


@pytest.mark.requirement("ANS-20", "ANS-23")
@given(parts(), texts, st.floats(0, 1))
def test_what_is_named_can_be_inspected_and_what_is_hidden_is_named_nowhere(
    made, query, least
) -> None:
    view = make_view(*made, least=least)

    answer = view.search(query)

    for entry in named(answer):
        assert view.details(entry.tool.server, entry.tool.name) == entry
    result = json.dumps(search_result(answer, Budget(10_000), Detail.SCHEMA))
    for entry in view.catalog:
        if not entry.is_visible:
            assert str(entry.key) not in result
            assert f'"tool": "{entry.tool.name}"' not in result


@pytest.mark.requirement("ANS-13")
@rows(
    ("confidence", "word"),
    [(1.0, "sure"), (0.9, "sure"), (0.89, "likely"), (0.62, "likely")],
)
def test_agents_read_how_sure_a_match_is(confidence: float, word: str) -> None:
    found = make_view(FILES).search("read a file")

    answer = replace(found, confidence=confidence)

    assert told(answer).splitlines()[0] == f"Match: {word}."
    assert "relevance" not in told(answer)
    fields = search_result(answer, Budget(200), Detail.LINE)["_meta"]["discovery/answer"]
    assert (fields["confidence"], fields["certainty"]) == (confidence, word)


@pytest.mark.requirement("ANS-6")
@rows(
    ("fields", "more"),
    [
        pytest.param({"uncovered": ()}, "", id="nothing is missing"),
        pytest.param(
            {"uncovered": ("tax", "return")}, " None mentions 'tax', 'return'.", id="words"
        ),
        pytest.param(
            {"uncovered": ("tax",), "undone": ("delete or remove",)},
            " No tool of files seems to delete or remove; none mentions 'tax'.",
            id="an operation",
        ),
    ],
)
def test_an_unsure_answer_shows_the_nearest_tools_and_what_to_check(
    fields: dict[str, Any], more: str
) -> None:
    found = make_view(FILES).search("read a file")

    answer = replace(found, confidence=0.3, **fields)

    head, first, *_ = told(answer).splitlines()
    check = f"Unsure: these are only the nearest tools. Check before calling.{more}"
    assert head == f"{check} Ask again {AGAIN}"
    assert first.startswith("files:read_file(")
    shown = search_result(answer, Budget(200), Detail.LINE)["_meta"]["discovery/answer"]
    assert (shown["decision"], shown["certainty"]) == ("unsure", None)
    assert shown["results"][0]["tool"] == "read_file"
    assert shown["undone"] == list(answer.undone)


@pytest.mark.requirement("ANS-6")
def test_an_operation_that_no_near_tool_has_is_named() -> None:
    wiki = make_part(
        "wiki",
        make_entry("list_spaces", "wiki", description="List the spaces of the wiki."),
        make_entry("get_space", "wiki", description="Get a space of the wiki."),
    )

    answer = make_view(wiki, least=0.0).search("delete all archived spaces of our team wiki")

    assert answer.decision is Decision.UNSURE
    assert answer.undone == ("delete or remove",)
    assert "delete" in answer.uncovered


@pytest.mark.requirement("ANS-6")
@given(parts(), texts, st.integers(50, 200))
def test_no_unsure_answer_looks_like_a_match(made, query, tokens) -> None:
    answer = make_view(*made, least=0.0).search(query)

    if answer.decision is Decision.UNSURE:
        lines = told(answer, tokens).splitlines()
        assert next(line for line in lines if not line.startswith("Note:")).startswith("Unsure:")


@pytest.mark.requirement("ANS-13")
def test_without_a_match_there_is_no_word_for_it() -> None:
    answer = make_view(FILES, least=0.9).search("file a tax return")

    assert answer.certainty is None
    assert "Match:" not in told(answer)
