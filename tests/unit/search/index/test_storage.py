from __future__ import annotations

import hashlib
import logging
import marshal

import pytest

from discovery_engine.search.index import index as storage
from discovery_engine.search.index.index import FORMAT, Index, dump_index, load_index
from discovery_engine.search.text.lexicon import Lexicon, default_lexicon
from tests.factories import make_catalog, make_part, make_tool
from tests.rows import rows

LEXICON = default_lexicon()


def indexed() -> Index:
    return Index().update(make_catalog(make_part("a", "x", "y")), {}, LEXICON)


def test_an_index_made_with_other_tables_of_words_is_not_used() -> None:
    index = indexed()
    other = Lexicon(groups=[["yak", "zebra"]])

    assert load_index(dump_index(index, other), dict(index.servers), LEXICON) is None


def test_the_format_has_another_number_whenever_the_bytes_say_something_else() -> None:
    """If this fails, raise `FORMAT`, and let both stand here as they are then."""
    schema = {"properties": {"quuxID": {"description": "The yak.", "enum": ["zebra", "gnu"]}}}
    tools = [make_tool(name, "lynx", inputSchema=schema) for name in ("shaveYAKs", "groom_zebra_2")]
    index = Index().update(make_catalog(make_part("lynx", *tools)), {}, LEXICON)

    spans, (held, buckets), names, profiles = marshal.loads(dump_index(index, LEXICON)[32:])
    terms = [sorted(marshal.loads(bucket).items()) for bucket in buckets]
    spelled = sorted((length, marshal.loads(one)) for length, one in names.items())
    said = spans, held, terms, spelled, profiles

    assert (FORMAT, hashlib.sha256(repr(said).encode()).hexdigest()[:16]) == (5, "1c703d4db4f83466")


@pytest.mark.requirement("REG-15")
@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(marshal.dumps(("made", "of", "five", "other", "things")), id="another layout"),
        pytest.param(marshal.dumps(([("a", 0)], [], {})), id="another segment"),
        pytest.param(marshal.dumps(3), id="no layout"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"?", id="no bytes of ours"),
    ],
)
def test_bytes_that_cannot_be_read_are_a_warning(
    payload: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    sources = indexed().servers
    digest = storage._digest(payload, sources, LEXICON)

    with caplog.at_level(logging.WARNING, "discovery_engine"):
        assert load_index(digest + payload, sources, LEXICON) is None

    assert "made anew" in caplog.text


@pytest.mark.requirement("REL-44")
@rows("at", [0, 31, 32, -1])
def test_bytes_of_which_one_is_another_are_not_used(at: int) -> None:
    index = indexed()
    data = bytearray(dump_index(index, LEXICON))
    data[at] ^= 1

    assert load_index(bytes(data), index.servers, LEXICON) is None
