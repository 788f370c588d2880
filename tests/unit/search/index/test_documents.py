from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.index.documents import MAX_IMPACT, Document, build_documents
from discovery_engine.search.text.lexicon import default_lexicon
from tests.factories import make_tool


def document(*, name: str = "x", server: str = "s", about: str = "", **fields) -> Document:
    [made] = build_documents([make_tool(name, server, **fields)], server, about, default_lexicon())
    return made


def test_every_field_is_indexed() -> None:
    schema = {
        "properties": {
            "tree": {"description": "its leaf", "enum": ["root", 7]},
            "odd": True,
        }
    }

    made = document(name="yak", server="zoo", about="zebra", description="fox", inputSchema=schema)

    assert {"yak", "zoo", "zebra", "fox", "tree", "leaf", "root", "odd"} <= made.keys()


def test_fields_weigh_as_much_as_they_say_about_a_tool() -> None:
    filler = "jumps quickly above eleven lazy dogs behind the garden wall near our house"
    schema = {"properties": {"tree": {"description": f"leaf {filler}"}}}

    made = document(
        name="yak",
        server="zoo",
        about=f"zebra {filler}",
        description=f"fox {filler}",
        inputSchema=schema,
    )

    assert made["yak"] > made["zoo"] > made["fox"] > made["leaf"] > made["zebra"]


def test_a_word_in_a_long_text_is_worth_less() -> None:
    brief = document(description="fox")
    long = document(description="fox " + "hen " * 100)

    assert brief["fox"] > long["fox"]


def test_a_name_of_signs_alone_has_no_terms() -> None:
    assert document(name="!!!", server="---") == {}


@given(st.text(), st.text(), st.text())
def test_an_impact_always_fits_a_byte(name: str, text: str, about: str) -> None:
    made = document(name=name, description=f"{text} {name} " * 9, about=about)

    assert all(1 <= impact <= MAX_IMPACT for impact in made.values())
