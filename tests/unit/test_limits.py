"""How much of a caller's input is taken: the same at every entrance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine import limits
from discovery_engine.agent.definitions import META_TOOLS
from discovery_engine.agent.meta_arguments import MetaArguments
from discovery_engine.agent.render.calls import error_result
from discovery_engine.errors import DiscoveryError, InputTooLongError, NotFoundError
from discovery_engine.limits import NAME_LENGTH, QUERY_BYTES, TAGS
from discovery_engine.tools.arguments import Checker
from discovery_engine.view.view import View
from tests.factories import make_entry, make_part, make_tool
from tests.rows import rows
from tests.unit.server.fakes import make_view

LONG = "n" * (NAME_LENGTH + 1)


@pytest.fixture
def view() -> View:
    return make_view(make_part("told", make_entry("plain", "told")))


ENTRANCES: dict[str, Callable[[View], Any]] = {
    "a query": lambda view: view.search("q" * (QUERY_BYTES + 1)),
    "a query of wide characters": lambda view: view.search("\u641c" * (QUERY_BYTES // 3 + 1)),
    "a server to search": lambda view: view.search("q", server=LONG),
    "a tag": lambda view: view.search("q", tags=[LONG]),
    "many tags": lambda view: view.search("q", tags=["t"] * (TAGS + 1)),
    "a server": lambda view: view.server(LONG),
    "a server to list": lambda view: view.list_tools(LONG),
    "a server to find": lambda view: view.find(LONG, "plain"),
    "a tool": lambda view: view.find("told", LONG),
    "a tool of any server": lambda view: view.details(None, LONG),
    "a server in a word": lambda view: view.addresses.servers_in(LONG),
    "an argument": lambda _: Checker(make_tool()).check({LONG: 1}),
    "many arguments": lambda _: Checker(make_tool()).check({f"a{n}": 1 for n in range(1001)}),
    "an argument of a meta-tool": lambda _: meta({LONG: 1}),
    "many arguments of a meta-tool": lambda _: meta({f"a{n}": 1 for n in range(100)}),
    "a name for a meta-tool": lambda _: meta({"tool": LONG}).text("tool"),
}


def meta(given: dict[str, Any]) -> MetaArguments:
    return MetaArguments(given, META_TOOLS["execute_tool"].input_schema, "execute_tool")


@pytest.mark.requirement("THR-12")
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_what_is_too_long_is_refused_with_both_lengths(view: View, entrance: str) -> None:
    with pytest.raises(InputTooLongError) as caught:
        ENTRANCES[entrance](view)

    error = caught.value
    assert error.size in error.message
    assert error.limit in error.message
    assert len(error.message) + len(error.hint) < 300
    assert len(str(error_result(error))) < 1_000


@pytest.mark.requirement("THR-12")
def test_what_is_just_as_long_is_taken(view: View) -> None:
    view.search("q " * (QUERY_BYTES // 2), tags=["t" * NAME_LENGTH] * TAGS)
    view.search("\u641c" * (QUERY_BYTES // 3))
    Checker(make_tool()).check({f"a{n}": 1 for n in range(1_000)})
    with pytest.raises(NotFoundError):
        view.find(None, "n" * NAME_LENGTH)


@given(st.text(max_size=40), st.integers(1, 300))
def test_a_query_is_measured_in_bytes_of_utf_8(text: str, times: int) -> None:
    query = text * times
    fits = len(query.encode(errors="replace")) <= QUERY_BYTES

    try:
        limits.require_query(query)
    except DiscoveryError:
        assert not fits
    else:
        assert fits


@rows(("text", "shown"), [("abc", "abc"), ("abcd", "abc…")])
def test_what_is_shortened_reports_it(text: str, shown: str) -> None:
    assert limits.shortened(text, 3) == shown
