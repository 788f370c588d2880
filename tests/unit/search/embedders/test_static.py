"""The embedder of word vectors: that of four words which is made here, and the shipped one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from discovery_engine.search.embedders import Vector
from discovery_engine.search.embedders.local import StaticEmbedder

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
