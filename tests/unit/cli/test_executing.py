"""`execute`, `refresh` and the progress of both, with an engine made by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from discovery_cli.output import Output
from discovery_cli.results import show_result
from discovery_engine.catalog import Failure
from discovery_engine.diagnostics import Origin
from discovery_engine.errors import FailureKind, UnavailableError
from discovery_engine.json_forms.example_call import command_line
from tests.factories import (
    make_entry,
    make_part,
    make_problem,
    make_server,
    make_settings,
)
from tests.rows import rows
from tests.unit.cli.backends import NOW, FakeEngine, nothing_known, run, usual_view, view_of

OK = {"content": [{"type": "text", "text": "done"}]}


def answering(result: Any = OK, **fields: Any) -> FakeEngine:
    return FakeEngine(usual_view(), result=result, **fields)


@rows(
    ("words", "call"),
    [
        pytest.param(
            ["create_issue", "hi"], ("github", "create_issue", {"title": "hi"}), id="name"
        ),
        pytest.param(["time:status"], ("time", "status", {}), id="one word"),
        pytest.param(["time", "status"], ("time", "status", {}), id="two words"),
        pytest.param(["status", "--server", "time"], ("time", "status", {}), id="option"),
        pytest.param(
            ["create_issue", "--args", '{"title": "a", "urgent": true}', "title=b"],
            ("github", "create_issue", {"title": "b", "urgent": True}),
            id="words over --args",
        ),
    ],
)
def test_a_tool_is_called_with_its_arguments(words: list[str], call: tuple[object, ...]) -> None:
    engine = answering()

    done = run("execute", *words, recalled=usual_view(), engine=engine)

    assert done.stdout == "done\n"
    assert engine.asked == [call]


@pytest.mark.requirement("THR-10")
def test_that_arguments_were_not_checked_is_said_beside_the_result() -> None:
    engine = answering()
    engine.unchecked = "checking them takes too long"

    done = run("execute", "create_issue", "hi", recalled=usual_view(), engine=engine)

    assert done.stdout == "done\n"
    assert "note: the arguments were not checked: checking them takes too long" in done.stderr


@pytest.mark.requirement("CLI-17")
@rows(
    ("words", "message"),
    [
        pytest.param(["create_issue", "--args", "{"], "--args is not JSON", id="no JSON"),
        pytest.param(["create_issue", "--args", "[]"], "must be a JSON object", id="a list"),
        pytest.param(["create_issue", "--args", "@absent"], "cannot be read", id="no file"),
        pytest.param(["create_issue", "--args", "[" * 100_000], "nests too deeply", id="too deep"),
        pytest.param(["create_issue", "--args", '{"a": NaN}'], "NaN is not JSON", id="no number"),
        pytest.param(["create_issue"], "title is missing", id="missing"),
        pytest.param(["create_issue", "titel=a"], "did you mean 'title'?", id="slip in a name"),
        pytest.param(["create_issue", "a", "[]", "true", "d"], "nowhere to put 'd'", id="too many"),
        pytest.param(["github"], "'github' is a server, name a tool of it", id="only a server"),
        pytest.param(
            ["github", "creat_issue"], "did you mean 'create_issue'?", id="slip in a tool"
        ),
        pytest.param(["githb", "create_issue"], "did you mean 'github'?", id="slip in a server"),
        pytest.param(["nothing"], "no server has a tool 'nothing'", id="no such tool"),
        pytest.param(["status"], "name one of them: github:status, time:status", id="ambiguous"),
    ],
)
def test_a_mistake_is_reported_before_any_server_is_asked(words: list[str], message: str) -> None:
    done = run("execute", *words, recalled=usual_view())

    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_tool_may_be_called_as_another_server_is() -> None:
    view = view_of(
        make_settings("time", "other"),
        make_part("time", "now"),
        make_part("other", make_entry("time", "other", inputSchema={"properties": {"x": {}}})),
    )

    for words, name in ((["time"], "time"), (["time", "5"], "time"), (["time", "now"], "now")):
        engine = FakeEngine(view, result=OK)
        run("execute", *words, recalled=view, engine=engine)
        assert engine.asked[0][1] == name


def test_a_disabled_tool_is_not_called() -> None:
    done = run("execute", "delete_issue", recalled=usual_view())

    assert done.exit_code == 4
    assert "`discovery why github:delete_issue`" in done.stderr


def test_a_tool_of_a_server_that_failed_before_is_looked_for_again() -> None:
    failed = Failure("SERVER_CONNECTION_ERROR", "gone", "", NOW)
    view = view_of(make_settings("time"), make_part("time", listed_at=None, failure=failed))
    back = view_of(make_settings("time"), make_part("time", "now"))
    gone = UnavailableError("time", FailureKind.EXITED, "it exited", stderr="oops")

    found = FakeEngine(view, after=back, result=OK)
    lost = FakeEngine(view, error=gone)

    assert run("execute", "time:now", recalled=view, engine=found).stdout == "done\n"
    done = run("execute", "time:now", recalled=view, engine=lost)
    assert done.exit_code == 5
    assert "stderr (last lines):\n    | oops" in done.stderr


def test_progress_is_streamed_where_it_is_wanted() -> None:
    done = run("execute", "time:status", "--stream", recalled=usual_view(), engine=answering())

    assert done.stderr == "progress 1/2 half way\nprogress 3\n"
    assert run("execute", "time:status", recalled=usual_view(), engine=answering()).stderr == ""


@pytest.mark.requirement("CLI-19")
def test_progress_in_json_is_a_document_a_line() -> None:
    done = run(
        "execute", "time:status", "--stream", "--json", recalled=usual_view(), engine=answering()
    )

    assert [json.loads(line)["progress"] for line in done.stderr.splitlines()] == [
        {"done": 1, "total": 2, "message": "half\x1b[31m way"},
        {"done": 3, "total": None, "message": None},
    ]


@rows(
    ("content", "message"),
    [
        pytest.param(b'\xff\xfe{\x00"\x00', "--args is not UTF-8 text", id="utf-16"),
        pytest.param(b"", "--args is not JSON", id="empty"),
    ],
)
def test_a_file_of_arguments_that_cannot_be_used_is_reported(
    tmp_path: Path, content: bytes, message: str
) -> None:
    file = tmp_path / "arguments.json"
    file.write_bytes(content)

    done = run("execute", "create_issue", "--args", f"@{file}", recalled=usual_view())

    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_file_of_arguments_may_begin_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    file = tmp_path / "arguments.json"
    file.write_bytes(b'\xef\xbb\xbf{"title": "hi"}')
    engine = answering()

    run("execute", "create_issue", "--args", f"@{file}", recalled=usual_view(), engine=engine)

    assert engine.asked == [("github", "create_issue", {"title": "hi"})]


def test_a_failing_tool_leaves_with_3() -> None:
    failed = {"content": [{"type": "text", "text": "no\nway"}], "isError": True}

    done = run("execute", "time:status", recalled=usual_view(), engine=answering(failed))
    form = run("execute", "time:status", "--json", recalled=usual_view(), engine=answering(failed))

    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr == "error: time:status failed\n  | no\n  | way\n"
    assert json.loads(form.stdout)["result"] == failed
    assert (form.exit_code, form.stderr) == (3, "")


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        pytest.param({"content": [{"type": "text", "text": "a\n\x1b[1mb"}]}, "a\nb\n", id="text"),
        pytest.param(
            {"content": [{"type": "image", "mimeType": "image/png", "data": "A" * 4000}]},
            "[image image/png, 3.0 kB]\n",
            id="image",
        ),
        pytest.param(
            {"content": [{"type": "resource", "resource": {"uri": "a:b", "text": "words"}}]},
            "words\n",
            id="text resource",
        ),
        pytest.param(
            {"content": [{"type": "resource", "resource": {"uri": "a:b", "blob": "AAAA"}}]},
            "[resource a:b, 3 bytes]\n",
            id="binary resource",
        ),
        pytest.param(
            {"content": [{"type": "resource_link", "name": "n", "uri": "a:b"}]},
            "n <a:b>\n",
            id="link",
        ),
    ],
)
def test_every_kind_of_content_is_shown(
    result: dict[str, Any], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show_result(Output(), make_entry(), result)

    assert capsys.readouterr().out == shown


@rows(
    ("schema", "word"),
    [
        pytest.param({"const": 5}, "x=5", id="const"),
        pytest.param({"type": "string", "default": "a b"}, "'x=a b'", id="default"),
        pytest.param({"type": "string", "enum": ["up", "down"]}, "x=up", id="enum"),
        pytest.param({"type": "string", "examples": ["like so"]}, "'x=like so'", id="examples"),
        pytest.param({"type": ["null", "integer"]}, "x=null", id="the first of several types"),
        pytest.param({"type": "object"}, "'x={}'", id="object"),
        pytest.param({"enum": []}, "x=...", id="nothing to go by"),
    ],
)
def test_an_example_is_made_from_the_schema(schema: dict[str, Any], word: str) -> None:
    entry = make_entry("t", "s", inputSchema={"properties": {"x": schema}, "required": ["x"]})

    assert command_line(entry) == f"discovery execute s:t {word}"


def test_refresh_reports_what_came_of_each_server() -> None:
    down = Failure("SERVER_NEEDS_CONFIG", "server 'time' is unavailable: no key", "set it", NOW)
    after = view_of(
        usual_view().settings,
        usual_view().catalog.parts["github"],
        make_part("time", listed_at=None, failure=down),
    )
    engine = FakeEngine(nothing_known(usual_view()), after=after)

    done = run("refresh", engine=engine)
    form = json.loads(run("refresh", "--json", engine=engine).stdout)

    assert done.exit_code == 6
    assert done.stdout == "✓  github  3 tools\n✗  time    no key\n"
    assert done.stderr == ("time: set it\n2 servers asked: 3 tools added, 0 removed, 0 changed\n")
    assert [server["success"] for server in form["servers"]] == [True, False]
    assert form["added"] == []


def test_refresh_names_the_servers_that_it_cannot_ask() -> None:
    problem = make_problem(Origin("d.yaml", 3), "servers.wrong.args", "must be a list")
    broken = view_of(make_settings(make_server("wrong", problem=problem)))

    done = run("refresh", engine=FakeEngine(broken))

    assert done.stderr.startswith("0 servers asked: 0 tools added, 0 removed, 0 changed\n")
    assert "wrong: not asked: servers.wrong.args: must be a list\n" in done.stderr


def test_refresh_asks_the_servers_that_are_named() -> None:
    engine = FakeEngine(usual_view())

    done = run("refresh", "time", engine=engine)

    assert (done.exit_code, engine.asked) == (0, [["time"]])


@pytest.mark.requirement("CLI-10")
def test_logs_are_shown_with_v_and_clean() -> None:
    code = (
        "import logging; from discovery_cli import output\n"
        "from discovery_cli.log_output import logged\n"
        "with logged(output.Output(), 1, set()): logging.getLogger('a').info('said %s', '\x1b[2Jx')"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stderr == "INFO a: said x\n"


def test_lines_of_progress_are_shown_with_v_and_not_with_no_progress() -> None:
    down = Failure("SERVER_CONNECTION_ERROR", "server 'time' is unavailable: gone", "", NOW)
    after = view_of(
        usual_view().settings,
        usual_view().catalog.parts["github"],
        make_part("time", listed_at=None, failure=down),
    )

    lines = run("refresh", "-v", engine=FakeEngine(usual_view(), after=after)).stderr
    none = run(
        "refresh", "-v", "--no-progress", engine=FakeEngine(usual_view(), after=after)
    ).stderr

    assert "✓ github: 3 tools\n✗ server 'time' is unavailable: gone\n" in lines
    assert "✓" not in none


@pytest.mark.requirement("CLI-15")
@rows("command", ["inspect", "why", "execute"])
@rows(
    ("words", "meant"),
    [
        pytest.param(["githb", "create_issue"], "did you mean 'github'?", id="server"),
        pytest.param(["githb", "lock_thread"], "did you mean 'github'?", id="no such tool either"),
        pytest.param(["tme", "convert_tim"], "did you mean 'time'?", id="both"),
    ],
)
def test_the_first_of_two_words_is_taken_for_a_server(
    command: str, words: list[str], meant: str
) -> None:
    done = run(command, *words, recalled=usual_view())

    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: server {words[0]!r} is not configured\n  hint: {meant}")


def test_a_server_that_has_the_tool_is_offered_where_no_name_is_near() -> None:
    done = run("inspect", "zzz", "convert_tim", recalled=usual_view())

    assert "did you mean 'time'?" in done.stderr


@rows("argument", ["title=x", "A bug"])
def test_a_slip_in_a_tool_before_its_argument_is_no_server(argument: str) -> None:
    done = run("execute", "create_isue", argument, recalled=usual_view())

    assert "did you mean 'github:create_issue'?" in done.stderr
