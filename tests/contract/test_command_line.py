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
from tests.rows import rows
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
    *("mcp", "pydantic", "yaml", "asyncio", "anyio", "typing_extensions", "hashlib", "subprocess"),
    # What engines, workers and webhooks need beside what is read.
    "discovery_engine.store.registry",
    "discovery_engine.store.schedule",
    "discovery_engine.store.sqlite.sqlite_registry",
    "discovery_engine.upstream.stdio",
    "discovery_engine.store.webhooks",
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


@pytest.mark.requirement("CLI-1", "CLI-3", "CLI-5")
@rows(
    ("words", "exit_code", "code"),
    [
        (["list"], 0, None),
        (["search", "zebra"], 2, None),
        (["search"], 2, "USAGE_ERROR"),
        (["connect", "x" * 5000], 2, "USAGE_ERROR"),
        (["config", "import", "--from", "x" * 5000], 2, "USAGE_ERROR"),
        (["x" * 5000], 2, "USAGE_ERROR"),
        (["tools", "nowhere"], 2, "SERVER_NOT_FOUND"),
        (["inspect", "demo", "nothing"], 2, "TOOL_NOT_FOUND"),
        (["--config", "absent.yaml", "list"], 2, "CONFIGURATION_ERROR"),
        (["execute", "demo:echo"], 2, "INVALID_ARGUMENTS"),
        (["execute", "demo", "boom"], 3, None),
        (["execute", "delete_all"], 4, "TOOL_DISABLED"),
        (["tools", "missing"], 5, None),
        (["execute", "missing:tool"], 5, "SERVER_CONNECTION_ERROR"),
        (["execute", "secret:tool"], 6, "SERVER_NEEDS_CONFIG"),
        (["doctor"], 7, None),
        (["doctor", "--exit-zero"], 0, None),
    ],
)
def test_the_exit_code_and_the_error_say_what_happened(
    listed: Discovery, words: list[str], exit_code: int, code: str | None
) -> None:
    done = listed(*words)

    assert done.code == exit_code
    assert "Traceback" not in done.err
    if code:
        form = listed(*words, "--json")
        assert form.out == ""
        assert (form.error["code"], form.error["exit_code"]) == (code, exit_code)
        assert {"message", "hint"} <= form.error.keys()
        assert done.err.startswith("error: ")
    assert len(done.err) < 1_000


@pytest.mark.requirement("CLI-28")
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
    words = [sys.executable, "-m", "discovery_cli", "refresh", "asleep", "--json"]

    with subprocess.Popen(
        words, cwd=tmp_path, env=discovery.environ, stderr=subprocess.PIPE
    ) as run:
        ready.open().close()
        run.send_signal(2)
        _, err = run.communicate(timeout=60)

    assert run.returncode == 130
    assert json.loads(err)["error"]["code"] == "INTERRUPTED"


READING = [
    ["list"],
    ["list", "--status", "--tools"],
    ["search", "say", "it"],
    ["tools", "demo", "--all"],
    ["inspect", "demo"],
    ["inspect", "demo:echo"],
    ["why", "demo:delete_all"],
    ["tune", "lint", "--exit-zero"],
    ["tune", "tokens"],
    ["registry", "info"],
]
OTHERS = [
    ["inspect"],
    ["execute", "demo:echo", "hi"],
    ["execute", "demo:boom"],
    ["refresh", "demo"],
    ["config", "show"],
    ["config", "check"],
    ["config", "sources"],
    ["config", "path"],
    ["config", "reload"],
    ["doctor", "--exit-zero"],
    ["tune", "enrich", "--dry-run"],
    ["completion", "zsh"],
    ["config", "import", "--dry-run"],
    ["init", "--dry-run"],
]


@pytest.mark.thorough
@pytest.mark.requirement("CLI-3")
@rows("words", [*READING, *OTHERS])
def test_json_is_one_document_that_scripts_can_rely_on(listed: Discovery, words: list[str]) -> None:
    done = listed(*words, DISCOVERY_OUTPUT="json")

    assert done.json["schema_version"] == 1
    assert all(key == key.lower() for key in done.json)


