"""Which typical requests a tool has, and the index that is made of them."""

from __future__ import annotations

import logging
import random
import zipfile
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.catalog import Catalog
from discovery_engine.config.settings import SearchSettings
from discovery_engine.errors import RegistryError
from discovery_engine.registry.memory import MemoryRegistry
from discovery_engine.search.examples import pack
from discovery_engine.search.examples.book import (
    OWN_EXAMPLES,
    PACK_VERSION,
    ExampleBook,
    Examples,
    ExampleSource,
)
from discovery_engine.search.examples.written import WrittenBook, WrittenRequests
from discovery_engine.search.searcher import Searcher, build_searcher, load_searcher
from discovery_engine.tools.model import AppliedOverride, ServerName
from tests.factories import make_catalog, make_part
from tests.rows import rows
from tests.unit.search.examples.pack_tools import definitions_of, listed

SHIPPED = ExampleBook()


def git(**own: tuple[str, ...]) -> Catalog:
    tools = [
        replace(tool, overridden=AppliedOverride(examples=own.get(tool.name, ()), by=(0,)))
        if tool.name in own
        else tool
        for tool in listed(definitions_of("git"), "versions")
    ]
    return make_catalog(make_part("versions", *tools))


def searcher_of(catalog: Catalog, book: ExampleBook, previous: Searcher | None = None) -> Searcher:
    return build_searcher(catalog, SearchSettings(), book=book, previous=previous)


def dumped(searcher: Searcher) -> bytes:
    assert searcher.is_storable
    return searcher.dump()


def written(tool: str, *requests: str) -> WrittenRequests:
    [entry] = [one for one in git().part(ServerName("versions")).entries if one.tool.name == tool]
    return WrittenRequests("versions", tool, entry.tool.fingerprint, requests, "m", 1, 1.0)


def stored(*kept: WrittenRequests) -> MemoryRegistry:
    registry = MemoryRegistry()
    if kept:
        registry.save_requests(kept)
    return registry


def book_of(registry: MemoryRegistry) -> ExampleBook:
    mark = registry.requests_mark()
    return ExampleBook(False, WrittenBook(mark, lambda: nullcontext(registry)) if mark else None)


def names_found(searcher: Searcher, query: str) -> list[str]:
    hits = searcher.search(searcher.analyze(query), limit=3, accepts=lambda _: True)
    return [hit.entry.tool.name for hit in hits]


@pytest.mark.requirement("ENR-6")
def test_the_owners_examples_replace_the_shipped_ones() -> None:
    [part] = git(git_status=("what is new",)).parts.values()
    found = SHIPPED.of_tools([entry.tool for entry in part.entries])

    assert found["git_status"] == Examples(("what is new",), ExampleSource.OWNER)
    assert found["git_diff"].source is ExampleSource.SHIPPED
    assert str(found["git_diff"]) == f"shipped, pack {PACK_VERSION}, git"


@pytest.mark.requirement("ENR-7")
def test_without_the_pack_the_index_is_as_if_there_were_none() -> None:
    assert dumped(searcher_of(git(), OWN_EXAMPLES)) == dumped(
        build_searcher(git(), SearchSettings())
    )
    assert dumped(searcher_of(git(), SHIPPED)) != dumped(searcher_of(git(), OWN_EXAMPLES))


@pytest.mark.requirement("ENR-7", "REL-44")
def test_an_index_that_was_saved_with_the_pack_is_not_used_without_it() -> None:
    saved = dumped(searcher_of(git(), SHIPPED))

    assert load_searcher(saved, git(), SearchSettings(), book=SHIPPED)
    assert load_searcher(saved, git(), SearchSettings(), book=OWN_EXAMPLES) is None


@pytest.mark.requirement("OVR-7", "REL-44")
def test_an_index_that_was_saved_with_other_examples_of_the_owner_is_not_used() -> None:
    saved = dumped(searcher_of(git(git_status=("what is new",)), SHIPPED))
    other = git(git_status=("anything on my desk?",))

    assert load_searcher(saved, other, SearchSettings(), book=SHIPPED) is None


@pytest.mark.requirement("ENR-7", "REL-42")
@rows("book", [SHIPPED, OWN_EXAMPLES])
def test_an_index_that_is_updated_to_another_book_is_as_one_made_with_it(
    book: ExampleBook,
) -> None:
    other = OWN_EXAMPLES if book is SHIPPED else SHIPPED
    updated = searcher_of(git(), book, previous=searcher_of(git(), other))

    assert dumped(updated) == dumped(searcher_of(git(), book))


