from __future__ import annotations

from discovery_engine.search.index import Index
from discovery_engine.search.lexicon import Lexicon, default_lexicon
from discovery_engine.search.storage import dumped, loaded
from tests.factories import make_catalog, make_part

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


def test_an_index_made_with_other_tables_of_words_is_not_used() -> None:
    index = indexed()
    other = Lexicon(groups=[["yak", "zebra"]])

    assert loaded(dumped(index, other), dict(index.sources), LEXICON) is None
