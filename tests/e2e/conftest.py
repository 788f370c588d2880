"""What the tests of whole programs share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.commands import NODE_SERVERS, QUICKSTART, Shell, missing_servers, need
from tests.e2e.serving import Home
from tests.forked import Preloaded


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory, forked: Preloaded) -> Shell:
    """The quickstart's servers, asked once; tests only read what is remembered of them."""
    need("time", "git")
    shell = Shell(QUICKSTART, tmp_path_factory.mktemp("quickstart"), forked)
    done = shell.run(["refresh"])
    absent = missing_servers() & NODE_SERVERS
    assert (done.code, done.out.count("✗")) == (5 if absent else 0, len(absent)), done.err
    return shell
