"""Arguments: read from words, checked before anything is sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.json import JSONObject
from discovery_engine.errors import InvalidArgumentsError
from discovery_engine.tools.arguments import Checker, from_words, mistakes_in
from discovery_engine.tools.model import Tool
from tests.factories import make_tool

SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "count": {"type": "integer"},
        "draft": {"type": "boolean"},
        "labels": {"type": "array", "items": {"type": "string"}},
        "extra": {},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    },
    "required": ["title"],
    "additionalProperties": False,
}


@pytest.fixture
def tool() -> Tool:
    return make_tool(inputSchema=SCHEMA)


@pytest.mark.parametrize(
    ("arguments", "mistake"),
    [
        pytest.param({}, "title is missing", id="missing"),
        pytest.param({"title": 1}, "title: ", id="wrong type"),
        pytest.param({"title": "a", "labels": [1]}, "labels.0: ", id="deep"),
        pytest.param({"title": "a", "tilte": "b"}, "tilte", id="unknown"),
    ],
)
def test_a_mistake_is_reported_with_the_signature(
    tool: Tool, arguments: JSONObject, mistake: str
) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        Checker(tool).check(arguments)

    assert mistake in caught.value.message
    assert caught.value.signature.startswith("create_issue(title: string, count?: integer")


def test_an_answer_with_a_long_text_is_checked_as_a_short_one_is() -> None:
    answer = {"title": "x" * 10_000, "count": "many"}

    assert mistakes_in(SCHEMA, answer) == ('count: "many" is not of type "integer"',)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["It broke"], {"title": "It broke"}, id="required first"),
        pytest.param(["It broke", "3"], {"title": "It broke", "count": 3}, id="then by name"),
        pytest.param(["count=3", "It broke"], {"count": 3, "title": "It broke"}, id="by name"),
        pytest.param(["title=a=b"], {"title": "a=b"}, id="only the first equals sign parts"),
        pytest.param(["a + b=c"], {"title": "a + b=c"}, id="a name has no spaces"),
        pytest.param(["https://a.invalid/?b=c"], {"title": "https://a.invalid/?b=c"}, id="address"),
        pytest.param(["title=7"], {"title": "7"}, id="a string stays one"),
        pytest.param(["either=7"], {"either": "7"}, id="a string wherever one is allowed"),
        pytest.param(["draft=true"], {"draft": True}, id="boolean"),
        pytest.param(["draft=YES"], {"draft": True}, id="boolean in words"),
        pytest.param(['labels=["a","b"]'], {"labels": ["a", "b"]}, id="JSON"),
        pytest.param(["extra=7"], {"extra": 7}, id="any, as JSON"),
        pytest.param(["extra=seven"], {"extra": "seven"}, id="any, as text"),
        pytest.param(['{"title": "a", "count": 3}'], {"title": "a", "count": 3}, id="one object"),
        pytest.param(['{"a": 1}'], {"title": '{"a": 1}'}, id="a text that is JSON by chance"),
        pytest.param(["{}"], {"title": "{}"}, id="a text that is an empty object"),
        pytest.param(['{"title": 1}', "3"], {"title": '{"title": 1}', "count": 3}, id="two words"),
    ],
)
def test_words_are_read_as_the_schema_wants_them(
    tool: Tool, words: list[str], expected: JSONObject
) -> None:
    assert from_words(tool, words) == expected


@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        pytest.param(["count=many"], "count: 'many' is not of type integer", id="no number"),
        pytest.param(["draft=maybe"], "draft: 'maybe' is not of type boolean", id="no boolean"),
        pytest.param(["count=NaN"], "count: 'NaN' is not of type integer", id="not in JSON"),
        pytest.param(["count=1", "count=2"], "count is given twice", id="twice"),
        pytest.param(
            ["conut=1"], "there is no argument 'conut', did you mean 'count'?", id="slip in a name"
        ),
        pytest.param(["x=1"], "there is no argument 'x'", id="a name like no other"),
        pytest.param(list("1234567"), "nowhere to put '7'", id="too many"),
    ],
)
def test_words_that_do_not_read_are_refused(tool: Tool, words: list[str], mistake: str) -> None:
    tool = make_tool(inputSchema={"type": "object", "properties": dict(_ordered(words))})

    with pytest.raises(InvalidArgumentsError) as caught:
        from_words(tool, words)

    assert caught.value.mistakes == (mistake,)


def _ordered(words: list[str]) -> list[tuple[str, JSONObject]]:
    """Parameters for the case at hand: the typed ones, or six that take anything."""
    if "=" in words[0]:
        return [("count", {"type": "integer"}), ("draft", {"type": "boolean"})]
    return [(name, {}) for name in "abcdef"]


@given(st.dictionaries(st.sampled_from(sorted(SCHEMA["properties"])), st.text()))
def test_reading_words_answers_or_says_what_is_wrong(texts: dict[str, str]) -> None:
    tool = make_tool(inputSchema=SCHEMA)
    words = [f"{name}={text}" for name, text in texts.items()]

    try:
        found = from_words(tool, words)
    except InvalidArgumentsError:
        return

    assert found.keys() == texts.keys()
