"""Listings that are as they are saved, written together: each has its own claim and its own end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing

import psycopg
import pytest
from msgspec.structs import replace

from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.files.location import catalog_key_of
from discovery_engine.config.settings import Settings
from discovery_engine.engine.catalog_state import CatalogState
from discovery_engine.errors import RegistryError
from discovery_engine.events import EventBus
from discovery_engine.rules.rule import Rule
from discovery_engine.store.backends import open_database, open_registry
from discovery_engine.store.memory import MemoryRegistry
from discovery_engine.store.refresh_job import (
    ClaimedPart,
    RefreshClaim,
    RefreshJob,
    RefreshTarget,
    SaveOutcome,
)
from discovery_engine.store.registry import Registry
from discovery_engine.tools.model import ServerName
from tests.factories import make_part, make_settings, save_success, save_together
from tests.postgres import PostgresServer
from tests.unit.swaps import lists

SCOPE = "/home/someone/discovery.yaml"
HOUR = 3600.0


def claimed(
    store: Registry, *names: str, lease: float = HOUR, scope: str = SCOPE
) -> dict[str, RefreshClaim]:
    """Claims of servers, which are due now."""
    store.plan_refreshes(scope, [RefreshTarget(ServerName(name)) for name in names])
    store.hasten_refreshes(scope)
    jobs = store.claim_refreshes(scope, "w", limit=len(names), lease=HOUR)
    assert sorted(job.server for job in jobs) == sorted(names)
    return {job.server: job.claim for job in jobs}


def saved(store: Registry, *names: str, scope: str = SCOPE) -> dict[str, RefreshClaim]:
    """New claims of servers that have listed one tool, `x`."""
    store.save_settings(scope, make_settings(*names))
    for claim in claimed(store, *names, scope=scope).values():
        assert save_success(store, claim)
    return claimed(store, *names, scope=scope)


def listing(claim: RefreshClaim, *tools: str) -> ClaimedPart:
    return ClaimedPart(claim, make_part(claim.server, *tools, listed_at=2000.0), HOUR)


def states(store: Registry) -> dict[str, str]:
    return {job.server: job.state for job in store.refresh_jobs(SCOPE)}


@pytest.mark.requirement("FLT-3", "FLT-8")
def test_each_listing_of_a_group_has_its_own_claim_and_its_own_outcome(store: Registry) -> None:
    claims = saved(store, *"abcd")
    store.return_claims([claims["c"]])
    [other] = store.claim_refreshes(SCOPE, "other", limit=1, lease=HOUR)
    before = store.load(SCOPE)
    group = [
        listing(claims["a"], "x"),
        listing(claims["b"], "y"),
        listing(claims["c"], "x"),
        listing(claims["d"], "x"),
    ]

    assert store.end_unchanged(group) == {claims["a"], claims["d"]}
    assert store.load(SCOPE) == before
    assert states(store) == {"a": "enabled", "b": "processing", "c": "processing", "d": "enabled"}
    jobs = {job.server: job for job in store.refresh_jobs(SCOPE)}
    assert jobs["c"] == other
    for name in "ad":
        assert jobs[name].listed_at is not None
        assert jobs[name].due_at == pytest.approx(jobs[name].listed_at + HOUR)
    assert store.end_unchanged(group) == frozenset()

    assert save_together(store, group[1:3]) == ["saved", "lost"]


@pytest.mark.requirement("FLT-8")
def test_of_two_claims_of_one_server_in_a_group_the_newer_one_counts(store: Registry) -> None:
    [old] = saved(store, "a").values()
    store.return_claims([old])
    [new] = claimed(store, "a").values()

    assert store.end_unchanged([listing(old, "x")]) == frozenset()
    assert save_together(store, [listing(old, "x"), listing(new, "x")]) == ["lost", "unchanged"]


def _fails(store: Registry, scope: str) -> None:
    [job] = store.claim_refreshes(scope, "w", limit=1, lease=HOUR)
    store.fail_refresh(job.claim, "X", "broken", retry_in=0.0)


def _is_lost(store: Registry, scope: str) -> None:
    store.claim_refreshes(scope, "gone", limit=1, lease=0.0)


def _is_wanted(store: Registry, scope: str) -> None:
    store.hasten_refreshes(scope, priority=7)


BEFORE: dict[str, Callable[[Registry, str], None]] = {
    "nothing happened": lambda *_: None,
    "it failed": _fails,
    "a worker was lost with it": _is_lost,
    "a person wants it": _is_wanted,
}


@pytest.mark.thorough
@pytest.mark.requirement("FLT-5", "FLT-8")
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("is_wanted_meanwhile", [False, True])
def test_a_job_that_ends_in_a_group_is_as_if_it_had_ended_by_itself(
    store: Registry, before: str, is_wanted_meanwhile: bool
) -> None:
    def ended(scope: str, save: Callable[[Registry, ClaimedPart], SaveOutcome]) -> RefreshJob:
        store.return_claims(saved(store, "a", scope=scope).values())
        BEFORE[before](store, scope)
        [job] = store.claim_refreshes(scope, "w", limit=1, lease=HOUR)
        if is_wanted_meanwhile:
            store.hasten_refreshes(scope, priority=9)
        outcome = save(store, listing(job.claim, "x"))
        # A failure is kept with the listing, for gateways: the next listing takes it back.
        assert outcome == ("saved" if before == "it failed" else "unchanged")
        [job] = store.refresh_jobs(scope)
        assert job.listed_at is not None
        due_in = round(job.due_at - job.listed_at)
        return replace(job, scope="", created_at=0.0, due_at=due_in, listed_at=0.0, fence=0)

    alone = ended(
        "alone",
        lambda store, one: store.save_claimed(one.claim, one.part, due_in=HOUR, revision=1),
    )
    together = ended("together", lambda store, one: save_together(store, [one])[0])

    assert together == alone


@pytest.mark.requirement("FLT-8")
@pytest.mark.parametrize("what", ["saves another listing", "forgets it"])
def test_what_another_process_has_made_of_a_listing_is_noticed(
    postgres_server: PostgresServer, what: str
) -> None:
    url = postgres_server.create_database()
    with closing(open_database(url)) as store, closing(open_database(url)) as other:
        claims = saved(store, "a", "b")
        if what == "forgets it":
            other.forget(SCOPE, [ServerName("a")])
        else:
            other.save_parts(SCOPE, [make_part("a", "y")], revision=1)

        group = [listing(claim, "x") for claim in claims.values()]
        assert save_together(store, group) == ["saved", "unchanged"]
        snapshot = store.load(SCOPE)
    assert snapshot
    assert [str(entry.key) for entry in snapshot.catalog] == ["a:x", "b:x"]


@pytest.mark.requirement("FLT-8")
def test_a_worker_knows_what_it_has_read_and_writes_a_group_in_one_transaction(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres_server.create_database()
    with closing(open_registry(url)) as store, closing(open_database(url)) as worker:
        store.return_claims(saved(store, *"abc").values())
        read = worker.load(SCOPE)
        claims = claimed(worker, *"abc").values()
        with psycopg.connect(url) as other:
            other.execute("SELECT FROM discovery.scopes FOR UPDATE")  # as a save of others does
            begun: list[float] = []
            acquired = worker.database._acquired
            monkeypatch.setattr(
                worker.database,
                "_acquired",
                lambda deadline: (begun.append(deadline), acquired(deadline))[1],
            )

            assert worker.end_unchanged([listing(one, "x") for one in claims]) == {*claims}
        assert len(begun) == 1
        assert read == worker.load(SCOPE)


@pytest.mark.requirement("FLT-8")
def test_a_job_that_another_process_writes_just_now_holds_up_no_other_of_its_group(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.create_database()
    with closing(open_registry(url)) as store, psycopg.connect(url) as other:
        claims = saved(store, *"abc")
        other.execute("SELECT FROM discovery.refresh_jobs WHERE server = 'b' FOR UPDATE")

        ended = store.end_unchanged([listing(one, "x") for one in claims.values()])

        assert ended == {claims["a"], claims["c"]}
        other.rollback()
        assert save_together(store, [listing(claims["b"], "x")]) == ["unchanged"]


class Applied:
    """A worker's state, to which listings of servers are applied at once."""

    def __init__(self, store: Registry, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.state = CatalogState(store, EventBus(), claimed_only=True)
        self.outcomes: dict[str, SaveOutcome | str | None] = {}

    async def list(self, *tools: str) -> dict[str, SaveOutcome | str | None]:
        """What becomes of each server's listing, when all are ready at the same time."""
        names = [server.name for server in self.settings.servers]
        claims = claimed(self.store, *names, scope=catalog_key_of(self.settings))
        async with open_task_group() as tasks:
            for claim in claims.values():
                tasks.start_soon(self._apply, claim, tools)
        return self.outcomes

    async def _apply(self, claim: RefreshClaim, tools: Sequence[str]) -> None:
        result = lists(self.settings.by_name[claim.server], *tools)
        try:
            outcome = await self.state.apply_claimed(result, claim, due_in=HOUR)
        except RegistryError as error:
            self.outcomes[claim.server] = type(error).__name__
        else:
            self.outcomes[claim.server] = outcome


@pytest.mark.anyio
@pytest.mark.requirement("FLT-8")
async def test_listings_that_are_ready_together_take_two_writes_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryRegistry()
    worker = Applied(store, make_settings(*"abcdefgh"))
    await worker.state.restore(worker.settings)
    await worker.list("x")
    groups: list[int] = []
    end_unchanged = store.end_unchanged

    def counted(listed: Sequence[ClaimedPart]) -> frozenset[RefreshClaim]:
        groups.append(len(listed))
        return end_unchanged(listed)

    monkeypatch.setattr(store, "end_unchanged", counted)

    assert await worker.list("x") == dict.fromkeys("abcdefgh", "unchanged")
    assert sum(groups) == 8
    assert len(groups) <= 2


@pytest.mark.anyio
@pytest.mark.requirement("FLT-6", "FLT-8")
async def test_a_result_that_the_database_refuses_costs_its_own_server_alone(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.create_database()
    with closing(open_registry(url)) as store:
        worker = Applied(store, make_settings(*"abc"))
        await worker.state.restore(worker.settings)
        await worker.list("x")
        with psycopg.connect(url) as admin:
            admin.execute(
                f"""
                ALTER TABLE discovery.refresh_jobs
                ADD CHECK (server <> 'b' OR due_at < {time.time() + HOUR / 2}) NOT VALID
                """
            )

        assert await worker.list("x") == {"a": "unchanged", "b": "RegistryError", "c": "unchanged"}


@pytest.mark.anyio
@pytest.mark.requirement("FLT-8", "FLT-13")
async def test_a_listing_as_before_is_judged_anew_if_the_rules_are_others(store: Registry) -> None:
    worker = Applied(store, make_settings("a", "b"))
    await worker.state.restore(worker.settings)
    for expected in ("saved", "unchanged", "unchanged"):
        assert await worker.list("x") == dict.fromkeys("ab", expected)

    off = replace(worker.settings, tool_rules=(Rule(patterns=("x",), enabled=False),))
    await worker.state.apply_settings(off)

    for expected in ("saved", "unchanged", "unchanged"):
        assert await worker.list("x") == dict.fromkeys("ab", expected)
        snapshot = store.load(catalog_key_of(worker.settings))
        assert snapshot
        assert not list(snapshot.catalog.visible)


@pytest.mark.anyio
@pytest.mark.requirement("FLT-8")
async def test_nothing_is_kept_of_the_listings_of_a_server_that_is_no_longer_configured(
    store: Registry,
) -> None:
    worker = Applied(store, make_settings("a", "b"))
    await worker.state.restore(worker.settings)
    await worker.list("x")
    await worker.list("x")
    before = set(worker.state._unchanged_parts._confirmed)

    await worker.state.apply_settings(replace(worker.settings, servers=worker.settings.servers[1:]))

    assert before == {"a", "b"}
    assert "a" not in worker.state._unchanged_parts._confirmed


@pytest.mark.anyio
@pytest.mark.requirement("FLT-13", "FLT-8")
async def test_a_listing_as_before_is_accepted_if_the_policy_is_another(store: Registry) -> None:
    worker = Applied(store, replace(make_settings("a"), trust="quarantine"))
    await worker.state.restore(worker.settings)
    for expected in ("saved", "unchanged", "unchanged"):
        assert await worker.list("x") == {"a": expected}

    await worker.state.apply_settings(replace(worker.settings, trust="on_first_use"))

    assert await worker.list("x") == {"a": "saved"}
    assert [str(entry.key) for entry in worker.state.view.catalog.visible] == ["a:x"]


@pytest.mark.anyio
@pytest.mark.requirement("FLT-13", "FLT-8")
async def test_what_was_open_to_all_is_accepted_by_the_first_listing_that_needs_it(
    store: Registry,
) -> None:
    worker = Applied(store, replace(make_settings("a"), trust="open"))
    await worker.state.restore(worker.settings)
    for expected in ("saved", "unchanged", "unchanged"):
        assert await worker.list("x") == {"a": expected}
    accepted = worker.state.trust_store.decisions
    assert not accepted(worker.settings).accepted

    await worker.state.apply_settings(replace(worker.settings, trust="on_first_use"))

    assert await worker.list("x") == {"a": "unchanged"}
    [tools] = accepted(worker.settings).accepted.values()
    assert "x" in tools
