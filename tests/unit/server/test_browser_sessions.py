"""How long a session of a browser is valid."""

from __future__ import annotations

from discovery_server.http.browser_sessions import BrowserSessions
from discovery_server.http.users import User


def test_a_session_ends_after_twelve_hours_without_a_request() -> None:
    now = 0.0
    sessions = BrowserSessions(clock=lambda: now)
    headers = [
        (b"host", b"127.0.0.1:1"),
        (b"origin", b"http://127.0.0.1:1"),
        (b"cookie", f"discovery_session={sessions.open(User('owner'))}".encode()),
    ]
    scope = {"type": "http", "method": "POST", "headers": headers}
    users = []
    for hours in (11, 22, 35):
        now = hours * 3600.0
        users.append(sessions.user_of(scope))

    assert [user is not None for user in users] == [True, True, False]
