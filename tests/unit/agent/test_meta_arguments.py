from __future__ import annotations

from typing import Any

import pytest

from discovery_engine.agent.definitions import META_TOOLS
from discovery_engine.agent.meta_arguments import MetaArguments, MetaArgumentsError
from tests.rows import rows

pytestmark = pytest.mark.requirement("MET-13")


def arguments(_tool: str = "search_tools", /, **given: Any) -> MetaArguments:
    return MetaArguments(given, META_TOOLS[_tool].input_schema, _tool)


@rows(
    ("read", "given", "value"),
    [
        pytest.param("text", {"query": " find it "}, "find it", id="text is trimmed"),
        pytest.param("optional_text", {"query": "  "}, None, id="blank text is none"),
        pytest.param("optional_text", {}, None, id="missing text is none"),
        pytest.param("optional_count", {"limit": 5}, 5, id="count"),
        pytest.param("optional_count", {"limit": "5"}, 5, id="count as text"),
        pytest.param("optional_count", {"limit": 5.0}, 5, id="count as float"),
        pytest.param("optional_count", {}, None, id="missing count"),
        pytest.param("texts", {"tags": ["a", "b"]}, ("a", "b"), id="list"),
        pytest.param("texts", {"tags": "a"}, ("a",), id="one text is a list of one"),
        pytest.param("texts", {}, (), id="missing list is empty"),
        pytest.param("tokens", {"max_tokens": "90"}, 90, id="another spelling"),
        pytest.param("flag", {"includeDisabled": True}, True, id="flag"),
        pytest.param("flag", {"includeDisabled": "false"}, False, id="flag as text"),
        pytest.param("flag", {}, False, id="missing flag is false"),
        pytest.param("mapping", {"arguments": {"a": 1}}, {"a": 1}, id="object"),
        pytest.param("mapping", {"arguments": '{"a": 1}'}, {"a": 1}, id="object as JSON text"),
        pytest.param("mapping", {"arguments": ""}, {}, id="empty text is no arguments"),
        pytest.param("mapping", {}, {}, id="missing object is empty"),
    ],
)
def test_plain_meaning_is_taken(read: str, given: dict[str, Any], value: object) -> None:
    tool, name = {
        "tokens": ("search_tools", "maxTokens"),
        "text": ("search_tools", "query"),
        "optional_text": ("search_tools", "query"),
        "optional_count": ("search_tools", "limit"),
        "texts": ("search_tools", "tags"),
        "flag": ("list_tools", "includeDisabled"),
        "mapping": ("execute_tool", "arguments"),
    }[read]

    read = "optional_count" if read == "tokens" else read
    assert getattr(arguments(tool, **given), read)(name) == value


@rows(
    ("read", "name", "given", "mistake"),
    [
        pytest.param("text", "query", {}, "query is required", id="missing"),
        pytest.param("text", "query", {"query": ""}, "query is required", id="blank"),
        pytest.param("text", "query", {"query": 3}, "query must be a string, not 3", id="number"),
        pytest.param(
            "optional_count",
            "limit",
            {"limit": 0},
            "limit must be a whole number from 1",
            id="zero",
        ),
        pytest.param(
            "optional_count",
            "limit",
            {"limit": True},
            "limit must be a whole number from 1",
            id="boolean",
        ),
        pytest.param(
            "optional_count",
            "limit",
            {"limit": "9" * 5000},
            "limit must be a whole number from 1",
            id="more digits than Python reads",
        ),
        pytest.param(
            "optional_count",
            "maxTokens",
            {"maxTokens": "49"},
            "maxTokens must be a whole number from 50",
            id="too few tokens",
        ),
        pytest.param("texts", "tags", {"tags": [1]}, "tags must be a list of strings", id="tags"),
        pytest.param(
            "texts",
            "queries",
            {"queries": ["x"] * 11},
            "queries takes at most 10, not 11",
            id="too many queries",
        ),
    ],
)
def test_mistake_is_named_with_what_the_tool_takes(
    read: str, name: str, given: dict[str, Any], mistake: str
) -> None:
    with pytest.raises(MetaArgumentsError) as caught:
        getattr(arguments(**given), read)(name)

    assert caught.value.message == mistake
    assert caught.value.hint == (
        "it takes search_tools(query?, queries?, server?, limit?, tags?, kinds?, maxTokens?)"
    )


def test_flag_that_is_no_flag_is_refused() -> None:
    with pytest.raises(MetaArgumentsError, match="includeDisabled must be true or false"):
        arguments("list_tools", includeDisabled="perhaps").flag("includeDisabled")


@rows("value", ["no json", [1], 3])
def test_arguments_that_are_no_object_are_refused(value: object) -> None:
    with pytest.raises(MetaArgumentsError, match="arguments must be an object"):
        arguments("execute_tool", arguments=value).mapping("arguments")


def test_misspelt_argument_is_refused_with_the_nearest() -> None:
    with pytest.raises(MetaArgumentsError) as caught:
        arguments(tag="safe")

    assert caught.value.message == (
        "'tag' is not an argument of search_tools; did you mean 'tags'?"
    )


def test_argument_that_is_given_in_two_spellings_is_refused() -> None:
    with pytest.raises(MetaArgumentsError, match="maxTokens is given twice"):
        arguments(maxTokens=50, max_tokens=60)


def test_stranger_without_a_likeness_is_refused() -> None:
    with pytest.raises(MetaArgumentsError, match=r"'xyz' is not an argument of search_tools$"):
        arguments(xyz=1)


def test_argument_one_level_too_high_is_sent_into_arguments() -> None:
    with pytest.raises(MetaArgumentsError, match="put it into `arguments`"):
        arguments("execute_tool", tool="time:now", timezone="UTC")
