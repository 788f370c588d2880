from __future__ import annotations

import pytest

from discovery_engine.search.embedders.checked import CheckedEmbedder
from discovery_engine.search.embedders.hash import HashEmbedder

pytestmark = pytest.mark.anyio


async def test_texts_that_share_words_are_nearer() -> None:
    embedder = CheckedEmbedder(HashEmbedder())

    query, near, far = await embedder.embed(["create issues", "create an issue", "play a song"])

    assert _product(query, near) > _product(query, far)


async def test_every_text_has_a_vector_of_the_length_asked_for() -> None:
    embedder = HashEmbedder(16)

    vectors = await CheckedEmbedder(embedder).embed(["", "!", "a", "搜索"])

    assert {len(vector) for vector in vectors} == {16}
    assert embedder.model == "hash:16"


def _product(one, other) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
