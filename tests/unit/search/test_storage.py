from __future__ import annotations

from msgspec.structs import replace

from discovery_engine.search.index import Index
from discovery_engine.search.lexicon import Lexicon, default_lexicon
from discovery_engine.search.storage import dumped, loaded
from discovery_engine.tools import Overridden, ServerName
from tests.factories import make_catalog, make_part, make_tool

LEXICON = default_lexicon()


def indexed() -> Index:
    return Index().updated(make_catalog(make_part("a", "x", "y")), {}, LEXICON)


def test_layers_come_back_as_one() -> None:
    index = indexed()

    again = loaded(dumped(index, LEXICON), dict(index.sources), LEXICON)

    assert again is not None
    assert again.layers == index.layers


def test_an_empty_index_comes_back_empty() -> None:
    assert loaded(dumped(Index(), LEXICON), {}, LEXICON) == Index((), {})


def test_an_index_of_what_the_owner_says_otherwise_now_is_not_used() -> None:
    def said(description: str) -> Index:
        tool = replace(make_tool("x", "a"), overridden=Overridden(description=description, by=(0,)))
        return Index().updated(make_catalog(make_part("a", tool)), {}, LEXICON)

    before, now = said("Send a letter."), said("Bake a cake.")

    assert loaded(dumped(before, LEXICON), before.sources, LEXICON) == before
    assert loaded(dumped(before, LEXICON), now.sources, LEXICON) is None


def test_an_index_under_another_description_of_a_server_is_not_used() -> None:
    catalog = make_catalog(make_part("a", "x"))
    before, now = (
        Index().updated(catalog, {ServerName("a"): text}, LEXICON)
        for text in ("Letters.", "Cakes.")
    )

    assert loaded(dumped(before, LEXICON), now.sources, LEXICON) is None


def test_an_index_made_with_other_tables_of_words_is_not_used() -> None:
    index = indexed()
    other = Lexicon(groups=[["yak", "zebra"]])

    assert loaded(dumped(index, other), dict(index.sources), LEXICON) is None
