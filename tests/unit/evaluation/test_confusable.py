from __future__ import annotations

import cProfile
import pstats
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.catalog import Entry
from discovery_engine.evaluation import catalog_lint as room
from discovery_engine.evaluation.catalog_lint import confusable
from tests.factories import make_entry
from tests.rows import rows

NAMES = st.sampled_from(["create_issue", "createIssue", "list_files", "search", "b_search"])
WORDS = st.lists(
    st.sampled_from(["issue", "file", "repository", "page", "draft", "new", "old", "big"]),
    max_size=8,
)
ENTRIES = st.lists(
    st.builds(
        lambda server, name, said: make_entry(name, server, description=" ".join(said)),
        st.sampled_from("abcd"),
        NAMES,
        WORDS,
    ),
    max_size=12,
    unique_by=lambda entry: entry.key,
)


def keys(groups: tuple[tuple[Entry, ...], ...]) -> list[list[str]]:
    return [[str(entry.key) for entry in group] for group in groups]


@rows(
    ("one", "other", "alike"),
    [
        pytest.param(
            ("create_issue", "Create an issue in a repository"),
            ("createIssue", "Create an issue in a project repository"),
            True,
            id="same name and much the same text",
        ),
        pytest.param(
            ("search", "Search the web"), ("search", "Search tickets"), False, id="same name only"
        ),
        pytest.param(("search", ""), ("search", ""), True, id="same name, nothing said"),
        pytest.param(("search", ""), ("search", "Search flights"), False, id="one says something"),
        pytest.param(
            ("make_folder", "Make a new folder at a path in the workspace"),
            ("new_folder", "Make a new folder at a path in the workspace"),
            True,
            id="other name, same text",
        ),
        pytest.param(
            ("a_search", "Find pages of text"),
            ("b_search", "Find pages of text"),
            True,
            id="each with its server's name before it",
        ),
    ],
)
def test_likeness_is_of_names_and_summaries(
    one: tuple[str, str], other: tuple[str, str], *, alike: bool
) -> None:
    entries = [
        make_entry(one[0], "a", description=one[1]),
        make_entry(other[0], "b", description=other[1]),
    ]

    assert keys(confusable(entries)) == ([[f"a:{one[0]}", f"b:{other[0]}"]] if alike else [])


def calls_for(tools: int) -> int:
    said = "Get the thing out of the big box."
    entries = [make_entry(f"get_{n}_things", "a", description=said) for n in range(tools)]
    profile = cProfile.Profile()

    assert profile.runcall(confusable, entries) == ()

    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]


def test_many_alike_of_one_server_take_time_that_grows_with_their_number_only() -> None:
    calls_for(1)  # loads what is loaded once

    assert calls_for(400) < 2.2 * calls_for(200)


@given(ENTRIES)
def test_no_pair_that_is_alike_is_overlooked(entries: list[Entry]) -> None:
    profiles = [room._Profile.of(entry) for entry in entries]
    apart = ((a, b) for a, b in combinations(profiles, 2) if a.server != b.server)
    pairs = [(a, b) for a, b in apart if room._are_alike(a, b)]
    leaders = {group[0].key for group in confusable(entries)}
    grouped = [key for group in confusable(entries) for key in (e.key for e in group)]

    for a, b in pairs:
        assert a.entry.key in grouped or b.entry.key in grouped
        if a.entry.key in leaders:
            assert b.entry.key in grouped
    assert len(grouped) == len(set(grouped))
