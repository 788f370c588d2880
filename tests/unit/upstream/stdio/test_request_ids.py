from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.upstream.stdio.request_ids import RequestIds

IDS = st.integers(min_value=1, max_value=5) | st.sampled_from(["1", "2", "a"])


def counts(ids: RequestIds) -> tuple[int, int]:
    return ids.unsolicited, ids.duplicates


def test_an_answer_is_waited_for_once() -> None:
    ids = RequestIds()
    ids.add(1)

    assert [ids.settle(1), ids.settle(1), ids.settle(2)] == [True, False, False]
    assert counts(ids) == (1, 1)


def test_an_id_may_come_back_as_text() -> None:
    ids = RequestIds()
    ids.add(7)

    assert ids.settle("7")


def test_an_answer_that_crosses_with_our_giving_up_is_no_fault() -> None:
    ids = RequestIds()
    ids.add(1)

    ids.cancel(1)

    assert not ids.settle(1)
    assert counts(ids) == (0, 0)
    assert not ids.settle(1)
    assert counts(ids) == (0, 1)


def test_what_is_over_is_not_remembered_for_ever() -> None:
    ids = RequestIds()

    for number in range(5000):
        ids.add(number)
        ids.settle(number)

    assert len(ids._answered) == 1000


@given(st.lists(st.tuples(st.sampled_from(["add", "cancel", "settle"]), IDS)))
def test_each_request_is_settled_at_most_as_often_as_it_was_asked(steps: list) -> None:
    ids, asked, settled = RequestIds(), 0, 0

    for step, request in steps:
        if step == "settle":
            settled += ids.settle(request)
        else:
            getattr(ids, step)(request)
            asked += step == "add"

    assert settled <= asked
