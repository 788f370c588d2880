from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.config.marketplace_settings import SourceTrust
from discovery_engine.marketplace.entry import (
    TRUST_LEVELS,
    EntryOrigin,
    MarketplaceEntry,
    PackageOffer,
)
from discovery_engine.marketplace.same_server import merged_entries

SOURCES: dict[str, SourceTrust] = {"a": "curated", "b": "official", "c": "unreviewed"}
RANK = {source: place for place, source in enumerate(SOURCES)}


def made(source: str, name: str, package: str, repository: str) -> MarketplaceEntry:
    return MarketplaceEntry(
        f"{source} {name}",
        name,
        repository=repository,
        packages=(PackageOffer("npm", package, "1.0.0"),),
        origins=(EntryOrigin(source, SOURCES[source]),),
    )


ENTRIES = st.lists(
    st.builds(
        made,
        st.sampled_from(sorted(SOURCES)),
        st.sampled_from(["x", "y", "z"]),
        st.sampled_from(["one", "two"]),
        st.sampled_from(["", "https://github.com/acme/one", "https://github.com/evil/one"]),
    ),
    unique_by=lambda entry: (entry.origins[0].source, entry.name),
    max_size=9,
)


def seen(entries: list[MarketplaceEntry]) -> set[tuple[str, tuple[EntryOrigin, ...]]]:
    return {(entry.id, entry.origins) for entry in entries}


@pytest.mark.requirement("MKT-4")
@given(ENTRIES, st.randoms())
def test_what_is_one_server_does_not_depend_on_the_order(
    entries: list[MarketplaceEntry], chance: Random
) -> None:
    shuffled = list(entries)
    chance.shuffle(shuffled)

    assert seen(merged_entries(entries, RANK.__getitem__)) == seen(
        merged_entries(shuffled, RANK.__getitem__)
    )


@pytest.mark.requirement("MKT-4", "MKT-5")
@given(ENTRIES)
def test_no_entry_is_lost_no_source_is_in_one_twice_and_no_trust_is_gained(
    entries: list[MarketplaceEntry],
) -> None:
    merged = merged_entries(entries, RANK.__getitem__)

    origins = [origin for entry in merged for origin in entry.origins]
    assert sorted(origin.source for origin in origins) == sorted(
        entry.origins[0].source for entry in entries
    )
    for entry in merged:
        assert len({origin.source for origin in entry.origins}) == len(entry.origins)
        least = min(TRUST_LEVELS.index(SOURCES[origin.source]) for origin in entry.origins)
        assert TRUST_LEVELS.index(entry.trust) == least


@pytest.mark.requirement("MKT-4")
def test_what_names_no_repository_joins_the_only_server_that_it_can_mean() -> None:
    good, evil = "https://github.com/acme/one", "https://github.com/evil/one"
    listed = made("a", "x", "one", good)
    bare = made("c", "one", "one", "")

    alone = merged_entries([listed, bare], RANK.__getitem__)
    doubtful = merged_entries([listed, made("b", "y", "one", evil), bare], RANK.__getitem__)

    assert [len(entry.origins) for entry in alone] == [2]
    assert [len(entry.origins) for entry in doubtful] == [1, 1, 1]
