from __future__ import annotations

import pytest
from msgspec.structs import replace

from discovery_engine.search.index.index import DocId, Index
from discovery_engine.search.operations.tool_profile import ToolProfile, read_tool
from discovery_engine.search.text.lexicon import default_lexicon
from discovery_engine.tools.model import AppliedOverride, ServerName
from tests.factories import make_catalog, make_entry, make_part, make_tool


def update(index: Index, *parts, descriptions=None) -> Index:
    return index.update(make_catalog(*parts), descriptions or {}, default_lexicon())


def many(server: str, count: int):
    return make_part(server, *(f"zebra_{n}" for n in range(count)))


def test_terms_are_counted_over_all_layers() -> None:
    index = update(Index(), many("a", 8))
    index = update(index, many("a", 8), make_part("b", "zebra"))

    assert len(index.levels) == 2
    assert index.size == 9
    assert index.document_frequency("zebra") == 9


def test_what_changed_is_struck_out_and_counted_no_more() -> None:
    index = update(Index(), many("a", 20), many("b", 2))
    index = update(index, many("a", 20), make_part("b", "yak"))

    assert index.document_frequency("zebra") == 20
    assert index.document_frequency("yak") == 1
    assert index.size == 21


@pytest.mark.requirement("REL-42", "REL-43")
def test_only_another_description_of_a_server_indexes_the_same_tools_anew() -> None:
    letters = update(Index(), part := many("a", 2), descriptions={"a": "Letters."})

    same = update(letters, part, descriptions={"a": "Letters."})
    cakes = update(letters, part, descriptions={"a": "Cakes."})

    assert same.servers["a"] is letters.servers["a"]
    assert (letters.document_frequency("letter"), letters.document_frequency("cake")) == (2, 0)
    assert (cakes.document_frequency("letter"), cakes.document_frequency("cake")) == (0, 2)


def test_a_server_that_is_gone_is_gone() -> None:
    index = update(update(Index(), many("a", 20), many("b", 1)), many("a", 20))

    assert index.document_frequency("zebra") == 20
    assert "b" not in index.servers


def test_nothing_is_left_of_an_empty_catalog() -> None:
    index = update(update(Index(), many("a", 2)))

    assert (index.levels, index.size, index.document_frequency("zebra")) == ((), 0, 0)


def test_a_place_leads_to_its_entry() -> None:
    index = update(Index(), make_part("a", "x", "y"), make_part("b", "z"))

    names = [index.entry(DocId(0, doc)).tool.name for doc in range(3)]

    assert names == ["x", "y", "z"]
    assert [index.entry(doc_id).tool.name for doc_id in index.doc_ids("b")] == ["z"]


def test_an_unknown_server_has_no_place() -> None:
    with pytest.raises(LookupError):
        Index().doc_ids("nobody")


@pytest.mark.requirement("REL-43")
def test_only_changed_servers_are_indexed_again() -> None:
    kept = many("a", 20)
    index = update(Index(), kept, make_part("b", "x"), make_part("c", "y"))

    newer = update(index, kept, make_part("b", "x2"), make_part("c", "y"))

    assert newer.levels[0].postings is index.levels[0].postings
    assert [span.server for span in newer.levels[1].postings.spans] == ["b"]


def test_another_verdict_is_seen_and_nothing_indexed() -> None:
    index = update(Index(), make_part("a", make_entry("x", "a")))
    newer = update(index, make_part("a", make_entry("x", "a", tags=["new"])))

    assert newer.levels == index.levels
    assert newer.entry(DocId(0, 0)).verdict.tags == ("new",)


def test_another_description_of_the_server_is_indexed() -> None:
    index = update(Index(), make_part("a", "x"))
    newer = update(index, make_part("a", "x"), descriptions={"a": "about zebras"})

    assert newer.document_frequency("zebra") == 1


def test_layers_are_few_and_large_ones_come_first() -> None:
    index = Index()
    parts = []
    for n in range(40):
        parts.append(make_part(f"s{n}", "x"))
        index = update(index, *parts)

    sizes = [level.size for level in index.levels]
    assert sum(sizes) == 40
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) <= 6


def test_a_layer_with_much_struck_out_is_written_anew() -> None:
    index = update(Index(), many("a", 30), many("b", 5))
    index = update(index, many("a", 30))

    assert [level.deleted for level in index.levels] == [frozenset()]
    assert index.document_frequency("zebra") == 30


@pytest.mark.requirement("REL-60")
def test_every_tool_keeps_its_profile_whatever_is_merged_or_deleted() -> None:
    index = update(Index(), make_part("a", *(f"get_{n}" for n in range(9)), "list_x"))
    index = update(index, make_part("b", "delete_x"), make_part("a", "send_x", "list_y"))
    index = update(index, make_part("b", "delete_x", "run_y"), make_part("a", "send_x", "list_y"))

    profiles = {
        index.entry(doc_id).tool.name: ToolProfile.unpacked(index.profile(doc_id))
        for server in index.servers
        for doc_id in index.doc_ids(server)
    }

    stem = default_lexicon().stem
    tools = [entry.tool for one in index.servers.values() for entry in one.part.entries]
    assert profiles == {tool.name: read_tool(tool, stem) for tool in tools}


@pytest.mark.requirement("ANS-15")
def test_a_profile_shows_whether_requests_are_indexed_with_a_tool() -> None:
    overridden = AppliedOverride(examples=("open a ticket",))
    tool = replace(make_tool("create_issue", "a"), overridden=overridden)
    part = make_part("a", tool, "list_x")

    index = update(Index(), part)

    shown = {
        index.entry(doc_id).tool.name: ToolProfile.unpacked(index.profile(doc_id)).has_examples
        for doc_id in index.doc_ids(ServerName("a"))
    }
    assert shown == {"create_issue": True, "list_x": False}
