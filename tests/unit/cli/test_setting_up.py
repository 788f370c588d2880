"""The commands that set things up, each in a folder of its own."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.config.editing.edit import new_file
from discovery_engine.diagnostics import Origin
from discovery_engine.errors import ConfigurationError
from discovery_server import app
from discovery_server.http.guard import Endpoint
from tests.factories import (
    make_entry,
    make_part,
    make_problem,
    make_settings,
)
from tests.unit.cli.backends import FakeEngine, run, usual_view, view_of
from tests.unit.tools.validation.test_evaluation import chain

CURSOR = {"mcpServers": {"clock": {"command": "clock"}, "odd": {}}}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which there is a file of Cursor, and nothing else."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "DISCOVERY_CONFIG", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DISCOVERY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text(json.dumps(CURSOR))
    return tmp_path


@pytest.fixture
def someone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody sits at a terminal and can be asked."""
    monkeypatch.setattr("discovery_cli.client_files.may_ask", lambda: True)


def configure(text: str) -> None:
    Path("discovery.yaml").write_text(text)


def test_config_show_prints_a_configuration_that_loads_again(home: Path) -> None:
    configure("servers: {a: {command: x, env: {KEY: secret}}}\n")

    shown = run("config", "show").stdout
    configure(shown)

    assert "secret" not in shown
    assert shown.startswith(f"# {home / 'discovery.yaml'}\n")
    assert run("config", "show").stdout == shown


def test_config_show_without_a_file_shows_the_defaults() -> None:
    assert run("config", "show").stdout.startswith("# built-in defaults")
    assert json.loads(run("config", "show", "--json").stdout)["path"] is None


def test_config_validate_reports_broken_entries_warnings_and_findings() -> None:
    configure(
        "servers: {a: {command: [x]}}\n"
        "sources: [{type: zed}]\n"
        "toolRules: [{pattern: a, enabled: false}, {pattern: a, enabled: true}]\n"
    )
    engine = FakeEngine(usual_view())

    done = run("config", "validate", engine=engine)
    form = json.loads(run("config", "validate", "--json", engine=engine).stdout)

    assert done.exit_code == 2
    assert done.stdout.startswith("error: ")
    assert "warning: " in done.stdout
    assert "has entries that cannot be used: 1 server, 2 rules" in done.stderr
    assert [len(form[key]) for key in ("problems", "warnings")] == [1, 1]


def test_config_validate_of_a_good_file() -> None:
    configure("servers: {a: {command: x}}\n")

    done = run("config", "validate", recalled=usual_view())

    assert (done.exit_code, done.stdout) == (0, "")
    assert "can be used: 1 server, 0 rules" in done.stderr


def test_config_sources_names_what_came_from_where() -> None:
    configure("sources: [{type: cursor}, {type: zed}]\n")

    done = run("config", "sources")

    assert [line.split()[:4] for line in done.stdout.splitlines()] == [
        ["✓", "discovery.yaml", "0", "servers"],
        ["✓", "cursor", "2", "servers"],
        ["✗", "zed", "0", "servers"],
    ]
    assert done.stdout.splitlines()[1].endswith("mcp.json")
    assert "no file of Zed was found" in done.stderr


def test_config_schema_is_one_json_document() -> None:
    assert json.loads(run("config", "schema").stdout)["title"] == "discovery.yaml"


def test_config_path_is_the_path_or_where_it_was_looked_for(home: Path) -> None:
    nowhere = run("config", "path")
    configure("")

    assert nowhere.stdout == ""
    assert str(home / "discovery.yaml") in nowhere.stderr
    assert run("config", "path").stdout == f"{home / 'discovery.yaml'}\n"
    form = json.loads(run("config", "path", "--json").stdout)
    assert form["registry"] == str(home / "data" / "registry.db")


def test_config_reload_reports_what_is_known_now() -> None:
    done = run("config", "reload", engine=FakeEngine(usual_view()))
    form = json.loads(run("config", "reload", "--json", engine=FakeEngine(usual_view())).stdout)

    assert done.stderr == "2 servers, 5 tools known\n"
    assert (form["server_count"], form["tool_count"]) == (2, 5)


@pytest.mark.usefixtures("someone")
@pytest.mark.parametrize(
    ("answers", "has_source", "has_rules"),
    [
        pytest.param("y\ny\ny\n", True, True, id="everything"),
        pytest.param("n\nn\ny\n", False, False, id="as little as can be"),
    ],
)
def test_init_asks_what_to_use(answers: str, has_source: bool, has_rules: bool) -> None:
    done = run("init", input=answers)

    text = Path("discovery.yaml").read_text()
    assert done.exit_code == 0
    assert ("type: cursor" in text) is has_source
    assert ("toolRules:" in text) is has_rules
    assert ("  clock\n" in done.stderr) is has_source


