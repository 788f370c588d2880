"""How long a session of a browser is valid, and what ends it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from discovery_server.http.browser_sessions import BrowserSessions
from discovery_server.http.users import OWNER, Users
from discovery_server.tokens import parse_tokens

HOUR = 3600.0


def opened(folder: Path, token: str, now: float = 0.0) -> BrowserSessions:
    return BrowserSessions(folder, Users(parse_tokens(token * 16)), clock=lambda: now)


def request(session: str) -> dict[str, Any]:
    headers = [
        (b"host", b"127.0.0.1:1"),
        (b"origin", b"http://127.0.0.1:1"),
        (b"cookie", f"discovery_session={session}".encode()),
    ]
    return {"type": "http", "method": "POST", "headers": headers}


def test_a_session_ends_after_twelve_hours_without_a_request(tmp_path: Path) -> None:
    session = opened(tmp_path, "a").open(OWNER)
    users = [
        opened(tmp_path, "a", hours * HOUR).user_of(request(session)) for hours in (11, 22, 35)
    ]

    assert [user is not None for user in users] == [True, True, False]


def test_a_session_ends_with_the_token_of_its_gateway(tmp_path: Path) -> None:
    session = opened(tmp_path, "a").open(OWNER)

    assert opened(tmp_path, "b").user_of(request(session)) is None
    assert opened(tmp_path, "a").user_of(request(session)) == OWNER


def test_a_code_opens_one_session_at_any_gateway_of_the_folder(tmp_path: Path) -> None:
    code = opened(tmp_path, "a").new_code(OWNER)
    users = [opened(tmp_path, "a").redeem(code) for _ in range(2)]

    assert users == [OWNER, None]


def test_nobody_can_act_with_what_the_folder_holds(tmp_path: Path) -> None:
    sessions = opened(tmp_path, "a")
    sessions.open(OWNER)
    sessions.new_code(OWNER)
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o077 == 0
        kind, _, digest = path.name.partition("-")
        for secret in (digest, *path.read_text("utf-8").split()):
            assert sessions.user_of(request(secret)) is None
            assert sessions.redeem(secret) is None, kind


def test_the_session_that_was_not_used_for_longest_ends_where_there_are_too_many(
    tmp_path: Path,
) -> None:
    first = opened(tmp_path, "a", 0.0).open(OWNER)
    last = [opened(tmp_path, "a", 1.0 + at).open(OWNER) for at in range(64)][-1]

    assert opened(tmp_path, "a", 70.0).user_of(request(first)) is None
    assert opened(tmp_path, "a", 70.0).user_of(request(last)) == OWNER
