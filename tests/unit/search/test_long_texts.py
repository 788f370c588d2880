"""Texts of strangers may be long, and made to be slow to read."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from discovery_engine.config.settings import SearchSettings
from discovery_engine.search.searcher import build_searcher
from tests.factories import make_catalog, make_part, make_tool
from tests.rows import rows

LENGTH = 2_000  # characters
TEXTS = [
    pytest.param(lambda length: "A" * length, id="capitals"),
    pytest.param(lambda length: f"send{' ' * length}mail", id="spaces"),
    pytest.param(lambda length: f"send{'.' * length}mail", id="full stops"),
    pytest.param(lambda length: f"ich möchte {'r' * length}", id="a word of German without end"),
    pytest.param(lambda length: "搜索文件" * (length // 4), id="no space at all"),
]


def seconds(work: Callable[[str], object], text: str) -> float:
    """The CPU time that `work` takes, without what disturbs it."""
    found = []
    for _ in range(5):
        begun = time.process_time()
        work(text)
        found.append(time.process_time() - begun)
    return min(found)


def search(text: str) -> object:
    searcher = build_searcher(make_catalog(make_part("a", "send_mail")), SearchSettings())
    return searcher.search(searcher.analyze(text), limit=5, accepts=lambda _: True)


def index(text: str) -> object:
    tool = make_tool("x", "a", description=text)
    return build_searcher(make_catalog(make_part("a", tool)), SearchSettings())


@pytest.mark.thorough
@rows("work", [search, index])
@rows("text", TEXTS)
def test_a_long_text_takes_time_that_grows_with_its_length_only(
    text: Callable[[int], str], work: Callable[[str], object]
) -> None:
    work(text(1))  # loads what is loaded once

    assert seconds(work, text(8 * LENGTH)) < 24 * seconds(work, text(LENGTH))