@pytest.mark.requirement("CLI-41")
def test_init_names_what_its_servers_need_and_shows_no_value(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {
        "one": {"command": "x", "env": {"A": "${env:SET}", "B": "${env:UNSET}"}},
        "two": {"url": "https://a.invalid", "headers": {"X": "Bearer ${env:OTHER}"}},
        "off": {"command": "y", "env": {"A": "${env:UNUSED}"}, "disabled": True},
    }
    (home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    (home / ".mcp.json").write_text('{"mcpServers": {"shared": {"command": "z"}}}')
    monkeypatch.setenv("SET", "a-secret-value")

    done = run("init", "--yes")
    form = json.loads(run("init", "--yes", "--force", "--json").stdout)

    assert (
        "next: `discovery trust` approves what comes from a project's file: shared" in done.stderr
    )
    assert "next: `discovery secrets set` asks for what your servers refer to" in done.stderr
    assert "`export UNSET=… OTHER=…`" in done.stderr
    assert "beside PATH, with their values: SET, UNSET, OTHER" in done.stderr
    assert "a-secret-value" not in done.stderr + done.stdout
    assert form["needs"] == {
        "variables": ["SET", "UNSET", "OTHER"],
        "unset": ["UNSET", "OTHER"],
        "unapproved": ["shared"],
    }


@pytest.mark.requirement("CLI-41")
def test_init_names_no_need_where_there_is_none(home: Path) -> None:
    done = run("init", "--yes")

    assert "discovery trust" not in done.stderr
    assert "export" not in done.stderr
    assert "beside PATH" not in done.stderr


@pytest.mark.usefixtures("someone")
def test_init_writes_nothing_if_its_owner_does_not_want_it() -> None:
    done = run("init", input="y\ny\nn\n")

    assert "nothing was written to" in done.stderr
    assert not Path("discovery.yaml").exists()


@pytest.mark.usefixtures("someone")
def test_an_answer_that_does_not_come_is_an_interruption() -> None:
    assert run("init", input="").exit_code == 130


def test_init_takes_the_file_that_is_named_and_shows_its_problems(home: Path) -> None:
    (home / "mine.json").write_text('{"mcpServers": {"a": {"command": "x"}, "b": {}, " ": {}}}')

    done = run("init", "--from", "mine.json", "--yes")
    form = json.loads(run("init", "--from", "cursor", "--dry-run", "--json").stdout)

    assert f"path: {home / 'mine.json'}" in Path("discovery.yaml").read_text()
    assert "not used:" in done.stderr
    assert (form["written"], form["sources"]) == (False, ["cursor"])


def test_init_without_any_client_leaves_the_servers_to_its_owner(home: Path) -> None:
    (home / ".cursor" / "mcp.json").unlink()

    done = run("init", "--yes")

    assert "no configuration of another client was found" in done.stderr
    assert "servers: {}" in Path("discovery.yaml").read_text()


@pytest.mark.usefixtures("someone")
def test_import_asks_before_it_reads_and_before_it_writes() -> None:
    unread = run("import", input="n\n")
    unwritten = run("import", input="y\nn\n")
    written = run("import", input="y\ny\n")

    assert unread.stdout == ""
    assert "clock" in unwritten.stdout
    assert written.stderr.endswith("wrote 1 server into discovery.yaml\n")
    assert Path("discovery.schema.json").exists()
    assert "clock:" in Path("discovery.yaml").read_text()


def test_import_takes_only_what_is_wanted(home: Path) -> None:
    servers = {
        "a": {"command": "a"},
        "b": {"command": "b"},
        "k": {"command": "k", "args": ["--token", "t"]},
    }
    (home / "mine.json").write_text(json.dumps({"mcpServers": servers}))

    done = run("import", "--from", "mine.json", "--only", "b", "--only", "k", "--yes")

    assert done.stdout.splitlines()[0].split()[:2] == ["✓", "b"]
    assert "`sources: [{type: …}]`" in done.stderr
    assert "a:" not in Path("discovery.yaml").read_text().partition("servers:")[2]


@pytest.mark.requirement("CLI-21")
def test_import_leaves_the_bytes_that_stand_there() -> None:
    before = b"\xef\xbb\xbfservers:\r\n  own: {command: mine}  # kept\r\n"
    Path("discovery.yaml").write_bytes(before)

    run("import", "--from", "cursor", "--yes")

    after = Path("discovery.yaml").read_bytes()
    assert after.startswith(before)
    assert b"\r\n  clock:\r\n" in after


def test_import_where_there_is_nothing_to_import(home: Path) -> None:
    (home / ".cursor" / "mcp.json").unlink()

    done = run("import", "--yes")

    assert "no configuration of another MCP client was found" in done.stderr
    assert not Path("discovery.yaml").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(["--from", "zed"], "no file of Zed was found", id="no such file"),
        pytest.param(["--from", "odd.json"], "it is not UTF-8 text", id="no text"),
        pytest.param(
            ["--only", "clokc"],
            "no server 'clokc' to import, did you mean 'clock'?",
            id="no server",
        ),
    ],
)
def test_import_of_what_is_not_there_leaves_with_2(home: Path, words: list[str], told: str) -> None:
    (home / "odd.json").write_bytes(b"{\xff}")

    done = run("import", *words, "--yes")

    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr
    assert not Path("discovery.yaml").exists()


