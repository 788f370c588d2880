"""How one server fares: what is known and what is seen of it make one word."""

from __future__ import annotations

from typing import Any

import pytest

from discovery_engine.catalog import Failure, ServerPart
from discovery_engine.errors import (
    ConfigurationError,
    DiscoveryError,
    Origin,
    Problem,
    ServerDisabledError,
    UntrustedServerError,
)
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import State
from discovery_engine.view.notices import NoticeKind
from discovery_engine.view.status import Live, ServerStatus, ServerView
from tests.factories import make_entry, make_part, make_server

BROKEN = Problem(Origin("f"), "command", "is empty")
OFF = Verdict(enabled=False, reason="server")
UNTRUSTED = Verdict(enabled=False, tags=("write",), reason="untrusted")
NEW = ServerPart(ServerName("github"))
GITHUB = make_part("github", "create_issue", make_entry("delete_repository", enabled=False))


def make_server_view(
    part: ServerPart, *, live: Live | None = None, rules: tuple[Rule, ...] = (), **fields: Any
) -> ServerView:
    return ServerView(make_server(part.server, **fields), part, rules, live)


@pytest.mark.parametrize(
    ("part", "fields", "status"),
    [
        pytest.param(GITHUB, {}, ServerStatus.IDLE, id="known"),
        pytest.param(NEW, {}, ServerStatus.PENDING, id="new"),
        pytest.param(GITHUB, {"enabled": False}, ServerStatus.DISABLED, id="switched off"),
        pytest.param(
            GITHUB,
            {"problem": BROKEN},
            ServerStatus.NEEDS_CONFIG,
            id="broken entry",
        ),
        pytest.param(
            make_part("github", failure=Failure("SERVER_NEEDS_AUTH", "401", "", 1.0)),
            {},
            ServerStatus.NEEDS_AUTH,
            id="login",
        ),
        pytest.param(
            make_part("github", failure=Failure("SERVER_NEEDS_CONFIG", "TOKEN", "", 1.0)),
            {},
            ServerStatus.NEEDS_CONFIG,
            id="unset reference",
        ),
        pytest.param(
            make_part("github", failure=Failure("OTHER", "gone", "", 1.0)),
            {},
            ServerStatus.FAILING,
            id="failing",
        ),
    ],
)
def test_the_status_follows_from_what_is_known(
    part: ServerPart, fields: dict[str, Any], status: ServerStatus
) -> None:
    assert make_server_view(part, **fields).diagnosis.status is status


@pytest.mark.requirement("HEA-2")
@pytest.mark.parametrize(
    ("code", "live", "status", "reason"),
    [
        pytest.param(None, Live(ServerStatus.READY), ServerStatus.READY, "", id="open"),
        pytest.param(None, Live(ServerStatus.IDLE), ServerStatus.IDLE, "", id="closed"),
        pytest.param(
            None,
            Live(ServerStatus.IDLE, "it babbled"),
            ServerStatus.IDLE,
            "it babbled",
            id="ended for what it did",
        ),
        pytest.param(
            None,
            Live(ServerStatus.CRASH_LOOPING, "it died"),
            ServerStatus.CRASH_LOOPING,
            "it died",
            id="listed, and dying since",
        ),
        pytest.param(
            "OTHER", Live(ServerStatus.STARTING), ServerStatus.FAILING, "gone", id="tried again"
        ),
        pytest.param(
            "OTHER",
            Live(ServerStatus.READY),
            ServerStatus.DEGRADED,
            "gone",
            id="open, but not listed",
        ),
        pytest.param(
            "OTHER", Live(ServerStatus.IDLE), ServerStatus.FAILING, "gone", id="not tried since"
        ),
        pytest.param(
            "OTHER",
            Live(ServerStatus.FAILING, "it died"),
            ServerStatus.FAILING,
            "it died",
            id="the newer reason",
        ),
        pytest.param(
            "SERVER_NEEDS_AUTH",
            Live(ServerStatus.FAILING, "401"),
            ServerStatus.NEEDS_AUTH,
            "gone",
            id="the more exact word",
        ),
    ],
)
def test_what_is_known_and_what_is_seen_make_one_status(
    code: str | None, live: Live, status: ServerStatus, reason: str
) -> None:
    failure = Failure(code, "gone", "", 1.0) if code else None
    found = make_server_view(make_part("github", failure=failure), live=live).diagnosis

    assert (found.status, found.reason) == (status, reason)


