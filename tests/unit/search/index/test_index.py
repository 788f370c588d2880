from __future__ import annotations

import pytest

from discovery_engine.search.index.index import Index, Place
from discovery_engine.search.text.lexicon import default_lexicon
from tests.factories import make_catalog, make_entry, make_part


def updated(index: Index, *parts, descriptions=None) -> Index:
    return index.updated(make_catalog(*parts), descriptions or {}, default_lexicon())


def many(server: str, count: int):
    return make_part(server, *(f"zebra_{n}" for n in range(count)))


def test_terms_are_counted_over_all_layers() -> None:
    index = updated(Index(), many("a", 8))
    index = updated(index, many("a", 8), make_part("b", "zebra"))

    assert len(index.layers) == 2
    assert index.size == 9
    assert index.count("zebra") == 9


def test_what_changed_is_struck_out_and_counted_no_more() -> None:
    index = updated(Index(), many("a", 20), many("b", 2))
    index = updated(index, many("a", 20), make_part("b", "yak"))

    assert index.count("zebra") == 20
    assert index.count("yak") == 1
    assert index.size == 21


@pytest.mark.requirement("REL-42", "REL-43")
def test_only_another_description_of_a_server_indexes_the_same_tools_anew() -> None:
    letters = updated(Index(), part := many("a", 2), descriptions={"a": "Letters."})

    same = updated(letters, part, descriptions={"a": "Letters."})
    cakes = updated(letters, part, descriptions={"a": "Cakes."})

    assert same.sources["a"] is letters.sources["a"]
    assert (letters.count("letter"), letters.count("cake")) == (2, 0)
    assert (cakes.count("letter"), cakes.count("cake")) == (0, 2)


def test_a_server_that_is_gone_is_gone() -> None:
    index = updated(updated(Index(), many("a", 20), many("b", 1)), many("a", 20))

    assert index.count("zebra") == 20
    assert "b" not in index.sources


def test_nothing_is_left_of_an_empty_catalog() -> None:
    index = updated(updated(Index(), many("a", 2)))

    assert (index.layers, index.size, index.count("zebra")) == ((), 0, 0)


def test_a_place_leads_to_its_entry() -> None:
    index = updated(Index(), make_part("a", "x", "y"), make_part("b", "z"))

    names = [index.entry(Place(0, doc)).tool.name for doc in range(3)]

    assert names == ["x", "y", "z"]
    assert [index.entry(place).tool.name for place in index.places("b")] == ["z"]


def test_an_unknown_server_has_no_place() -> None:
    with pytest.raises(LookupError):
        Index().places("nobody")


@pytest.mark.requirement("REL-43")
def test_only_changed_servers_are_indexed_again() -> None:
    kept = many("a", 20)
    index = updated(Index(), kept, make_part("b", "x"), make_part("c", "y"))

    newer = updated(index, kept, make_part("b", "x2"), make_part("c", "y"))

    assert newer.layers[0].block is index.layers[0].block
    assert [segment.server for segment in newer.layers[1].block.segments] == ["b"]


def test_another_verdict_is_seen_and_nothing_indexed() -> None:
    index = updated(Index(), make_part("a", make_entry("x", "a")))
    newer = updated(index, make_part("a", make_entry("x", "a", tags=["new"])))

    assert newer.layers == index.layers
    assert newer.entry(Place(0, 0)).verdict.tags == ("new",)


def test_another_description_of_the_server_is_indexed() -> None:
    index = updated(Index(), make_part("a", "x"))
    newer = updated(index, make_part("a", "x"), descriptions={"a": "about zebras"})

    assert newer.count("zebra") == 1


def test_layers_are_few_and_large_ones_come_first() -> None:
    index = Index()
    parts = []
    for n in range(40):
        parts.append(make_part(f"s{n}", "x"))
        index = updated(index, *parts)

    sizes = [layer.size for layer in index.layers]
    assert sum(sizes) == 40
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) <= 6


def test_a_layer_with_much_struck_out_is_written_anew() -> None:
    index = updated(Index(), many("a", 30), many("b", 5))
    index = updated(index, many("a", 30))

    assert [layer.struck for layer in index.layers] == [frozenset()]
    assert index.count("zebra") == 30
