"""What `--explain` and the library tell of a hit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.config.settings import SearchSettings
from discovery_engine.search.ranking.hit_explanation import HitExplanation, Reason
from discovery_engine.search.searcher import build_searcher
from tests.contract.test_relevance import catalogs, queries, weights
from tests.factories import make_catalog, make_entry, make_part
from tests.rows import rows

PLAIN = SearchSettings()
TAGGED = ["vcs song", "read only", "home of the issue"]


def explained(
    query: str, *entries, settings: SearchSettings = PLAIN, about: str = ""
) -> HitExplanation:
    """Of the first hit among `entries`, which are of the server `one`."""
    searcher = build_searcher(
        make_catalog(make_part("one", *entries)), settings, descriptions={"one": about}
    )
    analyzed = searcher.analyze(query)
    [hit, *_] = searcher.search(analyzed, limit=1, accepts=lambda _: True)
    return searcher.explain(analyzed, hit)


def told(explanation: HitExplanation) -> set[str]:
    return {str(share) for share in explanation.shares}


@pytest.mark.thorough
@pytest.mark.requirement("REL-50")
@given(catalogs(), st.one_of(queries, st.sampled_from(TAGGED)), weights)
def test_the_shares_of_every_hit_add_up_to_its_relevance(catalog, query, chosen) -> None:
    searcher = build_searcher(catalog, SearchSettings(weights=chosen))

    analyzed = searcher.analyze(query)
    for hit in searcher.search(analyzed, limit=100, accepts=lambda _: True):
        explanation = searcher.explain(analyzed, hit)
        assert sum(share.adds for share in explanation.shares) == pytest.approx(
            hit.relevance, abs=1e-9
        )
        assert explanation.relevance == hit.relevance
        others = [one for one in explanation.shares if one.reason is not Reason.AGREEMENT]
        assert all(share.adds > 0 for share in others)


@pytest.mark.thorough
@pytest.mark.requirement("REL-51")
@rows(
    ("query", "sentence"),
    [
        pytest.param("zebras", "'zebras' is in its name", id="name"),
        pytest.param("stripes", "'stripes' is in its description", id="description"),
        pytest.param("loading", "'loading' is in the names of its parameters", id="parameter"),
        pytest.param("kilos", "'kilos' is in what its parameters are for", id="parameter text"),
        pytest.param("one lion", "'one' is in its server's name", id="server"),
        pytest.param("safari", "'safari' is in its server's description", id="server text"),
        pytest.param("axe it", "'axe' means the same as 'revoke', in its description", id="own"),
        pytest.param(
            "cancel", "'cancel' means the same as 'revoke', in its description", id="same"
        ),
        pytest.param(
            "playlist", "'playlist' is about the same as 'melody', in its description", id="related"
        ),
        pytest.param(
            "la cebra es un caballo y una palabra",
            "'palabra' means 'words', in its description",
            id="translated",
        ),
        pytest.param("zebrra", "'zebrra' is a typo of 'zebra', in its name", id="typo"),
        pytest.param("zebra_finder", "the query is its name", id="named"),
        pytest.param("zebra_fnider", "the query is its name with a typo", id="mistyped"),
        pytest.param("anything wild", "the query names its tags: wild", id="tag"),
    ],
)
def test_every_reason_is_reported_in_plain_words(query: str, sentence: str) -> None:
    entry = make_entry(
        "zebra_finder",
        "one",
        description="Stripes and words; revoke any melody",
        inputSchema={
            "type": "object",
            "properties": {"load": {"type": "number", "description": "in kilos"}},
        },
        tags=["wild"],
    )
    settings = SearchSettings(synonyms=(("axe", "cancel"),))

    assert sentence in told(explained(query, entry, settings=settings, about="on safari"))


@pytest.mark.requirement("REL-51")
def test_words_of_which_the_tool_says_nothing_are_reported() -> None:
    explanation = explained(
        "paint a zebra in the wild, quux", make_entry("zebra", "one", tags=["wild"])
    )

    assert explanation.uncovered == ("paint", "quux")