def test_import_refuses_what_is_neither_client_nor_file() -> None:
    assert "is neither a client nor a file" in run("import", "--from", "/xyzzy").stderr


def test_a_text_that_would_not_load_is_not_written(home: Path) -> None:
    configure("servers: {}\n")

    with pytest.raises(ConfigurationError):
        new_file(home / "discovery.yaml", "servers: 1\n")

    assert Path("discovery.yaml").read_text() == "servers: {}\n"


def test_nobody_is_asked_where_that_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCOVERY_NO_PROMPT", "1")

    done = run("init", input="y\ny\ny\n")

    assert done.exit_code == 2
    assert "use --yes to write the file" in done.stderr


def test_doctor_reports_on_everything() -> None:
    configure("servers: {a: {command: no-such-program}, b: {url: 'http://localhost/${UNSET_X}'}}\n")

    done = run("doctor", engine=real_view_engine())

    assert done.exit_code == 7
    assert "✗  server a" in done.stdout
    assert "✗  server b" in done.stdout
    assert "files of Cursor are there" in done.stdout


@pytest.mark.requirement("EVA-40")
def test_doctor_names_tools_whose_schema_is_too_costly_to_check() -> None:
    takes = chain("allOf", links=30)
    tool = make_entry("knot", "a", inputSchema=takes)
    off = make_entry("off", "a", enabled=False, inputSchema=takes)
    view = view_of(make_settings("a"), make_part("a", tool, off))

    done = run("doctor", engine=FakeEngine(view))

    assert "arguments may reach them unchecked: a:knot [TOOL_SCHEMA_COSTLY]\n" in done.stdout


def test_doctor_online_refreshes_first() -> None:
    engine = FakeEngine(usual_view())

    run("doctor", "--online", engine=engine)

    assert engine.asked == [["github", "time"]]


def test_doctor_goes_on_without_a_configuration() -> None:
    class Broken(FakeEngine):
        @property
        def view(self) -> Any:
            raise ConfigurationError([make_problem(Origin("f", 1, 1), "a", "wrong", "mend it")])

        @view.setter
        def view(self, _: Any) -> None: ...

    done = run("doctor", engine=Broken(usual_view()))

    assert done.exit_code == 7
    assert "f:1:1: a: wrong" in done.stdout
    assert "hint: mend it" in done.stdout


def real_view_engine() -> FakeEngine:
    """An engine with the configuration of the working folder, and nothing known."""
    from discovery_engine.config.loading.loader import load_settings
    from tests.unit.cli.backends import view_of

    return FakeEngine(view_of(load_settings()))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str) -> None:
    done = run("completion", shell)
    form = json.loads(run("completion", shell, "--json").stdout)

    assert "_DISCOVERY_COMPLETE" in done.stdout
    assert form["script"] + "\n" == done.stdout
    assert f"discovery completion {shell}" in form["install"]


