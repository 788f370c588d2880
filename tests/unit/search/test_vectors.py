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


def test_a_clause_counts_as_much_as_the_whole() -> None:
    found = similarities(made(east=EAST, north=NORTH), EAST, NORTH, EAST)

    assert found.cosine(make_tool("east")) == pytest.approx(1)
    assert found.cosine(make_tool("north")) == pytest.approx(0.5)


@pytest.mark.requirement("EMB-2")
def test_a_tool_with_examples_is_as_similar_as_its_text_and_they_are_on_average() -> None:
    tools = [make_tool("plain"), make_tool("asked")]
    vectors = Vectors(tools, [pack(EAST), pack(EAST)], {1: pack_mean([NORTH, NORTH])})

    found = similarities(vectors, NORTH)

    assert found.cosine(tools[0]) == pytest.approx(0)
    assert found.cosine(tools[1]) == pytest.approx(0.5)
    assert found.best == pytest.approx(0.5)


def test_height_is_the_same_for_a_model_that_finds_all_texts_more_alike() -> None:
    plain = made(a=(1.0, 0.0, 0.0), b=(0.0, 1.0, 0.0))
    alike = made(a=(1.0, 0.0, 1.0), b=(0.0, 1.0, 1.0))

    apart = similarities(plain, (1.0, 0.0, 0.0)).relative(make_tool("a"))
    together = similarities(alike, (math.sqrt(0.5), 0.0, math.sqrt(0.5))).relative(make_tool("a"))

    assert apart == pytest.approx(1, abs=1e-3)
    assert together == pytest.approx(apart, abs=1e-3)


def test_the_likest_come_first_and_only_if_they_are_accepted() -> None:
    vectors = made(east=EAST, north=NORTH, between=NORTH_EAST)

    def is_accepted(tool: object) -> bool:
        return tool != make_tool("east")

    found = similarities(vectors, EAST)

    assert [t.name for t in found.nearest(2, lambda _: True)] == ["east", "between"]
    assert [t.name for t in found.nearest(2, is_accepted)] == ["between", "north"]


@pytest.mark.requirement("SCP-2")
def test_of_some_tools_nothing_depends_on_the_others() -> None:
    every = made(east=EAST, north=NORTH, between=NORTH_EAST)
    some = [make_tool("north"), make_tool("between"), make_tool("gone")]

    found = similarities(every.only(some), EAST)
    alone = similarities(made(north=NORTH, between=NORTH_EAST), EAST)

    assert (found.best, found.mean, found.lowest) == (alone.best, alone.mean, alone.lowest)
    assert found.relative(some[0]) == alone.relative(some[0])
    assert every.only([]).compare([EAST]) is None


@rows("query", [pytest.param((), id="none"), pytest.param(((1.0, 0.0, 0.0),), id="another length")])
def test_what_cannot_be_compared_is_not(query: tuple[tuple[float, ...], ...]) -> None:
    assert made(east=EAST).compare(query) is None
    assert made().compare([EAST]) is None


@given(st.lists(st.tuples(st.floats(0.1, 1), st.floats(0.1, 1)), min_size=2, max_size=20))
def test_where_a_vector_stands_makes_no_difference(rows: list[tuple[float, float]]) -> None:
    named = {f"t{i}": row for i, row in enumerate(rows)}
    forward = similarities(made(**named), NORTH_EAST)
    backward = similarities(made(**dict(reversed(named.items()))), NORTH_EAST)

    for name in named:
        assert forward.cosine(make_tool(name)) == backward.cosine(make_tool(name))
