"""Whatever callers call it: the server or the tool that is meant, or the nearest names."""

from __future__ import annotations

import pytest

from discovery_engine.catalog import ServerPart
from discovery_engine.errors import ToolAmbiguousError, ToolNotFoundError
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
    ("server", "tool"),
    [
        pytest.param("github", "create_issue", id="two words"),
        pytest.param("GitHub", "create_issue", id="server in another case"),
        pytest.param(None, "create_issue", id="a name that only one server has"),
        pytest.param(None, "github:create_issue", id="colon"),
        pytest.param(None, "github__create_issue", id="underscores"),
        pytest.param(None, "mcp__github__create_issue", id="as hosts name it"),
        pytest.param(None, "mcp__gateway__github__create_issue", id="as hosts name it here"),
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


def test_of_two_only_the_visible_one_is_meant() -> None:
    addresses = book(make_part("a", make_entry("now", "a", enabled=False)), make_part("b", "now"))

    assert addresses.tool(None, "now").tool.server == "b"


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


def test_two_servers_that_are_named_and_have_the_tool_make_it_ambiguous() -> None:
    with pytest.raises(ToolAmbiguousError) as caught:
        book(*BOARDS).tool("git-hub", "other:create_issue")

    assert set(caught.value.nearest) == {"git-hub:create_issue", "other:create_issue"}


def test_a_hidden_tool_is_never_offered() -> None:
    with pytest.raises(ToolNotFoundError) as caught:
        book(GITHUB).tool("github", "delete_repositor")

    assert "delete_repository" not in caught.value.nearest


AWKWARD = make_part("a.b", make_entry("get/it", "a.b"))


@pytest.mark.requirement("MOD-20")
@rows("server", [None, "a.b"])
def test_a_tool_is_found_by_its_name_towards_clients(server: str | None) -> None:
    addresses = book(GITHUB, AWKWARD)
    name = addresses.client_names.name(AWKWARD.entries[0].key)

    assert name == "a_b__get_it_77xs5nzk"
    assert addresses.tool(server, name).key == AWKWARD.entries[0].key


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
