"""What gateways report of servers, for as long as they live."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from discovery_engine import ServerState
from discovery_engine.config.files.location import scope_of
from discovery_engine.engine.gateway_reports import observations, open_status_file
from discovery_engine.view.status import Observation
from tests.engines import Folder, good


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


@pytest.mark.anyio
@pytest.mark.requirement("HEA-30")
async def test_health_shows_the_worst_state_that_gateways_observe(folder: Folder) -> None:
    folder.write(good("new"), good("sick"), good("well"))
    scope = scope_of(str(folder.config))
    async with folder.open() as engine:
        await engine.refresh(["sick", "well"])
        names = [server.name for server in engine.settings.servers]
        reached = {name: engine.view.catalog.part(name).connection for name in names}
        with (
            open_status_file(folder.data, scope) as one,
            open_status_file(folder.data, scope) as other,
        ):
            slow = Observation("sick", "degraded", reached["sick"], reason="it is slow")
            moved = seen("well", ServerState.CRASH_LOOPING, "of another address")
            one.write([slow, moved, replace(seen("well", "idle", reached["well"]), since=1.0)])
            failing = seen("sick", "failing", reached["sick"])
            gone = replace(failing, since=5.0, next_try=9.0, stderr="gone")
            later = seen("well", "a state of a later version", reached["well"])
            other.write([gone, later, seen("new", "failing", reached["new"])])
            new, sick, well = await engine.health(observations(folder.data, scope))
            elsewhere = await engine.elsewhere()  # than in this process

    where = f"seen by the running gateway, process {os.getpid()}"
    assert (new.state, new.reason) == (ServerState.FAILING, f"it is gone ({where})")
    shown = sick.state, sick.since, sick.next_try, sick.stderr
    assert shown == (ServerState.FAILING, 5.0, 9.0, "gone")
    assert sick.reason == f"it is gone ({where}; degraded in process {os.getpid()})"
    assert [report.status for report in sick.gateways] == ["failing", "degraded"]
    assert [report.status for report in well.gateways] == ["idle"]
    assert (well.state, well.since == 1.0, elsewhere) == (ServerState.READY, False, {})


@pytest.mark.requirement("HEA-30")
@pytest.mark.skipif(os.name != "posix", reason="modes are a matter of POSIX")
def test_what_a_gateway_writes_is_its_owners_alone(tmp_path: Path) -> None:
    with open_status_file(tmp_path / "data", "scope"):
        [path] = (tmp_path / "data" / "gateways").iterdir()

        assert path.stat().st_mode & 0o77 == 0
        assert path.parent.stat().st_mode & 0o77 == 0
