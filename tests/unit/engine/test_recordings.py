"""Which recording answers a request."""

from __future__ import annotations

from typing import Any

from discovery_engine.engine.recordings import Exchange, find
from tests.rows import rows


@rows(
    ("recorded", "given", "fits"),
    [
        ("2026-11-22", "2027-01-01", True),
        ("at 2026-11-22T10:00:00Z", "at 2027-01-01T09:30:11.5+01:00", True),
        ("10:15", "11:45", True),
        (
            "id 3fa85f64-5717-4562-b3fc-2c963f66afa6",
            "id 00000000-0000-4000-8000-000000000000",
            True,
        ),
        ("deadbeef0123456789", "0123456789abcdef00", True),
        (1763800000, 1800000000, True),
        (3, 4, False),
        (True, 1, False),
        ("open", "closed", False),
        ("open on 2026-11-22", "closed on 2026-11-22", False),
        ({"since": "2026-11-22"}, {"since": "2026-11-23", "all": True}, False),
        (["a", "2026-11-22"], ["a", "2026-11-23"], True),
        (["a"], ["a", "a"], False),
        ("/tmp/a1/x.txt", "/tmp/b2/y.txt", True),
        ("key ••••", "key whatever", True),
    ],
)
def test_a_template_leaves_out_what_differs_each_time(
    recorded: Any, given: Any, *, fits: bool
) -> None:
    exchange = Exchange("tools/call", {"name": "t", "arguments": {"v": recorded}}, ())

    found = find((exchange,), "tools/call", {"name": "t", "arguments": {"v": given}})

    assert (found is exchange) is fits


def test_exact_arguments_come_before_a_template() -> None:
    first, second = (
        Exchange("tools/call", {"name": "t", "arguments": {"day": day}}, ())
        for day in ("2026-11-21", "2026-11-22")
    )

    assert find((first, second), second.method, second.params) is second
    assert find((first, second), "prompts/get", second.params) is None
