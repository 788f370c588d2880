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
# What must hold before a change lands is the same each time, so that a failure is the change's.
settings.register_profile(
    "landing", settings.get_profile("discovery"), derandomize=True, max_examples=25
)
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

pytest_plugins = ["tests.kinds"]

if TYPE_CHECKING:
    from pathlib import Path

    from tests.engines import Folder
    from tests.forked import Preloaded
    from tests.postgres import PostgresServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Coverage counts the lines that stated examples run, not those that properties run.

    A property runs the same lines a hundred times, each time four times as slowly when they are
    counted; and a line that only a random example reaches is not reached reliably.
    """
    for item in items:
        if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
            item.add_marker("no_cover")


def pytest_runtest_setup() -> None:
    """A process redacts the secrets of all servers that it used: not those of the test before."""
    from discovery_engine.secrets.known_secrets import KNOWN_SECRETS, KnownSecrets

    vars(KNOWN_SECRETS).update(vars(KnownSecrets()))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """For fixtures of every scope; each test has a loop of its own, unless they share a fixture."""
    return "asyncio"


@pytest.fixture(scope="session")
def forked() -> Iterator[Preloaded]:
    """`discovery` in processes of its own, which are forked from one that has loaded it."""
    from tests.forked import preloaded

    with preloaded() as run:
        yield run


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The PostgreSQL of this run; each test makes a database of its own in it."""
    from tests import postgres

    if why := postgres.missing():
        pytest.skip(why)
    with postgres.open_server() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    """A folder for engines, of which no program may be left at the end."""
    from tests.engines import Folder
    from tests.servers.programs import none_left_running

    with none_left_running():
        yield Folder(tmp_path)
