"""What a view lets be seen, and what it says of the rest: the same for every reader of it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from discovery_engine.catalog import Catalog, Entry, Failure, ServerPart
from discovery_engine.config.settings import Settings
from discovery_engine.errors import (
    InputTooLongError,
    ServerDisabledError,
    ServerNotFoundError,
    ToolAmbiguousError,
    ToolDisabledError,
    ToolNotFoundError,
    ToolWithheldError,
)
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.search.searcher import build_searcher
from discovery_engine.tools.model import ServerName
from discovery_engine.view.search_answers import Decision
from discovery_engine.view.view import View
from tests.factories import make_catalog, make_entry, make_part, make_settings
from tests.rows import rows

DENY = Rule(("drop_*",), enabled=False)


def held(name: str, server: str, reason: Any) -> Entry:
    """A tool that is withheld."""
    return replace(make_entry(name, server), verdict=Verdict(False, (), reason))


ALPHA = make_part(
    "alpha",
    make_entry("read_page", "alpha", tags=["docs"], description="Read a page."),
    make_entry("drop_page", "alpha", enabled=False, description="Drop a page."),
    held("new_page", "alpha", "changed"),
    held("old_page", "alpha", "unpinned"),
)
BETA = make_part(
    "beta",
    make_entry("send_mail", "beta", tags=["mail"], description="Send a mail."),
    make_entry("read_mail", "beta", tags=["mail", "docs"], description="Read a mail."),
)
DOWN = make_part(
    "down",
    make_entry("play_song", "down", description="Play a song."),
    failure=Failure("SERVER_CONNECTION_ERROR", "it exited with status 3", "", 5.0),
)


def make_view(*parts: ServerPart, settings: Settings | None = None, **fields: Any) -> View:
    settings = settings or make_settings(*(part.server for part in parts), tool_rules=(DENY,))
    catalog = make_catalog(*parts)
    return View(settings, catalog, partial(build_searcher, catalog, settings.search), **fields)


VIEW = make_view(ALPHA, BETA, DOWN)
REVIEW = "alpha: 1 tool waits for review by the owner (`discovery review alpha`)"
UNPINNED = "alpha: 1 tool is not as the lock file pins (`discovery config lock --check`)"
OUTAGE = "down: failing: it exited with status 3"


def said(notices: Any) -> list[str]:
    return [notice.message.split(";")[0] for notice in notices]


def found(answer: Any) -> list[str]:
    return [str(hit.entry.key) for hit in answer.hits]


class TestNotices:
    def test_lost_decisions_are_reported_of_every_server(self) -> None:
        lost = make_view(ALPHA, BETA, lost_at=60.0)

        for answer in (lost.search("send_mail", server="beta"), lost.list_tools("beta")):
            [notice] = answer.notices
            assert "were lost (noticed 1970-01-01 00:01 UTC)" in notice.message

    def test_all_servers_are_spoken_for_where_none_is_named(self) -> None:
        assert said(VIEW.search("send_mail").notices) == [OUTAGE, REVIEW, UNPINNED]

    @rows(
        ("server", "query", "notices"),
        [
            ("alpha", "read_page", [REVIEW, UNPINNED]),
            ("beta", "send_mail", []),
            ("down", "play_song", [OUTAGE]),
        ],
    )
    def test_a_server_that_is_named_is_spoken_for_alone(
        self, server: str, query: str, notices: list[str]
    ) -> None:
        assert said(VIEW.search(query, server=server).notices) == notices
        assert said(VIEW.list_tools(server).notices) == notices

    @rows("within", [{}, {"server": "alpha"}])
    def test_a_disabled_tool_that_fits_better_is_counted_and_named_to_its_owner(
        self, within: dict[str, str]
    ) -> None:
        hidden, *_ = VIEW.search("drop_page", **within).notices

        assert hidden.message == "1 tool that matches is disabled: a rule of the owner"
        assert hidden.to_owner == "alpha:drop_page is disabled: rule 1"

    @rows("within", [{"server": "beta"}, {"tags": ["mail"]}])
    def test_a_disabled_tool_elsewhere_is_not_counted(self, within: dict[str, Any]) -> None:
        assert not any(
            "disabled" in one for one in said(VIEW.search("drop_page", **within).notices)
        )

    def test_a_tool_that_only_the_limit_leaves_out_is_named(self) -> None:
        by_server = VIEW.search("play a song", server="beta")
        by_tag = VIEW.search("play a song", tags=["mail"])
        by_both = VIEW.search("play a song", server="beta", tags=["mail"])

        assert said(by_server.notices)[0] == (
            "nothing fits within server 'beta', but 1 tool elsewhere does: down:play_song"
        )
        assert said(by_tag.notices)[0] == (
            "nothing fits within tag 'mail', but 1 tool elsewhere does: down:play_song"
        )
        assert said(by_both.notices)[0].startswith("nothing fits within server 'beta' and tag")

    def test_of_a_server_without_an_enabled_tool_nothing_else_is_said(self) -> None:
        bare = make_view(make_part("bare", make_entry("drop_it", "bare", enabled=False)), BETA)

        assert said(bare.search("zebra", server="bare").notices) == [
            "server 'bare' has no enabled tool"
        ]
        assert said(bare.search("zebra", server="beta").notices) != [
            "server 'beta' has no enabled tool"
        ]
        [notice] = bare.list_tools("bare").notices
        assert notice.message == "1 tool that matches is disabled: a rule of the owner"

    def test_a_query_with_too_much_is_refused_with_what_is_too_much(self) -> None:
        with pytest.raises(InputTooLongError, match="the tag 'x"):
            VIEW.search("mail", tags=["x" * 2000])
        with pytest.raises(InputTooLongError, match="the list of tags"):
            VIEW.search("mail", tags=["x"] * 2000)
        with pytest.raises(InputTooLongError, match="the name of a server 'x"):
            VIEW.search("mail", server="x" * 2000)
        with pytest.raises(InputTooLongError, match="the name of a tool 'x"):
            VIEW.find("beta", "x" * 2000)


class TestSeeing:
    def test_what_is_disabled_may_be_listed_and_what_is_withheld_never(self) -> None:
        usual, whole = VIEW.list_tools("alpha"), VIEW.list_tools("alpha", include_disabled=True)

        assert usual.server == whole.server == "alpha"
        assert [entry.tool.name for entry in usual.entries] == ["read_page"]
        assert [entry.tool.name for entry in whole.entries] == ["drop_page", "read_page"]
        assert "alpha:drop_page" not in found(VIEW.search("drop_page"))
        assert VIEW.search("drop_page").decision is not Decision.MATCH
        assert found(VIEW.search("drop_page", include_disabled=True)) == ["alpha:drop_page"]
        for name in ("new_page", "old_page"):
            answer = VIEW.search(name, include_disabled=True)
            assert f"alpha:{name}" not in found(answer)

    @rows(
        ("tool", "command"),
        [("new_page", "discovery review alpha"), ("old_page", "discovery config lock --check")],
    )
    def test_a_tool_that_is_withheld_says_which_command_shows_why(
        self, tool: str, command: str
    ) -> None:
        with pytest.raises(ToolWithheldError) as raised:
            VIEW.details("alpha", tool)

        assert (raised.value.server, raised.value.tool) == ("alpha", tool)
        assert raised.value.command == command

    def test_a_tool_that_is_disabled_says_which_rule_it_is(self) -> None:
        with pytest.raises(ToolDisabledError, match="a rule of the owner") as raised:
            VIEW.details(None, "alpha:drop_page")

        assert (raised.value.server, raised.value.tool) == ("alpha", "drop_page")
        assert raised.value.detail == "rule 1 disables tools matching 'drop_*'"

    def test_of_a_server_that_is_off_its_own_error_tells(self) -> None:
        settings = make_settings("beta", server_rules=(Rule(("beta",), enabled=False),))
        entries = tuple(
            replace(entry, verdict=Verdict(False, (), "server")) for entry in BETA.entries
        )
        off = replace(BETA, entries=entries, verdict=Verdict(False, (), "rule", 0))

        with pytest.raises(ServerDisabledError) as raised:
            make_view(off, settings=settings).details("beta", "send_mail")

        assert raised.value.server == "beta"


class TestNames:
    def test_a_name_that_nothing_has_is_answered_with_the_nearest_that_may_be_used(self) -> None:
        with pytest.raises(ToolNotFoundError) as raised:
            VIEW.find("alpha", "read_pages")
        assert (raised.value.server, raised.value.tool) == ("alpha", "read_pages")
        assert raised.value.nearest == ("read_page",)
        assert raised.value.detail == ""

        with pytest.raises(ToolNotFoundError) as raised:
            VIEW.find(None, "drop_pages")
        assert (raised.value.server, raised.value.tool) == (None, "drop_pages")
        assert "alpha:drop_page (rule 1)" in raised.value.detail
        assert "drop_page" not in raised.value.nearest

        with pytest.raises(ToolNotFoundError) as raised:
            VIEW.find(None, "alpha:drop_pages")
        assert (raised.value.server, raised.value.tool) == ("alpha", "drop_pages")

    def test_a_server_that_is_not_configured_is_answered_with_the_nearest(self) -> None:
        for server, tool in (("betta", "send_mail"), (None, "betta:send_mail:now")):
            with pytest.raises(ServerNotFoundError) as raised:
                VIEW.find(server, tool)
            assert (raised.value.server, raised.value.nearest) == ("betta", ("beta",))

    def test_a_name_that_several_servers_have_is_refused_with_theirs(self) -> None:
        view = make_view(make_part("a", "ping"), make_part("b", "ping"), make_part("c", "pong"))

        with pytest.raises(ToolAmbiguousError) as raised:
            view.find(None, "ping")

        assert (raised.value.tool, raised.value.nearest) == ("ping", ("a:ping", "b:ping"))

    def test_a_word_with_two_readings_is_the_one_that_is_written_with_a_colon(self) -> None:
        view = make_view(make_part("a", "b__c"), make_part("a__b", "c"), make_part("a:b", "c"))
        both = make_view(make_part("a", "b:c"), make_part("a:b", "c"))

        assert view.find(None, "a:b__c").tool.server == "a"
        with pytest.raises(ToolAmbiguousError) as raised:
            view.find(None, "a__b__c")
        assert (raised.value.tool, set(raised.value.nearest)) == (
            "a__b__c",
            {"a:b__c", "a__b:c"},
        )
        assert str(both.find("a", "b:c").key) == "a:b:c"

    def test_a_tools_own_name_goes_before_a_name_with_its_server(self) -> None:
        view = make_view(make_part("git", "git_log", "git__log", "log"))

        assert view.find("git", "git__log").tool.name == "git__log"
        assert view.find("git", "git:log").tool.name == "log"


def test_a_difference_is_what_was_added_removed_or_changed() -> None:
    empty, alpha, beta = Catalog(), make_catalog(ALPHA), make_catalog(BETA)
    other = replace(ALPHA, entries=(held("read_page", "alpha", "changed"), *ALPHA.entries[:0]))

    assert not alpha.diff(alpha)
    assert not empty.diff(Catalog())
    assert empty.diff(beta)
    assert beta.diff(empty)
    assert make_catalog(replace(ALPHA, entries=ALPHA.entries[3:])).diff(make_catalog(other))
    assert empty.revision == 0
    assert Catalog.of([]).revision == 0
    assert empty.part(ServerName("x")).server == "x"
