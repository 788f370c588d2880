"""The embedder of word vectors: that of four words which is made here, and the shipped one."""

from __future__ import annotations

import hashlib
import json
from operator import mul
from pathlib import Path

import anyio
import numpy as np
import pytest

from discovery_engine.config.settings import EmbeddingsSettings
from discovery_engine.search.embedders import Vector, open_embedder
from discovery_engine.search.embedders.static import FILE, StaticEmbedder, pieces
from discovery_engine.secrets.resolver import EnvironmentResolver

pytestmark = pytest.mark.anyio

WORDS = {"north": [0, 2], "east": [4, 0], "##wards": [0, 1], "cafe": [1, 1]}


@pytest.fixture
def embedder(tmp_path: Path) -> StaticEmbedder:
    rows = np.array([*WORDS.values()], np.int8)
    joined = np.frombuffer("\n".join(WORDS).encode(), np.uint8)
    scales = np.array([0.5, 0.25, 1, 1], np.float32)
    np.savez(tmp_path / "words.npz", pieces=joined, rows=rows, scales=scales)
    return StaticEmbedder(tmp_path / "words.npz")


@pytest.mark.requirement("EMB-40")
@pytest.mark.parametrize(
    ("text", "vector"),
    [
        pytest.param("north", [0, 1], id="a word"),
        pytest.param("East, north_east!", [2, 1], id="a text"),
        pytest.param("northwards", [0, 2], id="pieces"),
        pytest.param("CAFÉ", [1, 1], id="accents"),
        pytest.param("eastern north", [0, 1], id="a word that is not known"),
        pytest.param("über 99", [2, 3], id="none that is known"),
    ],
)
async def test_a_text_is_the_sum_of_its_words(
    embedder: StaticEmbedder, text: str, vector: Vector
) -> None:
    assert await embedder.embed([text]) == [pytest.approx(vector)]
    assert embedder.dimensions == 2


async def test_a_long_word_costs_no_more_than_a_short_one() -> None:
    vocabulary = {"a": 0, "##a": 1}

    assert not [*pieces("a" * 100_000, vocabulary)]
    assert len([*pieces("a" * 40, vocabulary)]) == 40


@pytest.mark.requirement("EMB-40")
async def test_other_word_vectors_have_another_name(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(name)

    assert StaticEmbedder(tmp_path / "a").model != StaticEmbedder(tmp_path / "b").model


@pytest.mark.requirement("EMB-40")
async def test_the_shipped_word_vectors_know_words_that_mean_the_same() -> None:
    with anyio.fail_after(60):
        async with open_embedder(
            EmbeddingsSettings("static"),
            secrets=EnvironmentResolver({}),
            base_dir=Path(),
            data=Path(),
        ) as embedder:
            asked, right, wrong = await embedder.embed(
                ["what is the weather like", "get forecast for a city", "delete a database table"]
            )

    assert cosine(asked, right) > cosine(asked, wrong) + 0.2


def cosine(one: Vector, other: Vector) -> float:
    return sum(map(mul, one, other))


@pytest.mark.requirement("EMB-40")
def test_the_manifest_describes_the_word_vectors_that_are_shipped() -> None:
    manifest = json.loads(FILE.with_suffix(".json").read_text(encoding="utf-8"))

    assert manifest["file"] == hashlib.sha256(FILE.read_bytes()).hexdigest()
    assert FILE.stat().st_size < 10_000_000
