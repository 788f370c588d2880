"""The example of a program of one's own runs as it is."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.e2e.commands import Shell
from tests.e2e.serving import ROOT

pytestmark = pytest.mark.e2e


@pytest.mark.thorough
def test_the_example_finds_a_tool_and_prints_the_time(quickstart: Shell) -> None:
    done = subprocess.run(
        [sys.executable, "examples/embed.py"],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env=quickstart.environ,
        text=True,
        timeout=90,
    )

    assert done.returncode == 0, done.stderr
    assert "time: listed" in done.stdout
    assert re.search(r"\d{4}-\d\d-\d\dT\d\d:\d\d", done.stdout)
    assert done.stderr == ""
