"""Search by meaning as a program sees it: the engine, a real server, and the registry on disk."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from discovery_engine.config.settings import EmbeddingsSettings, SearchSettings, Settings
from discovery_engine.engine import open_engine
from tests.engines import good

pytestmark = pytest.mark.anyio


def wanting(**fields: str) -> Settings:
    embeddings = EmbeddingsSettings(**{"provider": "hash", "timeout": 5.0, **fields})
    return Settings(servers=(good(),), search=SearchSettings(embeddings=embeddings))


@pytest.mark.requirement("EMB-2")
async def test_a_restart_compares_at_once_with_the_vectors_of_the_last_run(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        async with open_engine(wanting(), data_dir=tmp_path) as engine:
            await engine.refresh()
            await engine.wait_embedded(timeout=20)
            count = len(engine.view.catalog)
        async with open_engine(wanting(), data_dir=tmp_path) as engine:
            await engine.wait_embedded(timeout=20)
            vectors = engine.view.vectors

    assert vectors
    assert len(vectors) == count > 0


@pytest.mark.requirement("EMB-11")
async def test_an_address_where_nobody_is_costs_a_notice_and_no_answer(tmp_path: Path) -> None:
    settings = wanting(provider="http", url="http://127.0.0.1:9/v1")

    with anyio.fail_after(30):
        async with open_engine(settings, data_dir=tmp_path) as engine:
            await engine.refresh()
            await engine.wait_embedded(timeout=20)
            words = engine.view.search("echo a text")
            answer = await engine.search("echo a text")

    [notice] = [one for one in answer.notices if one.code == "EMBEDDING_ERROR"]
    assert "cannot be reached" in notice.message
    assert answer.hits == words.hits
    assert replace(answer, notices=()) == replace(words, notices=())


@pytest.mark.requirement("EMB-12")
async def test_a_folder_without_a_model_costs_a_notice_that_names_it(tmp_path: Path) -> None:
    settings = wanting(provider="onnx", path=str(tmp_path / "no_model"))

    with anyio.fail_after(30):
        async with open_engine(settings, data_dir=tmp_path) as engine:
            await engine.refresh()
            await engine.wait_embedded(timeout=20)
            answer = await engine.search("echo a text")

    [notice] = [one for one in answer.notices if one.code == "EMBEDDING_ERROR"]
    assert "no_model" in notice.message
    assert "search.embeddings.path" in notice.message
