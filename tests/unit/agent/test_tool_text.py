from __future__ import annotations

import pytest
from msgspec.structs import replace

from discovery_engine.agent.tool_text import Detail, cut, tool_items, tool_text
from discovery_engine.tools.model import AppliedOverride
from tests.factories import make_entry
from tests.rows import rows
from tests.unit.server.fakes import object_schema

ENTRY = make_entry(
    "create_issue",
    description="Create an issue in a repository of yours, with labels if need be and a title.",
    tags=["write"],
    inputSchema=object_schema(
        ("title", "kind"),
        title={"type": "string", "description": "Its title"},
        kind={"enum": ["bug", "task"]},
        a={"type": "string"},
        b={"type": "integer", "default": 3},
        c={"type": "array", "items": {"type": "string"}},
    ),
)


@pytest.mark.requirement("BUD-4")
@rows(
    ("detail", "text"),
    [
        pytest.param(Detail.NAME, "x", id="name"),
        pytest.param(Detail.ARGUMENTS, "x(kind, title, …)", id="arguments"),
        pytest.param(
            Detail.LINE,
            "x(kind, title, a?, b?, …) - "
            "Create an issue in a repository of yours, with labels if… [write]",
            id="line",
        ),
        pytest.param(
            Detail.SIGNATURE,
            'x(kind: "bug"|"task", title: string, a?, b?, c?) - '
            "Create an issue in a repository of yours, with labels if need be and a title. [write]",
            id="signature",
        ),
        pytest.param(
            Detail.SCHEMA,
            "x(…) - "
            "Create an issue in a repository of yours, with labels if need be and a title. [write]"
            '\n  kind: "bug"|"task"\n  title: string - Its title'
            "\n  a?: string\n  b?: integer = 3\n  c?: string[]",
            id="schema",
        ),
    ],
)
def test_a_tool_has_a_text_for_each_detail(detail: Detail, text: str) -> None:
    assert tool_text(ENTRY, detail, name="x") == text


@rows("detail", Detail)
def test_the_note_is_part_of_every_detail(detail: Detail) -> None:
    assert "(disabled: by rule 1)" in tool_text(
        ENTRY, detail, name="x", note="(disabled: by rule 1)"
    )


@rows("detail", Detail)
def test_untrusted_text_fakes_no_line(detail: Detail) -> None:
    entry = make_entry(
        "x\ny",
        description="a\nb\u2028c",
        tags=["t\nu"],
        inputSchema=object_schema(("p\nq",), **{"p\nq": {"enum": ["\n\x1b[2J"]}}),
    )

    text = tool_text(entry, detail, name=entry.tool.name)

    assert len(text.splitlines()) == (2 if detail is Detail.SCHEMA else 1)
    assert "\x1b" not in text


def test_cut_is_at_a_word_and_marked() -> None:
    assert cut("one two three", 100) == "one two three"
    assert cut("one two, three", 10) == "one two…"
    assert cut("one", 0) == ""


@pytest.mark.requirement("BUD-7")
@rows("richest", Detail)
def test_kept_texts_are_those_of_the_tool_as_it_is_now(richest: Detail) -> None:
    schema = object_schema(("p",), p={"type": "string"})
    first = make_entry("x", description="First.", tags=["a"], inputSchema=schema)
    changed = [
        make_entry("x", description="Second.", tags=["a"], inputSchema=schema),
        make_entry("x", description="First.", tags=["b"], inputSchema=schema),
        make_entry("x", description="First.", tags=["a"]),
        replace(first, tool=replace(first.tool, overridden=AppliedOverride(description="Third."))),
    ]

    for entry, note in [(first, ""), *((other, "") for other in changed), (first, "(off)")] * 2:
        [item] = tool_items([entry], [note], richest)

        texts = [variant.text for variant in item.variants]
        assert texts == [
            tool_text(entry, detail, name="x", note=note) for detail in Detail if detail <= richest
        ]
