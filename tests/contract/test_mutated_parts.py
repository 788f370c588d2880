"""What `make mutants` changes, and which tests it runs, is there."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_what_is_mutated_and_the_tests_that_should_notice_exist() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    parts = tomllib.loads(text)["tool"]["mutants"]["parts"].values()

    named = [path for part in parts for path in (*part["modules"], *part["tests"])]

    assert [path for path in named if not list(ROOT.glob(path))] == []
