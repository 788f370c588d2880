from __future__ import annotations

import pytest

from discovery_engine.errors import FailureKind, NeedsAuthError, UnavailableError
from discovery_engine.events import EventBus
from discovery_engine.upstream.history import Policy, ServerHistory
from discovery_engine.upstream.state import ServerState
from tests.factories import make_server

GONE = UnavailableError("github", FailureKind.LOST, "it went away")


def record_of_a_lost_session() -> ServerHistory:
    history = ServerHistory(
        make_server(), EventBus(), Policy(clock=lambda: 0.0, random=lambda: 0.0)
    )
    history.record_connecting()
    history.record_ready()
    history.record_closed(was_ready=True, lost=GONE)
    return history


def test_how_a_session_was_lost_is_told_once_that_is_known() -> None:
    history = record_of_a_lost_session()

    history.explain_loss(GONE, "it exited with status 7")

    condition = history.report(None)
    assert (condition.state, condition.reason) == (ServerState.FAILING, "it exited with status 7")


@pytest.mark.requirement("HEA-4")
def test_how_a_session_was_lost_does_not_take_the_place_of_a_later_failure() -> None:
    history = record_of_a_lost_session()
    later = NeedsAuthError("github", "it answers HTTP 401")

    history.record_failure(later)
    history.explain_loss(GONE, "it closed the connection")

    assert history.report(None).reason == later.reason
    with pytest.raises(NeedsAuthError), history.attempt():
        raise AssertionError("it is not to be tried yet")


def test_only_a_program_that_failed_shows_its_stderr() -> None:
    history = record_of_a_lost_session()
    history.stderr = "No license"

    shown = history.info.stderr
    history.record_success()

    assert (shown, history.info.stderr) == ("No license", "")
