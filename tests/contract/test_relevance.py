"""Which tools a query finds, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from discovery_engine import Hit
from discovery_engine.sync import SyncEngine, open_engine
from tests.catalogs import JSONObject, configure, environ_of, names, opened, schema, tool
from tests.forked import Preloaded
from tests.rows import rows

URL = schema("url", url={"type": "string"})
CATALOGS: dict[str, list[JSONObject | str]] = {
    "github": [
        "create_issue",
        tool("create_issue_comment", "create issue, create issue"),
        tool("close", "create issue issues create"),
        "getUser",
        "get_user",
    ],
    "prefixed": ["create"],
    "twins": ["text_to_speech", "speech_to_text", "zebra_b", "zebra_a"],
    "other_twins": ["zebra_a"],
    "tagged": ["quokka", "wombat"],
    "untagged": ["numbat"],
    "between": ["send_mail1", "send_mail2", tool("compose", "send mailx, send mailx")],
    "writings": [
        tool("getUserByID"),
        tool("HTTPServerError"),
        tool("suche", "在目录中搜索文件内容"),
        tool("coffee", "Café finder"),
        tool("wetter", "Zeigt die Höhe"),
        tool("entries", "Query MySQL for entries."),
        tool("rows", "Query SQL for entries."),
    ],
    "words": [
        tool("a", "revoke it"),
        tool("b", "cancel it"),
        tool("c", "plays music"),
        tool("e", "opens a webpage"),
        tool("f", "a file system"),
        tool("g", "kubernetes pods"),
        tool("h", "reddit posts"),
        tool("i", "weather forecast"),
    ],
    "fields": [
        "yak_y",
        tool("x", inputSchema=schema(p={"description": "a yak"})),
        tool("w", "Stripes on a yak in the yard"),
    ],
    "zoo": ["anything"],
    "clauses": [tool("a", "alpha bravo delta"), tool("b", "alpha bravo charlie")],
    "siblings": [
        "add_draft",
        "remove_draft",
        "create_webhook",
        "delete_webhook",
        "add_label",
        "delete_label",
        "enable_lamp",
        "disable_lamp",
        "convert_time",
        "get_current_time",
        "get_order",
        "list_orders",
        "restart_build",
        "get_build",
        tool("read_page", inputSchema=URL),
        "read_page_again",
    ],
    "unwanted": [
        tool("create_draft", "Put a mail into the drafts."),
        tool("send_mail", "Send a mail, also one of the drafts."),
        tool("archive_channel", "Archive a channel of a team."),
        tool("delete_channel", "Delete a channel of a team for good."),
        tool("list_files", "Show the files of a folder."),
        tool("delete_files", "Delete files for good, without a trace."),
        tool("list_archived_issues", "List issues."),
        tool("list_all_issues", "List issues."),
    ],
    "own": [tool("x", "Something about a ticket"), tool("y", "each pull request")],
}
SETTINGS: dict[str, JSONObject] = {
    "prefixed": {"prefix": "gh_"},
    "tagged": {"tags": ["read-only"]},
    "zoo": {"description": "All about capybaras"},
}
ANY = {"minConfidence": 0}
SYNONYMS = [["zorp", "ticket"], ["PR", "pull request"]]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SyncEngine]:
    folder = tmp_path_factory.mktemp("relevance")
    search = {"minConfidence": 0, "synonyms": SYNONYMS}
    with opened(folder, CATALOGS, SETTINGS, search=search) as engine:
        yield engine


def found(engine: SyncEngine, query: str, server: str | None = None) -> list[str]:
    return names(engine.search(query, server=server, limit=30))


@pytest.mark.requirement("REL-1", "REL-2")
@rows(
    "query",
    ["comments on an issue", "list the users, then send a mail", "zebra", "anything read only"],
)
def test_hits_fall_in_relevance_which_their_parts_add_up_to(engine: SyncEngine, query: str) -> None:
    hits = engine.search(query, limit=30).hits

    for hit in hits:
        assert 0 <= hit.relevance <= 1
        assert hit.parts.exact + hit.parts.partial + hit.parts.tag == pytest.approx(hit.relevance)
    assert len(hits) > 1
    assert all(
        one.relevance >= next_.relevance for one, next_ in pairwise(hits) if not one.parts.exact
    )


@pytest.mark.requirement("REL-1", "REL-2")
def test_the_weights_are_those_of_the_owner_and_a_name_is_first_whatever_they_are(
    tmp_path,
) -> None:
    tools = ["song", tool("a_song", "song song song"), "other_song"]
    weights = {"exact": 0.1, "partial": 0.9, "tag": 0.4}
    settings = {"one": {"tags": ["song", "x"]}}
    with opened(tmp_path, {"one": tools}, settings, search={"weights": weights}) as engine:
        first, *others = engine.search("song").hits

    assert first.entry.tool.name == "song"
    assert first.parts.exact == 0.1
    assert max(hit.relevance for hit in others) > 0.4
    partial = first.parts.partial / (1 - 0.1)
    assert first.parts.tag == pytest.approx((1 - 0.1) * (1 - partial) * 0.4 * 0.5)


@pytest.mark.requirement("REL-3")
def test_of_equals_the_words_in_the_order_of_the_query_decide_then_server_and_name(
    engine: SyncEngine,
) -> None:
    assert found(engine, "turn text to speech", "twins")[0] == "text_to_speech"
    assert found(engine, "turn speech to text", "twins")[0] == "speech_to_text"
    keys = [str(hit.entry.key) for hit in engine.search("zebras").hits]
    assert keys == ["other_twins:zebra_a", "twins:zebra_a", "twins:zebra_b"]


@pytest.mark.requirement("REL-4")
def test_a_tool_is_found_by_a_tag_of_which_the_query_has_all_words(engine: SyncEngine) -> None:
    [first, *_] = engine.search("anything read only", server="tagged").hits

    assert first.parts.tag == first.relevance == pytest.approx(0.3)
    assert found(engine, "quux only", "tagged") == []


@pytest.mark.requirement("REL-10")
@rows(
    "query",
    [
        "create_issue",
        "createIssue",
        "create-issue",
        "create issue",
        "CREATE_ISSUE",
        " Create Issue ",
        "github:create_issue",
        "github__create_issue",
        "mcp__github__create_issue",
        "GitHub create issue",
    ],
)
def test_every_spelling_names_the_tool(engine: SyncEngine, query: str) -> None:
    first, *others = engine.search(query, server="github").hits

    assert first.entry.tool.name == "create_issue"
    assert first.parts.exact == 1
    assert not any(other.parts.exact for other in others)


@pytest.mark.requirement("REL-10")
def test_a_tool_has_the_names_with_and_without_prefix_and_the_same_spelling_is_first(
    engine: SyncEngine,
) -> None:
    for query in ("prefixed:create", "gh_create"):
        assert engine.search(query, server="prefixed").hits[0].parts.exact == 1
    for query in ("get_user", "getUser"):
        assert found(engine, query, "github")[0] == query


@pytest.mark.requirement("REL-12")
@rows("query", ["create_isue", "craete_issue", "create_issues", "github:creat_issue"])
def test_a_mistyped_name_is_first(engine: SyncEngine, query: str) -> None:
    first, *_ = engine.search(query, server="github").hits

    assert first.entry.tool.name == "create_issue"
    assert first.parts.exact == 0


@pytest.mark.requirement("REL-12")
def test_a_typo_between_two_names_is_neither(engine: SyncEngine) -> None:
    assert found(engine, "send_mailx", "between")[0] == "compose"


@pytest.mark.requirement("REL-20")
@rows(
    ("query", "expected"),
    [
        ("the id of a user", "getUserByID"),
        ("server errors", "HTTPServerError"),
        ("搜索文件", "suche"),
        ("搜", "suche"),
        ("CAFE", "coffee"),
        ("hohe", "wetter"),
        ("MySQL", "entries"),
        ("mysql", "entries"),
    ],
)
def test_words_are_found_in_every_writing(engine: SyncEngine, query: str, expected: str) -> None:
    assert found(engine, query, "writings")[0] == expected


@pytest.mark.requirement("REL-23")
@rows(
    ("query", "expected"),
    [
        ("cancel", ["b", "a"]),
        ("revoking", ["a", "b"]),
        ("playlist", ["c"]),
        ("k8s", ["g"]),
        ("web page", ["e"]),
    ],
)
def test_the_same_word_counts_for_more_than_a_synonym_and_that_for_more_than_a_subject(
    engine: SyncEngine, query: str, expected: list[str]
) -> None:
    assert found(engine, query, "words")[: len(expected)] == expected


@pytest.mark.requirement("REL-26")
@rows(("query", "expected"), [("filesystem", "f"), ("kubernettes", "g"), ("forcast", "i")])
def test_an_unknown_word_is_read_as_a_typo_of_a_known_one(
    engine: SyncEngine, query: str, expected: str
) -> None:
    assert found(engine, query, "words")[0] == expected


@pytest.mark.requirement("REL-25")
@rows(
    "query",
    [
        "Could you please tell me about posts on reddit, thanks in advance?",
        "look at https://www.reddit.com/weather/forecast",
        "I was wondering whether there are reddit posts. That would be great.",
        "zeig mir reddit posts, vielen Dank im Voraus",
    ],
)
def test_words_that_ask_for_nothing_and_the_path_of_an_address_have_no_effect(
    engine: SyncEngine, query: str
) -> None:
    assert found(engine, query, "words") == ["h"]


@pytest.mark.requirement("REL-30")
def test_a_name_counts_for_more_than_a_description_and_that_for_more_than_a_parameter(
    engine: SyncEngine,
) -> None:
    assert found(engine, "yaks", "fields") == ["yak_y", "w", "x"]
    assert found(engine, "capybara") == ["anything"]


@pytest.mark.requirement("REL-31")
def test_a_tool_for_one_clause_is_above_one_with_a_little_of_each(engine: SyncEngine) -> None:
    clauses, one_piece = "alpha bravo charlie, then delta echo", "alpha bravo charlie delta echo"

    assert found(engine, clauses, "clauses") == ["b", "a"]
    assert found(engine, one_piece, "clauses") == ["a", "b"]


@pytest.mark.requirement("REL-40")
def test_a_filter_or_a_smaller_limit_only_removes_hits(engine: SyncEngine) -> None:
    everything = engine.search("create the issue of a user", limit=30).hits

    within = engine.search("create the issue of a user", server="github", limit=30).hits
    first = engine.search("create the issue of a user", limit=2).hits

    assert within == tuple(hit for hit in everything if hit.entry.tool.server == "github")
    assert len(everything) > len(within) > 2
    assert first == everything[:2]


@pytest.mark.requirement("REL-48")
def test_words_and_phrases_of_a_group_of_the_owner_find_each_other(engine: SyncEngine) -> None:
    assert found(engine, "zorp", "own") == ["x"]
    assert found(engine, "PRs", "own") == ["y"]


@pytest.mark.requirement("REL-64")
@rows(
    ("query", "right"),
    [
        ("erase the old draft", "remove_draft"),
        ("please get rid of my webhook", "delete_webhook"),
        ("set up a webhook", "create_webhook"),
        ("switch on the lamp", "enable_lamp"),
        ("Lösch das Label", "delete_label"),
        ("ラベルを削除して", "delete_label"),
        ("what time is it in Tokyo", "get_current_time"),
        ("when the build fails, restart the build", "restart_build"),
        ("show me all my orders", "list_orders"),
        ("read the page https://example.org/changes", "read_page"),
    ],
)
def test_a_tool_that_does_what_is_asked_for_is_above_its_siblings(
    engine: SyncEngine, query: str, right: str
) -> None:
    assert found(engine, query, "siblings")[0] == right


@pytest.mark.requirement("REL-73")
@rows(
    ("query", "right"),
    [
        ("put the mail into my drafts, but don't send it", "create_draft"),
        ("archive the channel of the team without deleting it", "archive_channel"),
        ("show the files instead of deleting them", "list_files"),
        ("list the issues, not the archived ones", "list_all_issues"),
        ("zeig mir die Dateien, ohne sie zu löschen", "list_files"),
        ("lista los archivos sin borrarlos", "list_files"),
        ("liste les fichiers sans les supprimer", "list_files"),
        ("покажи файлы, не удаляй их", "list_files"),
        ("列出文件\uff0c不要删除", "list_files"),
    ],
)
def test_a_tool_that_does_what_is_not_wanted_is_not_first(
    engine: SyncEngine, query: str, right: str
) -> None:
    assert found(engine, query, "unwanted")[0] == right


@pytest.mark.requirement("REL-42")
def test_updates_and_a_restart_change_no_results(tmp_path: Path) -> None:
    before = {"a": ["create_issue", "list_issues"], "b": ["send_mail"], "c": ["zebra"]}
    after = {**before, "b": ["send_letter", "create_user"], "c": []}
    queries = ("create a user", "send mail", "list issues", "zebra")
    with opened(tmp_path, before, search=ANY) as engine:
        config = configure(tmp_path, after, search=ANY)
        engine.refresh()
        updated = [engine.search(query).hits for query in queries]
    with open_engine(config, data_dir=tmp_path / "data") as engine:
        restarted = [engine.search(query).hits for query in queries]
    (tmp_path / "fresh").mkdir()
    with opened(tmp_path / "fresh", after, search=ANY) as engine:
        fresh = [engine.search(query).hits for query in queries]

    assert ranked(updated) == ranked(restarted) == ranked(fresh)
    assert any(ranked(fresh))


def ranked(answers: list[tuple[Hit, ...]]) -> list[list[tuple[str, float]]]:
    return [[(str(hit.entry.key), hit.relevance) for hit in hits] for hits in answers]


@pytest.mark.requirement("REL-48")
def test_a_change_of_synonyms_applies_to_what_was_indexed_before(tmp_path: Path) -> None:
    catalogs = {"one": [tool("x", "a ticket")]}
    with opened(tmp_path, catalogs) as engine:
        assert found(engine, "zorp") == []
    config = configure(tmp_path, catalogs, search={"synonyms": SYNONYMS})
    with open_engine(config, data_dir=tmp_path / "data") as engine:
        assert found(engine, "zorp") == ["x"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explained")
    zebra = tool(
        "find_zebra",
        "Stripes and words; revoke any melody",
        inputSchema=schema(load={"type": "number", "description": "in kilos"}),
    )
    settings = {"one": {"tags": ["wild"], "description": "on safari"}}
    with opened(folder, {"one": [zebra]}, settings, search=ANY):
        return folder


@pytest.mark.requirement("REL-50")
@rows(
    ("query", "sentences", "missing"),
    [
        (
            "zebras stripes loading kilos",
            [
                "'zebras' is in its name",
                "'stripes' is in its description",
                "'loading' is in the names of its parameters",
                "'kilos' is in what its parameters are for",
            ],
            [],
        ),
        (
            "cancel a playlist on safari, quux",
            [
                "'cancel' means the same as 'revoke', in its description",
                "'playlist' is about the same as 'melody', in its description",
                "'safari' is in its server's description",
            ],
            ["quux"],
        ),
        ("zebrra", ["'zebrra' is a typo of 'zebra', in its name"], []),
        (
            "la cebra es un caballo y una palabra",
            ["'palabra' means 'words', in its description"],
            ["caballo"],
        ),
        ("find_zebra", ["the query is its name"], []),
        ("fnid_zebra", ["the query is its name with a typo"], []),
        ("quux wild", ["the query names its tags: wild"], ["quux"]),
        ("delete the zebras", ["the request asks for a change, and it only reads"], ["delete"]),
    ],
)
def test_an_explanation_says_what_each_word_adds_and_which_the_tool_lacks(
    home: Path, forked: Preloaded, query: str, sentences: list[str], missing: list[str]
) -> None:
    done = forked(["search", query, "--explain", "--json"], cwd=home, environ=environ_of(home))

    [result] = done.json["results"]
    shares = result["explanation"]["shares"]
    assert sum(share["adds"] for share in shares) == pytest.approx(result["relevance"])
    assert set(sentences) <= {share["text"] for share in shares}
    assert result["explanation"]["uncovered"] == missing