@pytest.mark.requirement("CLI-3")
def test_the_forms_of_json_are_stable(listed: Discovery) -> None:
    [demo] = [s for s in listed("list", "--json").json["servers"] if s["name"] == "demo"]
    [hit, *_] = listed("search", "echo", "--json").json["results"]
    [tool, *_] = listed("tools", "demo", "--json").json["tools"]
    details = listed("inspect", "demo:echo", "--json").json["tool"]

    assert list(demo) == [
        "name", "description", "wanted", "status", "code", "reason", "hint", "detail", "tool_count",
        "enabled_count", "skill_count", "dropped", "tags", "sandbox", "listed_at", "is_stale",
        "stderr", "source", "package", "created_at", "updated_at", "visible_to",
    ]  # fmt: skip
    assert list(tool) == ["server", "tool", "summary", "enabled", "reason", "tags"]
    assert list(hit) == [*tool, "relevance", "parts"]
    assert list(details) == [
        *tool, "title", "description", "signature", "parameters", "annotations",
        "input_schema", "output_schema", "examples", "fingerprint", "findings", "overridden",
        "typical_requests",
    ]  # fmt: skip
    assert [p["name"] for p in details["parameters"]] == ["text", "loud", "tags", "times"]


@pytest.mark.requirement("CLI-5")
def test_only_v_shows_where_an_unexpected_failure_happened() -> None:
    quiet = run("list", failing=RuntimeError("wires crossed"))
    loud = run("list", "-v", failing=RuntimeError("wires crossed"))

    assert quiet.exit_code == loud.exit_code == 1
    assert quiet.stderr == (
        "error: unexpected RuntimeError: wires crossed\n  hint: -v shows where it happened\n"
    )
    assert loud.stderr.startswith("Traceback")


