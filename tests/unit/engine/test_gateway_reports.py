"""What gateways report of servers, for as long as they live."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from discovery_engine.engine.gateway_reports import observations, open_status_file
from discovery_engine.view.status import Observation


def seen(server: str = "sick", status: str = "failing", connection: str = "c") -> Observation:
    return Observation(server, status, connection, reason="it is gone")


@pytest.mark.requirement("HEA-30")
def test_the_word_of_a_gateway_counts_for_as_long_as_it_lives(tmp_path: Path) -> None:
    with open_status_file(tmp_path, "scope") as file, open_status_file(tmp_path, "other"):
        before = observations(tmp_path, "scope")
        file.write([seen(), seen("well", "ready")])
        file.write([seen()])
        while_alive = observations(tmp_path, "scope")
        elsewhere = observations(tmp_path, "other")
        [mine] = [p for p in (tmp_path / "gateways").iterdir() if b"scope" in p.read_bytes()]
        left = mine.read_bytes()
    # A gateway that was killed leaves its file, without a lock; its process id may be another's.
    mine.write_bytes(left)

    assert before == elsewhere == {}
    assert [(one.gateway, one.reason) for one in while_alive["sick"]] == [
        (os.getpid(), "it is gone")
    ]
    assert observations(tmp_path, "scope") == {}
    assert list((tmp_path / "gateways").iterdir()) == []


@pytest.mark.requirement("HEA-30")
@pytest.mark.skipif(os.name != "posix", reason="modes are a matter of POSIX")
def test_what_a_gateway_writes_is_its_owners_alone(tmp_path: Path) -> None:
    with open_status_file(tmp_path / "data", "scope"):
        [path] = (tmp_path / "data" / "gateways").iterdir()

        assert path.stat().st_mode & 0o77 == 0
        assert path.parent.stat().st_mode & 0o77 == 0
