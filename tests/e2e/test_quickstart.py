"""Every command, with real servers that strangers wrote: does it do what its help says?"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from discovery_cli.program import cli
from discovery_engine._util.json import JSONObject
from tests.e2e.commands import Shell, need
from tests.kinds import thinned

pytestmark = pytest.mark.e2e

ESCAPE = "\x1b"
TOKYO = {"timezone": "Asia/Tokyo"}


def names(key: str) -> Callable[[JSONObject], list[str]]:
    return lambda answer: [item["name"] for item in answer[key]]


def tools(answer: JSONObject) -> list[str]:
    return [tool["tool"] for tool in answer.get("tools") or answer["results"]]


# Each command as a person types it, a word of its plain answer, and what its JSON must say.
READS = [
    pytest.param("list", "git", lambda a: "time" in names("servers")(a), id="list"),
    pytest.param(
        "list --tools",
        "convert_time",
        lambda a: "git_log" in next(s["tools"] for s in a["servers"] if s["name"] == "git"),
        id="list --tools",
    ),
    pytest.param(
        "search convert a time between zones",
        "time:convert_time",
        lambda a: tools(a)[0] == "convert_time",
        id="search by words",
    ),
    pytest.param(
        "search gitLog", "git:git_log", lambda a: tools(a)[0] == "git_log", id="search by name"
    ),
    pytest.param(
        "tools time",
        "get_current_time",
        lambda a: tools(a) == ["convert_time", "get_current_time"],
        id="tools",
    ),
    pytest.param(
        "inspect time convert_time",
        "source_timezone",
        lambda a: a["tool"]["signature"].startswith("convert_time(source_timezone: string"),
        id="inspect server tool",
    ),
    pytest.param(
        "why git:git_reset",
        "discovery.yaml:",
        lambda a: not a["enabled"] and a["deciding_rule"] == 0,
        id="why disabled",
    ),
    pytest.param(
        "config show",
        "mcp-server-time",
        lambda a: "git" in a["configuration"]["servers"],
        id="config show",
    ),
    pytest.param(
        "config sources",
        "discovery.yaml",
        lambda a: len(a["sources"][0]["servers"]) == 4,
        id="config sources",
    ),
    pytest.param("registry info", "git", lambda a: a["tool_count"] > 12, id="registry info"),
    pytest.param(
        "config import --dry-run --yes", "", lambda a: not a["written"], id="config import"
    ),
]


@pytest.mark.parametrize(("words", "shown", "says"), READS)
def test_reading_command_answers_in_words_and_in_json(
    quickstart: Shell, words: str, shown: str, says: Callable[[JSONObject], bool]
) -> None:
    plain = quickstart.run(words.split())
    as_json = quickstart.run([*words.split(), "--json"])

    assert (plain.code, as_json.code) == (0, 0), plain.err + as_json.err
    assert shown in plain.out
    assert ESCAPE not in plain.out + plain.err
    assert as_json.answer["schema_version"] == 1
    assert says(as_json.answer)
    assert as_json.err == ""


@pytest.mark.parametrize(
    ("words", "code", "name"),
    [
        pytest.param("serch x", 2, "USAGE_ERROR", id="no such command"),
        pytest.param("search", 2, "USAGE_ERROR", id="nothing to search for"),
        pytest.param("tools tim", 2, "SERVER_NOT_FOUND", id="no such server"),
        pytest.param("inspect time:convert", 2, "TOOL_NOT_FOUND", id="no such tool"),
        pytest.param("refresh nobody", 2, "SERVER_NOT_FOUND", id="no such server to ask"),
        pytest.param("execute time:get_current_time", 2, "INVALID_ARGUMENTS", id="no argument"),
        pytest.param("execute time:convert_time a b c d", 2, "INVALID_ARGUMENTS", id="too many"),
        pytest.param("execute git:git_reset .", 4, "TOOL_DISABLED", id="disabled by a rule"),
        pytest.param("--config none.yaml list", 2, "CONFIGURATION_ERROR", id="no such file"),
    ],
)
def test_failure_has_its_code_in_words_and_in_json(
    quickstart: Shell, words: str, code: int, name: str
) -> None:
    plain = quickstart.run(words.split())
    as_json = quickstart.run([*words.split(), "--json"])

    assert (plain.code, as_json.code) == (code, code)
    assert "error: " in plain.err
    assert "Traceback" not in plain.err
    assert (as_json.error["code"], as_json.error["exit_code"]) == (name, code)


@pytest.mark.parametrize(
    ("words", "stdin"),
    thinned(
        [
            pytest.param(["time:get_current_time", "Asia/Tokyo"], "", id="by position"),
            pytest.param(["time:get_current_time", "timezone=Asia/Tokyo"], "", id="by name"),
            pytest.param(["time", "get_current_time", "Asia/Tokyo"], "", id="server and tool"),
            pytest.param(["get_current_time", "Asia/Tokyo"], "", id="the tool alone"),
            pytest.param(["time:get_current_time", "--args", json.dumps(TOKYO)], "", id="JSON"),
            pytest.param(["time:get_current_time", "--args", "-"], json.dumps(TOKYO), id="stdin"),
            pytest.param(["time:get_current_time", "--args", "@args.json"], "", id="a file"),
        ]
    ),
)
def test_tool_is_executed_with_arguments_given_in_any_way(
    quickstart: Shell, tmp_path: Path, words: list[str], stdin: str
) -> None:
    (tmp_path / "args.json").write_text(json.dumps(TOKYO), "utf-8")
    words = [word.replace("@", f"@{tmp_path}/") for word in words]

    done = quickstart.run(["execute", *words], stdin=stdin)

    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["timezone"] == "Asia/Tokyo"


@pytest.mark.node
@pytest.mark.parametrize(
    ("server", "words", "shown"),
    thinned(
        [
            pytest.param(
                "everything", ["everything:echo", "hello there"], "hello there", id="echo"
            ),
            pytest.param("everything", ["everything:get-sum", "a=2", "b=3"], "5", id="numbers"),
            pytest.param(
                "filesystem", ["filesystem:list_directory", "path=."], "quickstart", id="files"
            ),
        ]
    ),
)
def test_servers_of_another_language_are_executed(
    quickstart: Shell, server: str, words: list[str], shown: str
) -> None:
    need(server)

    done = quickstart.run(["execute", *words])

    assert done.code == 0, done.err
    assert shown in done.out


@pytest.mark.node
def test_doctor_finds_nothing_wrong(quickstart: Shell) -> None:
    need("everything", "filesystem")

    done = quickstart.run(["doctor", "--json"])

    assert done.code == 0
    assert {check["level"] for check in done.answer["checks"]} <= {"good", "note"}


def test_every_command_has_help_with_its_options(quickstart: Shell) -> None:
    top = quickstart.run(["--help"])

    assert top.code == 0
    for name in cli.list_commands(click.Context(cli)):
        done = quickstart.run([name, "--help"])
        assert done.code == 0
        assert f" {name}" in top.out
        assert f" discovery {name} " in done.out.splitlines()[0]
        assert "--json" in done.out
