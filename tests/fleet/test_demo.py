"""The demo of a fleet, as `make demo-fleet` runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import postgres

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.thorough
@pytest.mark.requirement("FLT-50")
@pytest.mark.timeout(900)
@pytest.mark.skipif(bool(postgres.missing()), reason=postgres.missing())
def test_the_demo_shows_a_fleet_from_its_start_to_a_tool_that_is_held_back() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "demo_fleet.py")],
        check=False,
        capture_output=True,
        text=True,
        timeout=800,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for seen in (
        "gateway-b finds clock:current_time",
        "is killed with SIGKILL",
        "takes it over",
        "gateway-a does not call it",
        "gateway-b does not call it",
    ):
        assert seen in done.stdout
