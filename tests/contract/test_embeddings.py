"""Search by meaning as a program sees it: the engine, a real server, and the registry on disk."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from discovery_engine.config.settings import EmbeddingsSettings, SearchSettings, Settings
from discovery_engine.engine import open_engine
from discovery_engine.runtime.reindex_report import ReindexReport
from discovery_engine.runtime.semantic_search import WARM_UP
from discovery_engine.search.embedders import EmbeddingError
from tests.contract.discovery import Discovery
from tests.contract.test_database_vectors import with_pgvector
from tests.engines import Folder, good
from tests.forked import Preloaded
from tests.postgres import PostgresServer
from tests.unit.search.embedders.test_http import served

pytestmark = pytest.mark.anyio


def wanting(**fields: str) -> Settings:
    embeddings = EmbeddingsSettings(**{"provider": "hash", "timeout": 30.0, **fields})
    return Settings(servers=(good(),), search=SearchSettings(embeddings=embeddings))


@pytest.mark.requirement("EMB-2")
async def test_a_restart_compares_at_once_with_the_vectors_of_the_last_run(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with open_engine(wanting(), data_dir=tmp_path) as engine:
            await engine.refresh()
            await engine.wait_embedded(timeout=60)
            count = len(engine.view.catalog)
        async with open_engine(wanting(), data_dir=tmp_path) as engine:
            await engine.wait_embedded(timeout=60)
            vectors = engine.view.vectors

    assert vectors
    assert len(vectors) == count > 0


@pytest.mark.requirement("EMB-11")
async def test_an_address_where_nobody_is_costs_a_notice_and_no_answer(tmp_path: Path) -> None:
    settings = wanting(provider="http", url="http://127.0.0.1:9/v1")

    with anyio.fail_after(60):
        async with open_engine(settings, data_dir=tmp_path) as engine:
            await engine.refresh()
            await engine.wait_embedded(timeout=60)
            words = engine.view.search("echo a text")
            answer = await engine.search("echo a text")

    [notice] = [one for one in answer.notices if one.code == "EMBEDDING_ERROR"]
    assert "cannot be reached" in notice.message
    assert answer.hits == words.hits
    assert replace(answer, notices=()) == replace(words, notices=())


@pytest.mark.requirement("EMB-11")
def test_a_search_of_the_command_line_waits_no_longer_for_an_address_than_timeout(
    tmp_path: Path, forked: Preloaded
) -> None:
    is_over, is_in_time = threading.Event(), []

    def answer(_: dict[str, Any]) -> tuple[int, bytes]:
        is_in_time.append(is_over.wait(8))
        return 500, b""

    with served(answer) as (url, _):
        discovery = Discovery(tmp_path, forked)
        embeddings = json.dumps({"provider": "http", "url": url, "timeout": 0.01})
        discovery.configure(rules=f"search: {{embeddings: {embeddings}}}")
        discovery("list")
        done = discovery("search", "say something")
        is_over.set()

    assert "demo:echo" in done.out
    assert "found by words, not by meaning" in done.err
    assert "raise `search.embeddings.timeout`" in done.err
    assert all(is_in_time)


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


@pytest.mark.requirement("EMB-12")
async def test_a_folder_without_a_model_costs_a_notice_that_names_it(tmp_path: Path) -> None:
    settings = wanting(provider="onnx", path=str(tmp_path / "no_model"))

    with anyio.fail_after(60):
        async with open_engine(settings, data_dir=tmp_path) as engine:
            await engine.refresh()
            await engine.wait_embedded(timeout=60)
            answer = await engine.search("echo a text")

    [notice] = [one for one in answer.notices if one.code == "EMBEDDING_ERROR"]
    assert "no_model" in notice.message
    assert "search.embeddings.path" in notice.message


@pytest.mark.requirement("CAC-12")
@pytest.mark.parametrize("where", ["memory", "database"])
async def test_to_index_anew_replaces_the_vectors_of_all_tools(
    where: str, folder: Folder, postgres_server: PostgresServer
) -> None:
    asked: list[str] = []
    direction = 1.0

    def answer(request: dict[str, Any]) -> tuple[int, bytes]:
        asked.extend(request["input"])
        row = {"embedding": [direction, 1.0]}
        rows = [{**row, "index": place} for place in range(len(request["input"]))]
        return 200, json.dumps({"data": rows}).encode()

    with served(answer) as (url, _), anyio.fail_after(60):
        search = {"where": where, "embeddings": {"provider": "http", "url": url, "model": "m"}}
        environ = dict(os.environ)
        sections: dict[str, Any] = {"name": "team", "search": search}
        if where == "database":
            sections["registry"] = {"url": "${DATABASE_URL}"}
            environ["DATABASE_URL"] = postgres_server.url(with_pgvector(postgres_server))
        folder.write(good(), **sections)
        async with folder.open(environ=environ) as engine:
            await engine.refresh()
            await engine.wait_embedded(timeout=60)
            before = asked.copy()
            asked.clear()
            direction = -1.0
            report = await engine.reindex()
            answered = await engine.search("echo a text")
            found = engine.view.vectors
        made = asked.copy()
        async with folder.open(environ=environ) as engine:
            await engine.wait_embedded(timeout=60)
            stored = engine.view.vectors

    count = len(engine.view.catalog)
    assert (report.tools, report.vectors) == (count, count)
    assert set(before) - {WARM_UP} == set(made) - {"echo a text"}
    assert answered.hits
    for vectors in (found, stored):
        assert vectors
        [similar] = filter(None, [vectors.compare(((-(0.5**0.5), 0.5**0.5),))])
        assert similar.cosine(next(iter(engine.view.catalog)).tool) == pytest.approx(1.0, abs=0.01)


@pytest.mark.requirement("CAC-12")
async def test_to_index_anew_fails_with_the_embedder_and_needs_none(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with open_engine(wanting(provider="none"), data_dir=tmp_path) as engine:
            await engine.refresh()
            report = await engine.reindex()
            assert report == ReindexReport(len(engine.view.catalog), None)
        away = wanting(provider="http", url="http://127.0.0.1:9/v1")
        async with open_engine(away, data_dir=tmp_path) as engine:
            with pytest.raises(EmbeddingError, match="cannot be reached"):
                await engine.reindex()
            assert engine.view.search("echo a text").hits
