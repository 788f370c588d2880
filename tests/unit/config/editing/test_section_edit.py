"""Sections of a configuration, edited by themselves: the rest stays to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.config.editing.section_edit import (
    edit_sections,
    hide_values,
    restore_values,
    section_text,
    with_section,
)
from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.errors import ConfigurationError
from tests.rows import rows

PATHS = [
    ("toolRules",),
    ("overrides",),
    ("search", "synonyms"),
    ("views", "a", "rules"),
    ("views", "b", "promptRules"),
]
SHAPES = [
    pytest.param("views: {a: {}, b: {}}\n", id="nothing there"),
    pytest.param("views:\n  a: {}\n  b:\n    tags: [x]\nsearch:\n", id="empty mappings"),
    pytest.param(
        "discovery:\n  toolRules: []  # none\n  views:\n    a: {tags: [x]}\n    b: {}\n",
        id="under a key",
    ),
    pytest.param('{"views": {"a": {}, "b": {}}, "toolRules": [{"tags": ["x"]}]}', id="JSON"),
    pytest.param(
        '{\n\t"search": {"limit": 5},\n\t"views": {\n\t\t"a": {},\n\t\t"b": {}\n\t}\n}\n',
        id="JSON with tabs",
    ),
    pytest.param(
        "tool_rules:\n# first\n- tags: [x]\n# last\nviews:\n  a:\n    rules:\n"
        "      # c\n      - tags: [y]\n  b: {}\n# end",
        id="snake_case, comments, no indentation",
    ),
    pytest.param(
        "overrides:\n    - pattern: a\n      description: |\n        two\n\n        lines\n"
        "search: {synonyms: [[a, b]]}\nviews: {a: {rules: [{tags: [x]}]}, b: {}}\n",
        id="wide, a block, brackets",
    ),
    pytest.param("views:\r\n  a: {}\r\n  b: {}\r\ntoolRules:\r\n  - tags: [x]\r\n", id="CRLF"),
]


@pytest.mark.requirement("CFG-51")
@rows("path", PATHS, ids=".".join)
@rows("text", SHAPES)
def test_a_section_that_is_written_as_it_is_shown_changes_no_byte(
    text: str, path: tuple[str, ...]
) -> None:
    assert with_section(text, path, section_text(text, path).text)[0] == text


RULE = st.fixed_dictionaries(
    {"pattern": st.text("ab*_ç ", min_size=1).filter(str.strip), "enabled": st.booleans()},
    optional={"tags": st.lists(st.sampled_from("xyz"), min_size=1)},
)


@pytest.mark.thorough
@pytest.mark.requirement("CFG-51")
@given(
    rules=st.lists(RULE, max_size=4),
    comments=st.lists(st.text("abc: -#'\"[", max_size=6), max_size=3),
    column=st.integers(0, 6),
    after=st.sampled_from(["", "log: {}\n", "# end\n", "\n\nlog: {level: debug}"]),
)
def test_any_rules_with_any_comments_come_back_as_they_were_written(
    rules: list[dict[str, object]], comments: list[str], column: int, after: str
) -> None:
    lines = [f"# {one}" for one in comments]
    for rule in rules:
        fields = [f"{key}: {_written(value)}" for key, value in rule.items()]
        lines += [f"- {fields[0]}", *(f"  {one}" for one in fields[1:]), "# between"]
    text = "".join(f"{line}\n" for line in lines)
    file = f"servers: {{}}\ntoolRules:\n{' ' * column}- tags: [old]\n{after}"

    written, _ = with_section(file, ("toolRules",), text)

    settings = parse_settings(written.encode(), file="f")
    assert len(settings.tool_rules) == len(rules)
    assert written.startswith("servers: {}\ntoolRules:")
    assert written.endswith(after)
    if rules:
        shown = section_text(written, ("toolRules",)).text
        assert shown.strip() in text
        assert with_section(written, ("toolRules",), shown)[0] == written


def _written(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case list():
            return f"[{', '.join(value)}]"
    return '"' + str(value) + '"'


def config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "discovery.yaml"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.requirement("CFG-51")
@rows(
    ("sections", "place"),
    [
        pytest.param({"toolRules": "\n- pattern: a\n  enabld: no"}, "toolRules:3:3", id="key"),
        pytest.param({"toolRules": "- pattern: 'a"}, "toolRules:1:14", id="quotes"),
        pytest.param({"toolRules": "pattern: a"}, "toolRules:1:1", id="no list"),
        pytest.param({"toolRules": "- a\nlog: {}"}, "toolRules:2:1", id="another section"),
        pytest.param({"toolRules": "- tags: [a]\n---\n- x"}, "toolRules:2:1", id="two texts"),
        pytest.param({"toolRules": "- &a {}\n"}, "toolRules:1:3", id="an anchor"),
        pytest.param({"views.a.rules": "- enabled: 3"}, "views.a.rules:1:12", id="of a view"),
        pytest.param(
            {"toolRules": "- tags: [a]\n" * 9, "views.a.rules": "- {enabled: 5}"},
            "views.a.rules:1:13",
            id="below another",
        ),
        pytest.param({"search.synonyms": "- [a]"}, "search.synonyms:1:3", id="synonyms"),
        pytest.param({"log": "[]"}, "log", id="not a section"),
    ],
)
def test_a_problem_has_the_place_in_its_section(
    tmp_path: Path, sections: dict[str, str], place: str
) -> None:
    path = config(tmp_path, "views:\n  a: {}\n")

    with pytest.raises(ConfigurationError) as raised:
        edit_sections(path, sections)

    assert str(raised.value.problems[0].origin) == place
    assert path.read_text("utf-8") == "views:\n  a: {}\n"


@pytest.mark.requirement("CFG-51")
def test_values_of_arguments_are_hidden_and_come_back() -> None:
    text = (
        "- pattern: a\n  arguments: {owner: acme, n: 5, ref: '${X}', on: true, in: [x, {y: z}]}\n"
        "- pattern: b\n  description: acme\n  arguments:\n    body: |\n      one\n      two\n"
    )

    shown = hide_values(text)

    for kept in ("acme,", " 5,", "one", "[x", "z}"):
        assert kept not in shown
    assert "${X}" in shown
    assert "description: acme" in shown
    assert restore_values(shown, text) == text
