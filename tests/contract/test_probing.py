"""Whether servers answer now, and how fast: `discovery health --probe`, `engine.probe()`."""

from __future__ import annotations

import anyio
import pytest

from discovery_engine import LogFilter
from discovery_engine.errors import DiscoveryError, UntrustedServerError
from tests.engines import Folder, broken, good
from tests.servers.programs import fault_server

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HEA-40")]


def fleet(folder: Folder) -> None:
    folder.write(
        fault_server(era="legacy", name="old"),
        fault_server(era="modern", name="new"),
        broken(good("dead")),
        fault_server("hang_start", name="late"),
        good("off", enabled=False),
    )


@pytest.mark.thorough
async def test_every_server_is_asked_at_once_and_none_delays_the_others(folder: Folder) -> None:
    fleet(folder)
    async with folder.open() as engine:
        with anyio.fail_after(60):
            results = await engine.probe(max_wait=5)
        pings = await engine.call_log.entries(LogFilter(kinds=("ping",)))
        states = {one.name: one.state for one in await engine.health()}

    by_name = {one.server: one.to_json() for one in results}
    assert by_name.keys() == {"old", "new", "dead", "late"}
    assert by_name["old"]["status"] == by_name["new"]["status"] == "healthy"
    assert by_name["old"]["latency_ms"] > 0
    assert by_name["dead"]["code"] == "SERVER_CONNECTION_ERROR"
    assert (by_name["late"]["status"], by_name["late"]["error"]) == (
        "unhealthy",
        "it did not answer within 5 s",
    )
    assert states["late"] == "starting"
    assert {one.server: one.outcome for one in pings} == {
        "old": "ok",
        "new": "ok",
        "dead": "SERVER_CONNECTION_ERROR",
        "late": "TOOL_EXECUTION_TIMEOUT",
    }


async def test_an_answer_resets_the_errors_of_the_server(folder: Folder) -> None:
    folder.write(good())
    async with folder.open() as engine:
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "echo", {"text": 7})
        [before] = await engine.metrics("good")
        await engine.probe(["good"])
        [after] = await engine.metrics("good")

    assert (before.total.errors, after.total.errors, after.total.calls) == (1, 0, 1)


async def test_what_may_not_be_started_is_not_asked(folder: Folder) -> None:
    folder.write(good())
    folder.config.chmod(0o666)  # others may have written it
    async with folder.open() as engine:
        assert await engine.probe() == ()
        with pytest.raises(UntrustedServerError):
            await engine.probe(["good"])
