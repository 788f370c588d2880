"""How what is asked for is related to what is done."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.operations.operation import Operation, Relation, relation
from tests.rows import rows

SETS = st.integers(0, 2**16 - 1)


@rows(
    ("asked", "done", "related"),
    [
        (Operation.CREATE, Operation.CREATE, Relation.SAME),
        (Operation.READ | Operation.LIST, Operation.LIST, Relation.SAME),
        (Operation.READ, Operation.LIST, Relation.KINDRED),
        (Operation.DELETE, Operation.STOP, Relation.KINDRED),
        (Operation.CREATE, Operation.DELETE, Relation.OPPOSITE),
        (Operation.DOWNLOAD, Operation.UPLOAD, Relation.OPPOSITE),
        (Operation.OPEN, Operation.STOP, Relation.OPPOSITE),
        (Operation.LIST, Operation.DELETE, Relation.CHANGES),
        (Operation.UPDATE, Operation.LIST, Relation.READS),
        (Operation.SEND, Operation.RUN, Relation.OTHER),
        (Operation(0), Operation.RUN, Relation.UNKNOWN),
        (Operation.RUN, Operation(0), Relation.UNKNOWN),
    ],
)
def test_operations_are_related(asked: Operation, done: Operation, related: Relation) -> None:
    assert relation(asked, done) is related


@given(SETS, SETS, SETS)
def test_a_tool_that_does_more_still_does_what_is_asked_for_and_says_less_by_it(
    asked: int, done: int, other: int
) -> None:
    if relation(asked, done) is Relation.SAME:
        assert relation(asked, done | other) in (Relation.SAME, Relation.KINDRED)


@given(SETS, SETS)
def test_opposites_are_mutual(asked: int, done: int) -> None:
    is_opposite = relation(asked, done) is Relation.OPPOSITE

    assert is_opposite == (relation(done, asked) is Relation.OPPOSITE)
