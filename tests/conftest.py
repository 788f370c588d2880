"""What many tests share."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, is_hypothesis_test, settings

# A shell that starts the tests in the background has Ctrl-C ignored, and so would have every
# program that they start and press it for.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# On a busy machine any example may be slow; only tests that count work judge speed.
settings.register_profile("discovery", deadline=None)
# Thousands of runs of which most should fail at once: always the same examples, and no search for
# a smaller one.
settings.register_profile(
    "mutants",
    settings.get_profile("discovery"),
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile("discovery")

if TYPE_CHECKING:
    from tests.forked import Preloaded


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Coverage counts the lines that stated examples run, not those that properties run.

    A property runs the same lines a hundred times, each time four times as slowly when they are
    counted; and a line that only a random example reaches is not reached reliably.
    """
    for item in items:
        if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
            item.add_marker("no_cover")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def forked() -> Iterator[Preloaded]:
    """`discovery` in processes of its own, which are forked from one that has loaded it."""
    from tests.forked import preloaded

    with preloaded() as run:
        yield run