@pytest.mark.requirement("CLI-5")
@rows(
    ("words", "meant"),
    [
        (["serch"], "search"),
        (["export"], "`discovery config export`"),
        (["help", "serch"], "search"),
        (["list", "--statu"], "--status"),
        (["tools", "dem"], "demo"),
        (["execute", "dem:echo", "hi"], "demo"),
        (["why", "demo:ecko"], "echo"),
        (["inspect", "ecko"], "demo:echo"),
        (["config", "import", "--from", "cursr"], "cursor"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(
    listed: Discovery, words: list[str], meant: str
) -> None:
    done = listed(*words)

    assert done.code == 2
    assert meant in done.err


@pytest.mark.requirement("CLI-5")
def test_help_is_a_word_for_a_command_and_a_code(listed: Discovery) -> None:
    assert listed("help", "search").out == listed("search", "--help").out
    assert listed("help").out == listed("--help").out
    assert "Use one of the nearest names" in listed("help", "SERVER_NOT_FOUND").out


@pytest.mark.requirement("CLI-2")
def test_colours_are_for_terminals_that_want_them(listed: Discovery) -> None:
    plain = ({"NO_COLOR": "1"}, {"CI": "1"}, {"TERM": "dumb"})

    assert "\x1b" in listed.at_terminal("list", TERM="xterm").shown
    assert "\x1b" not in listed("list", TERM="xterm").out
    for environ in plain:
        shown = listed.at_terminal("list", **{"TERM": "xterm", **environ}).shown
        assert "demo" in shown
        assert "\x1b" not in shown, environ


@pytest.mark.requirement("CLI-2")
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


@pytest.mark.requirement("CLI-10")
@rows("words", [*READING, ["execute", "demo:boom"], ["search", "echo", "--json"]])
def test_no_text_of_a_server_acts_on_a_terminal(listed: Discovery, words: list[str]) -> None:
    done = listed(*words)

    kinds = {c: unicodedata.category(c) for c in set(done.out + done.err) - {"\n"}}
    assert [c for c, kind in kinds.items() if kind in ("Cc", "Cf", "Cs", "Co")] == []


@pytest.mark.requirement("CLI-11")
@rows("words", [["list"], ["search", "say"], ["why", "demo:echo"], ["--help"]])
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


@pytest.mark.requirement("CLI-12", "CLI-17")
def test_a_first_call_starts_its_server_once_also_with_a_mistake(
    tmp_path: Path, forked: Preloaded
) -> None:
    for number, (words, code) in enumerate((("text=hi", 0), ("times=3", 2))):
        home = tmp_path / str(number)
        home.mkdir()
        discovery = Discovery(home, forked)
        discovery.configure()

        assert discovery("execute", "demo", "echo", words).code == code
        assert discovery.starts == 1


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


@pytest.mark.requirement("CLI-12")
def test_old_knowledge_is_shown_with_its_age(tmp_path: Path, forked: Preloaded) -> None:
    discovery = Discovery(tmp_path, forked)
    discovery.configure(rules="cache: {ttl: 0.001}\n")
    discovery("refresh")

    done = discovery("tools", "demo")

    assert "echo" in done.out
    assert "ago (demo); `discovery refresh` lists again" in done.err
    assert discovery.starts == 1


@pytest.mark.requirement("CLI-15")
@rows("words", [["demo", "echo"], ["demo:echo"], ["echo"], ["DEMO", "echo"]])
def test_a_tool_can_be_named_in_several_ways(listed: Discovery, words: list[str]) -> None:
    inspected = listed("inspect", *words)
    executed = listed("execute", *words, "hi")

    assert inspected.out.splitlines()[0].split()[1] == "demo:echo"
    assert json.loads(executed.out) == {"text": "hi"}


@pytest.mark.requirement("CLI-85")
def test_tokens_compares_all_tools_up_front_with_what_a_request_needs(listed: Discovery) -> None:
    answer = listed("tune", "tokens", "say", "it", "again", "--json").json

    ways = {way["way"]: way for way in answer["ways"]}
    assert list(ways) == ["all", "meta", "select"]
    assert (ways["all"]["tools"], ways["all"]["calls"], ways["meta"]["calls"]) == (3, 0, 2)
    assert all(way["definition_tokens"] > 0 for way in ways.values())


@pytest.mark.requirement("CLI-17")
@rows(
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


@pytest.mark.requirement("CLI-3")
def test_a_failing_tool_leaves_its_words_on_stderr_and_its_result_in_json(
    listed: Discovery,
) -> None:
    done, form = listed("execute", "demo:boom"), listed("execute", "demo:boom", "--json")

    assert (done.out, done.err) == ("", "error: demo:boom failed\n  | it broke\n")
    assert form.json["success"] is False
    assert form.json["result"]["content"] == [{"type": "text", "text": "it \x1b[31mbroke"}]
    assert form.json["result"]["isError"] is True
    assert (done.code, form.code, form.err) == (3, 3, "")


@pytest.mark.requirement("CLI-18")
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


@pytest.mark.requirement("CLI-20")
def test_init_replaces_nothing_unbidden(fresh: Discovery) -> None:
    config = fresh.home / "discovery.yaml"
    config.write_text("servers: {}\n")

    refused = fresh("init", "--yes")

    assert refused.code == 2
    assert config.read_text() == "servers: {}\n"
    assert fresh("init", "--yes", "--force").code == 0
    assert config.read_text() != "servers: {}\n"


@pytest.mark.requirement("CLI-21")
def test_import_adds_servers_and_copies_no_secret(fresh: Discovery) -> None:
    config = fresh.home / "discovery.yaml"
    before = "# mine\nservers:\n  own:   {command: mine}   # kept as it is\n\n# the end\n"
    config.write_text(before)

    first = fresh("config", "import", "--from", "cursor", "--yes")
    text = config.read_text()
    again = fresh("config", "import", "--from", "cursor", "--yes", "--json")

    assert "set API_TOKEN, WEB_TOKEN" in first.err
    assert "its arguments carry a secret" in first.out
    assert "s3cr3t" not in text + first.out + first.err + again.out
    assert [line for line in text.splitlines() if line in before] == before.splitlines()
    assert list(fresh("config", "show", "--json").json["configuration"]["servers"]) == [
        "own", "clock", "web",
    ]  # fmt: skip
    assert again.json["written"] is False
    assert config.read_text() == text


@pytest.mark.requirement("CLI-20")
@rows(
    ("words", "code"),
    [
        pytest.param(
            ["config", "import", "--from", "cursor", "--dry-run"], 0, id="import --dry-run"
        ),
        pytest.param(["init", "--dry-run"], 0, id="init --dry-run"),
        pytest.param(["config", "import", "--from", "cursor"], 2, id="import, nobody to ask"),
        pytest.param(["init"], 2, id="init, nobody to ask"),
    ],
)
def test_nothing_is_written_unbidden(fresh: Discovery, words: list[str], code: int) -> None:
    done = fresh(*words)

    assert done.code == code
    assert not (fresh.home / "discovery.yaml").exists()


@pytest.mark.requirement("CLI-40")
def test_init_names_what_its_servers_need_and_shows_no_value(fresh: Discovery) -> None:
    entries = {
        "one": {"command": "x", "env": {"A": "${env:SET}", "B": "${env:UNSET}"}},
        "two": {"url": "https://a.invalid", "headers": {"X": "Bearer ${env:OTHER}"}},
        "off": {"command": "y", "env": {"A": "${env:UNUSED}"}, "disabled": True},
    }
    (fresh.home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    (fresh.home / ".mcp.json").write_text('{"mcpServers": {"shared": {"command": "z"}}}')

    network = {"SSL_CERT_FILE": "/ca.pem", "https_proxy": "http://me:a-secret-value@proxy:8080"}
    done = fresh("init", "--yes", "--connect", "cursor", SET="a-secret-value", **network)
    entry = json.loads((fresh.home / ".cursor" / "mcp.json").read_text())["mcpServers"]["discovery"]
    form = fresh("init", "--yes", "--force", "--json", SET="a-secret-value").json

    assert (
        "`discovery review servers` approves what comes from a project's file: shared" in done.err
    )
    assert "`export UNSET=… OTHER=…`" in done.err
    assert "clients pass on no variables; store SET, UNSET, OTHER with" in done.err
    assert "a password in https_proxy is not written" in done.err
    path = ":".join(dict.fromkeys(fresh.environ["PATH"].split(":")))
    data = {"DISCOVERY_DATA_DIR": str(fresh.home / "data")}
    assert entry["env"] == {"PATH": path, "SSL_CERT_FILE": "/ca.pem", **data}
    assert "a-secret-value" not in done.err + done.out
    assert form["needs"] == {
        "variables": ["SET", "UNSET", "OTHER"],
        "unset": ["UNSET", "OTHER"],
        "unapproved": ["shared"],
    }


def test_the_configuration_can_be_shown_without_the_defaults(
    tmp_path: Path, forked: Preloaded
) -> None:
    discovery = Discovery(tmp_path, forked)
    discovery.configure(other={"command": "x", "env": {"KEY": "s3cr3t-xyz", "TOKEN": "${UNSET}"}})

    everything, written = discovery("config", "show").out, discovery("config", "show", "--set").out

    assert "s3cr3t" not in everything + written
    assert ("TOKEN: ${UNSET}" in everything, "TOKEN: ${UNSET}" in written) == (True, True)
    assert ("ttl: 3600" in everything, "ttl" in written) == (True, False)
    (file := tmp_path / "sections.yaml").write_text("server: {mode: direct}", "utf-8")
    assert "mode: direct" in discovery("--config", str(file), "config", "show", "--set").out


@pytest.mark.requirement("CLI-25")
def test_doctor_starts_nothing_and_says_what_to_do(listed: Discovery) -> None:
    before = listed.starts

    checks = listed("doctor", "--json").json["checks"]

    problems = {c["subject"]: c["hint"] for c in checks if c["level"] == "problem"}
    assert problems.keys() == {"server missing", "server secret"}
    assert all(problems.values())
    assert listed.starts == before


@pytest.mark.requirement("CLI-25")
def test_doctor_shows_a_hundred_checks_that_are_alike_and_counts_the_others(
    discovery: Discovery,
) -> None:
    discovery.configure(**{f"server{n}": {"command": "no-such-program"} for n in range(150)})

    done = discovery("doctor")

    assert done.out.count("[SERVER_CONNECTION_ERROR]") == 100
    assert "50 more [SERVER_CONNECTION_ERROR]" in done.err
    assert "150 problems" in done.err


@pytest.mark.requirement("CLI-25")
def test_doctor_lists_the_files_that_are_kept(discovery: Discovery) -> None:
    discovery("refresh")
    (discovery.home / "data" / "mine.txt").write_text("12345", "utf-8")
    (discovery.home / "data" / "clients").mkdir()

    files = {
        Path(one["path"]).name: one
        for one in discovery("doctor", "--files", "--json").json["files"]
    }
    shown = discovery("doctor", "--files").out

    assert all(name in shown for name in files)
    assert (files["mine.txt"]["bytes"], files["mine.txt"]["deletable"]) == (5, False)
    assert "not of this program" in files["mine.txt"]["purpose"]
    assert (files["registry.db"]["deletable"], files["clients"]["deletable"]) == (False, True)
    assert files["registry.db"]["bytes"] > 4096
    assert "your configuration" in files["discovery.yaml"]["purpose"]


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


@pytest.mark.requirement("CLI-26")
@rows(
    ("words", "found"),
    [
        pytest.param("discovery insp", ["inspect"], id="command"),
        pytest.param("discovery tools d", ["demo"], id="server"),
        pytest.param("discovery inspect ec", ["echo"], id="tool"),
        pytest.param("discovery execute demo:e", ["demo:echo"], id="tool of a server"),
        pytest.param("discovery search --tag a", ["any"], id="tag"),
        pytest.param("discovery execute demo e", ["echo"], id="tool after its server"),
        pytest.param("discovery execute demo echo text=1 t", ["tags=", "times="], id="argument"),
        pytest.param("discovery why demo:de", ["demo:delete_all"], id="hidden tool"),
        pytest.param("discovery why TOOL_D", ["TOOL_DISABLED"], id="code"),
        pytest.param("discovery logs --status TOOL_D", ["TOOL_DISABLED"], id="status"),
        pytest.param("discovery connect curs", ["cursor"], id="client"),
        pytest.param("discovery init --from curs", ["cursor"], id="client to read"),
        pytest.param("discovery config export --format ze", ["zed"], id="format"),
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


@pytest.mark.requirement("CLI-17")
def test_a_terminal_asks_for_missing_arguments(discovery: Discovery) -> None:
    discovery("refresh")

    done = discovery.at_terminal("execute", "demo:echo", typed="hello\n", after="What to say): ")
    silent = discovery("execute", "demo:echo")

    assert done.code == 0
    assert '{"text": "hello"}' in done.shown
    assert silent.code == 2
    assert "it takes echo(text: string" in silent.err


@pytest.mark.requirement("CLI-18")
def test_a_result_is_written_to_a_file(discovery: Discovery) -> None:
    text, image = discovery.home / "text.json", discovery.home / "image.png"

    said = discovery("execute", "demo:echo", "text=hello", "-o", str(text))
    discovery("execute", "demo:slow", "-o", str(image))
    failed = discovery("execute", "demo:boom", "-o", str(discovery.home / "nothing"))

    assert (said.out, text.read_text()) == ("", '{"text": "hello"}\n')
    assert image.read_bytes() == b"\0\0\0"
    assert failed.code == 3
    assert not (discovery.home / "nothing").exists()


@pytest.mark.requirement("ERR-1")
def test_a_code_is_explained(discovery: Discovery) -> None:
    done, form = discovery("why", "TOOL_DISABLED"), discovery("why", "TOOL_DISABLED", "--json").json

    assert "switched off by a rule" in done.out
    assert form["meaning"] in done.out
    assert discovery.starts == 0


@pytest.mark.requirement("CLI-25")
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


@pytest.mark.requirement("CLI-26")
def test_an_old_name_runs_the_command_and_names_the_new_one(listed: Discovery) -> None:
    checked, form = listed("config", "validate"), listed("lint", "--exit-zero", "--json")

    assert checked.code == 0
    assert "`config validate` is now `config check`" in checked.err
    assert "`lint` is now `tune lint`" in form.json["warnings"][0]
    assert form.err == ""


@pytest.mark.requirement("TRU-17")
def test_review_shows_everything_that_waits_and_accepts_nothing(
    tmp_path: Path, forked: Preloaded
) -> None:
    discovery = Discovery(tmp_path, forked)
    discovery.configure()
    config = tmp_path / "discovery.yaml"
    config.write_text(config.read_text().replace('"trust": "open"', '"trust": "quarantine"'))

    first, form, second = (discovery("review", *more) for more in ([], ["--json"], []))

    assert [first.code, second.code] == [4, 4]
    assert first.out == second.out
    assert "discovery review tools demo" in first.out
    assert [server["name"] for server in form.json["tools"]] == ["demo"]
    assert form.json["requests"] == []


@pytest.mark.requirement("CLI-26")
def test_the_help_of_every_command_is_pinned() -> None:
    shown = dict(helps(cli, ["discovery"]))

    if os.environ.get("UPDATE_HELP"):
        for name, text in shown.items():
            (HELP / name).write_text(text, encoding="utf-8")
    pinned = {file.name: file.read_text(encoding="utf-8") for file in HELP.iterdir()}
    assert shown.keys() == pinned.keys()
    assert [name for name, text in shown.items() if "\n    " not in text.split("Options:")[0]] == []
    for name, text in shown.items():
        assert ours(text) == ours(pinned[name])


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
