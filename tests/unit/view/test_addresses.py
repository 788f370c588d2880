"""Whatever callers call it: the server or the tool that is meant, or the nearest names."""

from __future__ import annotations

import pytest

from discovery_engine.catalog import ServerPart
from discovery_engine.errors import (
    NotFoundError,
    ServerNotFoundError,
    ToolAmbiguousError,
    ToolNotFoundError,
)
from discovery_engine.view.addresses import AddressBook
from tests.factories import make_catalog, make_entry, make_part
from tests.rows import rows

GITHUB = make_part(
    "github", "create_issue", "list_issues", make_entry("delete_repository", enabled=False)
)
CLOCK = make_part("clock", make_entry("now", "clock"))


def book(*parts: ServerPart) -> AddressBook:
    return AddressBook(make_catalog(*parts), [part.server for part in parts], str)


@rows(
    ("name", "server"),
    [
        pytest.param("GitHub", "github", id="another case"),
        pytest.param("Time", "Time", id="exactly this case"),
    ],
)
def test_a_server_is_found_in_any_case_that_names_one_only(name: str, server: str) -> None:
    addresses = book(GITHUB, make_part("time"), make_part("Time"))

    assert addresses.server(name) == server


@rows(
    ("word", "servers"),
    [
        pytest.param("github", ["github"], id="a server"),
        pytest.param("GitHub:create_issue", ["github"], id="its tool"),
        pytest.param("mcp__github__create_issue", ["github"], id="as hosts write it"),
        pytest.param("create_issue", [], id="a tool alone"),
        pytest.param("githubs", [], id="another name"),
    ],
)
def test_a_word_tells_which_servers_it_may_be_about(word: str, servers: list[str]) -> None:
    assert book(GITHUB, CLOCK).servers_in(word) == servers


@rows("word", ["STRASSE:fegen", "Strasse__fegen", "mcp__straße__fegen"])
def test_a_name_that_is_longer_in_another_case_is_read_to_its_end(word: str) -> None:
    assert book(make_part("straße", "fegen")).tool(None, word).tool.name == "fegen"


@rows(
    ("name", "nearest"),
    [
        pytest.param("githb", "github", id="a slip"),
        pytest.param("TIME", "Time", id="a case that names two"),
    ],
)
def test_an_unknown_server_is_answered_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(ServerNotFoundError) as caught:
        book(GITHUB, make_part("time"), make_part("Time")).server(name)

    assert caught.value.nearest[0] == nearest


@rows(
    ("server", "tool"),
    [
        pytest.param("github", "create_issue", id="two words"),
        pytest.param("GitHub", "create_issue", id="server in another case"),
        pytest.param(None, "create_issue", id="a name that only one server has"),
        pytest.param(None, "github:create_issue", id="colon"),
        pytest.param(None, "github__create_issue", id="underscores"),
        pytest.param(None, "mcp__github__create_issue", id="as hosts name it"),
        pytest.param("github", "github:create_issue", id="server said twice"),
    ],
)
def test_a_tool_is_found_by_every_way_to_name_it(server: str | None, tool: str) -> None:
    assert book(GITHUB, CLOCK).tool(server, tool).tool.name == "create_issue"


def test_a_word_that_names_two_tools_is_ambiguous_and_its_exact_forms_are_not() -> None:
    addresses = book(make_part("a", "_c"), make_part("a_", "c"))

    with pytest.raises(ToolAmbiguousError) as caught:
        addresses.tool(None, "a___c")

    assert set(caught.value.nearest) == {"a:_c", "a_:c"}
    assert [addresses.tool(None, key).tool.server for key in caught.value.nearest] == ["a_", "a"]


def test_a_name_that_two_servers_have_is_ambiguous() -> None:
    addresses = book(make_part("a", "now"), make_part("b", "now"))

    with pytest.raises(ToolAmbiguousError) as caught:
        addresses.tool(None, "now")

    assert caught.value.nearest == ("a:now", "b:now")


def test_of_two_only_the_visible_one_is_meant() -> None:
    addresses = book(make_part("a", make_entry("now", "a", enabled=False)), make_part("b", "now"))

    assert addresses.tool(None, "now").tool.server == "b"


@rows(
    ("server", "tool", "nearest"),
    [
        pytest.param("github", "craete_issue", "create_issue", id="of that server"),
        pytest.param(None, "github:craete_issue", "create_issue", id="in one word"),
        pytest.param(None, "craete_issue", "github:create_issue", id="of any server"),
    ],
)
def test_an_unknown_tool_is_answered_with_the_nearest(
    server: str | None, tool: str, nearest: str
) -> None:
    with pytest.raises(ToolNotFoundError) as caught:
        book(GITHUB, CLOCK).tool(server, tool)

    assert caught.value.nearest[0] == nearest


