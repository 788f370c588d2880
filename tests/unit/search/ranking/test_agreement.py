"""A tool that does what is asked for rises, and one that does something else falls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.config.settings import SearchSettings
from discovery_engine.search.operations.request_reading import read_request
from discovery_engine.search.operations.tool_profile import ToolProfile
from discovery_engine.search.ranking.agreement import Agreement, Trait, default_weights, traits
from discovery_engine.search.ranking.hit_explanation import Reason
from discovery_engine.search.searcher import build_searcher
from discovery_engine.search.text.lexicon import default_lexicon
from tests.factories import make_catalog, make_part, make_tool
from tests.rows import rows

PROFILES = st.integers(0, 2**30 - 1)
SCORES = st.floats(0.001, 0.999)


def agreement(text: str) -> Agreement:
    lexicon = default_lexicon()
    reading = read_request(text, lexicon, lexicon.detect_language(text))
    return Agreement(reading, default_weights())


def first(query: str, *names: str) -> str:
    searcher = build_searcher(make_catalog(make_part("a", *names)), SearchSettings())
    hits = searcher.search(searcher.analyze(query), limit=5, accepts=lambda _: True)
    return hits[0].entry.tool.name


@pytest.mark.requirement("REL-64")
@rows(
    ("query", "right", "sibling"),
    [
        ("erase the old draft", "remove_draft", "add_draft"),
        ("please get rid of my webhook", "delete_webhook", "create_webhook"),
        ("take down the banner", "delete_banner", "add_banner"),
        ("set up a webhook", "create_webhook", "delete_webhook"),
        ("which labels exist", "list_labels", "apply_labels"),
        ("show me the secrets", "secret_list", "secret_put"),
        ("cron triggers", "cron_list", "cron_create"),
        ("switch on the lamp", "enable_lamp", "disable_lamp"),
        ("pull down the backup", "download_backup", "upload_backup"),
        ("Lösch das Label", "delete_label", "add_label"),
        ("ラベルを削除して", "delete_label", "add_label"),
        ("do a backup of the database", "create_backup", "get_backup"),
        ("do not fetch it, delete the draft", "delete_draft", "fetch_draft"),
        ("when the build fails, restart the build", "restart_build", "get_build"),
    ],
)
def test_of_siblings_the_one_with_the_operation_asked_for_is_first(
    query: str, right: str, sibling: str
) -> None:
    assert first(query, right, sibling) == right
    assert first(query, f"z_{right}", f"a_{sibling}") == f"z_{right}"


@pytest.mark.requirement("REL-64")
def test_a_tool_that_takes_an_address_is_first_if_the_request_has_one() -> None:
    schema = {"type": "object", "properties": {"url": {"type": "string"}}}
    tools = (
        make_tool("read_page", "z", inputSchema=schema),
        make_tool("read_page", "a", inputSchema={"type": "object", "properties": {}}),
    )
    searcher = build_searcher(
        make_catalog(make_part("a", tools[1]), make_part("z", tools[0])), SearchSettings()
    )

    query = searcher.analyze("read the page https://example.org/changes")
    hits = searcher.search(query, limit=2, accepts=lambda _: True)

    assert [hit.entry.tool.server for hit in hits] == ["z", "a"]


@pytest.mark.requirement("REL-63")
def test_a_word_of_a_quote_that_is_the_name_of_another_tool_counts_for_less() -> None:
    names = ("label_comment", "deploy_app")

    assert first('label the comment "deploy the app"', *names) == "label_comment"


@pytest.mark.requirement("REL-64")
def test_a_tool_that_is_named_is_not_moved() -> None:
    searcher = build_searcher(make_catalog(make_part("a", "delete_x", "x")), SearchSettings())

    hit, *_ = searcher.search(searcher.analyze("x"), limit=2, accepts=lambda _: True)

    assert (hit.entry.tool.name, hit.parts.agreement) == ("x", 0.0)


@pytest.mark.requirement("REL-65")
def test_an_explanation_says_what_speaks_for_a_tool_and_against_it() -> None:
    searcher = build_searcher(
        make_catalog(make_part("a", "delete_draft", "create_draft")), SearchSettings()
    )
    query = searcher.analyze("erase a draft")
    for hit in searcher.search(query, limit=2, accepts=lambda _: True):
        shares = [
            share
            for share in searcher.explain(query, hit).shares
            if share.reason is Reason.AGREEMENT
        ]
        texts = {str(share): share.adds for share in shares}
        if hit.entry.tool.name == "delete_draft":
            assert texts["it does what the request asks for"] > 0
        else:
            assert texts["it does the opposite of what the request asks for"] < 0


@given(SCORES, SCORES, PROFILES)
def test_a_score_stays_between_0_and_1_and_the_order_by_words_is_kept(
    one: float, other: float, profile: int
) -> None:
    moved = agreement("delete the issues in acme/shop")
    low, high = sorted((moved.adjusted(one, profile), moved.adjusted(other, profile)))

    assert 0 < low <= high < 1
    if one < other:
        assert moved.adjusted(one, profile) <= moved.adjusted(other, profile)


@given(SCORES, PROFILES)
def test_the_shares_of_the_traits_add_up(score: float, profile: int) -> None:
    moved = agreement("list issues since 2024-05-01")

    whole = sum(share.adds for share in moved.shares(score, profile))

    assert score + whole == pytest.approx(moved.adjusted(score, profile))


@given(st.text(max_size=80), PROFILES)
def test_a_trait_is_held_once(text: str, profile: int) -> None:
    lexicon = default_lexicon()
    reading = read_request(text, lexicon, lexicon.detect_language(text))

    held = list(traits(reading, ToolProfile.unpacked(profile)))

    assert len(held) == len(set(held))


def test_every_weight_is_of_a_trait_and_the_signs_are_as_one_would_expect() -> None:
    weights = default_weights()

    assert weights[Trait.SAME] > 0 > weights[Trait.OPPOSITE]
    assert weights[Trait.OPPOSITE] < weights[Trait.OTHER]


@pytest.mark.requirement("REL-74")
@given(SCORES, PROFILES)
def test_shipped_requests_never_help_a_tool_as_it_is_compared_with_one_without(
    score: float, profile: int
) -> None:
    plain = ToolProfile.unpacked(profile)._replace(has_shipped_examples=False)
    shipped = plain._replace(has_shipped_examples=True)
    rising = agreement("list the open issues")

    assert rising.adjusted(score, shipped.packed()) < rising.adjusted(score, plain.packed())
