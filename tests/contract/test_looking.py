"""What `health`, `why`, `inspect`, `lint` and `search` show of two servers, one of them missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.discovery import Discovery
from tests.forked import Preloaded

RULES = "toolRules: [{pattern: boom, enabled: false}]\n"


@pytest.fixture
def home(tmp_path: Path, forked: Preloaded) -> Discovery:
    made = Discovery(tmp_path, forked)
    made.configure(broken={"command": "no-such-program"}, rules=RULES)
    made("refresh")
    return made


@pytest.mark.thorough
@pytest.mark.requirement("HEA-10")
def test_health_starts_nothing_unless_it_is_asked_to(home: Discovery) -> None:
    before = home.starts

    remembered, one = home("health"), home("health", "demo")
    untouched = home.starts
    online = home("health", "--online")

    first, second, *_ = remembered.out.splitlines()[1:]
    assert (remembered.code, one.code, online.code) == (7, 0, 7)
    assert (untouched, home.starts) == (before, before + 1)
    assert "broken" in first
    assert "program 'no-such-program' is not on the PATH" in first
    assert "demo" in second


@pytest.mark.thorough
@pytest.mark.requirement("HEA-10")
def test_health_of_one_server_has_all_there_is(home: Discovery) -> None:
    broken = home("health", "broken")
    rows = {row["name"]: row for row in home("health", "--json").json["servers"]}

    assert broken.code == 7
    assert "program 'no-such-program' is not on the PATH" in broken.out
    assert "install it, or give its full path" in broken.out
    assert set(rows["broken"]) == set(rows["demo"])
    assert (rows["broken"]["is_well"], rows["demo"]["is_well"]) == (False, True)


@pytest.mark.requirement("CLI-42")
def test_a_server_that_was_never_listed_is_not_said_to_lack_a_tool(home: Discovery) -> None:
    starts = home.starts
    for command in ("why", "inspect"):
        refused = home(command, "broken:anything")
        assert refused.code == 5
        assert "program 'no-such-program' is not on the PATH" in refused.err
        assert "no tool" not in refused.err
        assert home(command, "demo:echo").code == 0

    assert home.starts == starts
