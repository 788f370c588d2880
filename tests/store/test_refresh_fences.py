"""A write of a worker at the very moment in which another one takes its server over.

Each check of a claim was taken out once, and put before or beside its transaction, to see a test
fail: those of `test_refresh_queue` do when there is none, these when it is in the wrong place.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from discovery_engine.errors import RegistryError
from discovery_engine.store.backends import open_database, open_registry
from discovery_engine.store.postgres.database_url import DatabaseAddress
from discovery_engine.store.postgres.timed_connection import open_connection
from discovery_engine.store.refresh_job import ClaimedPart, RefreshClaim, RefreshTarget
from discovery_engine.store.registry import Registry
from discovery_engine.store.sqlite.sqlite_registry import open_sqlite
from discovery_engine.store.tables import refresh_table
from discovery_engine.tools.model import ServerName
from discovery_engine.trust.decisions import Acceptance
from tests.factories import make_part, make_settings, save_success
from tests.fleet.fleet import wait_until
from tests.postgres import PostgresServer

SCOPE = "name:fleet"
HOUR = 3600.0

Write = Callable[[Registry, RefreshClaim], object]


def accept(store: Registry, claim: RefreshClaim) -> bool:
    new = Acceptance(claim.server, "x", "meaning", "fingerprint", "{}")
    return store.accept_claimed(claim, SCOPE, [new], at=1.0) is not None


WRITES: dict[str, Write] = {
    "an unchanged listing": save_success,
    "unchanged listings, written together": lambda store, claim: store.end_unchanged(
        [ClaimedPart(claim, make_part("a", "x", listed_at=2.0), HOUR)]
    ),
    "a changed listing": lambda store, claim: (
        store.save_claimed(claim, make_part("a", "y"), due_in=HOUR, revision=2) != "lost"
    ),
    "an acceptance": accept,
    "a failure": lambda store, claim: store.fail_refresh(claim, "X", "broken", retry_in=1.0),
    "a heartbeat": lambda store, claim: store.extend_claims([claim], lease=HOUR),
    "a claim that is given back": lambda store, claim: store.return_claims([claim]),
}


def held_for_no_time(store: Registry) -> RefreshClaim:
    store.save_settings(SCOPE, make_settings("a"))
    store.save_parts(SCOPE, [make_part("a", "x")], revision=1)
    store.plan_refreshes(SCOPE, [RefreshTarget(ServerName("a"))])
    [job] = store.claim_refreshes(SCOPE, "paused", limit=1, lease=0.0)
    return job.claim


@pytest.mark.requirement("FLT-3")
@pytest.mark.parametrize("what", WRITES)
def test_a_write_that_meets_a_take_over_waits_for_it_and_writes_nothing(
    what: str, postgres_server: PostgresServer
) -> None:
    url = postgres_server.create_database()
    waiting = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
        """
    with (
        closing(open_registry(url)) as store,
        closing(open_connection(DatabaseAddress.parse(url).parameters, timeout=60.0)) as other,
        psycopg.connect(url, autocommit=True) as observer,
        ThreadPoolExecutor(1) as threads,
    ):
        other.begin(is_read=False, limit=60.0)
        paused = held_for_no_time(store)
        before = store.load(SCOPE)
        [job] = refresh_table.claim(other, SCOPE, "next", 1, HOUR)  # not committed yet

        written = threads.submit(WRITES[what], store, paused)
        wait_until(
            lambda: written.done() or observer.execute(waiting).fetchone() != (0,),
            "the write waits for the claim",
        )
        other.execute("COMMIT")

        assert not written.result(60)
        assert store.refresh_jobs(SCOPE) == (job,)
        assert store.load(SCOPE) == before
        assert store.decisions(SCOPE).accepted == {}


@pytest.mark.requirement("FLT-3")
def test_a_listing_is_saved_together_with_the_end_of_its_claim_or_not_at_all(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.create_database()
    with closing(open_registry(url)) as store, psycopg.connect(url, autocommit=True) as admin:
        claim = held_for_no_time(store)
        before = store.load(SCOPE), store.refresh_jobs(SCOPE)
        admin.execute("ALTER TABLE discovery.refresh_jobs ADD CHECK (state <> 'enabled') NOT VALID")

        with pytest.raises(RegistryError):
            WRITES["a changed listing"](store, claim)

        assert (store.load(SCOPE), store.refresh_jobs(SCOPE)) == before


@pytest.mark.requirement("FLT-8")
def test_an_unchanged_listing_takes_one_transaction_and_waits_for_no_other_save(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres_server.create_database()
    with closing(open_database(url)) as store, psycopg.connect(url) as other:
        claim = held_for_no_time(store)
        acquired = store.database._acquired
        transactions: list[float] = []

        def counted(deadline: float) -> object:
            transactions.append(deadline)
            return acquired(deadline)

        monkeypatch.setattr(store.database, "_acquired", counted)
        other.execute("SELECT FROM discovery.scopes FOR UPDATE")

        assert save_success(store, claim)
        assert len(transactions) == 1


@pytest.mark.requirement("FLT-3")
def test_a_claim_that_is_lost_after_the_first_look_at_it_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_sqlite(tmp_path / "registry.db") as store:
        paused = held_for_no_time(store)
        before = store.load(SCOPE)
        save = store._save

        def save_after_a_pause(*given: object) -> None:
            assert store.claim_refreshes(SCOPE, "next", limit=1, lease=HOUR)
            save(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(store, "_save", save_after_a_pause)

        assert not WRITES["a changed listing"](store, paused)
        assert store.load(SCOPE) == before
        assert [job.holder for job in store.refresh_jobs(SCOPE)] == ["next"]
