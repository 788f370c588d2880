from __future__ import annotations

import pytest

from discovery_engine.errors import FailureKind, NeedsAuthError, UnavailableError
from discovery_engine.events import EventBus
from discovery_engine.upstream.record import Policy, Record
from discovery_engine.upstream.state import State
from tests.factories import make_server

GONE = UnavailableError("github", FailureKind.LOST, "it went away")


def record_of_a_lost_session() -> Record:
    record = Record(make_server(), EventBus(), Policy(clock=lambda: 0.0, random=lambda: 0.0))
    record.connecting()
    record.ready()
    record.closed(was_ready=True, lost=GONE)
    return record


def test_how_a_session_was_lost_is_told_once_that_is_known() -> None:
    record = record_of_a_lost_session()

    record.explain(GONE, "it exited with status 7")

    condition = record.condition(None)
    assert (condition.state, condition.reason) == (State.FAILING, "it exited with status 7")


@pytest.mark.parametrize("kind", ["needs_config", "untrusted", "busy"])
@pytest.mark.requirement("UPS-66")
def test_what_was_not_even_tried_is_not_held_against_a_server(kind: str) -> None:
    record = Record(make_server(), EventBus(), Policy(clock=lambda: 0.0, random=lambda: 0.0))

    for _ in range(5):
        record.failed(UnavailableError("github", FailureKind(kind), "not now"))

    condition = record.condition(None)
    assert (condition.state, condition.reason, condition.next_try) == (State.IDLE, "", None)
    assert condition.counters.failures == 0
    with record.attempt():
        pass


@pytest.mark.requirement("HEA-4")
def test_how_a_session_was_lost_does_not_take_the_place_of_a_later_failure() -> None:
    record = record_of_a_lost_session()
    later = NeedsAuthError("github", "it answers HTTP 401")

    record.failed(later)
    record.explain(GONE, "it closed the connection")

    assert record.condition(None).reason == later.reason
    with pytest.raises(NeedsAuthError), record.attempt():
        raise AssertionError("it is not to be tried yet")
