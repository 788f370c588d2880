"""Many gateways on one data folder, of which one serves HTTP: specs/serving.md."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.contract.discovery import Discovery
from tests.forked import Preloaded
from tests.leader_race import race
from tests.servers.programs import HERE, eventually
from tests.shared_gateways import Gateways

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc"),
]


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[Gateways]:
    with Gateways(tmp_path) as gateways:
        yield gateways


@pytest.mark.chaos
@pytest.mark.requirement("SRV-70")
def test_of_fifty_processes_that_start_at_once_one_leads(tmp_path: Path) -> None:
    """`benchmarks/leader_race.py` does it 500 times."""
    leading = []
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        leading.append(race(tmp_path / str(number), 50))

    assert leading == [1, 1, 1, 1]


@pytest.mark.requirement("SRV-70", "SRV-71")
def test_one_gateway_serves_http_and_another_one_when_it_is_killed(gateways: Gateways) -> None:
    started = [gateways.start() for _ in range(3)]
    first = gateways.serving()
    served = gateways.ask()
    os.kill(first, signal.SIGKILL)
    gateways.running[first].process.wait()

    second = gateways.serving()
    served_again = gateways.ask()

    assert (first, second) == (first, gateways.leader())
    assert first != second
    assert (served.status_code, served_again.status_code) == (200, 200)
    left = [gateway for gateway in started if gateway.process.pid != first]
    assert all("result" in gateway.ask("tools/list", {}) for gateway in left)


@pytest.mark.thorough
@pytest.mark.requirement("SRV-70", "SRV-71")
async def test_whenever_a_leader_is_killed_one_other_leads_without_waiting_for_its_lease(
    tmp_path: Path,
) -> None:
    log = tmp_path / "leaders"
    log.touch()
    with ExitStack() as at_end:

        def start() -> None:
            command = [sys.executable, str(HERE / "leader.py"), str(tmp_path)]
            process = at_end.enter_context(subprocess.Popen(command))
            at_end.callback(process.kill)
            running[process.pid] = process

        running: dict[int, subprocess.Popen[bytes]] = {}
        for _ in range(3):
            start()
        for kills in range(20):
            await eventually(lambda kills=kills: len(leaders(log)) > kills)
            *_, leader = leaders(log)
            running[leader].kill()
            running.pop(leader).wait()
            start()

    led = leaders(log)
    assert len(set(led)) == len(led)
    assert 20 <= len(led) <= 21  # the last one may not have had the time


def leaders(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()]


@pytest.mark.requirement("SRV-71")
def test_a_gateway_whose_client_leaves_hands_over(gateways: Gateways) -> None:
    for _ in range(2):
        gateways.start()
    first = gateways.serving()

    left = gateways.running[first].leave()
    second = gateways.serving()

    assert (left, second != first) == (0, True)
    assert gateways.ask().status_code == 200


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


@pytest.mark.requirement("SRV-73")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        pytest.param(["--http", "127.0.0.1:0"], "needs a port that all gateways know", id="port 0"),
        pytest.param(
            ["--http", "127.0.0.1:3424", "--new-token"], "gateways share the token", id="new token"
        ),
        pytest.param(["--http", "0.0.0.0:3424"], "--allow-remote", id="another address"),
    ],
)
def test_what_gateways_cannot_share_is_refused(
    tmp_path: Path, forked: Preloaded, words: list[str], reason: str
) -> None:
    home = Discovery(tmp_path, forked)
    home.configure()

    done = home("serve", "--stdio", *words)

    assert done.code == 2
    assert reason in done.err


@pytest.mark.requirement("SRV-73")
def test_the_token_stands_in_no_log_of_a_client(gateways: Gateways) -> None:
    gateways.start()
    gateways.serving()
    gateways.ask()

    gateways.wait_logged("Serving MCP at http://127.0.0.1")
    assert "a-token-of" not in gateways.log()


@pytest.mark.thorough
@pytest.mark.requirement("SRV-74")
def test_without_a_registry_the_address_itself_decides(gateways: Gateways) -> None:
    (gateways.folder / "discovery.yaml").write_text("servers: {}\ncache: {enabled: false}\n")
    for _ in range(2):
        gateways.start()
    first = gateways.serving()
    gateways.wait_logged("it is tried again")  # by the other one
    gateways.running[first].leave()

    second = gateways.serving()

    assert first != second
    assert gateways.ask().status_code == 200
    assert gateways.log().count("it is tried again") == 1


@pytest.mark.thorough
@pytest.mark.requirement("SRV-71")
def test_gateways_whose_registry_is_removed_choose_anew(gateways: Gateways) -> None:
    for _ in range(2):
        gateways.start()
    gateways.serving()
    for file in (gateways.folder / "data").glob("registry.db*"):
        file.unlink()

    gateways.wait_agreed()

    assert gateways.ask().status_code == 200