def test_the_last_words_of_a_server_that_fails_are_told() -> None:
    failure = Failure("OTHER", "gone", "", 1.0, stderr="No license")
    summary = make_server_view(make_part("github", failure=failure)).summary

    assert summary.stderr == "No license"


def test_the_newest_of_the_last_words_count() -> None:
    failure = Failure("OTHER", "gone", "", 1.0, stderr="No license")
    live = Live(ServerStatus.CRASH_LOOPING, "it died", "Disk full")

    summary = make_server_view(make_part("github", failure=failure), live=live).summary

    assert summary.stderr == "Disk full"


def test_tools_are_counted_and_so_are_the_enabled_ones() -> None:
    summary = make_server_view(GITHUB).summary

    assert (summary.tool_count, summary.enabled_count) == (2, 1)


def test_without_a_description_the_first_line_of_the_instructions_serves() -> None:
    part = make_part("github", instructions="Tells the time.\nMore.")

    assert make_server_view(part).summary.description == "Tells the time."


def test_of_a_server_that_must_not_be_started_nothing_is_told_but_why() -> None:
    part = make_part("github", verdict=UNTRUSTED, instructions="Tells the time.")
    server = make_server_view(part, description="Issues")

    summary = server.summary

    assert (summary.status, summary.description, summary.tags) == (ServerStatus.UNTRUSTED, "", ())
    with pytest.raises(UntrustedServerError):
        server.require_enabled()


def test_a_rule_that_switches_it_off_is_named() -> None:
    rule = Rule(patterns=("git*",), enabled=False, origin=Origin("discovery.yaml", 3, 5))
    off = make_part("github", verdict=Verdict(enabled=False, reason="rule", rule=0))

    with pytest.raises(ServerDisabledError, match="rule 1 of the owner") as caught:
        make_server_view(off, rules=(rule,)).require_enabled()

    assert "discovery.yaml:3:5" in caught.value.detail
    assert "discovery.yaml" not in str(caught.value)


@pytest.mark.parametrize(
    ("part", "live", "kind"),
    [
        pytest.param(GITHUB, None, None, id="known"),
        pytest.param(NEW, None, NoticeKind.LOADING, id="never asked"),
        pytest.param(
            NEW, Live(ServerStatus.STARTING), NoticeKind.LOADING, id="asked for the first time"
        ),
        pytest.param(GITHUB, Live(ServerStatus.STARTING), None, id="asked once more"),
        pytest.param(GITHUB, Live(ServerStatus.FAILING), NoticeKind.UNAVAILABLE, id="down"),
        pytest.param(GITHUB, Live(ServerStatus.DEGRADED), None, id="up, if not well"),
    ],
)
def test_an_answer_that_cannot_speak_for_it_is_told_so(
    part: ServerPart, live: Live | None, kind: NoticeKind | None
) -> None:
    outage = make_server_view(part, live=live).outage

    assert (outage.kind if outage else None) is kind


@pytest.mark.parametrize(
    ("verdict", "fields", "error"),
    [
        pytest.param(Verdict(), {"problem": BROKEN}, ConfigurationError, id="broken entry"),
        pytest.param(OFF, {"enabled": False}, ServerDisabledError, id="switched off"),
        pytest.param(UNTRUSTED, {}, UntrustedServerError, id="not approved"),
    ],
)
def test_a_server_that_must_not_be_connected_is_refused_with_the_reason(
    verdict: Verdict, fields: dict[str, Any], error: type[DiscoveryError]
) -> None:
    server = make_server_view(make_part("github", verdict=verdict), **fields)

    assert not server.is_connectable
    with pytest.raises(error):
        server.require_connectable()


def test_any_other_server_may_be_connected() -> None:
    server = make_server_view(NEW)

    assert server.is_connectable
    server.require_connectable()


def test_only_a_program_that_fails_has_last_words() -> None:
    lives = [Live.of(state, "it died", "No license", "") for state in State]

    told = {live.status for live in lives if live.stderr}

    assert told == {ServerStatus.FAILING, ServerStatus.CRASH_LOOPING}
