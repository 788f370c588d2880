"""How long a server asks to be left alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.retry_after import LONGEST_PAUSE, retry_after
from tests.rows import rows

NOON = 1_792_584_000.0  # Wed, 21 Oct 2026 12:00:00 GMT


@rows(
    ("text", "seconds"),
    [
        ("120", 120.0),
        ("0", 0.0),
        ("9" * 400, LONGEST_PAUSE),
        ("Thu, 22 Oct 2026 12:00:00 GMT", 86_400.0),
        ("Thu, 22 Oct 2026 11:59:00 -0000", 86_340.0),
        ("Wed, 21 Oct 2026 11:00:00 GMT", 0.0),
        ("Wed, 21 Oct 2099 11:00:00 GMT", LONGEST_PAUSE),
        ("", None),
        ("-1", None),
        ("1.5", 1.5),
        ("\u0661", None),
        ("tomorrow", None),
    ],
)
def test_seconds_and_dates_are_read(text: str, seconds: float | None) -> None:
    assert retry_after(text, now=NOON) == seconds


@given(st.text())
def test_any_text_asks_for_nothing_or_for_at_most_a_day(text: str) -> None:
    seconds = retry_after(text, now=NOON)

    assert seconds is None or 0.0 <= seconds <= LONGEST_PAUSE
