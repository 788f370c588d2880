"""Many gateways on one data folder, of which one serves HTTP: specs/serving.md."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared_gateways import Gateways

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc"),
]


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[Gateways]:
    with Gateways(tmp_path) as gateways:
        yield gateways


@pytest.mark.requirement("SRV-70")
def test_one_gateway_serves_http_and_another_one_when_it_is_killed(gateways: Gateways) -> None:
    started = [gateways.start() for _ in range(3)]
    first = gateways.serving()
    served = gateways.ask()
    os.kill(first, signal.SIGKILL)
    gateways.running[first].process.wait()

    second = gateways.serving()
    served_again = gateways.ask()

    assert second == gateways.leader() != first
    assert "a-token-of" not in gateways.log()
    assert (served.status_code, served_again.status_code) == (200, 200)
    left = [gateway for gateway in started if gateway.process.pid != first]
    assert all("result" in gateway.ask("tools/list", {}) for gateway in left)


@pytest.mark.thorough
@pytest.mark.requirement("SRV-72")
def test_a_leader_that_was_stopped_leads_no_more_when_it_goes_on(gateways: Gateways) -> None:
    for _ in range(2):
        gateways.start()
    first = gateways.serving()
    before = gateways.lease()
    os.kill(first, signal.SIGSTOP)

    second = gateways.leader(other_than=first)
    os.kill(first, signal.SIGCONT)
    serving = gateways.wait_agreed()
    after = gateways.lease()

    assert serving == second
    assert before is not None
    assert after is not None
    assert after.fence == before.fence + 1  # it wrote nothing into the lease
    assert after.holder.startswith(f"{second}-")
    assert gateways.ask().status_code == 200
    assert "result" in gateways.running[first].ask("tools/list", {})
    gateways.wait_logged("by now")