@pytest.mark.requirement("SRV-15")
@pytest.mark.parametrize(
    ("words", "called"),
    [
        pytest.param([], ("stdio",), id="stdio by default"),
        pytest.param(["--stdio"], ("stdio",), id="stdio"),
        pytest.param(["--http", "127.0.0.1:8080"], ("http", "127.0.0.1", 8080), id="http"),
        pytest.param(["--http", ":0"], ("http", "127.0.0.1", 0), id="any port here"),
        pytest.param(["--http", "[::1]:80"], ("http", "::1", 80), id="IPv6"),
    ],
)
def test_serve_hands_over_to_the_server(
    words: list[str], called: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Any, ...]] = []

    async def stdio(config: str | None, **_: Any) -> None:
        calls.append(("stdio",))

    async def http(
        config: str | None, endpoint: Endpoint, *, on_listening: Any, **options: Any
    ) -> None:
        on_listening("http://there/mcp", "")
        calls.append(("http", endpoint.host, endpoint.port))

    monkeypatch.setattr(app, "serve_stdio", stdio)
    monkeypatch.setattr(app, "serve_http", http)
    monkeypatch.setenv("DISCOVERY_TOKEN", "a-token-of-some-length")
    configure("servers: {}\n")

    done = run("serve", *words)

    assert done.exit_code == 0
    assert calls == [called]
    if called[0] == "http":
        address, _, entry = done.stderr.splitlines()
        assert address == "serving MCP at http://there/mcp"
        assert json.loads(entry)["mcpServers"]["discovery"] == {
            "type": "http",
            "url": "http://there/mcp",
            "headers": {"Authorization": "Bearer ${DISCOVERY_TOKEN}"},
        }
    else:
        assert done.stderr == ""


class Keyboard(io.BytesIO):
    def isatty(self) -> bool:
        return True


def test_serve_tells_a_person_at_the_keyboard_that_an_agent_is_expected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def stdio(config: str | None, **_: Any) -> None:
        pass

    monkeypatch.setattr(app, "serve_stdio", stdio)
    configure("servers: {}\n")

    assert run("serve", input=Keyboard()).stderr.startswith("note: ")
    assert run("serve", input=io.BytesIO()).stderr == ""


@pytest.mark.requirement("SRV-10", "SRV-24")
@pytest.mark.parametrize(
    ("words", "warning"),
    [
        pytest.param(["0.0.0.0:80", "--allow-remote"], "put a TLS proxy", id="remote"),
        pytest.param(["127.0.0.1:80", "--no-token"], "no token is asked for", id="no token"),
        pytest.param(["127.0.0.1:80"], "", id="neither"),
    ],
)
def test_serve_warns_of_what_leaves_it_open(
    words: list[str], warning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def http(config: str | None, endpoint: Endpoint, *, on_listening: Any, **_: Any) -> None:
        assert endpoint.allow_remote is ("--allow-remote" in words)
        on_listening("http://somewhere/mcp", "")

    monkeypatch.setattr(app, "serve_http", http)
    monkeypatch.setenv("DISCOVERY_TOKEN", "a-token-of-some-length")

    done = run("serve", "--http", *words)

    assert done.exit_code == 0
    assert ("warning: " in done.stderr) is bool(warning)
    assert warning in done.stderr


@pytest.mark.requirement("SRV-16")
def test_serve_hands_over_the_names_that_it_may_be_called_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called: list[tuple[str, ...]] = []

    async def http(config: str | None, endpoint: Endpoint, **_: Any) -> None:
        called.append(endpoint.allowed_hosts)

    monkeypatch.setattr(app, "serve_http", http)
    monkeypatch.setenv("DISCOVERY_TOKEN", "a-token-of-some-length")

    run("serve", "--http", "127.0.0.1:0", "--allowed-host", "a.b", "--allowed-host", "c-d")

    assert called == [("a.b", "c-d")]


@pytest.mark.requirement("SRV-10")
def test_the_refusal_to_serve_other_machines_says_how_to_allow_it() -> None:
    done = run("serve", "--http", "0.0.0.0:0")

    assert done.exit_code == 2
    assert "use `--allow-remote`" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--http", "8080"], id="no host"),
        pytest.param(["--http", "a:99999"], id="no such port"),
        pytest.param(["--http", "a:b"], id="no number"),
        pytest.param(["--stdio", "--http", "a:1"], id="both"),
        pytest.param(["--allow-remote"], id="remote on stdio"),
        pytest.param(["--allowed-host", "a"], id="name on stdio"),
        pytest.param(["--no-token"], id="no token on stdio"),
        pytest.param(["--token-file", "a"], id="token on stdio"),
        pytest.param(["--http", ":1", "--no-token", "--new-token"], id="no token and a new one"),
        pytest.param(["--http", ":1", "--no-token", "--token-file", "a"], id="no token and one"),
        pytest.param(["--http", ":1", "--new-token", "--token-file", "a"], id="two tokens"),
        pytest.param(["--http", "a:1", "--allowed-host", "a:1"], id="name with a port"),
        pytest.param(["--http", "a:1", "--allowed-host", "http://a"], id="address for a name"),
    ],
)
def test_serve_refuses_what_is_no_address(words: list[str]) -> None:
    assert run("serve", *words).exit_code == 2
