"""Every kind of configuration, good and bad, in the files beside this one.

A bad file says in its first lines what must be found in it:

    # refused 6:5 | toolRules.0.tgas | unknown key 'tgas' | did you mean 'tags'?

`refused` makes the whole file unusable, `warns` disables one server. … stands for the words of a
library, which differ between its versions.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jsonschema_rs
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine._util.text import columns_of
from discovery_engine.config.files.inputs import is_current
from discovery_engine.config.files.location import locate
from discovery_engine.config.loading.loader import load_settings
from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.model.schema import MODELINE, json_schema
from discovery_engine.config.serialization import serialize
from discovery_engine.config.settings import Settings
from discovery_engine.diagnostics import Diagnostic, Origin
from discovery_engine.errors import ConfigurationError
from discovery_engine.rules.rule import Rule
from tests.rows import rows

HERE = Path(__file__).parent / "configurations"
GOOD = sorted((HERE / "good").iterdir())
BAD = sorted((HERE / "bad").iterdir())
EXPECTATION = re.compile(r"# (refused|warns) (\d+):(\d+) \| (.*?) \| (.*?) \|(.*)")


@dataclass(frozen=True)
class Expected:
    is_refused: bool
    line: int
    column: int
    path: str
    message: str
    hint: str


def expectations(text: str) -> Iterator[Expected]:
    for line in text.splitlines():
        if match := EXPECTATION.fullmatch(line):
            kind, row, column, path, message, hint = match.groups()
            yield Expected(kind == "refused", int(row), int(column), path, message, hint.strip())


def problems_of(path: Path) -> tuple[bool, tuple[Diagnostic, ...]]:
    try:
        return False, load_settings(path).warnings
    except ConfigurationError as error:
        return True, error.problems


def ours(message: str) -> str:
    return re.sub("(is not valid YAML|is no regular expression): .*", r"\1: …", message)


def ending(content: bytes) -> Settings | tuple[Diagnostic, ...]:
    try:
        return parse_settings(content, file="discovery.yaml")
    except ConfigurationError as error:
        return error.problems


def without_places(settings: Settings) -> Settings:
    nowhere = Origin("")

    def placeless(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        return tuple(replace(rule, origin=nowhere) for rule in rules)

    return replace(
        settings,
        path=None,
        inputs=(),
        servers=tuple(replace(server, origin=nowhere) for server in settings.servers),
        server_rules=tuple(replace(rule, origin=nowhere) for rule in settings.server_rules),
        tool_rules=tuple(replace(rule, origin=nowhere) for rule in settings.tool_rules),
        overrides=tuple(replace(one, origin=nowhere) for one in settings.overrides),
        views=tuple(
            replace(
                view,
                rules=placeless(view.rules),
                resource_rules=placeless(view.resource_rules),
                prompt_rules=placeless(view.prompt_rules),
            )
            for view in settings.views
        ),
    )


@pytest.mark.requirement("CFG-10", "CFG-11", "CFG-12", "CFG-13")
@rows("path", BAD, ids=lambda path: path.stem)
def test_a_bad_file_gets_each_problem_with_its_place_its_hint_and_an_excerpt(path: Path) -> None:
    expected = list(expectations(path.read_text("utf-8")))

    is_refused, problems = problems_of(path)

    found = [
        Expected(is_refused, p.origin.line, p.origin.column, p.subject, ours(p.message), p.hint)
        for p in problems
    ]
    assert found == expected
    assert expected != []
    assert {problem.origin.file for problem in problems} == {str(path)}
    for problem in problems:
        line, caret = problem.excerpt.splitlines()
        assert caret.strip() == "^"
        assert len(caret) <= columns_of(line) + 1
        assert "hunter2" not in f"{problem}{problem.excerpt}"


def test_a_problem_is_reported_with_its_place_its_path_and_its_hint(tmp_path: Path) -> None:
    file = tmp_path / "discovery.yaml"
    file.write_text("toolRules:\n  - pattern: 'a*'\n    tgas: [b]\n    enabled: true\n")

    with pytest.raises(ConfigurationError) as caught:
        load_settings(file)

    [problem] = caught.value.problems
    assert str(problem) == (
        f"{file}:3:5: toolRules.0.tgas: unknown key 'tgas' [CONFIG_UNKNOWN_KEY]"
        " (did you mean 'tags'?)"
    )
    assert problem.excerpt == "    tgas: [••••]\n    ^"


@pytest.mark.requirement("CFG-10")
def test_a_caret_stands_below_its_place_on_a_terminal_where_a_character_is_wide(
    tmp_path: Path,
) -> None:
    file = tmp_path / "discovery.yaml"
    file.write_text("toolRules: [{pattern: 'e\u0301搜索*', tgas: [b]}]\n", encoding="utf-8")

    with pytest.raises(ConfigurationError) as caught:
        load_settings(file)

    [problem] = caught.value.problems
    line, caret = problem.excerpt.splitlines()
    assert line.startswith("toolRules: [{pattern: 'e\u0301搜索*', tgas:")
    assert caret == " " * len("toolRules: [{pattern: 'e____*', ") + "^"


@pytest.mark.requirement("CFG-12")
def test_beside_a_broken_server_the_others_are_used(tmp_path: Path) -> None:
    file = tmp_path / "discovery.yaml"
    file.write_text("servers:\n  good: {command: uvx}\n  bad: {comand: uvx}\n")

    good, bad = load_settings(file).servers

    assert good.problem is None
    assert bad.transport is None
    assert bad.problem is not None
    assert bad.problem.subject == "servers.bad.comand"


@pytest.mark.requirement("CFG-3")
@rows("path", [p for p in GOOD if p.name.startswith("everything")], ids=lambda path: path.name)
def test_every_form_loads_the_same(path: Path) -> None:
    everything = load_settings(HERE / "good" / "everything.yaml")

    settings = load_settings(path)

    assert without_places(settings) == without_places(everything)
    assert settings.warnings == ()
    assert [server.name for server in settings.servers] == ["github", "docs"]


@pytest.mark.requirement("CFG-3")
def test_rules_and_servers_know_their_lines() -> None:
    path = HERE / "good" / "everything.yaml"

    settings = load_settings(path)

    assert [server.origin.line for server in settings.servers] == [5, 20]
    assert [rule.origin for rule in settings.tool_rules] == [
        Origin(str(path), 31, 5),
        Origin(str(path), 35, 5),
        Origin(str(path), 37, 5),
    ]


@pytest.mark.requirement("CFG-4")
def test_text_without_quotes_stays_what_was_written() -> None:
    from_yaml = load_settings(HERE / "good" / "texts.yaml")
    from_json = load_settings(HERE / "good" / "texts.json")

    assert without_places(from_yaml) == without_places(from_json)
    assert from_yaml.servers[0].name == "no"


@pytest.mark.requirement("CFG-2")
@rows("path", [p for p in GOOD if p.name.startswith("nothing")], ids=lambda path: path.name)
def test_nothing_means_the_defaults(path: Path) -> None:
    assert without_places(load_settings(path)) == Settings()


@pytest.mark.requirement("CFG-5")
@rows("path", [p for p in GOOD if "snake" not in p.stem], ids=lambda path: path.name)
def test_the_schema_accepts_every_good_file_in_canonical_form(path: Path) -> None:
    settings = load_settings(path)

    jsonschema_rs.validate(json_schema(), serialize(settings))
    jsonschema_rs.validate(json_schema(), {"discovery": serialize(settings)})


@pytest.mark.requirement("CFG-5")
def test_the_schema_refuses_what_is_misspelt() -> None:
    for document in ({"toolRule": []}, {"servers": {"a": {"comand": "x"}}}, {"enabled": "yes"}):
        assert not jsonschema_rs.is_valid(json_schema(), document)


@pytest.mark.requirement("CFG-5")
def test_every_key_has_a_description_and_an_example() -> None:
    definitions = json_schema()["$defs"]

    for name, definition in definitions.items():
        for key, field in definition["properties"].items():
            described = "description" in field or "$ref" in field
            assert described, f"{name}.{key}"
            assert field["examples"], f"{name}.{key}"


def test_the_modeline_names_the_schema_for_editors() -> None:
    assert MODELINE == "# yaml-language-server: $schema=discovery.schema.json"


@pytest.mark.requirement("CFG-1")
def test_the_first_place_that_has_a_file_is_used(tmp_path: Path) -> None:
    here, home = tmp_path / "here", tmp_path / "home"
    places = [
        home / ".config" / "discovery" / "discovery.yaml",
        here / "discovery.yaml",
        here / ".discovery" / "discovery.yaml",
        tmp_path / "variable.yaml",
        tmp_path / "given.yaml",
    ]
    environ = {"DISCOVERY_CONFIG": str(places[3])}

    assert locate(environ={}, cwd=here, home=home).path is None
    for place in places[:3]:
        place.parent.mkdir(parents=True)
        place.touch()
        assert locate(environ={}, cwd=here, home=home).path == str(place)
    assert locate(environ=environ, cwd=here, home=home).path == str(places[3])
    assert locate(places[4], environ=environ, cwd=here, home=home).path == str(places[4])


@pytest.mark.requirement("CFG-1")
@rows(
    ("path", "environ", "who"),
    [
        pytest.param("gone.yaml", {}, "it was given", id="given"),
        pytest.param(None, {"DISCOVERY_CONFIG": "gone.yaml"}, "$DISCOVERY_CONFIG", id="variable"),
    ],
)
def test_a_file_that_is_named_must_be_there(
    tmp_path: Path, path: str | None, environ: dict[str, str], who: str
) -> None:
    (tmp_path / "discovery.yaml").touch()

    with pytest.raises(ConfigurationError) as caught:
        load_settings(path, environ=environ, cwd=tmp_path, home=tmp_path)

    [problem] = caught.value.problems
    assert problem.message == "there is no such file"
    assert problem.origin.file == str(tmp_path / "gone.yaml")
    assert who in problem.hint


@pytest.mark.requirement("CFG-2")
def test_no_file_at_all_means_the_defaults(tmp_path: Path) -> None:
    settings = load_settings(environ={}, cwd=tmp_path, home=tmp_path)

    assert replace(settings, inputs=()) == Settings()


@pytest.mark.requirement("CFG-40")
def test_a_change_of_any_input_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "discovery.yaml"
    client = tmp_path / "servers.json"
    client.write_text('{"mcpServers": {"time": {"command": "uvx"}}}')
    file.write_text("sources: [{type: custom, path: servers.json}]")
    inputs = load_settings(environ={}, cwd=tmp_path, home=tmp_path).inputs
    assert is_current(inputs)

    client.write_text("{}")
    assert not is_current(inputs)


@pytest.mark.requirement("CFG-40")
def test_a_file_that_appears_in_an_earlier_place_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "discovery.yaml").touch()
    inputs = load_settings(environ={}, cwd=tmp_path, home=tmp_path).inputs
    assert is_current(inputs)

    (tmp_path / ".discovery").mkdir()
    (tmp_path / ".discovery" / "discovery.yaml").touch()

    assert not is_current(inputs)


@pytest.mark.requirement("CFG-41")
def test_noticing_that_nothing_changed_loads_no_parser() -> None:
    program = (
        "import sys\n"
        "import discovery_engine.config.settings, discovery_engine.config.files.inputs\n"
        "import discovery_engine.config.files.location\n"
        "print([name for name in ('yaml', 'pydantic', 'json5', 'regex') if name in sys.modules])"
    )

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert said.stdout.decode().strip() == "[]"


@pytest.mark.requirement("CFG-13")
@rows(
    ("content", "message"),
    [
        pytest.param(b"#" * (1024 * 1024 + 1), "larger than 1,048,576 bytes", id="size"),
        pytest.param(b"[" * 20_000, "nested more than 64 levels", id="depth"),
        pytest.param(b"{a: " * 20_000, "nested more than 64 levels", id="depth of mappings"),
        pytest.param(b"- a\n" * 200_000, "more than 100,000 values", id="number"),
        pytest.param(b"- &a x\n" * 100_000, "anchors are not allowed", id="anchors"),
        pytest.param(b"a: 1\n" * 100_000, "duplicate key 'a'", id="duplicates"),
        pytest.param(
            b"a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n", "aliases are not allowed", id="laughs"
        ),
    ],
)
def test_a_bomb_is_refused_with_few_words(content: bytes, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(content, file="discovery.yaml")

    assert len(caught.value.problems) <= 100
    assert message in " ".join(problem.message for problem in caught.value.problems)


@rows(
    ("content", "place", "message"),
    [
        pytest.param(b"a: \xff", "1:4", "is not UTF-8 text", id="latin-1"),
        pytest.param("enabled: true".encode("utf-16"), "1:1", "is UTF-16", id="utf-16"),
        pytest.param(b"log:\n  file: a\0b\n", "2:10", "unprintable character", id="NUL"),
        pytest.param(b'log: {file: "a\\0b"}', "1:13", "holds the character NUL", id="written NUL"),
        pytest.param(b"\xef\xbb\xbfenabled: maybe", "1:10", "must be true or false", id="BOM"),
    ],
)
@pytest.mark.requirement("CFG-10")
def test_text_that_is_none_is_refused_at_its_place(
    content: bytes, place: str, message: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(content, file="discovery.yaml")

    [problem] = caught.value.problems
    assert str(problem.origin) == f"discovery.yaml:{place}"
    assert message in problem.message


@pytest.mark.requirement("CFG-14")
@given(
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
    content=st.text(max_size=300).map(lambda text: text.encode()),
    tail=st.binary(max_size=300),
)
def test_whatever_the_bytes_are_loading_ends_in_one_way_or_the_other(
    mark: bytes, content: bytes, tail: bytes
) -> None:
    assert ending(mark + content + tail)


KEYS = st.sampled_from(
    ["servers", "toolRules", "pattern", "command", "env", "cache", "ttl", "discovery", "name"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | KEYS
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4)
)


@pytest.mark.requirement("CFG-14")
@given(document=DOCUMENTS)
def test_whatever_the_document_is_loading_ends_in_one_way_or_the_other(document: object) -> None:
    for text in (yaml.safe_dump(document), json.dumps(document)):
        assert ending(text.encode())
