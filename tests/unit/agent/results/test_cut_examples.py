"""Examples of what a cut leaves, for each kind of content; the laws are in `test_cutting`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.json_cutting import Cut, prune
from discovery_engine.agent.results.cutting import cut_result
from tests.rows import rows


def note(cuts: Sequence[Cut]) -> str:
    return f"{len(cuts)} cuts"


def cut(*content: JSONObject, tokens: int = 100, **more: Any) -> tuple[JSONObject, list[Cut]]:
    made = cut_result({"content": list(content), **more}, tokens, note, reserve=10)
    return made.result, list(made.cuts)


def resource(**fields: str) -> JSONObject:
    return {"type": "resource", "resource": {"uri": "x:y", **fields}}


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


def test_structured_content_loses_items_and_text_but_no_member() -> None:
    rows = [{"id": number, "name": f"row {number}"} for number in range(300)]

    made, cuts = cut(structuredContent={"rows": rows, "note": "n" * 3000, "none": None})

    structured = made["structuredContent"]
    assert structured["rows"] == rows[: len(structured["rows"])]
    assert structured["note"] + "n" * (3000 - len(structured["note"])) == "n" * 3000
    assert structured["none"] is None
    assert {one.path for one in cuts} == {"structuredContent.rows", "structuredContent.note"}


@rows("tokens", range(1, 60, 3))
def test_deep_and_wide_json_is_cut_at_every_size(tokens: int) -> None:
    value: Any = {"leaf": "é" * 300, "list": ["x" * 50] * 9, "number": 10**30}
    for depth in range(20):
        value = {f"level {depth}": value, "side": [1, 2, 3], "text": "t" * 40}

    made = prune(value, tokens, "")

    assert made.cuts
    assert made.value is None or set(made.value) <= set(value)