BOARDS = (
    make_part("git-hub", "create_issue", make_entry("drop_all", "git-hub", enabled=False)),
    make_part("other", "create_issue", "get-sum", "time_zone"),
    make_part("time", "get_current_time", "now"),
    make_part("an", "ow", "drop-all"),
)


@pytest.mark.requirement("MET-10")
@rows(
    ("server", "tool", "meant"),
    [
        pytest.param(None, "git-hub/create_issue", "git-hub:create_issue", id="slash"),
        pytest.param(None, "git-hub_create_issue", "git-hub:create_issue", id="underscore"),
        pytest.param(None, "GitHub create issue", "git-hub:create_issue", id="blanks"),
        pytest.param(None, "mcp.time.getCurrentTime", "time:get_current_time", id="host, humps"),
        pytest.param(None, "Time:Get_Current_Time", "time:get_current_time", id="case"),
        pytest.param(None, "get_sum", "other:get-sum", id="tool alone"),
        pytest.param("Git Hub", "create-issue", "git-hub:create_issue", id="server, too"),
        pytest.param("time", "time/get_current_time", "time:get_current_time", id="server twice"),
        pytest.param("git-hub", "time:get_current_time", "time:get_current_time", id="another"),
    ],
)
def test_case_and_separators_never_matter_if_only_one_visible_tool_can_be_meant(
    server: str | None, tool: str, meant: str
) -> None:
    assert str(book(*BOARDS).tool(server, tool).key) == meant


@rows(
    ("server", "tool", "nearest"),
    [
        pytest.param(None, "createIssue", ["git-hub:create_issue", "other:create_issue"], id="two"),
        pytest.param(
            None,
            "other/create_isue",
            ["other:create_issue", "git-hub:create_issue"],
            id="the server that was written first",
        ),
        pytest.param(None, "a:now", [], id="no other server than the one that is named"),
        pytest.param(None, "time:zone", [], id="not across the colon"),
        pytest.param("git-hub", "dropAll", [], id="no hidden tool"),
    ],
)
def test_of_several_that_may_be_meant_all_are_named(
    server: str | None, tool: str, nearest: list[str]
) -> None:
    with pytest.raises(NotFoundError) as caught:
        book(*BOARDS, make_part("a", "x")).tool(server, tool)

    assert list(caught.value.nearest) == nearest


def test_a_hidden_tool_is_never_offered() -> None:
    with pytest.raises(ToolNotFoundError) as caught:
        book(GITHUB).tool("github", "delete_repositor")

    assert "delete_repository" not in caught.value.nearest


def test_an_unknown_server_in_one_word_is_said_to_be() -> None:
    with pytest.raises(ServerNotFoundError):
        book(GITHUB).tool(None, "gitlab:create_issue")


AWKWARD = make_part("a.b", make_entry("get/it", "a.b"))


@pytest.mark.requirement("MOD-20")
@rows("server", [None, "a.b"])
def test_a_tool_is_found_by_its_name_towards_clients(server: str | None) -> None:
    addresses = book(GITHUB, AWKWARD)
    name = addresses.client_names.name(AWKWARD.entries[0].key)

    assert name == "a_b__get_it_77xs5nzk"
    assert addresses.tool(server, name).key == AWKWARD.entries[0].key


@pytest.mark.requirement("MOD-20")
def test_a_name_towards_clients_that_is_also_another_spelling_is_ambiguous() -> None:
    named_alike = make_part("a_b", make_entry("get_it_77xs5nzk", "a_b"))
    addresses = book(AWKWARD, named_alike)

    with pytest.raises(ToolAmbiguousError):
        addresses.tool(None, "a_b__get_it_77xs5nzk")
    found = addresses.by_client_name("a_b__get_it_77xs5nzk")
    assert found is not None
    assert found.key == AWKWARD.entries[0].key


@pytest.mark.requirement("MOD-20")
def test_a_client_reaches_each_of_two_tools_that_are_spelt_alike() -> None:
    addresses = book(
        make_part("a", make_entry("b__c", "a")), make_part("a__b", make_entry("c", "a__b"))
    )

    for entry in addresses.catalog:
        name = addresses.client_names.name(entry.key)
        assert name is not None
        found = addresses.by_client_name(name)
        assert found is not None
        assert found.key == entry.key


def test_a_name_that_was_read_before_means_the_same() -> None:
    addresses = book(GITHUB, CLOCK)

    spellings = ("github:create_issue", "GitHub.create_issue", "create_issue")
    first = [addresses.tool(None, spelling) for spelling in spellings]

    assert first == [addresses.tool(None, spelling) for spelling in spellings] == [first[0]] * 3
    for _ in range(2):
        with pytest.raises(ToolNotFoundError):
            addresses.tool(None, "github:create_isue")
