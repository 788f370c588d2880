from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.stderr_log import StderrLog

pytestmark = pytest.mark.requirement("UPS-25")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tell(clock: Clock, caplog: pytest.LogCaptureFixture) -> Callable[..., None]:
    caplog.set_level(logging.INFO, "discovery_engine.upstream.stderr_log")
    overheard = StderrLog(ServerName("github"), clock)
    return lambda *lines: overheard.write(lines, lambda text: text.replace("s3cret", "••••"))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        pytest.param("It runs.", "github: It runs.", id="plain"),
        pytest.param("It runs.\r", "github: It runs.", id="the end of a line"),
        pytest.param("token s3cret", "github: token ••••", id="a secret"),
        pytest.param("\x1b[2Jgone", "github: <U+001B>[2Jgone", id="terminal"),
        pytest.param("a\rINFO root: b", "github: a<U+000D>INFO root: b", id="another record"),
        pytest.param("ad\u200bmin\u202e", "github: ad<U+200B>min<U+202E>", id="invisible"),
        pytest.param("x" * 600, f"github: {'x' * 500}…", id="long"),
    ],
)
def test_a_line_is_told_as_its_programs_own_and_harmless(
    tell: Callable[..., None], caplog: pytest.LogCaptureFixture, line: str, told: str
) -> None:
    tell(line)

    assert caplog.messages == [told]


def test_blank_lines_are_left_out(
    tell: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    tell("")
    tell("  \r")

    assert caplog.messages == []


def test_a_flood_is_counted_and_told_when_it_is_over(
    tell: Callable[..., None], caplog: pytest.LogCaptureFixture, clock: Clock
) -> None:
    for _ in range(10):
        tell(*(f"line {number}" for number in range(1000)))
    during = list(caplog.messages)
    clock.now = 10.0
    tell("calm")

    assert len(during) == 50
    assert caplog.messages[50:] == [
        "github: (9950 more lines, not logged)",
        "github: calm",
    ]


def test_nothing_is_done_for_a_log_that_does_not_want_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "discovery_engine.upstream.stderr_log")

    StderrLog(ServerName("a")).write(["x"], lambda _: pytest.fail("nobody asked"))

    assert caplog.messages == []
