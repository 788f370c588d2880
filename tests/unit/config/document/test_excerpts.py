from __future__ import annotations

import cProfile
import json
import pstats

import pytest

from discovery_engine.config.loading.parsing import parse_settings


def calls_for(entries: int) -> int:
    """How many calls it takes to read a file of one line, with two mistakes in every entry."""
    entry = {"comand": "/x", "args": "p", "env": {"A": "b"}}
    text = json.dumps({"servers": {f"s{number}": entry for number in range(entries)}})
    profile = cProfile.Profile()

    settings = profile.runcall(parse_settings, text.encode(), file="f")

    assert len(settings.warnings) == 2 * entries
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]


@pytest.mark.thorough
@pytest.mark.requirement("CFG-13")
def test_a_file_of_one_line_takes_time_that_grows_with_its_length_only() -> None:
    calls_for(1)  # loads what is loaded once

    assert calls_for(400) < 2.2 * calls_for(200)
