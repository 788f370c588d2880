"""What specs/command-line.md promises, shown by the command in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from discovery_cli.program import cli
from tests.contract.discovery import Discovery
from tests.forked import Preloaded
from tests.unit.cli.backends import run

HELP = Path(__file__).parent / "help"
RULES = """
toolRules:
  - pattern: "delete_*"
    enabled: false
  - pattern: "*"
    tags: [any]
"""
MISSING = {"command": "no-such-program-anywhere"}
SECRET = {"command": sys.executable, "env": {"TOKEN": "${NOT_SET_ANYWHERE}"}}
HEAVY = (
    *("mcp", "pydantic", "yaml", "asyncio", "anyio", "rich", "hashlib", "subprocess"),
    # What engines, workers and webhooks need beside what is read.
    "discovery_engine.fleet",
    "discovery_engine.registry.protocols",
    "discovery_engine.registry.sqlite.registry",
    "discovery_engine.upstream.stdio",
    "discovery_engine.webhooks",
)


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory, forked: Preloaded) -> Discovery:
    """A home in which the server, and two that fail, were asked once; tests only read there."""
    discovery = Discovery(tmp_path_factory.mktemp("home"), forked)
    discovery.configure(rules=RULES, missing=MISSING, secret=SECRET)
    assert discovery("refresh").code == 5
    return discovery


@pytest.fixture
def discovery(tmp_path: Path, forked: Preloaded) -> Discovery:
    discovery = Discovery(tmp_path, forked)
    discovery.configure(rules=RULES)
    return discovery


@pytest.mark.thorough
@pytest.mark.requirement("CLI-1", "CLI-5")
@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(["list"], 0, id="done"),
        pytest.param(["search", "zebra"], 2, id="no result"),
        pytest.param(["tools", "nowhere"], 2, id="no such server"),
        pytest.param(["inspect", "demo", "nothing"], 2, id="no such tool"),
        pytest.param(["search"], 2, id="usage"),
        pytest.param(["--config", "absent.yaml", "list"], 2, id="configuration"),
        pytest.param(["execute", "demo:echo"], 2, id="arguments"),
        pytest.param(["execute", "demo", "boom"], 3, id="tool failed"),
        pytest.param(["execute", "delete_all"], 4, id="disabled"),
        pytest.param(["tools", "missing"], 5, id="never reached"),
        pytest.param(["execute", "missing:tool"], 5, id="unreachable"),
        pytest.param(["execute", "secret:tool"], 6, id="secret missing"),
        pytest.param(["refresh", "secret"], 6, id="secret missing on refresh"),
        pytest.param(["doctor"], 7, id="problems"),
        pytest.param(["doctor", "--exit-zero"], 0, id="problems, and never mind"),
    ],
)
def test_the_exit_code_says_what_happened(listed: Discovery, words: list[str], code: int) -> None:
    done = listed(*words)

    assert done.code == code
    assert "Traceback" not in done.err


@pytest.mark.thorough
@pytest.mark.requirement("CLI-1", "CLI-28")
def test_an_interrupted_command_leaves_with_130(tmp_path: Path, forked: Preloaded) -> None:
    discovery = Discovery(tmp_path, forked)
    asleep = (
        "import os, pathlib, sys\n"
        "pathlib.Path(os.environ['READY']).open('w').close()\n"
        "sys.stdin.read(); sys.stdin.read()"
    )
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    discovery.configure(
        asleep={"command": sys.executable, "args": ["-c", asleep], "env": {"READY": str(ready)}}
    )
    words = [sys.executable, "-m", "discovery_cli", "refresh", "asleep"]

    with subprocess.Popen(
        words, cwd=tmp_path, env=discovery.environ, stderr=subprocess.PIPE
    ) as run:
        ready.open().close()
        run.send_signal(2)
        _, err = run.communicate(timeout=60)

    assert run.returncode == 130
    assert b"Traceback" not in err


@pytest.mark.requirement("CLI-2")
def test_stdout_has_the_data_and_stderr_the_words(listed: Discovery) -> None:
    done = listed("tools", "demo")

    assert [line.split()[1] for line in done.out.splitlines()] == ["boom", "echo", "slow"]
    assert "3 tools; 1 disabled" in done.err


READING = [
    ["list"],
    ["list", "--status", "--tools"],
    ["search", "say", "it"],
    ["tools", "demo", "--all"],
    ["inspect", "demo"],
    ["inspect", "demo:echo"],
    ["why", "demo:delete_all"],
    ["lint", "--exit-zero"],
    ["tokens"],
    ["cache", "info"],
    ["version"],
]
OTHERS = [
    ["inspect"],
    ["execute", "demo:echo", "hi"],
    ["execute", "demo:boom"],
    ["refresh", "demo"],
    ["config", "show"],
    ["config", "validate"],
    ["config", "sources"],
    ["config", "path"],
    ["config", "reload"],
    ["doctor", "--exit-zero"],
    ["enrich", "--show"],
    ["enrich", "--dry-run"],
    ["completion", "zsh"],
    ["import", "--dry-run"],
    ["init", "--dry-run"],
]


@pytest.mark.thorough
@pytest.mark.requirement("CLI-3")
@pytest.mark.parametrize("words", [*READING, *OTHERS], ids=" ".join)
def test_json_is_one_document_that_scripts_can_rely_on(listed: Discovery, words: list[str]) -> None:
    done = listed(*words, DISCOVERY_OUTPUT="json")

    assert done.json["schema_version"] == 1
    assert all(key == key.lower() for key in done.json)


@pytest.mark.requirement("CLI-3")
def test_json_is_asked_for_before_or_after_the_command(listed: Discovery) -> None:
    before, after = listed("--json", "version"), listed("version", "--json")

    assert before.json == after.json == listed("version", DISCOVERY_OUTPUT="json").json


@pytest.mark.requirement("CLI-3")
def test_the_forms_of_json_are_stable(listed: Discovery) -> None:
    [demo] = [s for s in listed("list", "--json").json["servers"] if s["name"] == "demo"]
    [hit, *_] = listed("search", "echo", "--json").json["results"]
    [tool, *_] = listed("tools", "demo", "--json").json["tools"]
    details = listed("inspect", "demo:echo", "--json").json["tool"]

    assert list(demo) == [
        "name", "description", "wanted", "status", "code", "reason", "hint", "detail", "tool_count",
        "enabled_count", "dropped", "tags", "sandbox", "listed_at", "is_stale", "stderr", "source",
        "package", "created_at", "updated_at", "visible_to",
    ]  # fmt: skip
    assert list(tool) == ["server", "tool", "summary", "enabled", "reason", "tags"]
    assert list(hit) == [*tool, "relevance", "parts"]
    assert list(details) == [
        *tool, "title", "description", "signature", "parameters", "annotations",
        "input_schema", "output_schema", "examples", "fingerprint", "findings", "overridden",
        "typical_requests",
    ]  # fmt: skip
    assert [p["name"] for p in details["parameters"]] == ["text", "loud", "tags", "times"]


@pytest.mark.thorough
@pytest.mark.requirement("CLI-4")
@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(["tools", "dmo"], "SERVER_NOT_FOUND", id="server"),
        pytest.param(["inspect", "demo", "ech"], "TOOL_NOT_FOUND", id="tool"),
        pytest.param(["execute", "demo:echo"], "INVALID_ARGUMENTS", id="arguments"),
        pytest.param(["execute", "demo:delete_all"], "TOOL_DISABLED", id="disabled"),
        pytest.param(["execute", "missing:x"], "SERVER_CONNECTION_ERROR", id="unreachable"),
        pytest.param(["execute", "secret:x"], "SERVER_NEEDS_CONFIG", id="secret"),
        pytest.param(["--config", "absent", "list"], "CONFIGURATION_ERROR", id="configuration"),
        pytest.param(["serch"], "USAGE_ERROR", id="usage"),
    ],
)
def test_an_error_is_json_where_json_is_asked_for(
    listed: Discovery, words: list[str], code: str
) -> None:
    done = listed(*words, "--json")

    assert done.out == ""
    assert done.error["code"] == code
    assert done.error["exit_code"] == done.code
    assert {"message", "hint"} <= done.error.keys()


@pytest.mark.requirement("CLI-5")
def test_only_v_shows_where_an_unexpected_failure_happened() -> None:
    quiet = run("list", failing=RuntimeError("wires crossed"))
    loud = run("list", "-v", failing=RuntimeError("wires crossed"))

    assert quiet.exit_code == loud.exit_code == 1
    assert quiet.stderr == (
        "error: unexpected RuntimeError: wires crossed\n  hint: -v shows where it happened\n"
    )
    assert loud.stderr.startswith("Traceback")


@pytest.mark.requirement("CLI-6")
def test_every_problem_of_a_configuration_is_shown_with_its_line(
    tmp_path: Path, forked: Preloaded
) -> None:
    discovery = Discovery(tmp_path, forked)
    text = "cache: {ttl: -1}\nserach: {limit: 5}\n"
    (tmp_path / "discovery.yaml").write_text(text)

    done = discovery("list")

    assert done.code == 2
    assert "discovery.yaml:1:14: cache.ttl: " in done.err
    assert "discovery.yaml:2:1: serach: " in done.err
    assert "  | serach: {limit: ••••}\n  | ^" in done.err


@pytest.mark.thorough
@pytest.mark.requirement("CLI-7")
@pytest.mark.parametrize(
    ("words", "meant"),
    [
        pytest.param(["serch"], "search", id="command"),
        pytest.param(["config", "shw"], "show", id="sub-command"),
        pytest.param(["list", "--statu"], "--status", id="option"),
        pytest.param(["tools", "dem"], "demo", id="server"),
        pytest.param(["inspect", "dem", "echo"], "demo", id="server of a tool"),
        pytest.param(["execute", "dem:echo", "hi"], "demo", id="server before a colon"),
        pytest.param(["why", "demo:ecko"], "echo", id="tool"),
        pytest.param(["inspect", "ecko"], "demo:echo", id="tool of any server"),
        pytest.param(["import", "--from", "cursr"], "cursor", id="client"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(
    listed: Discovery, words: list[str], meant: str
) -> None:
    done = listed(*words)

    assert done.code == 2
    assert meant in done.err


@pytest.mark.thorough
@pytest.mark.requirement("CLI-8")
@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({"NO_COLOR": "1"}, id="NO_COLOR"),
        pytest.param({"CI": "1"}, id="CI"),
        pytest.param({"TERM": "dumb"}, id="TERM=dumb"),
    ],
)
@pytest.mark.parametrize("words", [["list"], ["inspect"], ["refresh", "demo"]], ids=" ".join)
def test_a_plain_terminal_gets_no_escape_byte(
    listed: Discovery, words: list[str], environ: dict[str, str]
) -> None:
    done = listed.at_terminal(*words, **{"TERM": "xterm", **environ})

    assert done.code == 0 or words[0] == "refresh"
    assert "demo" in done.shown
    assert "\x1b" not in done.shown


@pytest.mark.requirement("CLI-8")
def test_colours_are_for_terminals(listed: Discovery) -> None:
    assert "\x1b" in listed.at_terminal("list", TERM="xterm").shown
    assert "\x1b" not in listed("list", TERM="xterm").out


@pytest.mark.requirement("CLI-8")
def test_marks_are_ascii_where_the_encoding_has_no_others(listed: Discovery) -> None:
    words = [sys.executable, "-m", "discovery_cli", "list"]
    environ = listed.environ | {"PYTHONIOENCODING": "ascii"}

    out = subprocess.check_output(words, cwd=listed.home, env=environ)

    assert out.startswith(b"+  demo")
    assert out.isascii()


@pytest.mark.thorough
@pytest.mark.requirement("CLI-9")
def test_a_closed_pipe_is_quiet(listed: Discovery) -> None:
    words = [sys.executable, "-m", "discovery_cli", "config", "schema"]

    with subprocess.Popen(
        words, cwd=listed.home, env=listed.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        assert run.stdout
        assert run.stderr
        run.stdout.close()
        err = run.stderr.read()

    assert (run.returncode, err) == (0, b"")


@pytest.mark.requirement("CLI-9")
@pytest.mark.skipif(sys.platform == "win32", reason="its shell closes no streams")
def test_streams_that_are_closed_from_the_start_are_quiet(listed: Discovery) -> None:
    line = f"{sys.executable} -m discovery_cli execute demo:echo --args - <&- >&- 2>&-"

    done = subprocess.run(["/bin/sh", "-c", line], cwd=listed.home, env=listed.environ, check=False)

    assert done.returncode == 2
    assert listed("list").code == 0


@pytest.mark.thorough
@pytest.mark.requirement("CLI-10")
@pytest.mark.parametrize(
    "words",
    [*READING, ["execute", "demo:boom"], ["search", "echo", "--json"]],
    ids=" ".join,
)
def test_no_text_of_a_server_acts_on_a_terminal(listed: Discovery, words: list[str]) -> None:
    done = listed(*words)

    kinds = {c: unicodedata.category(c) for c in set(done.out + done.err) - {"\n"}}
    assert [c for c, kind in kinds.items() if kind in ("Cc", "Cf", "Cs", "Co")] == []


@pytest.mark.thorough
@pytest.mark.requirement("CLI-11")
@pytest.mark.parametrize(
    "words", [*READING, ["list", "--json"], ["--help"], ["search", "--help"]], ids=" ".join
)
def test_what_is_known_is_answered_without_what_only_others_need(
    listed: Discovery, words: list[str]
) -> None:
    program = (
        "import sys; started_with = set(sys.modules)\n"  # by measuring coverage, for instance
        "from discovery_cli.main import main\n"
        "try: main()\n"
        f"finally: print(*({set(HEAVY)!r} & sys.modules.keys() - started_with), file=sys.stderr)"
    )
    before = listed.starts

    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=listed.home,
        env=listed.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stderr.splitlines()[-1] == ""
    assert listed.starts == before


@pytest.mark.thorough
@pytest.mark.requirement("CLI-11")
@pytest.mark.parametrize(("words", "is_on"), [(["list"], False), (["cache", "clear"], True)])
def test_garbage_is_collected_only_where_an_event_loop_runs(
    discovery: Discovery, words: list[str], *, is_on: bool
) -> None:
    discovery("refresh")
    program = (
        "import gc, sys; from discovery_cli.main import main\n"
        "try: main()\n"
        "finally: print(gc.isenabled(), file=sys.stderr)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=discovery.home,
        env=discovery.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stderr.splitlines()[-1] == str(is_on)


@pytest.mark.thorough
@pytest.mark.requirement("CLI-12")
def test_a_server_is_asked_when_a_question_concerns_it_for_the_first_time(
    discovery: Discovery,
) -> None:
    first, second = discovery("tools", "demo"), discovery("tools", "demo")

    assert first.out == second.out != ""
    assert discovery.starts == 1


@pytest.mark.requirement("CLI-33")
def test_a_first_call_starts_its_server_once(tmp_path: Path, forked: Preloaded) -> None:
    discovery = Discovery(tmp_path, forked)
    discovery.configure()

    done = discovery("execute", "demo", "echo", "text=hi")

    assert (done.code, json.loads(done.out)) == (0, {"text": "hi"})
    assert discovery.starts == 1


@pytest.mark.thorough
@pytest.mark.requirement("CLI-33")
def test_a_call_of_a_server_that_failed_before_starts_it_once(
    tmp_path: Path, forked: Preloaded
) -> None:
    discovery = Discovery(tmp_path, forked)
    discovery.configure()
    script = tmp_path / "upstream.py"
    works = script.read_text("utf-8")
    script.write_text("raise SystemExit(1)", "utf-8")
    discovery("refresh")
    script.write_text(works, "utf-8")

    done = discovery("execute", "demo", "echo", "text=hi")

    assert (done.code, json.loads(done.out)) == (0, {"text": "hi"})
    assert discovery.starts == 1


@pytest.mark.thorough
@pytest.mark.requirement("CLI-17")
def test_a_mistake_in_a_first_call_starts_the_server_to_ask_and_calls_nothing(
    tmp_path: Path,
    forked: Preloaded,
) -> None:
    discovery = Discovery(tmp_path, forked)
    discovery.configure()

    done = discovery("execute", "demo", "echo", "times=3")

    assert done.code == 2
    assert "text" in done.err
    assert discovery.starts == 1


@pytest.mark.thorough
@pytest.mark.requirement("CLI-12")
def test_a_server_that_failed_is_a_notice_and_is_not_asked_again(
    tmp_path: Path, forked: Preloaded
) -> None:
    discovery = Discovery(tmp_path, forked)
    counts = "import os, pathlib; pathlib.Path(os.environ['STARTS']).open('a').write('x\\n')"
    failing = {"command": sys.executable, "args": ["-c", counts], "env": {"STARTS": "${STARTS}"}}
    discovery.configure(failing=failing)
    discovery("refresh")
    before = discovery.starts

    done = discovery("search", "echo")

    assert discovery.starts == before
    assert "note: failing is not available; `discovery health failing` explains\n" in done.err
    assert done.code == 0


@pytest.mark.thorough
@pytest.mark.requirement("CLI-36")
@pytest.mark.parametrize(
    "words",
    [["refresh"], ["list"], ["list", "--status"], ["inspect"], ["inspect", "dying"]],
    ids=" ".join,
)
def test_what_a_program_wrote_before_it_failed_stands_below_it(
    words: list[str], tmp_path: Path, forked: Preloaded
) -> None:
    discovery = Discovery(tmp_path, forked)
    script = "import sys; sys.stderr.write('a\\nboom: no licence\\n'); sys.exit(3)"
    discovery.configure(dying={"command": sys.executable, "args": ["-c", script]})
    discovery("refresh")

    done = discovery(*words)

    assert "boom: no licence" in done.out + done.err
    assert "✓ dying" not in " ".join(done.out.split())


@pytest.mark.thorough
@pytest.mark.requirement("CLI-13")
def test_old_knowledge_is_shown_with_its_age(tmp_path: Path, forked: Preloaded) -> None:
    discovery = Discovery(tmp_path, forked)
    discovery.configure(rules="cache: {ttl: 0.001}\n")
    discovery("refresh")

    done = discovery("tools", "demo")

    assert "echo" in done.out
    assert "ago (demo); `discovery refresh` asks again" in done.err
    assert discovery.starts == 1


@pytest.mark.requirement("CLI-14")
def test_a_search_without_a_result_gives_the_reason(listed: Discovery) -> None:
    hidden, nothing = listed("search", "delete_all"), listed("search", "zebra", "--json")

    assert (hidden.code, hidden.out) == (2, "")
    assert "disabled" in hidden.err
    assert nothing.code == 2
    assert nothing.json["results"] == []
    assert nothing.json["notices"][0]["kind"] == "incomplete"  # two servers are down
    assert nothing.json["notices"][0]["message"].endswith(
        "no match in the servers that were listed"
    )


@pytest.mark.thorough
@pytest.mark.requirement("CLI-15")
@pytest.mark.parametrize(
    "words", [["demo", "echo"], ["demo:echo"], ["echo"], ["DEMO", "echo"]], ids=" ".join
)
def test_a_tool_can_be_named_in_several_ways(listed: Discovery, words: list[str]) -> None:
    inspected = listed("inspect", *words)
    executed = listed("execute", *words, "hi")

    assert inspected.out.splitlines()[0].split()[1] == "demo:echo"
    assert json.loads(executed.out) == {"text": "hi"}


@pytest.mark.requirement("CLI-15")
def test_a_name_is_read_as_a_server_first(listed: Discovery) -> None:
    assert listed("inspect", "demo", "--json").json["kind"] == "server"
    assert listed("inspect", "echo", "--json").json["kind"] == "tool"


@pytest.mark.thorough
@pytest.mark.requirement("CLI-16")
def test_why_names_the_deciding_rule_and_what_the_others_did(listed: Discovery) -> None:
    done = listed("why", "demo:delete_all")
    form = listed("why", "demo", "delete_all", "--json").json

    assert "disabled: rule 1 (" in done.out
    assert "discovery.yaml:4:" in done.out
    assert (form["enabled"], form["deciding_rule"], form["tags"]) == (False, 0, ["any"])
    assert [(r["matched"], r["decided"]) for r in form["rules"]] == [(True, True), (True, False)]


@pytest.mark.thorough
@pytest.mark.requirement("CLI-17")
@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        pytest.param(["text=hi", "times=2", "loud=yes", 'tags=["a"]'], "", id="by name"),
        pytest.param(["hi", "true", '["a"]', "2"], "", id="in the order of the signature"),
        pytest.param(["hi", "2", "loud=true", 'tags=["a"]'], "", id="by name and in order"),
        pytest.param(["--args", "@arguments.json"], "", id="from a file"),
        pytest.param(["--args", "-"], "stdin", id="from stdin"),
        pytest.param(["--args", '{"text": "no", "times": 2, "loud": true}', "hi",
                      'tags=["a"]'], "", id="words over JSON"),
    ],
)  # fmt: skip
def test_arguments_come_in_many_ways(listed: Discovery, words: list[str], stdin: str) -> None:
    expected = {"text": "hi", "times": 2, "loud": True, "tags": ["a"]}
    (listed.home / "arguments.json").write_text(json.dumps(expected))

    done = listed("execute", "demo:echo", *words, stdin=json.dumps(expected) if stdin else "")

    assert json.loads(done.out) == expected


@pytest.mark.requirement("CLI-17")
def test_a_mistake_in_the_arguments_starts_no_server(listed: Discovery) -> None:
    before = listed.starts

    done = listed("execute", "demo:echo", "hi", "times=many")

    assert done.code == 2
    assert "echo(text: string, loud?: boolean, tags?: any[], times?: integer)" in done.err
    assert listed.starts == before


@pytest.mark.requirement("CLI-4", "CLI-18")
def test_a_failing_tool_leaves_its_words_on_stderr_and_its_result_in_json(
    listed: Discovery,
) -> None:
    done, form = listed("execute", "demo:boom"), listed("execute", "demo:boom", "--json")

    assert (done.out, done.err) == ("", "error: demo:boom failed\n  | it broke\n")
    assert form.json["success"] is False
    assert form.json["result"]["content"] == [{"type": "text", "text": "it \x1b[31mbroke"}]
    assert form.json["result"]["isError"] is True
    assert (done.code, form.code, form.err) == (3, 3, "")


@pytest.mark.thorough
@pytest.mark.requirement("CLI-18", "CLI-19")
def test_progress_streams_to_stderr_and_an_image_is_named(listed: Discovery) -> None:
    done = listed("execute", "demo:slow", "--stream")

    assert done.out == "[image image/png, 3 bytes]\n"
    assert done.err == "progress 1/2 half way\n"
    assert listed("execute", "demo:slow").err == ""


CURSOR = {
    "mcpServers": {
        "clock": {"command": "clock-server", "args": ["--utc"], "env": {"API_TOKEN": "s3cr3t-xyz"}},
        "web": {
            "url": "https://example.com/mcp",
            "headers": {"Authorization": "Bearer abcdefghijklmnop-s3cr3t"},
        },
        "keyed": {"command": "keyed", "args": ["--api-key", "s3cr3t-abc"]},
    }
}


@pytest.fixture
def fresh(tmp_path: Path, forked: Preloaded) -> Discovery:
    """A machine on which Cursor has three servers, and discovery nothing yet."""
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text(json.dumps(CURSOR))
    return Discovery(tmp_path, forked)


@pytest.mark.thorough
@pytest.mark.requirement("CLI-20")
def test_init_writes_a_configuration_that_loads(fresh: Discovery) -> None:
    done = fresh("init", "--yes")
    text = (fresh.home / "discovery.yaml").read_text()

    assert done.code == 0
    assert text.startswith("# yaml-language-server: $schema=discovery.schema.json\n")
    assert "s3cr3t" not in text
    assert json.loads((fresh.home / "discovery.schema.json").read_text())["title"]
    sources = fresh("config", "sources", "--json").json["sources"]
    assert [(s["type"], len(s["servers"])) for s in sources] == [
        ("discovery.yaml", 0),
        ("cursor", 3),
    ]


@pytest.mark.thorough
@pytest.mark.requirement("CLI-20", "CLI-23")
def test_init_replaces_nothing_unbidden(fresh: Discovery) -> None:
    config = fresh.home / "discovery.yaml"
    config.write_text("servers: {}\n")

    refused = fresh("init", "--yes")

    assert refused.code == 2
    assert config.read_text() == "servers: {}\n"
    assert fresh("init", "--yes", "--force").code == 0
    assert config.read_text() != "servers: {}\n"


@pytest.mark.thorough
@pytest.mark.requirement("CLI-20")
def test_init_works_where_no_other_client_is(tmp_path: Path, forked: Preloaded) -> None:
    discovery = Discovery(tmp_path, forked)

    done = discovery("init", "--yes")

    assert done.code == 0
    assert discovery("list", "--json").json["servers"] == []


@pytest.mark.thorough
@pytest.mark.requirement("CLI-21", "CLI-22")
def test_import_adds_servers_and_copies_no_secret(fresh: Discovery) -> None:
    config = fresh.home / "discovery.yaml"
    before = "# mine\nservers:\n  own:   {command: mine}   # kept as it is\n\n# the end\n"
    config.write_text(before)

    first = fresh("import", "--from", "cursor", "--yes")
    text = config.read_text()
    again = fresh("import", "--from", "cursor", "--yes", "--json")

    assert "set API_TOKEN, WEB_TOKEN" in first.err
    assert "its arguments carry a secret" in first.out
    assert "s3cr3t" not in text + first.out + first.err + again.out
    assert [line for line in text.splitlines() if line in before] == before.splitlines()
    assert list(fresh("config", "show", "--json").json["configuration"]["servers"]) == [
        "own", "clock", "web",
    ]  # fmt: skip
    assert again.json["written"] is False
    assert config.read_text() == text


@pytest.mark.thorough
@pytest.mark.requirement("CLI-23")
@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(["import", "--from", "cursor", "--dry-run"], 0, id="import --dry-run"),
        pytest.param(["init", "--dry-run"], 0, id="init --dry-run"),
        pytest.param(["import", "--from", "cursor"], 2, id="import, nobody to ask"),
        pytest.param(["init"], 2, id="init, nobody to ask"),
    ],
)
def test_nothing_is_written_unbidden(fresh: Discovery, words: list[str], code: int) -> None:
    done = fresh(*words)

    assert done.code == code
    assert not (fresh.home / "discovery.yaml").exists()


@pytest.mark.requirement("CLI-24")
def test_the_configuration_is_shown_without_secrets(tmp_path: Path, forked: Preloaded) -> None:
    discovery = Discovery(tmp_path, forked)
    env = {"KEY": "s3cr3t-xyz", "TOKEN": "${NOT_SET_ANYWHERE}"}
    discovery.configure(other={"command": "x", "env": env})

    for words in (["config", "show"], ["config", "show", "--json"], ["doctor", "--json"]):
        done = discovery(*words)
        assert "s3cr3t" not in done.out + done.err
    assert "TOKEN: ${NOT_SET_ANYWHERE}" in discovery("config", "show").out


@pytest.mark.requirement("CLI-25")
def test_doctor_starts_nothing_and_says_what_to_do(listed: Discovery) -> None:
    before = listed.starts

    checks = listed("doctor", "--json").json["checks"]

    problems = {c["subject"]: c["hint"] for c in checks if c["level"] == "problem"}
    assert problems.keys() == {"server missing", "server secret"}
    assert all(problems.values())
    assert listed.starts == before


@pytest.mark.thorough
@pytest.mark.requirement("CLI-25")
def test_doctor_online_connects_to_every_server(discovery: Discovery) -> None:
    done = discovery("doctor", "--online", "--exit-zero")

    assert discovery.starts == 1
    assert "demo: 4 tools" in done.err


@pytest.mark.thorough
@pytest.mark.requirement("REG-12", "CLI-25")
def test_where_nothing_can_be_remembered_every_command_reports_it(discovery: Discovery) -> None:
    blocked = str(discovery.home / "discovery.yaml")

    done = discovery("--data-dir", blocked, "tools", "demo")
    assert "echo" in done.out
    assert "note: nothing will be remembered: the registry" in done.err

    done = discovery("--data-dir", blocked, "tools", "demo", "--json")
    assert done.json["tools"]
    assert done.err == ""

    checks = discovery("--data-dir", blocked, "doctor", "--json").json["checks"]
    assert [check["level"] for check in checks if check["subject"] == "data"] == ["problem"]


@pytest.mark.thorough
@pytest.mark.requirement("REG-12")
@pytest.mark.parametrize("words", ["cache clear", "trust --yes", "trust --revoke"])
def test_where_nothing_can_be_remembered_what_the_owner_wants_kept_is_an_error_told_once(
    discovery: Discovery, words: str
) -> None:
    (discovery.home / "file").touch()

    done = discovery(
        "--data-dir", str(discovery.home / "file"), *words.split(), DISCOVERY_CONFIG=""
    )

    assert done.code == 1
    assert done.err.count("note: nothing will be remembered") == 1
    assert "error: " in done.err


@pytest.mark.requirement("CLI-25")
def test_doctor_goes_on_where_the_configuration_is_broken(
    tmp_path: Path, forked: Preloaded
) -> None:
    (tmp_path / "discovery.yaml").write_text("servers: 1\n")

    done = Discovery(tmp_path, forked)("doctor", "--json")

    assert done.code == 7
    assert {c["subject"] for c in done.json["checks"]} == {"python", "configuration", "data"}


@pytest.mark.requirement("CLI-26")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        pytest.param("discovery insp", ["inspect"], id="command"),
        pytest.param("discovery tools d", ["demo"], id="server"),
        pytest.param("discovery inspect ec", ["echo"], id="tool"),
        pytest.param("discovery execute demo:e", ["demo:echo"], id="tool of a server"),
        pytest.param("discovery search --tag a", ["any"], id="tag"),
    ],
)
def test_words_are_completed_from_what_is_remembered(
    listed: Discovery, words: str, found: list[str]
) -> None:
    before = listed.starts

    done = listed(
        _DISCOVERY_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split()) - 1),
    )

    assert [line.partition(",")[2] for line in done.out.splitlines()] == found
    assert listed.starts == before


@pytest.mark.requirement("CLI-90", "CLI-25")
def test_a_data_folder_that_others_may_write_to_is_noted_with_the_command_that_closes_it(
    discovery: Discovery,
) -> None:
    discovery.configure()
    around = discovery.home / "around"
    folder = around / "data"
    of_folder = "--data-dir", str(folder)
    commands: dict[tuple[str, ...], str] = {
        ("refresh",): "",
        ("secrets", "set", "a"): "value",
        ("token", "create"): "",
        ("list",): "",
    }
    discovery("refresh", *of_folder)
    faults = []
    for open_to_others, mode, remedy in (
        (folder, 0o777, f"`chmod 700 {folder}`"),
        (around, 0o777, f"`chmod go-w {around}`, if it is yours"),
    ):
        before = open_to_others.stat().st_mode
        open_to_others.chmod(mode)
        note = f"note: others may write to {open_to_others}, and so replace approvals"
        for words, stdin in commands.items():
            done = discovery(*words, *of_folder, stdin=stdin)
            if done.code or done.err.count(note) != 1 or remedy not in done.err:
                faults.append((open_to_others, words, done))
        checked = discovery("doctor", "--json", *of_folder)
        found = {check["code"]: check for check in checked.json["checks"]}
        open_to_others.chmod(before)
        assert checked.code == 7
        assert remedy in found["DATA_EXPOSED"]["hint"]
        assert "is readable by you only" not in checked.out
        assert any(note[6:] in warning for warning in checked.json["warnings"])
    closed = discovery("refresh", *of_folder)

    assert faults == []
    assert "others may write" not in closed.err


@pytest.mark.thorough
@pytest.mark.requirement("CLI-27")
def test_the_help_of_every_command_is_pinned() -> None:
    shown = dict(helps(cli, ["discovery"]))

    if os.environ.get("UPDATE_HELP"):
        for name, text in shown.items():
            (HELP / name).write_text(text, encoding="utf-8")
    pinned = {file.name: file.read_text(encoding="utf-8") for file in HELP.iterdir()}
    assert shown.keys() == pinned.keys()
    assert [name for name, text in shown.items() if ours(text) != ours(pinned[name])] == []


def ours(text: str) -> str:
    """A help without the words and the layout of click, which differ between its versions."""
    clicks = (
        r"^Usage:|\[OPTIONS\]|^Options:|^Commands:|-h, --help .*|\[(required|default: |x[<>]).*?\]"
    )
    return "".join(re.sub(clicks, "", text, flags=re.MULTILINE).split())


def helps(command: click.Command, path: list[str]) -> Iterator[tuple[str, str]]:
    """The help of a command and of those below it, by the name of the file that pins it."""
    text = CliRunner().invoke(cli, [*path[1:], "--help"], terminal_width=80).stdout
    yield "-".join(path) + ".txt", text
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found
            yield from helps(found, [*path, name])
