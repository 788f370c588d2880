"""Which tools a query finds, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from discovery_engine import Engine, Hit
from discovery_engine.sync import SyncEngine, open_engine
from tests.catalogs import JSONObject, configure, environ_of, names, opened, schema, tool
from tests.engines import Folder, good
from tests.forked import Preloaded
from tests.rows import rows
from tests.servers.programs import eventually

pytestmark = pytest.mark.anyio

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
def test_the_weights_are_those_of_the_owner_and_a_name_is_first_whatever_they_are(tmp_path) -> None:
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


@pytest.mark.requirement("REL-12")
@rows("query", ["create_isue", "craete_issue", "create_issues", "github:creat_issue"])
def test_a_mistyped_name_is_first(engine: SyncEngine, query: str) -> None:
    first, *_ = engine.search(query, server="github").hits

    assert first.entry.tool.name == "create_issue"
    assert first.parts.exact == 0


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


@pytest.mark.requirement("REL-31")
def test_a_sure_match_for_two_tasks_has_the_tools_of_both(tmp_path: Path) -> None:
    refund = tool("refund_payment", "Refund a payment to a customer")
    order = tool("place_order", "Place an order of a product")
    with opened(tmp_path, {"shop": [refund, order]}, SETTINGS) as engine:
        answer = engine.search("refund a payment and order a product")

    assert names(answer) == ["refund_payment", "place_order"]


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


@pytest.mark.requirement("REL-64")
@rows("query", ["size of a database in Redis", "database of Redis, its size"])
def test_a_tool_of_the_server_that_is_named_is_above_one_with_more_words_of_the_request(
    tmp_path: Path, query: str
) -> None:
    catalogs: dict[str, list[JSONObject | str]] = {
        "mongodb": [tool("get_size", "Get the size of a database or of a collection.")],
        "redis": [tool("dbsize", "Count the keys of a database.")],
    }
    with opened(tmp_path, catalogs, search=ANY) as engine:
        found = [hit.entry.key.server for hit in engine.search(query).hits]

    assert found == ["redis", "mongodb"]


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
                "'safari' is in what describes its server",
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


LEARNING = {"search": {"learn": True, "minConfidence": 0}}
MOST = 0.02


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


async def use(engine: Engine, tool: str = "echo", **arguments: Any) -> None:
    """Search for a tool, and execute it."""
    await engine.search(tool)
    await engine.execute("good", tool, arguments)


async def counted(engine: Engine, *tools: str) -> None:
    """Wait until just these have been counted: no call waits for that."""
    await eventually(lambda: {str(key) for key in engine.view.usage} == {*tools})


@pytest.mark.requirement("REL-53")
async def test_of_two_that_fit_alike_the_used_one_is_first(folder: Folder) -> None:
    folder.write(good("a"), good(), **LEARNING)
    async with folder.open() as engine:
        await engine.refresh()
        before = (await engine.search("process number pid of it")).hits
        await engine.search("pid")
        await engine.execute("good", "pid", {})
        await counted(engine, "good:pid")
        after = (await engine.search("process number pid of it")).hits

    assert [str(hit.entry.key) for hit in before[:2]] == ["a:pid", "good:pid"]
    assert [str(hit.entry.key) for hit in after[:2]] == ["good:pid", "a:pid"]
    assert 0 < after[0].parts.usage <= MOST
    assert after[0].relevance == pytest.approx(before[0].relevance + after[0].parts.usage)


@pytest.mark.requirement("REL-55")
async def test_nothing_is_counted_or_counts_unless_it_is_wanted(folder: Folder) -> None:
    folder.write(good())
    async with folder.open() as engine:
        await engine.refresh()
        await use(engine, "pid")
        folder.write(good(), **LEARNING)
        await engine.reload()
        await use(engine, text="x")
        await counted(engine, "good:echo")
        folder.write(good())
        await engine.reload()

        assert engine.view.usage == {}


# The share of requests whose first hit is right; a little below what is reached.
FLOORS = {
    "german": 0.80,
    "german_own": 0.83,
    "french": 0.88,
    "french_own": 0.91,
    "spanish": 0.92,
    "spanish_own": 0.66,
    "chinese": 0.92,
    "chinese_own": 0.75,
    "german_at_work": 0.75,
    "french_at_work": 0.93,
    "spanish_at_work": 0.87,
    "chinese_at_work": 0.87,
    "portuguese": 0.93,
    "italian": 0.93,
    "dutch": 0.90,
    "russian": 0.85,
    "japanese": 0.93,
    "korean": 0.93,
    "names": 0.90,
}
ENGLISH = [
    tool("delete_file", "Remove a file"),
    tool("create_issue", "Open a new issue"),
    tool("weather", "The forecast for a city"),
    tool("cities", "Angels of a place, weathered"),
]
FOREIGN = {
    "german": ["Löscht eine Datei", "Zeigt das Wetter"],
    "french": ["Supprime un fichier", "Affiche la météo"],
    "spanish": ["Borra un archivo", "Muestra el tiempo"],
    "chinese": ["删除一个文件", "查看天气"],
    "portuguese": ["Exclui um arquivo", "Mostra a previsão do tempo"],
    "italian": ["Elimina uno dei file", "Mostra le previsioni"],
    "dutch": ["Verwijdert een bestand", "Toont het weer"],
    "russian": ["Удаляет файл", "Показывает погоду"],
    "japanese": ["ファイルを削除します", "天気を表示します"],
    "korean": ["파일을 삭제합니다", "날씨를 보여줍니다"],
}


@pytest.fixture(scope="module")
def multilingual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SyncEngine]:
    foreign = {
        language: [tool("x", delete), tool("y", weather)]
        for language, (delete, weather) in FOREIGN.items()
    }
    folder = tmp_path_factory.mktemp("languages")
    with opened(folder, {"english": ENGLISH, **foreign}, search=ANY) as multilingual:
        yield multilingual


@pytest.mark.requirement("REL-45")
@rows(
    "query",
    [
        "Datei löschen",
        "dateien loeschen",
        "Dateilöschung",
        "supprimez le fichier",
        "borrar un fichero",
        "删除文件",
        "刪除檔案",
        "exclua um arquivo",
        "eliminare il file",
        "verwijder een bestand",
        "удалите файлы",
        "ファイルを消してください",
        "ﾌｧｲﾙ削除",
        "파일을 지워줘",
    ],
)
def test_a_request_in_another_language_finds_english_tools(
    multilingual: SyncEngine, query: str
) -> None:
    assert names(multilingual.search(query, server="english"))[0] == "delete_file"


@pytest.mark.requirement("REL-45")
@rows("language", FOREIGN)
def test_an_english_request_finds_tools_of_another_language(
    multilingual: SyncEngine, language: str
) -> None:
    assert names(multilingual.search("delete a file", server=language))[0] == "x"


@pytest.mark.thorough
@pytest.mark.requirement("REL-47")
def test_labelled_requests_find_their_tools(tmp_path: Path) -> None:
    labelled = yaml.safe_load(Path(__file__).with_name("languages.yaml").read_text("utf-8"))
    described = {
        server: [tool(name, text) for name, text in tools.items()]
        for server, tools in labelled["servers"].items()
    }
    named = labelled["names"]
    (tmp_path / "names").mkdir()
    with opened(tmp_path, described, search=ANY) as multilingual:
        shares = {
            name: right_first(multilingual, rows) for name, rows in labelled["queries"].items()
        }
    with opened(tmp_path / "names", named["servers"], search=ANY) as multilingual:
        shares["names"] = right_first(multilingual, named["queries"])

    assert shares.keys() == FLOORS.keys()
    assert {name: share for name, share in shares.items() if share < FLOORS[name]} == {}


# Of twenty requests each; before the words of everyday life were added, 4 to 8 were right.
SPOKEN = {
    "en": 18, "de": 20, "fr": 19, "es": 18, "it": 15, "pt": 18, "nl": 19, "ru": 18, "ja": 20,
    "zh": 20, "ko": 19,
}  # fmt: skip


@pytest.mark.requirement("REL-47")
def test_what_people_say_most_finds_its_tool(tmp_path: Path) -> None:
    spoken = yaml.safe_load(Path(__file__).with_name("idioms.yaml").read_text("utf-8"))
    catalogs = {
        server: [tool(name, text) for name, text in tools.items()]
        for server, tools in spoken["servers"].items()
    }
    right = dict.fromkeys(SPOKEN, 0)
    with opened(tmp_path, catalogs) as engine:
        for group in spoken["requests"]:
            for language in group.keys() & SPOKEN.keys():
                hit = next(iter(engine.search(group[language]).hits), None)
                right[language] += hit is not None and (
                    f"{hit.entry.tool.server}.{hit.entry.tool.name}" in group["tools"]
                )

    assert {code: n for code, n in right.items() if n < SPOKEN[code]} == {}


def right_first(multilingual: SyncEngine, requests: list[dict[str, str]]) -> float:
    """The share of requests whose first hit is right."""
    found = [next(iter(multilingual.search(one["query"]).hits), None) for one in requests]
    right = [
        hit is not None and f"{hit.entry.tool.server}/{hit.entry.tool.name}" == one["tool"]
        for hit, one in zip(found, requests, strict=True)
    ]
    return sum(right) / len(right)
