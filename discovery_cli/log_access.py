"""The call log of a run: it is read without an engine, also if the configuration is invalid."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from discovery_cli.invocation import Invocation
    from discovery_engine.call_log.log_database import LogDatabase
    from discovery_engine.call_log.log_reader import LogReader


def log_reader(invocation: Invocation) -> LogReader:
    """Reads what is logged of the configuration of this run."""
    from discovery_engine.call_log.log_reader import LogReader

    return LogReader(*_place(invocation))


def log_database(invocation: Invocation) -> LogDatabase:
    """Changes what is logged of the configuration of this run."""
    from discovery_engine.call_log.log_database import LogDatabase

    return LogDatabase(*_place(invocation))


def _place(invocation: Invocation) -> tuple[Path, str]:
    from discovery_engine.config.files.location import locate, scope_of
    from discovery_engine.runtime.restore import registry_path

    folder = registry_path(invocation.data_dir, os.environ).parent
    return folder, scope_of(locate(invocation.config).path)
