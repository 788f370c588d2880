"""Entries: what they are identified by, and which of several sources are one."""

from __future__ import annotations

from itertools import pairwise
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
    RemoteOffer,
    entry_id,
    merged_entries,
    repository_key,
    version_key,
)
from tests.rows import rows


@pytest.mark.requirement("MKT-4")
@rows(
    "address",
    [
        "https://github.com/acme/files",
        "https://github.com/Acme/Files.git",
        "git+https://github.com/acme/files.git",
        "git://github.com/acme/files.git#main",
        "git@github.com:acme/files.git",
        "ssh://git@github.com/acme/files.git",
        "https://www.github.com/acme/files/",
        "https://github.com/acme/files/tree/main/packages/one?x=1",
        "github:acme/files",
    ],
)
def test_a_repository_is_the_same_in_every_spelling(address: str) -> None:
    assert repository_key(address) == "github.com/acme/files"


@pytest.mark.requirement("MKT-4")
def test_an_entry_is_identified_by_its_repository_and_package_not_by_its_name() -> None:
    package = PackageOffer("npm", "@acme/files", "1.0.0")
    newer = PackageOffer("npm", "@Acme/files", "2.0.0")
    image = PackageOffer("oci", "acme/files", "1.0.0")
    place = "https://github.com/acme/files"

    first = entry_id("io.github.acme/files", place, (package, image), ())
    second = entry_id("@acme/files", f"{place}.git", (image, newer), ())

    assert first == second == "github.com/acme/files#npm:@acme/files"
    assert entry_id("x", "https://github.com/evil/files", (package,), ()) != first
    assert entry_id("x", "", (package,), ()) == "npm:@acme/files"
    assert entry_id("x", "", (), (RemoteOffer("sse", "https://a.example/mcp/"),)) == (
        "remote:https://a.example/mcp"
    )
    assert entry_id("com.acme/X", "", (), ()) == "name:com.acme/x"


@pytest.mark.requirement("MKT-4")
@rows(
    ("registry_type", "one", "other"),
    [
        ("pypi", "Acme.Files", "acme-files"),
        ("pypi", "acme__files", "acme-files"),
        ("oci", "docker.io/acme/files", "acme/files"),
        (
            "mcpb",
            "https://github.com/a/b/releases/download/v1.0.0/x.mcpb",
            "https://github.com/a/b/releases/download/v1.1.0/x.mcpb",
        ),
        ("mcpb", "https://a.example/x-1.0.0.mcpb", "https://a.example/x-1.10.2-rc.1.mcpb"),
    ],
)
def test_a_package_has_one_key_in_every_spelling_and_version(
    registry_type: str, one: str, other: str
) -> None:
    first = PackageOffer(registry_type, one)  # type: ignore[arg-type]
    second = PackageOffer(registry_type, other)  # type: ignore[arg-type]

    assert first.key == second.key


@pytest.mark.requirement("MKT-5")
@rows(
    ("levels", "trust"),
    [
        ((), "unreviewed"),
        (("official",), "official"),
        (("curated", "official"), "official"),
        (("curated", "unreviewed", "official"), "unreviewed"),
        (("curated", "curated"), "curated"),
    ],
)
def test_an_entry_is_as_trusted_as_its_least_trusted_origin(
    levels: tuple[SourceTrust, ...], trust: SourceTrust
) -> None:
    origins = tuple(EntryOrigin(str(n), level) for n, level in enumerate(levels))

    entry = MarketplaceEntry("x", "x", origins=origins)

    assert entry.trust == trust
    assert entry.is_reviewed == (trust == "curated")


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


SEMVER = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2"]
SEMVER += ["1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.1", "1.9.0", "1.10.0", "2.0.0-0", "2.0.0"]
PEP440 = ["1.0.dev1", "1.0a1.dev1", "1.0a1", "1.0a2", "1.0b1", "1.0rc1", "1.0", "1.0.post1.dev1"]
PEP440 += ["1.0.post1", "1.0.1", "1.1.dev1", "1.1", "2025.09.16", "2025.10.1", "1!0.1"]


@pytest.mark.requirement("MKT-6")
@rows("ascending", [SEMVER, PEP440], ids=["semver", "pep440"])
def test_versions_have_the_order_of_their_standard(ascending: list[str]) -> None:
    keys = list(map(version_key, ascending))

    assert all(lower < higher for lower, higher in pairwise(keys))


@pytest.mark.requirement("MKT-6")
@rows(("one", "other"), [("1.0", "1.0.0"), ("v1.2.3", "1.2.3"), ("1.0.0+build", "1.0.0")])
def test_versions_that_differ_in_spelling_alone_are_equal(one: str, other: str) -> None:
    assert version_key(one) == version_key(other)


@pytest.mark.requirement("MKT-6")
def test_what_is_no_version_is_below_all_that_are() -> None:
    assert version_key("latest") < version_key("0.0.0-0")
    assert version_key("") < version_key("0.0.1.dev0")


@pytest.mark.thorough
@given(st.lists(st.text(max_size=30) | st.from_regex(r"\d+(\.\d+)*([-a-z0-9.+]*)"), max_size=8))
def test_the_order_of_any_texts_does_not_depend_on_how_they_came(versions: list[str]) -> None:
    forwards = sorted(map(version_key, versions))

    assert forwards == sorted(map(version_key, reversed(versions)))
