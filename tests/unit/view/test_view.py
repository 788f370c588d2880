"""A view: what is answered from one world, and what it says it cannot speak for."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.catalog import Failure, ServerPart
from discovery_engine.config.settings import Settings
from discovery_engine.diagnostics import Origin
from discovery_engine.errors import (
    DiscoveryError,
    ServerDisabledError,
    ServerNotFoundError,
    ToolDisabledError,
)
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.search.searcher import build_searcher
from discovery_engine.tools.model import ServerName, ToolKey, ToolName
from discovery_engine.upstream.state import ServerState, StateInfo
from discovery_engine.view.view import View
from tests.factories import make_catalog, make_entry, make_part, make_server, make_settings

GITHUB = make_part(
    "github",
    make_entry("create_issue", description="Create an issue in a repository", tags=["write"]),
    make_entry("list_issues", description="List the issues of a repository"),
    make_entry("delete_repository", description="Delete a whole repository", enabled=False),
)
CLOCK = make_part("clock", make_entry("now", "clock", description="The current time of day"))
RULE = Rule(patterns=("*delete*",), enabled=False, origin=Origin("discovery.yaml", 3, 5))


def make_view(*parts: ServerPart, settings: Settings | None = None, **fields: Any) -> View:
    names = [part.server for part in parts]
    settings = settings or make_settings(*names, tool_rules=(RULE,))
    catalog = make_catalog(*parts)
    return View(settings, catalog, partial(build_searcher, catalog, settings.search), **fields)


def codes(notices: Any) -> list[str]:
    return [notice.code for notice in notices]


class TestSearch:
    def test_the_fitting_tool_comes_first(self) -> None:
        answer = make_view(GITHUB, CLOCK).search("create an issue")

        assert answer.hits[0].entry.key == ToolKey(ServerName("github"), ToolName("create_issue"))
        assert answer.notices == ()

    def test_a_server_filter_keeps_to_that_server(self) -> None:
        answer = make_view(GITHUB, CLOCK).search("time", server="github")

        assert answer.hits == ()

    def test_an_unknown_server_is_refused_with_the_nearest(self) -> None:
        with pytest.raises(ServerNotFoundError) as caught:
            make_view(GITHUB).search("issue", server="githb")

        assert caught.value.nearest == ("github",)

    def test_tags_must_all_be_there(self) -> None:
        view = make_view(GITHUB)

        assert [h.entry.tool.name for h in view.search("issue", tags=["write"]).hits] == [
            "create_issue"
        ]
        assert view.search("issue", tags=["write", "other"]).hits == ()

    def test_the_limit_comes_from_the_settings_unless_given(self) -> None:
        parts = make_part("many", *(f"issue_{n}" for n in range(30)))
        view = make_view(parts)

        assert len(view.search("issue").hits) == 10
        assert len(view.search("issue", limit=3).hits) == 3

    def test_a_disabled_tool_is_found_on_request_only(self) -> None:
        view = make_view(GITHUB)

        assert view.search("delete_repository", include_disabled=True).hits
        assert "delete_repository" not in {
            hit.entry.tool.name for hit in view.search("delete repository").hits
        }

    def test_nothing_found_says_that_nothing_matches(self) -> None:
        answer = make_view(CLOCK).search("xylophone")

        assert codes(answer.notices) == ["ANSWER_NO_MATCH"]

    def test_a_hidden_match_is_counted_with_its_rule_and_not_named(self) -> None:
        answer = make_view(GITHUB).search("delete_repository", server="github", tags=["none"])
        hidden = make_view(make_part("github", *GITHUB.entries[1:2])).search("delete_repository")

        assert answer.hits == ()
        [notice] = hidden.notices
        assert notice.code == "TOOL_DISABLED"
        assert notice.message == "1 tool that matches is disabled: a rule of the owner"
        assert notice.to_owner == (
            "github:delete_repository is disabled: rule 1 (discovery.yaml:3:5)"
        )

    def test_an_outage_is_never_an_empty_answer_without_words(self) -> None:
        dead = ServerPart(
            ServerName("jira"), failure=Failure("SERVER_CONNECTION_ERROR", "refused", "start it", 5)
        )

        answer = make_view(CLOCK, dead).search("tickets")

        assert answer.hits == ()
        assert "SERVER_CONNECTION_ERROR" in codes(answer.notices)
        assert "refused" in " ".join(notice.message for notice in answer.notices)

    def test_a_server_that_was_never_asked_is_said_to_be_loading(self) -> None:
        answer = make_view(CLOCK, ServerPart(ServerName("jira"))).search("tickets")

        assert "SERVER_STARTING" in codes(answer.notices)

    def test_no_server_at_all_is_said(self) -> None:
        assert codes(make_view().search("anything").notices) == ["CONFIG_NO_SERVERS"]


class TestDetails:
    def test_a_disabled_tool_is_refused_with_its_rule(self) -> None:
        with pytest.raises(ToolDisabledError) as caught:
            make_view(GITHUB).details("github", "delete_repository")

        assert "discovery.yaml" not in caught.value.message
        assert "discovery.yaml:3:5" in caught.value.detail

    def test_a_tool_of_a_disabled_server_is_refused_with_the_server(self) -> None:
        off = Verdict(enabled=False, reason="server")
        part = make_part("github", make_entry("create_issue"), verdict=off)
        part = ServerPart("github", tuple(_with(e, off) for e in part.entries), verdict=off)
        view = make_view(part, settings=make_settings(make_server("github", enabled=False)))

        with pytest.raises(ServerDisabledError):
            view.details("github", "create_issue")


def _with(entry: Any, verdict: Verdict) -> Any:
    return type(entry)(entry.tool, verdict)


class TestServers:
    def test_they_are_reported_in_the_order_of_names_with_what_is_seen_of_each(self) -> None:
        live = {ServerName("clock"): StateInfo(ServerState.READY)}

        told = [(s.name, s.state) for s in make_view(GITHUB, CLOCK, live=live).servers()]

        assert told == [("clock", ServerState.READY), ("github", ServerState.IDLE)]


class TestListTools:
    def test_disabled_tools_are_listed_on_request_only(self) -> None:
        view = make_view(GITHUB)

        assert len(view.list_tools("github").entries) == 2
        assert len(view.list_tools("github", include_disabled=True).entries) == 3

    def test_a_disabled_server_is_refused(self) -> None:
        view = make_view(GITHUB, settings=make_settings(make_server("github", enabled=False)))

        with pytest.raises(ServerDisabledError):
            view.list_tools("github")

    def test_an_empty_list_says_that_all_are_disabled(self) -> None:
        view = make_view(make_part("github", make_entry("delete", enabled=False)))

        assert codes(view.list_tools("github").notices) == ["TOOL_DISABLED"]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.booleans())), st.text()
)
def test_what_is_found_can_be_inspected_and_what_is_hidden_is_reported_nowhere(
    tools: list[tuple[str, str, bool]], query: str
) -> None:
    unique = {(server, f"tool_{name}"): enabled for server, name, enabled in tools}
    parts = [
        make_part(
            server, *(make_entry(n, s, enabled=e) for (s, n), e in unique.items() if s == server)
        )
        for server in {s for s, _ in unique}
    ]
    view = make_view(*parts)

    for hit in view.search(f"{query} tool", limit=100).hits:
        assert view.details(hit.entry.tool.server, hit.entry.tool.name) == hit.entry
    for entry in view.catalog:
        if not entry.is_visible:
            with pytest.raises(DiscoveryError):
                view.details(entry.tool.server, entry.tool.name)
