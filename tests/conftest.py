"""What many tests share."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, settings

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


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def forked() -> Iterator[Preloaded]:
    """`discovery` in processes of its own, which are forked from one that has loaded it."""
    from tests.forked import preloaded

    with preloaded() as run:
        yield run
