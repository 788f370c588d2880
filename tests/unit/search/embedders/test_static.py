"""The embedder of word vectors: that of four words which is made here, and the shipped one."""

from __future__ import annotations

from operator import mul
from pathlib import Path

import anyio
import numpy as np
import pytest

from discovery_engine.config.settings import EmbeddingsSettings
from discovery_engine.search.embedders import Vector, open_embedder
from discovery_engine.search.embedders.static import StaticEmbedder
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
