"""Examples of what a cut leaves, for each kind of content; the laws are in `test_cutting`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.results.cutting import cut_result, head_and_tail, is_small
from discovery_engine.agent.results.json_cutting import Cut, prune, sliced
from discovery_engine.agent.results.presentation import _with_heads_and_tails
from discovery_engine.config.settings import RemoteTransport, StdioTransport
from discovery_engine.runtime.call_preview import CallPreview
from discovery_engine.runtime.result_store import ResultNotFoundError, ResultStore
from tests.rows import rows

pytestmark = pytest.mark.requirement("RSL-1")


def note(cuts: Sequence[Cut]) -> str:
    return f"{len(cuts)} cuts"


def cut(*content: JSONObject, tokens: int = 100, **more: Any) -> tuple[JSONObject, list[Cut]]:
    made = cut_result({"content": list(content), **more}, tokens, note, reserve=10)
    return made.result, list(made.cuts)


def resource(**fields: str) -> JSONObject:
    return {"type": "resource", "resource": {"uri": "x:y", **fields}}


def test_a_long_text_of_a_resource_keeps_its_beginning() -> None:
    made, cuts = cut(resource(text="word " * 400))

    kept = made["content"][0]["resource"]["text"]
    assert kept
    assert ("word " * 400).startswith(kept)
    assert cuts == [Cut("content[0].resource.text", len(kept), 2000, "characters")]


@rows(
    ("block", "path"),
    [
        (resource(blob="A" * 4000, mimeType="image/png"), "content[0].resource.blob"),
        ({"type": "image", "mimeType": "image/png", "data": "A" * 4000}, "content[0].data"),
    ],
    ids=["resource", "image"],
)
def test_binary_content_becomes_a_line_that_names_it(block: JSONObject, path: str) -> None:
    made, cuts = cut(block)

    assert "image/png" in made["content"][0]["text"]
    assert cuts == [Cut(path, 0, 4000, "characters")]


def test_a_resource_whose_frame_alone_is_too_long_becomes_a_line() -> None:
    made, cuts = cut(resource(text="", name="n" * 4000))

    assert made["content"][0]["type"] == "text"
    assert [one.unit for one in cuts] == ["bytes"]


def test_of_too_many_blocks_the_first_are_kept() -> None:
    blocks = [{"type": "text", "text": f"block {number}"} for number in range(400)]

    made, cuts = cut(*blocks)

    assert made["content"][0] == blocks[0]
    assert cuts[-1] == Cut("content", len(made["content"]) - 1, 400, "items")


def test_structured_content_loses_items_and_text_but_no_member() -> None:
    rows = [{"id": number, "name": f"row {number}"} for number in range(300)]

    made, cuts = cut(structuredContent={"rows": rows, "note": "n" * 3000, "none": None})

    structured = made["structuredContent"]
    assert structured["rows"] == rows[: len(structured["rows"])]
    assert structured["note"] + "n" * (3000 - len(structured["note"])) == "n" * 3000
    assert structured["none"] is None
    assert {one.path for one in cuts} == {"structuredContent.rows", "structuredContent.note"}


def test_a_list_keeps_the_beginning_of_an_item_that_does_not_fit() -> None:
    made = prune([{"text": "word " * 500}, 2, 3], 60, "")

    assert made.value[0]["text"].startswith("word ")
    assert Cut("", 1, 3, "items") in made.cuts


def test_what_has_no_room_at_all_is_null_and_named_by_its_bytes() -> None:
    assert prune({"a": [1, 2]}, 0, "x") == prune({"a": [1, 2]}, -1, "x")
    assert prune({"a": [1, 2]}, 0, "x").cuts == (Cut("x", 0, 11, "bytes"),)


@rows("tokens", range(1, 60, 3))
def test_deep_and_wide_json_is_cut_at_every_size(tokens: int) -> None:
    value: Any = {"leaf": "é" * 300, "list": ["x" * 50] * 9, "number": 10**30}
    for depth in range(20):
        value = {f"level {depth}": value, "side": [1, 2, 3], "text": "t" * 40}

    made = prune(value, tokens, "")

    assert made.cuts
    assert made.value is None or set(made.value) <= set(value)


def test_a_text_with_escapes_is_cut_between_them() -> None:
    made = prune("\x01" * 400, 50, "t")

    assert made.value == "\x01" * len(made.value)
    assert 0 < len(made.value) < 400


def test_the_rest_of_a_list_is_addressed_by_a_slice() -> None:
    assert sliced("@", 3) == "[3:]"
    assert sliced("items", 3) == "items[3:]"
    assert sliced("items[2:]", 3) == "items[5:]"


def test_a_result_of_many_small_values_is_not_taken_for_small() -> None:
    assert not is_small({"content": [[1] for _ in range(2000)]}, 10**6)
    assert not is_small({"content": [{"k" * 50: 1} for _ in range(99)]}, 100)
    assert is_small({"content": [{"type": "text", "text": "hi"}]}, 1000)


@pytest.mark.requirement("RSL-8")
def test_the_plain_form_keeps_beginning_and_end_and_leaves_out_what_is_no_text() -> None:
    content = [
        {"type": "text", "text": "a" * 3000},
        {"type": "image", "mimeType": "image/png", "data": "A" * 3000},
    ]
    result = {"content": content, "structuredContent": {"a": "b" * 3000}}

    made = _with_heads_and_tails(result, 100, 400)

    assert len(made["content"][0]["text"]) == 400
    assert made["content"][1]["type"] == "text"
    assert "structuredContent" not in made
    assert _with_heads_and_tails({"content": []}, 100, 400) == {"content": []}
    assert head_and_tail("short", 10, marker="…", tail=2) == "short"
    assert head_and_tail("a" * 20, 5, marker=" cut ", tail=3) == "aaaaa cut"


def test_results_are_dropped_when_their_client_leaves_and_when_their_files_are_gone(
    tmp_path: Path,
) -> None:
    store = ResultStore(tmp_path, clock=time.monotonic)
    handles = [store.put(b"{}", owner=owner, path="") or "" for owner in ("a", "b")]

    store.forget("a")

    assert store.get(handles[1], owner="b")[1] == b"{}"
    with pytest.raises(ResultNotFoundError):
        store.get(handles[0], owner="a")
    for file in tmp_path.rglob("*"):
        if file.is_file():
            file.unlink()
    with pytest.raises(ResultNotFoundError):
        store.get(handles[1], owner="b")
    store.close()
    assert store.put(b"{}", owner="a", path="") is None


@pytest.mark.requirement("RSL-13")
@rows(
    ("transport", "place", "target"),
    [
        (StdioTransport(command="prog", args=("a",)), "a program on this machine", "prog a"),
        (RemoteTransport(url="https://x.example/mcp"), "x.example", "https://x.example/mcp"),
        (None, "a program on this machine", ""),
    ],
    ids=["program", "address", "unknown"],
)
def test_a_preview_names_the_place_to_an_agent_and_the_target_to_its_owner(
    transport: Any, place: str, target: str
) -> None:
    preview = CallPreview(None, {}, {}, transport)  # type: ignore[arg-type]

    assert (preview.place, preview.target) == (place, target)
