"""What a person agreed to stays agreed to, whatever has a value when."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.config.files.location import scope_of
from discovery_engine.config.loading.loader import load_settings
from discovery_engine.config.settings import StdioTransport
from discovery_engine.runtime.restore import registry_path
from discovery_engine.trust.server_identity import earlier_identity
from tests.attacks.conftest import TRAP, Repository
from tests.forked import Preloaded

NOT_APPROVED = 4
NEEDS_VALUE = 6


@pytest.fixture
def person(tmp_path: Path, forked: Preloaded) -> Repository:
    """Somebody with a project to work in, and a server outside of it."""
    home, path = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    path.mkdir()
    (home / "srv.py").write_text(TRAP, "utf-8")
    return Repository(path, home, forked)


def entry(person: Repository, *args: str, **fields: object) -> JSONObject:
    script = str(person.home / "srv.py")
    return {"command": sys.executable, "args": [script, str(person.mark), *args], **fields}


def toml(person: Repository) -> str:
    command = entry(person)
    return (
        f"[mcp_servers.s]\ncommand = {json.dumps(command['command'])}\n"
        f"args = {json.dumps(command['args'])}\n"
    )


def as_json(key: str, **more: object) -> Callable[[Repository, JSONObject], str]:
    return lambda person, env: json.dumps({key: {"s": entry(person, env=env)}, **more})


def opencode(person: Repository, env: JSONObject) -> str:
    command = entry(person)
    words = [command["command"], *command["args"]]
    return json.dumps({"mcp": {"s": {"type": "local", "command": words, "environment": env}}})


def of_continue(person: Repository, env: JSONObject) -> str:
    return json.dumps({"mcpServers": [entry(person, name="s", env=env)]})


INPUTS = [{"id": "my_token", "type": "promptString", "password": True}]
# Where each client keeps its file, how it refers to a variable there, and the file.
CLIENTS = {
    "claude-code": (".claude.json", "${MY_TOKEN}", as_json("mcpServers")),
    "cursor": (".cursor/mcp.json", "${env:MY_TOKEN}", as_json("mcpServers")),
    "vscode": ("config/Code/User/mcp.json", "${env:MY_TOKEN}", as_json("servers")),
    "windsurf": (".codeium/windsurf/mcp_config.json", "${env:MY_TOKEN}", as_json("mcpServers")),
    "gemini-cli": (".gemini/settings.json", "$MY_TOKEN", as_json("mcpServers")),
    "opencode": ("config/opencode/opencode.json", "{env:MY_TOKEN}", opencode),
    "continue": (".continue/config.yaml", "${{ secrets.MY_TOKEN }}", of_continue),
    "kiro": (".kiro/settings/mcp.json", "${MY_TOKEN}", as_json("mcpServers")),
    "copilot-cli": (".copilot/mcp-config.json", "${MY_TOKEN}", as_json("mcpServers")),
    "lm-studio": (".lmstudio/mcp.json", "${env:MY_TOKEN}", as_json("mcpServers")),
    "vscode inputs": (
        "config/Code/User/mcp.json",
        "${input:my_token}",
        as_json("servers", inputs=INPUTS),
    ),
}
LITERAL = {
    "claude-desktop": ("config/Claude/claude_desktop_config.json", as_json("mcpServers")),
    "zed": ("config/zed/settings.json", as_json("context_servers")),
    "codex": (
        ".codex/config.toml",
        lambda person, env: f"{toml(person)}env = {{ MY_TOKEN = {json.dumps(env['MY_TOKEN'])} }}",
    ),
    "cline": (
        "config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        as_json("mcpServers"),
    ),
}


def have(person: Repository, file: str, text: str) -> None:
    path = person.home / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def lacks(person: Repository, variable: str) -> None:
    """It is said which value is missing, and how to set it."""
    listed = person("list")
    assert f"${{{variable}}} is not set" in listed.err
    assert f"export {variable}=…" in listed.err
    assert "needs_config" in listed.out
    assert person("execute", "s:spring").code == NEEDS_VALUE
    assert not person.is_sprung


def lacks_everywhere(person: Repository, variable: str) -> None:
    """The same, each way to look at the server."""
    lacks(person, variable)
    assert "no server waits" in person("trust", "--yes").err
    assert f"${{{variable}}} is not set" in person("doctor").out
    assert f"export {variable}=…" in person("health", "s").out
    assert f"${{{variable}}} is not set" in person("refresh").out
    assert not person.is_sprung


def works(person: Repository, **environ: str) -> None:
    listed = person("list", **environ)
    assert "1 tool" in listed.out
    assert "needs_config" not in listed.out
    assert "no server waits" in person("trust", **environ).err
    assert person("execute", "s:spring", **environ).code == 0


@pytest.mark.thorough
@pytest.mark.requirement("TRU-4", "TRU-9")
@pytest.mark.parametrize("client", CLIENTS)
def test_a_missing_value_is_no_missing_consent(person: Repository, client: str) -> None:
    file, reference, text = CLIENTS[client]
    have(person, file, text(person, {"MY_TOKEN": reference}))
    variable = "INPUT_MY_TOKEN" if "input" in reference else "MY_TOKEN"

    assert person("init", "--from", client.partition(" ")[0], "--yes").code == 0

    lacks(person, variable)
    works(person, **{variable: "one"})
    works(person, **{variable: "another"})


@pytest.mark.thorough
@pytest.mark.requirement("TRU-4")
def test_every_command_says_which_value_is_missing(person: Repository) -> None:
    file, reference, text = CLIENTS["claude-code"]
    have(person, file, text(person, {"MY_TOKEN": reference}))
    assert person("init", "--from", "claude-code", "--yes").code == 0

    lacks_everywhere(person, "MY_TOKEN")
    works(person, MY_TOKEN="one")


@pytest.mark.thorough
@pytest.mark.requirement("TRU-4", "TRU-9")
@pytest.mark.parametrize("client", LITERAL)
def test_a_secret_that_was_not_copied_is_set_and_that_is_all(
    person: Repository, client: str
) -> None:
    file, text = LITERAL[client]
    have(person, file, text(person, {"MY_TOKEN": "literal-secret-of-a-client"}))

    done = person("import", "--from", client, "--yes")

    assert done.code == 0, done.err
    assert "MY_TOKEN" in done.err
    assert "literal-secret" not in (person.path / "discovery.yaml").read_text("utf-8")
    lacks(person, "MY_TOKEN")
    works(person, MY_TOKEN="one")


@pytest.mark.thorough
@pytest.mark.requirement("TRU-4")
def test_an_agent_reads_which_value_is_missing_and_no_path(person: Repository) -> None:
    key = person.home / "key"
    env = {"MY_TOKEN": "${MY_TOKEN}", "KEY": f"${{file:{key}}}"}
    person.configure(s=entry(person, env=env))
    person("trust", "--yes")

    answers = person.served(
        ("execute_tool", {"tool": "s:spring", "arguments": {}}), ("list_mcp_servers", {})
    )

    for answer in answers:
        assert "env.MY_TOKEN: ${MY_TOKEN} is not set" in str(answer)
        assert "env.KEY: its file cannot be read" in str(answer)
        assert str(person.home) not in str(answer)
    assert str(key) in person("list").err


PLACES = {
    "env": {"env": {"MY_TOKEN": "${MY_VALUE}"}},
    "env with more": {"env": {"MY_TOKEN": "Bearer ${MY_VALUE}!"}},
    "a secret argument": {"args": ["--token", "${MY_VALUE}"]},
    "a secret behind =": {"args": ["--api-key=${MY_VALUE}"]},
    "a variable as an argument": {"args": ["-e", "KEY=${MY_VALUE}"]},
    "an address": {"args": ["postgres://me:${MY_VALUE}@localhost/db"]},
    "a query": {"args": ["https://localhost/?key=${MY_VALUE}"]},
    "a name that says it": {"args": ["${MY_TOKEN}"]},
}


def at(person: Repository, place: JSONObject) -> JSONObject:
    return entry(person, *place.get("args", ()), **{k: v for k, v in place.items() if k != "args"})


@pytest.mark.thorough
@pytest.mark.requirement("TRU-4")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("order", ["set first", "set later"])
def test_values_of_secrets_may_come_and_change(person: Repository, place: str, order: str) -> None:
    person.configure(s=at(person, PLACES[place]))
    first = {} if order == "set later" else {"MY_VALUE": "one", "MY_TOKEN": "one"}
    assert person("trust", "--yes", **first).code == 0

    for value in ("one", "two"):
        assert person("refresh", MY_VALUE=value, MY_TOKEN=value).code == 0
    assert person("refresh").code == NEEDS_VALUE
    assert person("refresh", MY_VALUE="three", MY_TOKEN="three").code == 0


@pytest.mark.thorough
@pytest.mark.requirement("TRU-3", "TRU-4")
@pytest.mark.parametrize(
    "args", [["${MY_VALUE}"], ["--root=${MY_VALUE}"], ["https://${MY_VALUE}/x"], ["{${MY_VALUE}}"]]
)
@pytest.mark.parametrize("order", ["set first", "set later"])
def test_a_value_that_selects_what_runs_is_bound_once_it_is_there(
    person: Repository, args: list[str], order: str
) -> None:
    person.configure(s=entry(person, *args))
    first = {} if order == "set later" else {"MY_VALUE": "one"}
    assert person("trust", "--yes", **first).code == 0

    assert person("refresh", MY_VALUE="one").code == 0
    assert person("refresh").code == NEEDS_VALUE
    assert person("refresh", MY_VALUE="one").code == 0
    changed = person("refresh", MY_VALUE="two")

    assert changed.code == NOT_APPROVED
    assert "the value in args.2 changed since it was approved on" in changed.err
    assert person("trust", "--yes", MY_VALUE="two").code == 0
    assert person("refresh", MY_VALUE="two").code == 0
    assert person("refresh", MY_VALUE="one").code == 0


@pytest.mark.thorough
@pytest.mark.requirement("TRU-3")
@pytest.mark.parametrize("command", ["${MY_VALUE}", "${MY_VALUE:-/bin/true}"])
def test_a_command_by_reference_is_bound_to_its_program(person: Repository, command: str) -> None:
    person.configure(s=entry(person) | {"command": command})
    assert person("trust", "--yes", MY_VALUE=sys.executable).code == 0

    assert person("refresh", MY_VALUE=sys.executable).code == 0
    assert person("refresh", MY_VALUE="/bin/sh").code == NOT_APPROVED


@pytest.mark.thorough
@pytest.mark.requirement("TRU-3")
@pytest.mark.parametrize(
    ("url", "same", "other"),
    [
        ("${MY_VALUE}", "http://127.0.0.1:9/mcp?key=2", "http://localhost:9/mcp"),
        ("http://${MY_VALUE}:9/mcp", "127.0.0.1", "127.0.0.2"),
        ("http://127.0.0.1:9/${MY_VALUE}", "mcp", "other"),
        ("http://${MY_VALUE}@127.0.0.1:9/mcp", "u:new", "127.0.0.2/"),
        ("http://127.0.0.1:9/mcp?key=${MY_VALUE}", "new", None),
    ],
)
def test_a_reference_in_an_address_is_bound_where_it_selects_whom_it_reaches(
    person: Repository, url: str, same: str, other: str | None
) -> None:
    person.configure(s={"url": url})
    first = same.replace("key=2", "key=1").replace("new", "old")
    assert person("trust", "--yes", MY_VALUE=first).code == 0

    assert person("refresh", MY_VALUE=same).code not in (0, NOT_APPROVED)
    if other is not None:
        assert person("refresh", MY_VALUE=other).code == NOT_APPROVED


@pytest.mark.requirement("TRU-4")
def test_a_program_may_be_installed_after_it_was_approved(person: Repository) -> None:
    person.configure(s=entry(person) | {"command": "my-interpreter"})
    bin_ = person.home / "bin"
    path = f"{bin_}:{os.environ['PATH']}"
    assert "not found yet" in person("trust", "--yes", PATH=path).out
    assert "is not on the PATH" in person("refresh", PATH=path).out
    bin_.mkdir()
    (bin_ / "my-interpreter").symlink_to(sys.executable)

    assert person("refresh", PATH=path).code == 0
    other = person.home / "other"
    other.mkdir()
    (other / "my-interpreter").symlink_to(sys.executable)
    assert person("refresh", PATH=f"{other}:{path}").code == NOT_APPROVED


@pytest.mark.thorough
@pytest.mark.requirement("TRU-4")
@pytest.mark.parametrize("steps", list(itertools.permutations(("list", "trust", "health"))))
def test_the_order_of_commands_does_not_matter(person: Repository, steps: tuple[str, ...]) -> None:
    person.configure(s=entry(person, env={"MY_TOKEN": "${MY_TOKEN}"}))
    assert person("trust", "--yes").code == 0

    for step, value in itertools.product(steps, (None, "x")):
        environ = {"MY_TOKEN": value} if value else {}
        text = (done := person(step, **environ)).out + done.err
        assert "untrusted" not in text
        assert "approved" not in text.replace("no server waits for approval", "")


@pytest.mark.requirement("TRU-51")
def test_an_approval_of_an_earlier_version_holds_and_binds_content_from_then_on(
    person: Repository,
) -> None:
    script = person.path / "srv.py"
    script.write_text(TRAP, "utf-8")
    given = entry(person, env={"T": "${T}"})
    person.configure(s={**given, "args": [str(script), *given["args"][1:]]})
    assert person("trust", "--yes").code == 0
    put_earlier_approval(person)

    assert person("refresh", T="1").code == 0
    assert person("refresh").code == NEEDS_VALUE
    script.write_text(TRAP + "\n", "utf-8")
    changed = person("refresh", T="1")

    assert changed.code == NOT_APPROVED
    assert "the file srv.py changed" in changed.err


@pytest.mark.requirement("TRU-51")
def test_an_approval_of_an_earlier_version_ends_with_another_entry(person: Repository) -> None:
    person.configure(s=entry(person))
    assert person("trust", "--yes").code == 0
    put_earlier_approval(person)
    person.configure(s=entry(person, "--more"))

    assert person("refresh").code == NOT_APPROVED


def put_earlier_approval(person: Repository) -> None:
    """Replace what is approved by the digest that an earlier version made of it."""
    config = person.path / "discovery.yaml"
    [server] = load_settings(config).servers
    transport = server.transport
    assert isinstance(transport, StdioTransport)
    resolved = replace(transport, env=dict.fromkeys(transport.env, ""))
    digest = earlier_identity(server, resolved, transport.command)
    file = registry_path(person.home / "data", {})
    with sqlite3.connect(file) as connection:
        changed = connection.execute(
            "UPDATE approvals SET identity = ? WHERE scope = ?", (digest, scope_of(config))
        )
        assert changed.rowcount == 1
    connection.close()
