"""`search.reranker`: an address orders the first tools of an answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from discovery_engine import SearchAnswer
from tests.catalogs import configure, environ_of, names, opened, tool
from tests.forked import Preloaded
from tests.servers.chat_endpoint import Answer, chat_endpoint

TOOLS = {
    "tracker": [
        tool("create_issue", "Creates an issue in a project."),
        tool("close_issue", "Closes an issue of a project."),
        tool("list_issues", "Lists issues of a project."),
        tool("purge_issues", "Deletes all issues of a project."),
    ]
}
HIDDEN = [{"pattern": "purge_*", "enabled": False}]
REQUEST = "issue of a project"


def ranking(rows: list[Any]) -> Answer:
    return Answer(json.dumps({"results": rows}).encode())


def falling(request: dict[str, Any]) -> Answer:
    """The documents in the opposite order."""
    count = len(request["documents"])
    return ranking([{"index": n, "relevance_score": n / count} for n in range(count)])


def search(folder: Path, url: str = "", timeout: float = 5) -> SearchAnswer:
    reranker = {"reranker": {"url": url, "model": "m", "timeout": timeout}} if url else {}
    folder.mkdir(exist_ok=True)
    with opened(folder, TOOLS, toolRules=HIDDEN, search=reranker) as engine:
        return engine.search(REQUEST)


@pytest.mark.requirement("EMB-50")
def test_the_order_of_a_reranker_takes_the_place_of_the_first(
    tmp_path: Path, forked: Preloaded
) -> None:
    plain = search(tmp_path / "plain")
    with chat_endpoint(falling) as (url, asked):
        ranked = search(tmp_path / "ranked", url)
        words = "search", REQUEST, "--json"
        done = forked(words, cwd=tmp_path, environ=environ_of(tmp_path / "ranked"))

    assert [hit["tool"] for hit in done.json["results"]] == names(ranked)
    assert names(ranked) == names(plain)[::-1]
    assert len(names(plain)) > 1
    assert [hit.relevance for hit in ranked.hits] == [hit.relevance for hit in plain.hits]
    assert ranked.notices == plain.notices
    assert (asked[0].path, asked[0].body["query"]) == ("/v1/rerank", REQUEST)
    assert not any("purge" in document for document in asked[0].body["documents"])


REPLIES: dict[str, Callable[[dict[str, Any]], Answer]] = {
    "an error": lambda _: Answer(b"{}", status=500),
    "no JSON": lambda _: Answer(b"<html>"),
    "another form": lambda _: Answer(b"[1]"),
    "a foreign place": lambda _: ranking([{"index": 99, "relevance_score": 1.0}]),
    "a place twice": lambda _: ranking([{"index": 0, "relevance_score": 1.0}] * 2),
    "a place that is no number": lambda _: ranking([{"index": [0], "relevance_score": 1.0}]),
    "no number": lambda _: ranking([{"index": 0, "relevance_score": float("nan")}]),
    "nothing": lambda _: ranking([]),
    "too much": lambda _: Answer(b" " * 2**21),
    "half": lambda request: Answer(falling(request).content, is_cut=True),
}


@pytest.mark.requirement("EMB-50")
def test_with_an_unusable_reranker_the_first_order_is_sent(
    tmp_path: Path, forked: Preloaded
) -> None:
    plain = search(tmp_path / "plain")
    changed = {}
    for name, reply in REPLIES.items():
        with chat_endpoint(reply) as (url, asked):
            answer = search(tmp_path / name, url)
        if names(answer) != names(plain) or answer.notices != plain.notices or len(asked) != 1:
            changed[name] = names(answer)
    over = threading.Event()
    with chat_endpoint(lambda request: over.wait() and falling(request)) as (url, _):
        late = search(tmp_path / "late", url, timeout=0.05)
        configure(tmp_path / "late", TOOLS, search={"reranker": {"url": url, "timeout": 0.05}})
        done = forked(["doctor", "--json"], cwd=tmp_path, environ=environ_of(tmp_path / "late"))
        over.set()

    assert changed == {}
    assert names(late) == names(plain)
    assert "RERANKER_ERROR" in [check["code"] for check in done.json["checks"]]
