"""An approval against what is there now, with values that come, go and change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.trust.server_identity import (
    UNSET,
    ApprovalSubject,
    change_since,
    completed_approval,
)

ENTRY = {"command": "a", "args": "b"}
DIGESTS = st.sampled_from([UNSET, "1", "2"])
SUBJECTS = st.builds(
    ApprovalSubject,
    entry=st.just(ENTRY),
    program=st.sampled_from(["", "/bin/a", "/bin/b"]),
    values=st.fixed_dictionaries({"args.0": DIGESTS, "cwd": DIGESTS}),
    files=st.dictionaries(
        st.sampled_from(["args.0", "args.1"]),
        st.dictionaries(st.just("x.py"), st.sampled_from("12"), min_size=1),
    ),
)
WHOLE = ApprovalSubject(ENTRY, "/bin/a", {"cwd": "1"}, {"args.0": {"x.py": "1"}})


def changed(approvals: list[str], now: ApprovalSubject, earlier: str | None = None) -> str | None:
    return change_since(approvals, now, earlier=earlier)


@given(SUBJECTS)
def test_what_was_approved_may_run(one: ApprovalSubject) -> None:
    assert changed([one.to_text(at=0)], one) is None


@given(SUBJECTS, SUBJECTS, SUBJECTS)
def test_what_is_left_open_is_closed_by_the_first_that_fills_it(
    given_: ApprovalSubject, first: ApprovalSubject, then: ApprovalSubject
) -> None:
    approvals = [given_.to_text(at=0)]
    if changed(approvals, first) is None:
        if text := completed_approval(approvals, first, earlier=None, at=1):
            approvals.append(text)
        assert changed(approvals, first) is None
        if first.is_whole and then.is_whole and given_.entry == then.entry:
            same = first.values == then.values and first.program == then.program
            assert (changed(approvals, then) is None) <= same


@given(SUBJECTS, SUBJECTS)
def test_nothing_is_completed_twice(given_: ApprovalSubject, now: ApprovalSubject) -> None:
    approvals = [given_.to_text(at=0)]
    if changed(approvals, now) is None and (
        text := completed_approval(approvals, now, earlier=None, at=1)
    ):
        assert completed_approval([*approvals, text], now, earlier=None, at=2) is None


def test_a_bare_digest_is_an_approval_of_an_earlier_version_and_is_completed_once() -> None:
    approvals = ["abc"]

    assert changed(approvals, WHOLE, earlier="abc") is None
    assert changed(approvals, WHOLE, earlier="abd") is not None
    assert changed(approvals, WHOLE, earlier=None) is not None
    text = completed_approval(approvals, WHOLE, earlier="abc", at=5)
    assert text is not None
    assert changed([*approvals, text], WHOLE, earlier="abc") is None
    other = ApprovalSubject(ENTRY, "/bin/a", {"cwd": "1"}, {"args.0": {"x.py": "2"}})
    assert changed([*approvals, text], other, earlier="abc") is not None


def test_what_cannot_be_read_as_an_approval_approves_nothing() -> None:
    for text in ("{", "{}", "[]", "null", '{"entry": 1}', '"x"'):
        assert changed([text], WHOLE) is not None
