"""G07: what a clone and its server say, as the commands that ask servers print it."""

from __future__ import annotations

import pytest

from tests.attacks.conftest import Repository
from tests.attacks.hostile_repository import is_forged, printed_lines


@pytest.mark.thorough
@pytest.mark.requirement("THR-6")
def test_no_command_prints_a_forged_line(repository: Repository) -> None:
    printed = list(printed_lines(repository))

    assert [(words, line) for words, line in printed if is_forged(line)] == []
    assert len(printed) > 100
