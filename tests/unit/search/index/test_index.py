from __future__ import annotations

from discovery_engine.search.index.index import Index
from discovery_engine.search.operations.operation import ToolProfile, read_tool
from discovery_engine.search.text.lexicon import default_lexicon
from tests.factories import make_catalog, make_part


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


def test_only_changed_servers_are_indexed_again() -> None:
    kept = many("a", 20)
    index = update(Index(), kept, make_part("b", "x"), make_part("c", "y"))

    newer = update(index, kept, make_part("b", "x2"), make_part("c", "y"))

    assert newer.levels[0].postings is index.levels[0].postings
    assert [span.server for span in newer.levels[1].postings.spans] == ["b"]


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