@pytest.mark.requirement("ENR-24", "REL-42")
@rows("is_forgotten", [False, True])
@rows("is_listed_anew", [False, True])
def test_a_restored_index_is_updated_although_what_it_was_made_of_is_gone(
    is_forgotten: bool, is_listed_anew: bool
) -> None:
    status, diff = written("git_status", "sniff sniff"), written("git_diff", "taste buds", "yummy")
    other = make_part("garden", *listed(definitions_of("fetch"), "garden"))
    before = make_catalog(git().part(ServerName("versions")), other)
    kept = [written("git_log", "smell it"), *([status] if is_forgotten else [])]
    registry = stored(*kept)
    first = searcher_of(before, book_of(registry))
    book = book_of(registry)
    old = load_searcher(dumped(first), before, SearchSettings(), book=book)
    assert old
    if is_forgotten:
        registry.forget_requests({("versions", "git_status")})
    else:
        registry.save_requests([status])
    registry.save_requests([diff])
    own = {"git_add": ("hear hear",)} if is_listed_anew else {}
    after = make_catalog(git(**own).part(ServerName("versions")), other)

    updated = searcher_of(after, book_of(registry), previous=old)
    fresh = searcher_of(after, book_of(registry))

    for term in ("sniff", "tast", "smell", "hear", "git", "url"):
        assert updated.index.document_frequency(term) == fresh.index.document_frequency(term)
    for query in ("sniff sniff", "taste buds", "smell it", "hear hear"):
        assert names_found(updated, query) == names_found(fresh, query)
    assert ("git_status" in names_found(updated, "sniff sniff")) is not is_forgotten


class LockedRegistry(MemoryRegistry):
    """Cannot be read for a while."""

    is_locked = True

    def written_requests(self) -> tuple[WrittenRequests, ...]:
        if self.is_locked:
            raise RegistryError("it is locked")
        return super().written_requests()


@pytest.mark.requirement("ENR-24", "REL-44")
def test_an_index_without_requests_that_could_not_be_read_is_neither_stored_nor_kept() -> None:
    registry = LockedRegistry()
    registry.save_requests([written("git_status", "sniff sniff")])
    without = searcher_of(git(), book_of(registry))
    registry.is_locked = False
    later = searcher_of(git(), book_of(registry), previous=without)

    assert not without.is_storable
    assert names_found(later, "sniff sniff") == ["git_status"]
    assert dumped(later) == dumped(searcher_of(git(), book_of(registry)))


@pytest.mark.requirement("ENR-24", "REL-44")
def test_an_index_of_requests_that_were_written_after_its_mark_is_not_stored() -> None:
    registry = stored(written("git_status", "sniff sniff"))
    book = book_of(registry)
    registry.save_requests([written("git_diff", "taste buds")])

    assert not searcher_of(git(), book).is_storable


@pytest.mark.requirement("ENR-8", "REL-44")
@rows("damage", ["whole", "one file"])
def test_an_index_that_was_made_with_a_damaged_pack_is_not_stored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damage: str
) -> None:
    damaged = tmp_path / "damaged.zip"
    with zipfile.ZipFile(pack.FILE) as whole, zipfile.ZipFile(damaged, "w") as copy:
        for name in whole.namelist():
            if damage == "one file" and name != "git.json":
                copy.writestr(name, whole.read(name))
    monkeypatch.setattr(pack, "FILE", damaged)
    pack.shipped_pack.cache_clear()
    try:
        is_storable = searcher_of(git(), SHIPPED).is_storable
    finally:
        pack.shipped_pack.cache_clear()

    assert not is_storable


@pytest.mark.requirement("ENR-8")
def test_a_damaged_pack_is_logged_and_search_goes_on_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(pack.FILE.read_bytes()[:-100])
    monkeypatch.setattr(pack, "FILE", damaged)
    pack.shipped_pack.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            found = [SHIPPED.of_tools(listed(definitions_of("git"))) for _ in range(2)]
    finally:
        pack.shipped_pack.cache_clear()

    assert found == [{}, {}]
    assert [record.message for record in caplog.records] == [
        "The typical requests of tools cannot be read: File is not a zip file"
    ]


@pytest.mark.requirement("ENR-8")
@given(seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_a_pack_with_changed_bytes_is_at_worst_none(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance, data = random.Random(seed), bytearray(pack.FILE.read_bytes())
    for _ in range(200):
        data[chance.randrange(len(data))] ^= chance.randrange(1, 256)
    file = tmp_path_factory.mktemp("pack") / "changed.zip"
    file.write_bytes(data)
    tools = listed(definitions_of("git"))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pack, "shipped_pack", lambda: pack.opened(file))
        found = SHIPPED.of_tools(tools)

    assert all(len(examples.texts) == 6 for examples in found.values())
