from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from discovery_engine.tools.client_names import ClientNames, Naming, Style
from discovery_engine.tools.meta_tools import META_TOOLS
from discovery_engine.tools.model import ServerName, ToolKey, ToolName
from tests.rows import rows

STANDARD = re.compile(r"[a-zA-Z0-9_-]{1,64}")
GEMINI = re.compile(r"[a-z_][a-z0-9_]{0,63}")

# Few letters and many separators, so that names that look alike are common.
WORDS = st.one_of(
    st.text("ab_", min_size=1, max_size=6),
    st.text("aB_-. é\u200b\ud800\\", max_size=90),
    st.sampled_from(["search", "tools", "execute", "tool", "list_mcp", "servers", "_2aaaaaaa"]),
)
KEYS = st.builds(ToolKey, WORDS.map(ServerName), WORDS.map(ToolName))
NAMINGS = st.builds(Naming, st.integers(10, 200), st.sampled_from(["standard", "gemini"]))


def names_of(*keys: ToolKey, naming: Naming | None = None) -> ClientNames:
    return ClientNames.of([(key.server, key.tool) for key in keys], naming or Naming())


def key(server: str, tool: str) -> ToolKey:
    return ToolKey(ServerName(server), ToolName(tool))


@pytest.mark.requirement("MOD-20")
@given(st.lists(KEYS, unique=True, max_size=40), NAMINGS)
def test_names_are_different_readable_backwards_and_in_the_alphabet(
    keys: list[ToolKey], naming: Naming
) -> None:
    names = names_of(*keys, naming=naming)

    given_names = [names.name(one) for one in keys]
    assert len(set(given_names)) == len(keys)
    alphabet = GEMINI if naming.style == "gemini" else STANDARD
    for one, name in zip(keys, given_names, strict=True):
        assert name is not None
        assert len(name) <= naming.max_length
        assert alphabet.fullmatch(name[:64])
        assert name not in META_TOOLS
        assert names.key(name) == one


@pytest.mark.requirement("MOD-20")
@given(KEYS, st.lists(KEYS, max_size=20), NAMINGS)
def test_name_does_not_depend_on_what_else_is_known(
    one: ToolKey, others: list[ToolKey], naming: Naming
) -> None:
    among_others = names_of(*others, one, *reversed(others), naming=naming).name(one)

    assert among_others == names_of(one, naming=naming).name(one)


@pytest.mark.requirement("MOD-20")
@given(KEYS, KEYS, NAMINGS)
def test_name_of_an_unknown_tool_is_no_name_of_a_known_one(
    known: ToolKey, unknown: ToolKey, naming: Naming
) -> None:
    assume(known != unknown)
    name = names_of(unknown, naming=naming).name(unknown)

    assert name is not None
    assert names_of(known, naming=naming).key(name) != known


@pytest.mark.requirement("MOD-20")
@rows(
    ("style", "server", "tool", "readable"),
    [
        pytest.param("standard", "a__b", "c", "a__b__c", id="separator within the server"),
        pytest.param("standard", "a_", "b", "a__b", id="underscore before the separator"),
        pytest.param("standard", "a.b", "get/it", "a_b__get_it", id="other characters"),
        pytest.param("standard", "a", "b_2aaaaaaa", "a__b_2aaaaaaa", id="looks like a hash"),
        pytest.param("standard", "s" * 60, "t" * 60, f"{'s' * 26}__{'t' * 27}", id="both long"),
        pytest.param("standard", "s" * 60, "tool", f"{'s' * 49}__tool", id="long server"),
        pytest.param("standard", "github", "t" * 80, f"github__{'t' * 47}", id="long tool"),
        pytest.param("standard", "é", "é", "server__tool", id="nothing left"),
        pytest.param("gemini", "search", "tools", "search_tools", id="meta-tool"),
        pytest.param("gemini", "GitHub", "getUser", "github_getuser", id="gemini: capitals"),
        pytest.param("gemini", "a_b", "c", "a_b_c", id="gemini: separator within the server"),
        pytest.param("gemini", "1a", "b", "tool_1a_b", id="gemini: begins with a digit"),
    ],
)
def test_other_names_have_a_hash(style: Style, server: str, tool: str, readable: str) -> None:
    one = key(server, tool)
    name = names_of(one, naming=Naming(64, style)).name(one)

    assert name is not None
    assert re.fullmatch(re.escape(readable) + r"_[2-7][a-z2-7]{7}", name)


@pytest.mark.requirement("MOD-20")
@rows("style", ["standard", "gemini"])
@rows("word", ["a", "a_", "_a", "a-"])
def test_long_name_takes_no_exponential_time(style: Style, word: str) -> None:
    one = key(word * 1000 + "!", word * 1000 + "!")

    assert len(names_of(one, naming=Naming(64, style)).hashed[one]) <= 64


@pytest.mark.requirement("MOD-20")
def test_names_stay_the_same_in_all_versions() -> None:
    one = key("a.b", "get/it")

    assert names_of(one).name(one) == "a_b__get_it_77xs5nzk"


def colliding(number: int) -> ToolKey:
    """A tool whose name has no letter of the alphabet: only the hash tells it from another."""
    return key("evil", f"{number:024b}".replace("0", "é").replace("1", "è"))


@pytest.mark.requirement("MOD-20")
def test_name_with_a_hash_that_two_tools_have_is_given_to_neither() -> None:
    first, second = colliding(888_529), colliding(1_031_868)
    lone = names_of(first).name(first)

    names = names_of(second, first)

    assert lone == names_of(second).name(second) == "evil__tool_4qugohox"
    assert names.key("evil__tool_4qugohox") is None
    assert names == names_of(first, second)
    assert {names.key(str(names.name(one))) for one in (first, second)} == {first, second}
