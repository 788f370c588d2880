"""The refresh queue: what every back-end of the registry promises to workers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace
from psycopg import Connection

from discovery_engine.catalog import OfferingEntry, RemovedTool, ServerPart
from discovery_engine.rules.rule import Verdict
from discovery_engine.store import schedule
from discovery_engine.store.backends import open_database, open_registry
from discovery_engine.store.refresh_job import RefreshClaim, RefreshJob, RefreshTarget, SaveOutcome
from discovery_engine.store.registry import Registry
from discovery_engine.store.schedule import NAMED_FOR
from discovery_engine.store.sqlite.sqlite_registry import open_sqlite
from discovery_engine.tools.model import ServerName
from discovery_engine.tools.offering import Offering, OfferingKind
from discovery_engine.trust.decisions import Acceptance
from tests.factories import make_part, make_settings, make_tool, save_success
from tests.postgres import PostgresServer
from tests.store.registry_stores import back_ends, pass_time, url_of

SCOPE = "/home/someone/discovery.yaml"
HOUR = 3600.0


def plan(store: Registry, *names: str, scope: str = SCOPE) -> int:
    return store.plan_refreshes(scope, [RefreshTarget(ServerName(name)) for name in names])


def claim(store: Registry, holder: str = "w", *, limit: int = 1, lease: float = HOUR) -> list[str]:
    return [job.server for job in claims(store, holder, limit=limit, lease=lease)]


def claims(
    store: Registry, holder: str = "w", *, limit: int = 1, lease: float = HOUR
) -> tuple[RefreshJob, ...]:
    return store.claim_refreshes(SCOPE, holder, limit=limit, lease=lease)


def held(store: Registry, holder: str = "w", *, lease: float = HOUR) -> RefreshClaim:
    [job] = claims(store, holder, lease=lease)
    return job.claim


def job_of(store: Registry, name: str) -> RefreshJob:
    [found] = [job for job in store.refresh_jobs(SCOPE) if job.server == name]
    return found


def listed(store: Registry, name: str = "a") -> ServerPart | None:
    snapshot = store.load(SCOPE)
    return snapshot.catalog.parts.get(ServerName(name)) if snapshot else None


@pytest.mark.requirement("FLT-1")
def test_a_scope_has_one_job_for_each_server_of_its_configuration(store: Registry) -> None:
    assert plan(store, "b", "a", "\udc80") == 3
    assert plan(store, "a", scope="other") == 1
    assert plan(store, "b", "a", "\udc80") == 0

    jobs = {job.server: job.state for job in store.refresh_jobs(SCOPE)}
    assert jobs == {"a": "pending", "b": "pending", "\udc80": "pending"}

    pass_time(store, NAMED_FOR)
    store.save_settings(SCOPE, make_settings("a"))
    assert [job.server for job in store.refresh_jobs(SCOPE)] == ["a"]
    assert [job.server for job in store.refresh_jobs("other")] == ["a"]


@pytest.mark.thorough
@pytest.mark.requirement("FLT-21")
@pytest.mark.parametrize("keep_others", [True, False], ids=["worker", "gateway"])
def test_a_job_is_dropped_by_no_process_with_an_older_configuration(
    store: Registry, *, keep_others: bool
) -> None:
    store.save_settings(SCOPE, make_settings("a", "new"))
    plan(store, "a", "new")
    save_success(store, held(store))
    store.fail_refresh(held(store), "X", "broken", retry_in=None)

    store.save_settings(SCOPE, make_settings("a"), keep_others=keep_others)
    assert plan(store, "a") == 0
    assert (job_of(store, "new").state, job_of(store, "new").error_code) == ("dead", "X")


@pytest.mark.requirement("FLT-21")
def test_servers_that_a_worker_excludes_are_left_to_the_others(store: Registry) -> None:
    plan(store, "new", "\udc80")
    plan(store, "a")
    excluded = frozenset({"new", "\udc80"})

    jobs = store.claim_refreshes(SCOPE, "old", limit=3, lease=HOUR, excluded=excluded)
    assert [job.server for job in jobs] == ["a"]
    assert 0 < (store.seconds_until_refresh(SCOPE, excluded=excluded) or 0) <= HOUR
    assert store.seconds_until_refresh(SCOPE, excluded={"a", *excluded}) is None
    assert store.seconds_until_refresh(SCOPE) == 0
    assert sorted(claim(store, "new", limit=3)) == ["new", "\udc80"]


@pytest.mark.requirement("FLT-1")
def test_a_server_that_is_switched_off_is_disabled_until_it_is_switched_on(store: Registry) -> None:
    off = RefreshTarget(ServerName("a"), reason="it is switched off", code="DISABLED_BY_OWNER")
    plan(store, "a")
    running = held(store)

    assert store.plan_refreshes(SCOPE, [off]) == 1
    assert store.plan_refreshes(SCOPE, [off]) == 0
    job = job_of(store, "a")
    assert (job.state, job.error_code, job.error_message) == ("disabled", off.code, off.reason)
    assert not save_success(store, running)
    assert store.hasten_refreshes(SCOPE) == store.retry_refreshes(SCOPE) == ()
    assert claim(store) == []

    plan(store, "a")
    assert (job_of(store, "a").state, job_of(store, "a").error_code) == ("pending", "")
    assert claim(store) == ["a"]


@pytest.mark.requirement("FLT-1")
def test_a_server_that_is_reached_in_another_way_is_due_at_once(store: Registry) -> None:
    plan(store, "a")
    store.fail_refresh(held(store), "X", "broken", retry_in=None)
    assert claim(store) == []

    store.plan_refreshes(SCOPE, [RefreshTarget(ServerName("a"), connection="another")])

    assert claim(store) == ["a"]


@pytest.mark.requirement("FLT-2")
def test_no_two_workers_get_the_same_job(store: Registry) -> None:
    plan(store, *"abcdefgh")

    first, second = claim(store, "one", limit=5), claim(store, "two", limit=5)

    assert (len(first), len(second)) == (5, 3)
    assert sorted(first + second) == [*"abcdefgh"]
    assert claim(store, "three") == []


@pytest.mark.requirement("FLT-2")
def test_workers_in_many_threads_share_the_jobs_without_a_double(store: Registry) -> None:
    names = [f"s{number:03}" for number in range(120)]
    plan(store, *names)

    def work(number: int) -> list[str]:
        found: list[str] = []
        while batch := claim(store, f"w{number}", limit=3):
            found += batch
        return found

    with ThreadPoolExecutor(4) as threads:
        found = [name for names in threads.map(work, range(4)) for name in names]

    assert sorted(found) == names


@pytest.mark.requirement("FLT-2")
def test_of_what_is_due_the_highest_priority_comes_first_and_then_the_oldest(
    store: Registry,
) -> None:
    plan(store, "old")
    plan(store, "old", "urgent", "late")
    save_success(store, held(store), due_in=0.0)  # of the oldest
    store.hasten_refreshes(SCOPE, ["urgent"], priority=schedule.REQUESTED)

    assert [claim(store) for _ in range(4)] == [["urgent"], ["late"], ["old"], []]


@pytest.mark.requirement("FLT-2")
def test_a_claim_reads_the_queue_in_its_order_and_sorts_nothing(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    with closing(open_database(postgres_server.create_database())) as database:
        plan(database, *"abcdef")

        def explained(db: Connection) -> str:
            for wasteful in ("enable_seqscan", "enable_sort", "enable_bitmapscan"):
                db.execute(f"SET LOCAL {wasteful} = off")
            query = """
                EXPLAIN SELECT key FROM discovery.refresh_jobs
                WHERE scope_key = %s AND claimable_at IS NOT NULL AND claimable_at <= 1
                ORDER BY priority DESC, claimable_at, created_at, server LIMIT 1 FOR UPDATE
                """
            return str(db.execute(query, (b"x",)).fetchall())

        assert "Sort" not in database.database.read(explained)
    with open_sqlite(tmp_path / "registry.db") as file:
        query = """
            EXPLAIN QUERY PLAN SELECT server, connection FROM refresh_jobs
            WHERE scope_key = x'00' AND claimable_at IS NOT NULL AND claimable_at <= 1
            ORDER BY priority DESC, claimable_at, created_at, server LIMIT 1
            """
        found = str(file._database.read(lambda db: db.execute(query).fetchall()))
    assert "refresh_jobs_by_turn" in found
    assert "TEMP B-TREE" not in found


@pytest.mark.thorough
@pytest.mark.requirement("FLT-2")
def test_what_concerns_many_servers_is_done_in_parts(store: Registry) -> None:
    names = [f"s{number:04}" for number in range(2500)]

    assert plan(store, *names) == 2500
    assert plan(store, *names) == 0
    assert store.hasten_refreshes(SCOPE, priority=1) == tuple(names)
    assert store.hasten_refreshes(SCOPE, names, priority=1) == tuple(names)
    assert {job.priority for job in store.refresh_jobs(SCOPE)} == {1}


@pytest.mark.requirement("FLT-2")
def test_no_transaction_of_a_plan_has_more_than_a_thousand_jobs(
    postgres_server: PostgresServer,
) -> None:
    names = [f"s{number}" for number in range(2500)]
    query = "SELECT count(DISTINCT xmin::text) FROM discovery.refresh_jobs"
    with closing(open_database(postgres_server.create_database())) as database:
        plan(database, *names)
        assert database.database.read(lambda db: db.execute(query).fetchall()) == [(3,)]
        database.hasten_refreshes(SCOPE, priority=1)
        assert database.database.read(lambda db: db.execute(query).fetchall()) == [(3,)]


@pytest.mark.requirement("FLT-3")
def test_a_job_whose_lease_has_ended_is_claimed_by_another_worker(store: Registry) -> None:
    plan(store, "a")

    first = held(store, "one", lease=0.0)
    second = held(store, "two")

    assert second.fence > first.fence
    assert job_of(store, "a").holder == "two"
    assert claim(store, "three") == []


@pytest.mark.requirement("FLT-3")
@pytest.mark.parametrize("way", ["plan", "retry", "refresh"])
def test_a_lease_of_a_clock_that_was_ahead_is_over_once_the_clock_is_right(
    way: str, tmp_path: Path
) -> None:
    now = [86_400.0]
    with open_sqlite(tmp_path / "registry.db", clock=lambda: now[0]) as store:
        plan(store, "a", "b")
        one, two = (job.server for job in claims(store, "killed", limit=2))
        now[0] = 0.0
        assert claim(store, "next", limit=2) == []

        match way:
            case "plan":
                assert plan(store, one, two) == 2
            case "retry":
                assert store.retry_refreshes(SCOPE) == (one, two)
            case _:
                assert store.hasten_refreshes(SCOPE) == (one, two)

        assert sorted(claim(store, "next", limit=2)) == [one, two]


@pytest.mark.requirement("FLT-3")
def test_a_heartbeat_keeps_a_claim_and_names_those_that_are_lost(store: Registry) -> None:
    plan(store, "a", "b")
    kept, lost = (job.claim for job in claims(store, "one", limit=2, lease=0.0))
    store.extend_claims([kept], lease=HOUR)
    assert [job.server for job in claims(store, "two", limit=2)] == [lost.server]

    assert store.extend_claims([kept, lost], lease=HOUR) == {kept}
    assert store.extend_claims([], lease=HOUR) == frozenset()


@pytest.mark.requirement("FLT-3")
def test_a_worker_that_lost_its_claim_can_write_nothing(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("a"))
    plan(store, "a")
    paused = held(store, "one", lease=0.0)
    seen = Acceptance("a", "x", "meaning", "fingerprint", "{}")
    held(store, "two")

    assert not save_success(store, paused)
    assert store.accept_claimed(paused, SCOPE, [seen], at=1.0) is None
    assert not store.fail_refresh(paused, "X", "broken", retry_in=1.0)
    assert store.return_claims([paused]) == 0

    assert listed(store) is None or not listed(store).entries  # type: ignore[union-attr]
    assert store.decisions(SCOPE).accepted == {}
    assert (job_of(store, "a").state, job_of(store, "a").holder) == ("processing", "two")


@pytest.mark.requirement("FLT-3")
def test_a_claim_of_an_earlier_life_of_a_server_is_valid_for_no_later_one(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("a"))
    plan(store, "a")
    earlier = held(store)

    pass_time(store, NAMED_FOR)
    store.save_settings(SCOPE, make_settings())  # it leaves the configuration, and comes back
    assert store.refresh_jobs(SCOPE) == ()
    store.save_settings(SCOPE, make_settings("a"))
    plan(store, "a")
    later = held(store)  # by the same worker, whose first listing has not ended

    assert later.fence > earlier.fence
    assert not save_success(store, earlier)
    assert save_success(store, later)


@pytest.mark.requirement("FLT-3")
def test_what_is_written_under_a_claim_is_written_as_without_one(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("a"))
    plan(store, "a")
    mine = held(store)
    seen = Acceptance("a", "x", "meaning", "fingerprint", "{}")

    assert store.accept_claimed(mine, "decisions", [seen], at=1.0) == 1
    assert store.accept_claimed(mine, "decisions", [seen], at=2.0) == 0
    assert store.save_claimed(mine, make_part("a", "x"), due_in=HOUR, revision=7) == "saved"

    assert listed(store) == make_part("a", "x")
    assert store.history("decisions", "a") == (seen,)
    snapshot = store.load(SCOPE)
    assert snapshot
    assert snapshot.catalog.revision == 7


@pytest.mark.requirement("FLT-21")
def test_what_is_written_under_a_claim_stays_whatever_older_settings_are_saved(
    store: Registry,
) -> None:
    store.save_settings(SCOPE, make_settings("a", "b"))
    plan(store, "a", "b")
    first, second = (job.claim for job in claims(store, limit=2))
    save_success(store, first)

    store.save_settings(SCOPE, make_settings("b"), keep_others=True)  # by a worker
    assert listed(store) == make_part("a", "x")
    kept = store.load(SCOPE)
    assert kept
    assert not list(kept.own.catalog)
    store.save_settings(SCOPE, make_settings("a"), keep_others=True)
    assert save_success(store, second)

    store.save_settings(SCOPE, make_settings("a", "b"))
    assert (listed(store), listed(store, "b")) == (make_part("a", "x"), make_part("b", "x"))


@pytest.mark.requirement("FLT-8")
def test_an_unchanged_listing_writes_no_listing(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("a"))
    plan(store, "a")
    part = make_part("a", "x", "y")
    later = replace(part, listed_at=2000.0)

    def save(part: ServerPart) -> SaveOutcome:
        return store.save_claimed(held(store), part, due_in=0.0, revision=1)

    assert save(part) == "saved"
    before = store.load(SCOPE)

    assert save(later) == "unchanged"
    assert store.load(SCOPE) == before

    assert save(make_part("a", "x")) == "saved"
    assert save(later) == "saved"
    assert listed(store) == later


@pytest.mark.requirement("FLT-8")
def test_a_listing_in_which_any_field_is_different_is_saved(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("a"))
    plan(store, "a")
    part = make_part("a", "x", findings={})
    [entry] = part.entries
    offered = Offering.from_mcp(part.server, OfferingKind.PROMPT, {"name": "p"})
    different = [
        part,
        make_part("a", make_tool("x", "a", description="another"), findings={}),
        replace(part, entries=(replace(entry, verdict=Verdict(enabled=False, reason="rule")),)),
        replace(part, instructions="another"),
        replace(part, new_instructions="another"),
        replace(part, offerings=(OfferingEntry(offered, Verdict()),)),
        replace(part, connection="another"),
        replace(part, ttl=60.0),
        replace(part, removed=(RemovedTool("y", 1.0),)),
    ]

    for one in different:
        assert store.save_claimed(held(store), one, due_in=0.0, revision=1) == "saved"
        assert listed(store) == one


@pytest.mark.requirement("FLT-5", "FLT-8")
def test_a_success_ends_a_claim_and_is_due_again_later(store: Registry) -> None:
    plan(store, "a")
    store.save_settings(SCOPE, make_settings("a"))
    for expected in ("saved", "unchanged"):
        mine = held(store)

        assert store.save_claimed(mine, make_part("a"), due_in=HOUR, revision=1) == expected
        assert store.save_claimed(mine, make_part("a", "x"), due_in=HOUR, revision=1) == "lost"

        job = job_of(store, "a")
        assert (job.state, job.tool_count, job.attempts, job.holder) == ("enabled", 0, 0, "")
        assert job.listed_at is not None
        assert job.due_at == pytest.approx(job.listed_at + HOUR)
        assert claim(store) == []
        assert HOUR - 300 < (store.seconds_until_refresh(SCOPE) or 0) <= HOUR
        store.hasten_refreshes(SCOPE)


@pytest.mark.requirement("FLT-6")
def test_a_failure_is_tried_again_later_and_then_never_until_its_owner_says_so(
    store: Registry,
) -> None:
    plan(store, "a")
    store.fail_refresh(held(store), "X", "broken\x00", retry_in=0.0)
    failed = job_of(store, "a")
    assert (failed.state, failed.attempts, failed.error_message) == ("error", 1, "broken\x00")

    store.fail_refresh(held(store), "X", "broken", retry_in=None)
    assert (job_of(store, "a").state, job_of(store, "a").attempts) == ("dead", 2)
    assert claim(store) == []
    assert store.seconds_until_refresh(SCOPE) is None
    assert store.hasten_refreshes(SCOPE) == ()

    assert store.retry_refreshes(SCOPE, ["a", "unknown"]) == ("a",)
    assert store.seconds_until_refresh(SCOPE) == 0
    assert held(store).server == "a"
    assert job_of(store, "a").attempts == 1


@pytest.mark.requirement("FLT-6")
def test_a_server_that_workers_are_lost_with_is_dead_in_the_end(store: Registry) -> None:
    plan(store, "a", "b")
    save_success(store, held(store))
    for number in range(schedule.MOST_LOSSES):
        assert claim(store, f"w{number}", lease=0.0) == ["b"]

    assert claim(store, "last") == []
    job = job_of(store, "b")
    assert (job.state, job.error_code, job.holder) == ("dead", schedule.WORKER_LOST, "")
    assert f"{schedule.MOST_LOSSES} attempts" in job.error_message
    assert store.retry_refreshes(SCOPE) == ("b",)
    assert claim(store) == ["b"]


@pytest.mark.requirement("FLT-6")
def test_since_when_a_server_fails_is_kept_until_it_is_listed_or_tried_again_by_hand(
    store: Registry,
) -> None:
    plan(store, "a", "b")
    store.fail_refresh(held(store), "X", "broken", retry_in=0.0)
    store.fail_refresh(held(store), "X", "broken", retry_in=0.0)
    first = {job.server: job.failing_since for job in store.refresh_jobs(SCOPE)}
    for job in claims(store, limit=2):
        store.fail_refresh(job.claim, "X", "broken", retry_in=None)
    assert {job.server: job.failing_since for job in store.refresh_jobs(SCOPE)} == first
    assert None not in first.values()

    store.retry_refreshes(SCOPE, ["a"])
    assert job_of(store, "a").failing_since is None
    save_success(store, held(store))
    assert (job_of(store, "a").failing_since, job_of(store, "a").state) == (None, "enabled")


@pytest.mark.requirement("FLT-3")
def test_a_claim_that_is_given_back_is_claimed_at_once_and_was_no_attempt(store: Registry) -> None:
    plan(store, "a", "b", "c")
    one, two, three = (job.claim for job in claims(store, limit=3))
    save_success(store, two, due_in=0.0)
    store.fail_refresh(three, "X", "broken", retry_in=0.0)
    again = [job.claim for job in claims(store, "two", limit=2)]

    assert store.return_claims([one, *again]) == 3

    states = {job.server: (job.state, job.attempts) for job in store.refresh_jobs(SCOPE)}
    assert sorted(states.values()) == [("enabled", 0), ("error", 1), ("pending", 0)]
    assert len(claim(store, "three", limit=3)) == 3


@pytest.mark.requirement("FLT-5")
def test_a_server_that_is_wanted_now_is_due_now_and_once_more_if_it_was_listed_meanwhile(
    store: Registry,
) -> None:
    plan(store, "a", "b")
    save_success(store, held(store))  # a
    mine = held(store)  # b

    assert store.hasten_refreshes(SCOPE, priority=schedule.REQUESTED) == ("a", "b")
    assert claim(store, limit=2) == ["a"]
    save_success(store, mine)

    assert job_of(store, "b").priority == schedule.REQUESTED
    save_success(store, held(store))
    assert job_of(store, "b").priority == 0
    assert claim(store) == []


@pytest.mark.requirement("FLT-2", "FLT-3")
@pytest.mark.parametrize("back_end", back_ends("sqlite", "postgresql"))
def test_workers_of_several_processes_see_one_queue(
    back_end: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = url_of(back_end, request, tmp_path)
    names = [f"s{number:03}" for number in range(60)]
    with ExitStack() as at_end:
        stores = [at_end.enter_context(closing(open_registry(url))) for _ in range(4)]
        plan(stores[0], *names)

        def work(store: Registry) -> list[str]:
            found: list[str] = []
            while jobs := claims(store, f"w{id(store)}", limit=2):
                for job in jobs:
                    assert save_success(store, job.claim)
                    found.append(job.server)
            return found

        with ThreadPoolExecutor(4) as threads:
            found = [name for done in threads.map(work, stores) for name in done]

        assert sorted(found) == names
        assert {job.state for job in stores[0].refresh_jobs(SCOPE)} == {"enabled"}


@pytest.mark.requirement("FLT-12")
@pytest.mark.parametrize("back_end", back_ends("sqlite", "postgresql"))
def test_what_a_worker_saves_other_processes_fetch_and_do_not_overwrite(
    back_end: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = url_of(back_end, request, tmp_path)
    with closing(open_registry(url)) as gateway, closing(open_registry(url)) as worker:
        gateway.save_settings(SCOPE, make_settings("a", "b"))
        old, new = make_part("a", "old"), make_part("a", "new")
        gateway.save_parts(SCOPE, [old], revision=1)
        gateway.load(SCOPE)
        plan(worker, "a")
        worker.load(SCOPE)
        assert worker.save_claimed(held(worker), new, due_in=0.0, revision=2) == "saved"

        # It judges what it had listed before by other rules, and has not seen the new listing.
        gateway.save_parts(SCOPE, [old], revision=3, keep_newer=True)
        assert listed(worker) == new
        assert gateway.changed_parts(SCOPE) == (new,)
        assert gateway.changed_parts(SCOPE) == ()
        again = replace(new, listed_at=9e9)
        assert worker.save_claimed(held(worker), again, due_in=0.0, revision=4) == "unchanged"
        assert gateway.changed_parts(SCOPE) == ()

        gateway.save_parts(SCOPE, [old], revision=5)  # a listing of its own
        assert listed(worker) == old


@pytest.mark.requirement("FLT-14")
def test_a_server_is_tended_that_workers_may_claim_and_is_not_due_for_long(store: Registry) -> None:
    plan(store, "late", "dead", "fresh")
    for _ in range(2):
        mine = held(store)
        if mine.server == "dead":
            store.fail_refresh(mine, "X", "broken", retry_in=None)
        else:
            save_success(store, mine)

    assert store.tended_servers(SCOPE, grace=0.0) == {"fresh"}
    assert store.tended_servers(SCOPE, grace=HOUR) == {"fresh", "late"}
    assert store.tended_servers("other", grace=HOUR) == frozenset()


@pytest.mark.requirement("FLT-3")
def test_a_failure_that_is_noted_late_does_not_hide_a_newer_listing(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("a"))
    plan(store, "a")
    store.fail_refresh(held(store), "UPSTREAM_UNAVAILABLE", "it exits at once", retry_in=0.0)
    failed = job_of(store, "a")
    store.save_claimed(held(store), make_part("a", "x"), due_in=HOUR, revision=1)

    store.write(partial(store._note_failure, job=failed))

    part = listed(store)
    assert part
    assert part.failure is None
