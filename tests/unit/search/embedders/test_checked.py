from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from discovery_engine.search.embedders import EmbeddingError, Vector
from discovery_engine.search.embedders.embedder import CheckedEmbedder
from tests.rows import rows

pytestmark = pytest.mark.anyio


class Giving:
    """An embedder that gives what it was told to."""

    model = "giving"

    def __init__(self, *vectors: Vector, dimensions: int | None = None) -> None:
        self._vectors = vectors
        self.dimensions = dimensions

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        return list(self._vectors)


async def test_a_vector_is_made_a_unit_long() -> None:
    [vector] = await CheckedEmbedder(Giving([3.0, 4.0])).embed(["x"])

    assert vector == [0.6, 0.8]


@pytest.mark.requirement("EMB-11")
@rows(
    "giving",
    [
        pytest.param(Giving([1.0, 0.0]), id="one is missing"),
        pytest.param(Giving([1.0, 0.0], [1.0]), id="two lengths"),
        pytest.param(Giving([1.0], [1.0], dimensions=2), id="not the length asked for"),
        pytest.param(Giving([], []), id="empty"),
        pytest.param(Giving([1.0, 0.0], [0.0, 0.0]), id="zeros"),
        pytest.param(Giving([1.0, 0.0], [math.nan, 1.0]), id="not a number"),
        pytest.param(Giving([1.0, 0.0], [math.inf, 1.0]), id="infinite"),
    ],
)
async def test_a_batch_with_a_bad_vector_is_refused_whole(giving: Giving) -> None:
    with pytest.raises(EmbeddingError):
        await CheckedEmbedder(giving).embed(["x", "y"])
