"""Search by meaning as a program sees it: the engine, a real server, and the registry on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from discovery_engine import Engine
from discovery_engine.sync import open_engine
from tests.catalogs import configure, environ_of, names, tool
from tests.contract.discovery import Discovery
from tests.engines import Folder, good
from tests.forked import Preloaded
from tests.rows import rows
from tests.unit.search.embedders.test_http import served

TOOLS: Any = {
    "s": [
        tool("create_issue", "Create an issue."),
        tool("play_song", "Play a song on the loudspeaker."),
        tool("send_mail", "Send a mail."),
    ]
}
Reply = tuple[int, bytes]


def meaning(**fields: Any) -> dict[str, Any]:
    return {"minConfidence": 0, "embeddings": {"timeout": 30, **fields}}


def all_alike(request: dict[str, Any]) -> Reply:
    rows = [{"index": n, "embedding": [1.0, 0.5]} for n in range(len(request["input"]))]
    return 200, json.dumps({"data": rows}).encode()


@pytest.mark.requirement("EMB-10")
def test_a_name_is_first_and_asks_nobody_and_other_requests_are_compared(tmp_path: Path) -> None:
    def towards_mail(request: dict[str, Any]) -> Reply:
        vectors = [[1.0, float("mail" in t or "letter" in t)] for t in request["input"]]
        rows = [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        return 200, json.dumps({"data": rows}).encode()

    with served(towards_mail) as (url, asked):
        config = configure(tmp_path, TOOLS, search=meaning(provider="http", url=url, model="m"))
        with open_engine(config, data_dir=tmp_path / "data") as engine:
            engine.refresh()
            engine.wait_embedded(timeout=60)
            before = len(asked)
            named = names(engine.search("play_song"))
            after = len(asked)
            found = engine.search("drop a letter").hits

    assert (named[0], before) == ("play_song", after)
    assert found[0].entry.tool.name == "send_mail"
    assert found[0].parts.meaning > 0


@pytest.mark.requirement("REL-30")
def test_a_server_is_told_from_its_twin_by_its_context_in_words_and_in_meaning(
    tmp_path: Path,
) -> None:
    def towards_europe(request: dict[str, Any]) -> Reply:
        vectors = [[1.0, float("EU" in t or "Swiss" in t)] for t in request["input"]]
        rows = [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        return 200, json.dumps({"data": rows}).encode()

    twins: Any = {name: [tool("create_order", "Create an order.")] for name in ("a", "b", "c")}
    own: Any = {"b": {"context": "Customers in the EU"}, "c": {"context": "Customers in Peru"}}
    with served(towards_europe) as (url, _):
        search = meaning(provider="http", url=url, model="m")
        config = configure(tmp_path, twins, own, search=search)
        with open_engine(config, data_dir=tmp_path / "data") as engine:
            engine.refresh()
            engine.wait_embedded(timeout=60)
            by_words = engine.search("create an order in peru").hits[0].entry.tool.server
            by_meaning = engine.search("create an order of a Swiss person").hits[0]

    assert by_words == "c"
    assert by_meaning.entry.tool.server == "b"


@pytest.mark.requirement("EMB-40")
def test_the_word_vectors_of_this_project_find_a_tool_by_meaning(tmp_path: Path) -> None:
    config = configure(tmp_path, TOOLS, search=meaning(provider="static"))
    with open_engine(config, data_dir=tmp_path / "data") as engine:
        engine.refresh()
        engine.wait_embedded(timeout=60)

        assert names(engine.search("I would like to hear some tunes"))[0] == "play_song"
        assert names(engine.search("Spiel mir ein Lied"))[0] == "play_song"


@pytest.mark.requirement("EMB-11")
@rows(
    ("embeddings", "reason"),
    [
        ({"provider": "http", "url": "http://127.0.0.1:9/v1"}, "cannot be reached"),
        ({"provider": "onnx", "path": "no_model"}, "search.embeddings.path"),
        ({"provider": "openai", "apiKey": "${NO_SUCH_KEY}"}, "NO_SUCH_KEY"),
        ({"provider": "discovery"}, "mcp-discovery-engine[model]"),
    ],
)
def test_an_embedder_that_cannot_be_used_costs_a_notice_and_no_answer(
    tmp_path: Path, embeddings: dict[str, str], reason: str
) -> None:
    config = configure(tmp_path, TOOLS, search=meaning(**embeddings))
    with open_engine(config, data_dir=tmp_path / "data") as engine:
        engine.refresh()
        engine.wait_embedded(timeout=60)
        words, answer = engine.view.search("mail a song"), engine.search("mail a song")

    [notice] = [one for one in answer.notices if one.code == "EMBEDDING_ERROR"]
    assert reason in notice.message
    assert replace(answer, notices=()) == replace(words, notices=())


@pytest.mark.requirement("EMB-18")
def test_a_refresh_says_why_tools_have_no_vectors(tmp_path: Path, forked: Preloaded) -> None:
    with served(lambda _: (401, b"")) as (url, _):
        discovery = Discovery(tmp_path, forked)
        embeddings = json.dumps({"provider": "http", "url": url})
        discovery.configure(rules=f"search: {{embeddings: {embeddings}}}")
        done = discovery("refresh")
        [notice] = discovery("refresh", "--json").json["notices"]

    assert done.code == 0
    assert "the embedder answered with status 401 (check `search.embeddings.apiKey`)" in done.err
    assert "then `discovery refresh` makes what is missing" in done.err
    assert "status 401" in notice["message"]


@pytest.mark.requirement("EMB-13")
def test_a_configuration_that_was_found_chooses_no_embedder(
    tmp_path: Path, forked: Preloaded
) -> None:
    with served(all_alike) as (url, asked):
        configure(tmp_path, TOOLS, search=meaning(provider="http", url=url, model="m"))
        environ = {**environ_of(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "home")}
        del environ["DISCOVERY_CONFIG"]
        forked(["review", "servers", "--yes"], cwd=tmp_path, environ=environ)
        forked(["refresh"], cwd=tmp_path, environ=environ)
        done = forked(["search", "send a letter by mail"], cwd=tmp_path, environ=environ)

    assert "send_mail" in done.out
    assert asked == []


@pytest.mark.anyio
@pytest.mark.requirement("CAC-12")
async def test_to_index_anew_replaces_the_vectors_of_all_tools(folder: Folder) -> None:
    asked: list[str] = []
    direction = 1.0

    def answer(request: dict[str, Any]) -> tuple[int, bytes]:
        asked.extend(request["input"])
        row = {"embedding": [direction, 1.0]}
        rows = [{**row, "index": place} for place in range(len(request["input"]))]
        return 200, json.dumps({"data": rows}).encode()

    with served(answer) as (url, _), anyio.fail_after(60):
        embeddings = {"provider": "http", "url": url, "model": "m"}
        folder.write(good(), search={"embeddings": embeddings})
        async with folder.open() as engine:
            await engine.refresh()
            await engine.wait_embedded(timeout=60)
            before = asked.copy()
            asked.clear()
            direction = -1.0
            report = await engine.reindex()
            answered = await engine.search("echo a text")
            found = compared(engine)
        made = asked.copy()
        async with folder.open() as engine:
            await engine.wait_embedded(timeout=60)
            stored = compared(engine)

    count = len(engine.view.catalog)
    assert (report.tools, report.vectors) == (count, count)
    assert set(made) - {"echo a text"} < set(before)
    assert answered.hits
    assert (found, stored) == pytest.approx((1.0, 1.0), abs=0.01)


def compared(engine: Engine) -> float:
    """How near the first tool is to the vector that the embedder gives since its change."""
    assert engine.view.vectors
    similar = engine.view.vectors.compare(((-(0.5**0.5), 0.5**0.5),))
    assert similar
    return similar.cosine(next(iter(engine.view.catalog)).tool)
