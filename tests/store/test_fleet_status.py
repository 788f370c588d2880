"""What the owner sees of the refresh queue, and does about it: specs/fleet.md."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from discovery_engine.config.files.location import catalog_key_of
from discovery_engine.config.settings import StdioTransport
from discovery_engine.engine import Engine
from discovery_engine.engine.doctor import checks
from discovery_engine.engine.owner.change_plan import project
from discovery_engine.engine.owner.fleet import read_status
from discovery_engine.engine.restore import last_registry, stored_view
from discovery_engine.errors import ServerNotFoundError
from discovery_engine.store.refresh_job import RefreshTarget
from discovery_engine.store.registry import Registry
from discovery_engine.tools.model import ServerName
from tests.api_server import serving
from tests.contract.discovery import Discovery
from tests.engines import Folder, good
from tests.factories import make_part
from tests.forked import Preloaded

SERVERS = ("a", "b", "c", "d")


def fill(engine: Engine) -> None:
    """A queue as workers leave it: `a` listed, `b` dead, `c` held, `d` waiting."""
    store, scope = engine._core.store, catalog_key_of(engine.settings)
    targets = [RefreshTarget(ServerName(name)) for name in SERVERS]
    store.plan_refreshes(scope, targets[:1])
    [job] = store.claim_refreshes(scope, "w1", limit=1, lease=600)
    store.save_claimed(job.claim, make_part("a", "x", "y", "z"), due_in=86_400, revision=1)
    store.plan_refreshes(scope, targets[:2])
    [job] = store.claim_refreshes(scope, "w1", limit=1, lease=600)
    store.fail_refresh(job.claim, "UPSTREAM_UNAVAILABLE", "it exits at once", retry_in=None)
    store.plan_refreshes(scope, targets[:3])
    store.claim_refreshes(scope, "w2", limit=1, lease=600)
    store.plan_refreshes(scope, targets)
    store.save_vectors(scope, "m", {b"1": b"one", b"2": b"two"})


@pytest.fixture
def queue(folder: Folder) -> Folder:
    folder.write(*map(good, SERVERS))
    return folder


@pytest.mark.requirement("FLT-31")
@pytest.mark.anyio
async def test_the_status_answers_what_people_watch(queue: Folder) -> None:
    async with queue.open() as engine:
        fill(engine)
        found = await engine.fleet.status()

    assert {state: count for state, count in found.counts.items() if count} == {
        "pending": 1,
        "processing": 1,
        "enabled": 1,
        "dead": 1,
    }
    assert found.oldest_due
    assert found.oldest_due.server == "d"
    assert 0 <= found.seconds_overdue < time.time() - found.oldest_due.due_at + 1
    jobs = {str(job.server): job for job in found.jobs}
    assert jobs["c"].holder == "w2"
    assert jobs["a"].tool_count == 3
    assert jobs["b"].error_message == "it exits at once"
    assert [job.server for job in found.recent_registrations(2)] == ["d", "c"]
    assert found.recent_activity()[0].server == "c"
    assert {job.server for job in found.recent_activity()} == {"a", "b", "c"}
    assert found.embedding_count == 2


@pytest.mark.requirement("FLT-31")
@pytest.mark.anyio
async def test_doctor_names_servers_given_up_and_overdue_ones_and_a_wrong_clock(
    queue: Folder,
) -> None:
    async with queue.open() as engine:
        assert not [*checks.queue(await engine.fleet.status(), time.time())]
        fill(engine)
        status = await engine.fleet.status()
        store, scope = engine._core.store, catalog_key_of(engine.settings)
        assert store.retry_refreshes(scope, ["b"]) == ("b",)
        retried = await engine.fleet.status()

    later = replace(retried, now=retried.now + 3600)
    assert [check.code for check in checks.queue(status, status.now)] == ["SERVERS_GIVEN_UP"]
    assert [check.code for check in checks.queue(retried, retried.now)] == ["CHECK_PASSED"]
    assert [check.code for check in checks.queue(later, later.now)] == ["REFRESHES_OVERDUE"]
    assert "CLOCK_WRONG" in [check.code for check in checks.queue(later, retried.now)]


@pytest.mark.requirement("FLT-31")
@pytest.mark.anyio
async def test_the_status_reads_no_file_until_something_of_the_configuration_has_changed(
    queue: Folder,
) -> None:
    def has_status() -> bool:
        with last_registry(queue.config, environ=os.environ, data_dir=queue.data) as last:
            return last is not None and len(read_status(*last).jobs) == len(SERVERS)

    assert not has_status()
    async with queue.open() as engine:
        fill(engine)
    assert has_status()
    async with queue.open() as engine:
        engine._core.store.set_switches(str(queue.config), {"a": False}, at=1.0)
    assert not has_status()
    async with queue.open():
        pass
    assert has_status()
    queue.write(*map(good, SERVERS[1:]))
    assert not has_status()


@pytest.mark.requirement("FLT-31")
@pytest.mark.anyio
async def test_of_many_servers_the_status_shows_those_first_that_need_somebody(
    tmp_path: Path, forked: Preloaded
) -> None:
    folder, home = Folder(tmp_path), Discovery(tmp_path, forked)
    folder.write(*(good(f"s{number:03}") for number in range(110)), good("z"))
    async with folder.open(environ=home.environ) as engine:
        store, scope = engine._core.store, catalog_key_of(engine.settings)
        store.plan_refreshes(scope, [RefreshTarget(ServerName("z"))])
        [job] = store.claim_refreshes(scope, "w", limit=1, lease=60)
        store.fail_refresh(job.claim, "UPSTREAM_UNAVAILABLE", "it exits at once", retry_in=None)
        store.plan_refreshes(scope, [RefreshTarget(name) for name in engine.settings.by_name])

    some, everything = home("fleet", "status"), home("fleet", "status", "--all")
    dead = home("fleet", "status", "--state", "dead")

    as_json = home("fleet", "status", "--json").json
    async with folder.open(environ=home.environ) as engine, serving(engine, folder) as api:
        first = await api.get("/fleet", limit="100")
        rest = await api.get("/fleet", limit="100", cursor=first["next_cursor"])
        gone = await api.get("/fleet", state="dead")

    names = [job["server"] for job in first["jobs"] + rest["jobs"]]
    assert names == ["z", *(f"s{number:03}" for number in range(110))]
    assert (len(first["jobs"]), rest["next_cursor"]) == (100, None)
    assert as_json["jobs"] == first["jobs"]
    assert [job["server"] for job in gone["jobs"]] == ["z"]
    assert gone["counts"] == first["counts"] == as_json["counts"]
    assert "z " in some.out.splitlines()[1]
    assert (len(some.out.splitlines()), len(everything.out.splitlines())) == (101, 112)
    assert "11 more servers" in some.err
    assert len(dead.out.splitlines()) == 2


@pytest.mark.requirement("FLT-31")
@pytest.mark.anyio
async def test_how_long_a_server_waits_is_told_by_the_clock_of_the_registry(queue: Folder) -> None:
    async with queue.open(clock=lambda: time.time() + 7200) as engine:
        fill(engine)
        found = await engine.fleet.status()

    assert found.seconds_overdue < 3600
    assert found.recent_activity()[0].server == "c"


@pytest.mark.requirement("FLT-31")
def test_every_registry_has_the_time_that_its_jobs_have(store: Registry) -> None:
    before = store.refresh_time()
    store.plan_refreshes("s", [RefreshTarget(ServerName("a"))])
    [job] = store.refresh_jobs("s")

    assert before <= job.created_at <= store.refresh_time()


@pytest.mark.requirement("FLT-32")
@pytest.mark.anyio
async def test_a_dead_server_is_tried_again_and_a_listed_one_sooner(queue: Folder) -> None:
    async with queue.open() as engine:
        fill(engine)
        assert await engine.fleet.refresh(["a", "b"]) == ("a",)
        store, scope = engine._core.store, catalog_key_of(engine.settings)
        claimed = store.claim_refreshes(scope, "w3", limit=1, lease=60)
        assert [job.server for job in claimed] == ["a"]  # before those that have waited longer
        assert await engine.fleet.retry(["a", "b"]) == ("b",)
        assert (await engine.fleet.status()).counts["dead"] == 0
        with pytest.raises(ServerNotFoundError):
            await engine.fleet.retry(["nobody"])
        with pytest.raises(ServerNotFoundError):
            await engine.fleet.refresh(["nobody"])


@pytest.mark.requirement("FLT-31", "FLT-32")
@pytest.mark.anyio
async def test_the_queue_is_in_the_api_and_the_metrics(queue: Folder) -> None:
    async with queue.open() as engine, serving(engine, queue) as api:
        none = await api.ask("/../metrics")
        fill(engine)
        shown = await api.get("/fleet")
        metrics = await api.ask("/../metrics")
        retried = (
            await api.ask("/fleet", "POST", json={"action": "retry", "servers": ["b"]})
        ).json()
        hastened = (
            await api.ask("/fleet", "POST", json={"action": "refresh", "servers": ["a"]})
        ).json()

    assert "discovery_fleet_jobs" not in none.text
    assert shown["counts"]["dead"] == 1
    assert shown["oldest_due"]["server"] == "d"
    assert shown["embedding_count"] == 2
    held = next(job for job in shown["jobs"] if job["state"] == "processing")
    assert (held["server"], held["worker"]) == ("c", "w2")
    assert 'discovery_fleet_jobs{state="dead"} 1.0' in metrics.text
    assert 'discovery_fleet_jobs{state="error"} 0.0' in metrics.text
    assert "discovery_fleet_oldest_due_seconds " in metrics.text
    assert "discovery_fleet_embeddings 2.0" in metrics.text
    assert retried == {"servers": ["b"]}
    assert hastened == {"servers": ["a"]}


@pytest.mark.requirement("FLT-31", "FLT-32")
@pytest.mark.anyio
async def test_the_commands_show_the_queue_and_steer_it(tmp_path: Path, forked: Preloaded) -> None:
    folder = Folder(tmp_path)
    folder.write(*map(good, SERVERS))
    home = Discovery(tmp_path, forked)
    assert "the queue is empty" in home("fleet", "status").err
    async with folder.open(environ=home.environ) as engine:
        fill(engine)

    examined = home("doctor", "--json").json["checks"]
    shown, as_json = home("fleet", "status"), home("fleet", "status", "--json")
    unclear = home("fleet", "retry")
    retried = home("fleet", "retry", "--all-failed")
    hastened = home("fleet", "refresh", "a")
    unknown = home("fleet", "refresh", "nobody")

    assert "SERVERS_GIVEN_UP" in [check["code"] for check in examined]
    assert shown.code == as_json.code == 7
    assert re.search(r"failing for \d+ s: it exits at once", shown.out)
    assert "w2" in shown.out
    assert "oldest due: d" in shown.err
    assert as_json.json["counts"]["dead"] == 1
    assert unclear.code == 2
    assert retried.code == hastened.code == 0
    assert "due now: b" in retried.err
    assert "due now: a" in hastened.err
    assert unknown.code == 2
    assert home("fleet", "status").code == 0


@pytest.mark.thorough
@pytest.mark.requirement("FLT-21")
@pytest.mark.anyio
async def test_a_server_that_was_removed_is_neither_shown_nor_counted_nor_retried(
    tmp_path: Path, forked: Preloaded
) -> None:
    folder = Folder(tmp_path)
    folder.write(*map(good, SERVERS))
    home = Discovery(tmp_path, forked)
    async with folder.open(environ=home.environ) as engine:
        fill(engine)
        assert home("fleet", "status").code == 7
        folder.write(good("c"), good("d"))
        await engine.reload()
        found = await engine.fleet.status()
        assert await engine.fleet.retry() == ()
        assert await engine.fleet.refresh() == ("c", "d")
        async with serving(engine, folder) as api:
            shown, metrics = await api.get("/fleet"), await api.ask("/../metrics")
        jobs = engine._core.store.refresh_jobs(catalog_key_of(engine.settings))
        planned = project(None, engine.settings, data_dir=folder.data, environ=home.environ)

    assert list(planned.before.catalog.parts) == ["c", "d"]
    assert [job.server for job in found.jobs] == ["c", "d"]
    assert (found.counts["dead"], found.counts["enabled"]) == (0, 0)
    assert [job["server"] for job in shown["jobs"]] == ["c", "d"]
    assert 'discovery_fleet_jobs{state="dead"} 0.0' in metrics.text
    assert home("fleet", "status").code == 0
    assert [job["server"] for job in home("fleet", "status", "--json").json["jobs"]] == ["c", "d"]
    assert home("fleet", "retry", "b").code == 2
    assert [job.server for job in jobs] == [*SERVERS]  # another process may name them still


@pytest.mark.requirement("FLT-21")
@pytest.mark.anyio
async def test_a_start_is_as_fast_as_ever_beside_a_server_that_was_removed(queue: Folder) -> None:
    async with queue.open() as engine:
        fill(engine)
    queue.write(good("a"))
    async with queue.open() as engine:
        await engine.refresh()
    async with queue.open() as engine:
        assert not engine._core.state.is_complete  # nothing of the file had to be read
        assert list(engine.view.catalog.parts) == ["a"]
    view = stored_view(queue.config, data_dir=queue.data)

    assert view
    assert list(view.catalog.parts) == ["a"]


@pytest.mark.requirement("FLT-21")
@pytest.mark.anyio
async def test_a_server_that_was_removed_while_it_lacked_a_value_disturbs_no_start(
    folder: Folder,
) -> None:
    lacking = replace(good("b"), transport=StdioTransport("x", env={"KEY": "${NO_SUCH_VALUE}"}))
    folder.write(good("a"), lacking)
    async with folder.open() as engine:
        await engine.refresh()
        assert engine.view.catalog.parts[lacking.name].failure
        scope = catalog_key_of(engine.settings)
        engine._core.store.plan_refreshes(scope, [RefreshTarget(lacking.name)])

    for tags in ({"one"}, {"two"}):  # each time the file has changed
        folder.write(replace(good("a"), tags=frozenset(tags)))
        async with folder.open() as engine:
            assert list(engine.view.catalog.parts) == ["a"]


@pytest.mark.requirement("FLT-31", "FLT-13")
def test_servers_that_wait_for_approval_are_named_with_what_to_do(
    tmp_path: Path, forked: Preloaded
) -> None:
    home = Discovery(tmp_path, forked)
    (tmp_path / "discovery.yaml").write_text("servers: {time: {command: uvx, args: [time]}}\n")

    worked = home("fleet", "worker", "--once", DISCOVERY_CONFIG="")
    status = home("fleet", "status", DISCOVERY_CONFIG="")

    assert worked.out == ""
    for found in (worked, status):
        assert (
            "note: time: the owner has not approved it yet (`discovery review servers`" in found.err
        )
    assert re.search(r"time +disabled .* the owner has not approved it yet", status.out)
