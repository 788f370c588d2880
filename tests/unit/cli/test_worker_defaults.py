"""The options of `discovery fleet worker` and the library have the same defaults."""

from __future__ import annotations

import pytest

from discovery_cli.commands.worker import command
from discovery_engine.engine.refresh_worker import WorkerOptions


@pytest.mark.requirement("FLT-11")
def test_a_worker_of_the_command_line_has_the_defaults_of_the_library() -> None:
    given = {option.name: option.default for option in command.params}
    defaults = WorkerOptions()

    assert given["slots"] == defaults.slots
    assert given["lease"] == defaults.lease
    assert given["every"] * 3600.0 == defaults.interval
