from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.errors import Diagnostic, RegistryError
from discovery_engine.marketplace.entry import EntryOrigin, MarketplaceEntry
from discovery_engine.marketplace.entry_store import (
    LeaseLost,
    MarketplaceStore,
    Release,
    new_holder,
)
from discovery_engine.marketplace.server_json import parse_server
from discovery_engine.marketplace.source import SourcePage
from tests.marketplaces import Clock
from tests.servers.mcp_registry_server import listed

ME, OTHER = new_holder(), "another-machine 1 x"


def entry(name: str, **members: Any) -> MarketplaceEntry:
    made = listed(name, **members)
    return parse_server(made["server"], origin=EntryOrigin("a", "official"), meta=made["_meta"])


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> MarketplaceStore:
    return MarketplaceStore(tmp_path / "marketplace.db", clock=clock)


def copy(store: MarketplaceStore, *entries: MarketplaceEntry, source: str = "a") -> None:
    assert store.acquire(source, ME)
    store.begin_pass(source, ME, "")
    store.add_page(source, ME, SourcePage(entries))
    store.complete(source, ME, True)
    store.release(source, ME, Release())


@pytest.mark.requirement("MKT-18")
def test_who_lost_the_lease_of_a_source_writes_nothing(
    store: MarketplaceStore, clock: Clock
) -> None:
    copy(store, entry("com.acme/a"))
    assert store.acquire("a", ME)
    assert store.acquire("a", OTHER) is None
    clock.now += 91

    assert store.acquire("a", OTHER)

    for write in (
        lambda: store.add_page("a", ME, SourcePage((entry("com.acme/b"),))),
        lambda: store.begin_pass("a", ME, ""),
        lambda: store.complete("a", ME, True),
    ):
        with pytest.raises(LeaseLost):
            write()
    store.release("a", ME, Release(problem=Diagnostic("X", "late")))
    record = store.records()["a"]
    assert (record.entries, record.problem, record.is_leased) == (1, None, True)


@pytest.mark.requirement("MKT-18")
def test_the_lease_of_a_process_of_this_machine_that_ended_is_free(store: MarketplaceStore) -> None:
    machine, _, _ = ME.split(" ")
    ended = f"{machine} {2**22 + 1} x"  # beyond the largest number that Linux gives

    assert store.acquire("a", ended)

    assert store.acquire("a", ME)


@pytest.mark.requirement("MKT-18")
def test_copies_that_nobody_asked_for_in_a_month_are_dropped(
    store: MarketplaceStore, clock: Clock
) -> None:
    copy(store, entry("com.acme/old"), source="old")
    copy(store, entry("com.acme/kept"), source="kept")
    clock.now += 31 * 86_400
    copy(store, entry("com.acme/new"), source="new")

    store.drop_unused(["kept"])

    assert store.records().keys() == {"kept", "new"}
    assert [
        one.identity.name for one in store.latest(["old", "kept", "new"], limit=9, offset=0)
    ] == ["com.acme/kept", "com.acme/new"]


def test_the_number_of_entries_is_kept(store: MarketplaceStore) -> None:
    copy(store, *(entry(f"com.acme/{n}") for n in range(5)))
    copy(store, *(entry(f"com.acme/{n}") for n in range(3)), entry("com.acme/9"))

    assert store.records()["a"].entries == 4
    assert len(store.latest(["a"], limit=9, offset=0)) == 4


@pytest.mark.requirement("MKT-6")
def test_a_deprecated_version_counts_only_if_there_is_no_other(store: MarketplaceStore) -> None:
    copy(
        store,
        entry("com.acme/a", version="2.0.0", status="deprecated"),
        entry("com.acme/a", version="1.0.0"),
        entry("com.acme/b", version="1.0.0", status="deprecated"),
    )

    rows = [store.named(name)[0].row for name in ("com.acme/a", "com.acme/b")]
    found = store.rows(rows)
    assert [(found[row].version, found[row].status) for row in rows] == [
        *(("1.0.0", "active"), ("1.0.0", "deprecated"))
    ]


def test_of_many_versions_the_highest_are_kept(store: MarketplaceStore) -> None:
    copy(store, *(entry("com.acme/a", version=f"1.{n}.0") for n in range(30)))

    [one] = store.named("com.acme/a")
    found = store.rows([one.row], with_versions=True)[one.row]
    assert [note.version for note in found.versions] == [f"1.{n}.0" for n in range(29, 19, -1)]


def test_a_folder_that_cannot_be_used_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = MarketplaceStore(tmp_path / "file" / "marketplace.db", clock=Clock())

    with pytest.raises(RegistryError, match=r"marketplace\.db"):
        store.records()


def test_texts_that_another_version_of_the_program_read_are_read_again(
    store: MarketplaceStore, tmp_path: Path
) -> None:
    copy(store, entry("com.acme/weather", description="Forecasts"))
    store.close()
    with sqlite3.connect(tmp_path / "marketplace.db") as database:
        database.execute("DELETE FROM texts")
        database.execute("UPDATE lexicon SET digest = 'other'")
    database.close()

    [row] = store.search("forecasts", "forecasts", ["a"], 5)

    assert store.rows([row])[row].name == "com.acme/weather"
