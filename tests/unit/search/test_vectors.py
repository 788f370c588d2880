from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.vectors import Similarities, Vectors, pack, pack_mean
from tests.factories import make_tool
from tests.rows import rows

EAST, NORTH, NORTH_EAST = (1.0, 0.0), (0.0, 1.0), (math.sqrt(0.5), math.sqrt(0.5))


def made(**vectors: tuple[float, ...]) -> Vectors:
    tools = [make_tool(name) for name in vectors]
    return Vectors(tools, [pack(vector) for vector in vectors.values()])


def similarities(vectors: Vectors, *query: tuple[float, ...]) -> Similarities:
    found = vectors.compare(query)
    assert found
    return found


def test_similarity_is_the_cosine() -> None:
    found = similarities(made(east=EAST, north=NORTH, between=NORTH_EAST), EAST)

    assert found.cosine(make_tool("east")) == pytest.approx(1)
    assert found.cosine(make_tool("north")) == pytest.approx(0)
    assert found.cosine(make_tool("between")) == pytest.approx(math.sqrt(0.5), abs=1e-3)
    assert found.best == pytest.approx(1)


def test_a_clause_counts_as_much_as_the_whole() -> None:
    found = similarities(made(east=EAST, north=NORTH), EAST, NORTH, EAST)

    assert found.cosine(make_tool("east")) == pytest.approx(1)
    assert found.cosine(make_tool("north")) == pytest.approx(0.5)


@pytest.mark.requirement("EMB-5")
def test_a_tool_with_examples_is_as_similar_as_its_text_and_they_are_on_average() -> None:
    tools = [make_tool("plain"), make_tool("asked")]
    vectors = Vectors(tools, [pack(EAST), pack(EAST)], {1: pack_mean([NORTH, NORTH])})

    found = similarities(vectors, NORTH)

    assert found.cosine(tools[0]) == pytest.approx(0)
    assert found.cosine(tools[1]) == pytest.approx(0.5)
    assert found.best == pytest.approx(0.5)


def test_the_mean_of_vectors_is_a_unit_long_even_if_they_cancel_out() -> None:
    assert pack_mean([EAST, NORTH]) == pack(NORTH_EAST)
    assert pack_mean([EAST, (-1.0, 0.0)]) == pack(EAST)


def test_a_tool_with_another_definition_now_has_no_similarity() -> None:
    found = similarities(made(east=EAST), EAST)

    assert found.cosine(make_tool("east", description="new")) is None
    assert found.cosine(make_tool("west")) is None


def test_a_relative_similarity_is_on_a_scale_from_the_lowest_to_identity() -> None:
    vectors = made(east=NORTH_EAST, north=NORTH, west=(-1.0, 0.0))

    found = similarities(vectors, EAST).relative(make_tool("east"))

    assert found == pytest.approx((math.sqrt(0.5) + 1) / 2, abs=1e-3)


def test_of_tools_that_are_all_alike_none_is_high() -> None:
    found = similarities(made(a=EAST, b=EAST), EAST).relative(make_tool("a"))

    assert found == pytest.approx(0, abs=1e-3)


def test_height_is_the_same_for_a_model_that_finds_all_texts_more_alike() -> None:
    plain = made(a=(1.0, 0.0, 0.0), b=(0.0, 1.0, 0.0))
    alike = made(a=(1.0, 0.0, 1.0), b=(0.0, 1.0, 1.0))

    apart = similarities(plain, (1.0, 0.0, 0.0)).relative(make_tool("a"))
    together = similarities(alike, (math.sqrt(0.5), 0.0, math.sqrt(0.5))).relative(make_tool("a"))

    assert apart == pytest.approx(1, abs=1e-3)
    assert together == pytest.approx(apart, abs=1e-3)


def test_a_lone_tool_and_one_without_a_vector_have_no_height() -> None:
    assert similarities(made(east=EAST), EAST).relative(make_tool("east")) is None
    assert similarities(made(east=EAST, north=NORTH), EAST).relative(make_tool("west")) is None


def test_the_likest_come_first_and_only_if_they_are_accepted() -> None:
    vectors = made(east=EAST, north=NORTH, between=NORTH_EAST)

    def is_accepted(tool: object) -> bool:
        return tool != make_tool("east")

    found = similarities(vectors, EAST)

    assert [t.name for t in found.nearest(2, lambda _: True)] == ["east", "between"]
    assert [t.name for t in found.nearest(2, is_accepted)] == ["between", "north"]


def test_the_likest_are_found_behind_many_that_are_not_accepted() -> None:
    vectors = made(**{f"t{i}": EAST for i in range(50)}, last=NORTH)

    found = similarities(vectors, EAST).nearest(1, lambda tool: tool.name == "last")

    assert [tool.name for tool in found] == ["last"]


@rows("query", [pytest.param((), id="none"), pytest.param(((1.0, 0.0, 0.0),), id="another length")])
def test_what_cannot_be_compared_is_not(query: tuple[tuple[float, ...], ...]) -> None:
    assert made(east=EAST).compare(query) is None
    assert made().compare([EAST]) is None


@rows(
    "vectors",
    [
        pytest.param([EAST, (1.0,)], id="two lengths"),
        pytest.param([(0.0, 0.0)], id="zero"),
        pytest.param([(math.nan, 1.0)], id="not a number"),
    ],
)
def test_what_is_no_vector_is_refused(vectors: list[tuple[float, ...]]) -> None:
    tools = [make_tool(str(i)) for i in range(len(vectors))]

    with pytest.raises(ValueError, match="vector"):
        Vectors(tools, list(map(pack, vectors)))


@given(st.lists(st.tuples(st.floats(0.1, 1), st.floats(0.1, 1)), min_size=2, max_size=20))
def test_where_a_vector_stands_makes_no_difference(rows: list[tuple[float, float]]) -> None:
    named = {f"t{i}": row for i, row in enumerate(rows)}
    forward = similarities(made(**named), NORTH_EAST)
    backward = similarities(made(**dict(reversed(named.items()))), NORTH_EAST)

    for name in named:
        assert forward.cosine(make_tool(name)) == backward.cosine(make_tool(name))
