"""Every kind of configuration, good and bad, in the files beside this one.

A bad file says in its first lines what must be found in it:

    # refused 6:5 | toolRules.0.tgas | unknown key 'tgas' | did you mean 'tags'?

`refused` makes the whole file unusable, `warns` disables one server. … stands for the words of a
library, which differ between its versions.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from discovery_cli.program import cli
from discovery_engine import Settings, load_settings, open_engine
from discovery_engine.errors import ConfigurationError, Diagnostic
from tests.contract.discovery import Discovery
from tests.forked import Preloaded
from tests.rows import rows

HERE = Path(__file__).parent / "configurations"
GOOD = sorted((HERE / "good").iterdir())
BAD = sorted((HERE / "bad").iterdir())
EXPECTATION = re.compile(r"# (refused|warns) (\d+):(\d+) \| (.*?) \| (.*?) \|(.*)")
SECRET = "hunter2hunter2"


class Expected(NamedTuple):
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


def shown(*words: str) -> Any:
    return json.loads(CliRunner().invoke(cli, ["config", *words, "--json"]).stdout)


def configuration(path: Path) -> Any:
    """The configuration as `config show` has it."""
    return json.loads(
        CliRunner().invoke(cli, ["--config", str(path), "config", "show", "--json"]).stdout
    )["configuration"]


@pytest.mark.requirement("CFG-10", "CFG-13")
@rows("path", BAD, ids=lambda path: path.stem)
def test_a_bad_file_gets_each_problem_with_its_place_its_hint_and_an_excerpt(path: Path) -> None:
    expected = list(expectations(path.read_text("utf-8")))

    is_refused, problems = problems_of(path)

    assert expected
    assert expected == [
        Expected(is_refused, p.origin.line, p.origin.column, p.subject, ours(p.message), p.hint)
        for p in problems
    ]
    assert {problem.origin.file for problem in problems} == {str(path)}
    for problem in problems:
        _, caret = problem.excerpt.splitlines()
        assert caret.strip() == "^"
        assert "hunter2" not in f"{problem}{problem.excerpt}"


@pytest.mark.requirement("CFG-10", "CFG-23")
@rows(
    ("text", "echoed"),
    [
        ("toolRules: [{patern: get_*}]\n", "get_*"),
        ("servers: {a: {url: 'http://x', oauth: {clientSecret: [hunter2]}}}\n", "••••"),
        ("servers: {a: {url: 'http://x', headrs: hunter2}}\n", "••••"),
        ("servers: {a: {url: 'http://x', passw: hunter2}}\n", "••••"),
        ("servers: {a: {command: x, server: 'https://ann:hunter2@x'}}\n", "••••"),
        ("toolRules: [{patern: hunter2}]\n", "••••"),
    ],
)
def test_what_stands_under_a_wrong_key_is_echoed_unless_it_may_be_a_secret(
    tmp_path: Path, text: str, echoed: str
) -> None:
    file = tmp_path / "discovery.yaml"
    file.write_text(text)
    _, problems = problems_of(file)
    broken = [] if problems else [one.problem for one in load_settings(file).servers]

    [problem] = filter(None, [*problems, *broken])
    assert echoed in problem.excerpt
    assert "hunter2" not in problem.excerpt


@pytest.mark.requirement("CFG-10")
def test_beside_a_broken_server_the_others_are_used(tmp_path: Path) -> None:
    file = tmp_path / "discovery.yaml"
    file.write_text("servers:\n  good: {command: uvx}\n  bad: {comand: uvx}\n")

    good, bad = load_settings(file).servers

    assert good.problem is None
    assert bad.problem is not None
    assert bad.problem.subject == "servers.bad.comand"
    assert bad.problem.excerpt == "  bad: {comand: ••••}\n        ^"


@pytest.mark.requirement("CFG-3")
@rows("name", ["everything", "texts"])
def test_every_form_gives_the_same_settings(name: str) -> None:
    forms = {path.name: configuration(path) for path in GOOD if path.stem.startswith(name)}

    first = forms[f"{name}.yaml"]
    assert len(forms) > 1
    assert [form for form, content in forms.items() if content != first] == []


@pytest.mark.requirement("CFG-3")
def test_text_without_quotes_stays_what_was_written() -> None:
    assert load_settings(HERE / "good" / "texts.yaml").servers[0].name == "no"


@pytest.mark.requirement("CFG-1")
@rows("path", [p for p in GOOD if p.name.startswith("nothing")], ids=lambda path: path.name)
def test_nothing_means_the_defaults(path: Path) -> None:
    assert configuration(path) == configuration(HERE / "good" / "nothing_at_all.yaml")
    assert load_settings(path).servers == Settings().servers == ()


@pytest.mark.requirement("CFG-5")
def test_editors_are_told_of_each_key_by_a_schema() -> None:
    schema = shown("schema")
    everything = json.loads((HERE / "good" / "everything.json").read_text("utf-8"))

    jsonschema_rs.validate(schema, everything)
    jsonschema_rs.validate(schema, {"discovery": everything})
    beyond = (
        {"search": {"limit": 0}},
        {"server": {"idleTimeout": 0}},
        {"log": {"maxMib": 200_000}},
    )
    unknown = ({"toolRule": []}, {"servers": {"a": {"comand": "x"}}}, {"enabled": "yes"})
    for document in (*unknown, *beyond):
        assert not jsonschema_rs.is_valid(schema, document)
    unexplained = [
        f"{name}.{key}"
        for name, definition in schema["$defs"].items()
        for key, field in definition["properties"].items()
        if not (("description" in field or "$ref" in field) and field["examples"])
    ]
    assert unexplained == []


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

    def path(config: Path | None = None, **environ: str) -> str | None:
        return load_settings(config, environ=environ, cwd=here, home=home).path

    here.mkdir()
    assert path() is None
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    for place in places[2::-1]:
        assert path() == str(place)
        place.unlink()
    assert path(DISCOVERY_CONFIG=str(places[3])) == str(places[3])
    assert path(places[4], DISCOVERY_CONFIG=str(places[3])) == str(places[4])


@pytest.mark.requirement("CFG-1")
@rows(
    ("path", "environ", "who"),
    [
        ("gone.yaml", {}, "it was given"),
        (None, {"DISCOVERY_CONFIG": "gone.yaml"}, "$DISCOVERY_CONFIG"),
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


def ending(file: Path, content: bytes) -> tuple[Diagnostic, ...]:
    """The problems that a file is loaded or refused with."""
    file.write_bytes(content)
    return problems_of(file)[1]


@pytest.mark.requirement("CFG-13")
@rows(
    ("content", "message"),
    [
        (b"#" * (1024 * 1024 + 1), "larger than 1,048,576 bytes"),
        (b"[" * 20_000, "nested more than 64 levels"),
        (b"- a\n" * 200_000, "more than 100,000 values"),
        (b"- &a x\n" * 100_000, "anchors are not allowed"),
        (b"a: 1\n" * 100_000, "duplicate key 'a'"),
        (b"a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n", "aliases are not allowed"),
        (b"a: \xff", "is not UTF-8 text"),
        ("enabled: true".encode("utf-16"), "is UTF-16"),
        (b"log:\n  file: a\0b\n", "unprintable character"),
        (b'log: {file: "a\\0b"}', "holds the character NUL"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_is_no_configuration_is_refused_with_few_words(
    tmp_path: Path, content: bytes, message: str
) -> None:
    problems = ending(tmp_path / "discovery.yaml", content)

    assert 0 < len(problems) <= 100
    assert message in " ".join(problem.message for problem in problems)


KEYS = st.sampled_from(
    ["servers", "toolRules", "pattern", "command", "env", "cache", "ttl", "discovery", "name"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | KEYS
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4)
)
BYTES = st.builds(
    bytes.__add__, st.text(max_size=300).map(str.encode), st.binary(max_size=300)
) | DOCUMENTS.map(lambda document: yaml.safe_dump(document).encode())


@pytest.mark.requirement("CFG-13")
@given(content=BYTES)
def test_whatever_the_bytes_are_a_file_is_loaded_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    ending(tmp_path_factory.getbasetemp() / "any.yaml", content)


WITH_SECRETS = f"""\
# {SECRET}
servers:
  one:
    command: npx
    args: [--token, "{SECRET}", '--api-key={SECRET}']
    env:
      TOKEN: {SECRET}
      FOLDED: >-
        {SECRET}
        {SECRET}
      DEFAULT: ${{A:-{SECRET}}}  # {SECRET}
      LATER: ${{NOT_SET}}
  two:
    url: https://ann:{SECRET}@example.com/?key={SECRET}
    headers: {{X-Key: "{SECRET}", Authorization: 'Bearer {SECRET}'}}
