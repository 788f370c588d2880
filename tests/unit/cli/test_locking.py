"""`discovery lock` where servers do not list their tools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import anyio
import pytest
from msgspec.structs import replace

from discovery_engine.catalog import Failure, ServerPart
from discovery_engine.events import ServerFailed
from discovery_engine.runtime.refresh_report import RefreshReport
from discovery_engine.tools.model import ServerName
from discovery_engine.view.view import View
from tests.factories import make_settings
from tests.unit.cli.backends import NOW, FakeEngine, run, usual_view, view_of

pytestmark = pytest.mark.anyio

GONE = Failure("SERVER_CONNECTION_ERROR", "server 'time' is unavailable: refused", "start it", NOW)


def failed_before() -> View:
    usual = usual_view()
    time = ServerPart(ServerName("time"), failure=GONE)
    return view_of(usual.settings, usual.catalog.part(ServerName("github")), time)


def in_a_file(view: View) -> View:
    return replace(view, settings=replace(view.settings, path="/somewhere/discovery.yaml"))


@dataclass
class HalfHanging(FakeEngine):
    """One of its servers fails, and another never answers."""

    async def refresh(
        self, servers: Iterable[str] | None = None, *, max_wait: float | None = None
    ) -> RefreshReport:
        if servers is None:
            self.view = self.after or self.view
            self.bus.publish(ServerFailed(ServerName("time"), GONE.code, GONE.message))
            await anyio.sleep_forever()
        return await super().refresh(servers, max_wait=max_wait)


@pytest.mark.requirement("TRU-34")
async def test_once_a_server_has_failed_the_others_are_not_waited_for_long() -> None:
    nobody = view_of(make_settings("github", "time"))
    engine = HalfHanging(nobody, after=failed_before())

    with anyio.fail_after(60):
        unlisted = await engine.lock.list_all(max_wait=0.01)

    assert unlisted == {"time": GONE}


@pytest.mark.requirement("TRU-34")
async def test_a_server_that_failed_the_last_time_is_asked_first_and_not_for_long() -> None:
    engine = FakeEngine(failed_before(), is_slow=True)

    unlisted = await engine.lock.list_all()

    assert unlisted == {"time": None}
    assert engine.asked == [["time"]]
    assert engine.max_wait == 10.0


@pytest.mark.requirement("TRU-34")
async def test_a_server_that_is_back_holds_up_nothing() -> None:
    engine = FakeEngine(failed_before(), after=usual_view())

    unlisted = await engine.lock.list_all()

    assert unlisted == {}
    assert engine.asked == [["time"], ["github", "time"]]


def test_the_refusal_names_the_server_and_what_to_do() -> None:
    failed = run("lock", engine=FakeEngine(in_a_file(usual_view()), after=failed_before()))
    slow = run("lock", engine=FakeEngine(in_a_file(failed_before()), is_slow=True))

    assert (failed.exit_code, slow.exit_code) == (5, 5)
    assert "time: refused (start it)\n" in failed.stderr
    assert "time: it is still starting (`discovery refresh time` waits for it" in slow.stderr
    assert "nothing is pinned before every enabled server has listed its tools" in slow.stderr