toolRules:
  - {{pattern: 'a*', enabled: false}}
overrides:
  - {{pattern: a, arguments: {{key: {SECRET}, all: [{{of: "{SECRET}"}}], or: "${{A:-{SECRET}}}"}}}}
"""
DAMAGED = st.builds(
    lambda place, cut, damage: WITH_SECRETS[:place] + damage + WITH_SECRETS[place + cut :],
    st.integers(0, len(WITH_SECRETS)),
    st.integers(0, 3),
    st.sampled_from(["", "\t", "\n", "- ", "${", "&x ", *":'\"[]{}*x"]),
) | st.builds(
    lambda key, other: WITH_SECRETS.replace(f"{key}:", f"{other}:"),
    st.sampled_from(["one", "env", "headers", "servers", "TOKEN", "url", "args", "arguments"]),
    st.sampled_from(["enviroment", "server", "toolRules", "x", "discovery", "tags", "cache"]),
)


@pytest.mark.requirement("CFG-23")
def test_the_configuration_is_shown_without_its_secrets(tmp_path: Path, forked: Preloaded) -> None:
    discovery = Discovery(tmp_path, forked)
    (tmp_path / "discovery.yaml").write_text(WITH_SECRETS)

    for words in ("config show", "config show --json", "doctor --json", "list --json", "trust"):
        done = discovery(*words.split())
        assert SECRET not in done.out + done.err, words
    assert "LATER: ${NOT_SET}" in discovery("config", "show").out


@pytest.mark.requirement("CFG-23")
@given(text=DAMAGED)
def test_secrets_are_hidden_however_a_file_is_broken(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    problems = ending(tmp_path_factory.getbasetemp() / "damaged.yaml", text.encode())

    assert SECRET not in "\n".join(f"{problem}\n{problem.excerpt}" for problem in problems)


@pytest.fixture
def edited(tmp_path: Path, forked: Preloaded) -> Discovery:
    discovery = Discovery(tmp_path, forked)
    discovery.configure()
    return discovery


def add(discovery: Discovery, name: str, *words: str) -> Any:
    return discovery("add", name, *words, "--", "true")


@pytest.mark.requirement("CFG-50")
def test_an_edit_is_shown_first_and_the_files_before_it_are_kept(edited: Discovery) -> None:
    file = edited.home / "discovery.yaml"
    file.chmod(0o640)
    written = [file.read_text()]

    planned = add(edited, "n0", "--dry-run")
    assert "+  n0:" in planned.out or '"n0"' in planned.out
    assert file.read_text() == written[0]
    for number in range(6):
        assert add(edited, f"n{number}", "--yes").code == 0
        written.append(file.read_text())

    names = ("", ".bak", ".bak.1", ".bak.2", ".bak.3")
    assert [file.with_name(f"{file.name}{name}").read_text() for name in names] == written[:1:-1]
    assert not file.with_name("discovery.yaml.bak.4").exists()
    assert stat.S_IMODE(file.with_name("discovery.yaml.bak").stat().st_mode) == 0o640


@pytest.mark.requirement("CFG-50")
@rows("name", ["discovery.yaml.bak", "discovery.schema.json"])
def test_what_is_written_beside_the_file_follows_no_link(
    tmp_path: Path, forked: Preloaded, name: str
) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "discovery.yaml").write_text("servers: {}\n")
    (tmp_path / name).symlink_to(tmp_path / "precious")

    assert Discovery(tmp_path, forked)("init", "--yes", "--force").code == 0

    assert (tmp_path / "precious").read_text() == "mine"
    assert not (tmp_path / name).is_symlink()


SECTIONS = f"""\
servers: {{}}
toolRules:
  # ours
  - {{pattern: a, enabled: false}}
overrides:
  - {{pattern: a, arguments: {{text: {SECRET}}}}}
# the end
"""


@pytest.mark.anyio
@pytest.mark.requirement("CFG-51")
async def test_sections_are_edited_as_the_texts_that_they_are(tmp_path: Path) -> None:
    file = tmp_path / "discovery.yaml"
    file.write_text(SECTIONS)
    async with open_engine(file, data_dir=tmp_path / "data") as engine:
        shown = {one.name: one.text for one in await engine.changes.sections()}
        with pytest.raises(ConfigurationError) as caught:
            await engine.changes.plan({"toolRules": "# ours\n- patern: a\n"})
        rules = shown["toolRules"].replace("pattern: a", "pattern: b")
        planned = await engine.changes.plan({**shown, "toolRules": rules})
        await engine.changes.apply(planned)

    assert "# ours" in shown["toolRules"]
    assert "[kept 1]" in shown["overrides"]
    assert SECRET not in shown["overrides"] + planned.edit.diff
    assert str(caught.value.problems[0].origin) == "toolRules:2:3"
    assert file.read_text() == SECTIONS.replace("{pattern: a, en", "{pattern: b, en")
