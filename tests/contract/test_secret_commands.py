"""Values that a program of the owner's writes: `${command:[…]}` of specs/secrets.md."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.diagnostics import Origin
from discovery_engine.errors import ConfigurationError, NeedsConfigError, UntrustedServerError
from discovery_engine.secrets.command_outputs import CommandOutputs
from discovery_engine.secrets.references import (
    MalformedReferenceError,
    Reference,
    UnsetReference,
    references,
)
from discovery_engine.secrets.resolver import EnvironmentResolver, resolve
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.connection import admitted_transport
from tests.contract.discovery import Discovery
from tests.engines import Folder
from tests.forked import Preloaded
from tests.rows import rows
from tests.servers.programs import eventually

VALUE = "s3cr3t-canary-0123456789"
LISTENS = """
import os, pathlib, runpy, sys
pathlib.Path(os.environ["SEEN"]).write_text(os.environ["TOKEN"])
runpy.run_path(sys.argv[1], run_name="__main__")
"""
WRITES = (
    "import pathlib; ran = pathlib.Path({ran!r}); ran.open('a').write('x');"
    " print(ran.with_name('vault').read_text())"
)


def written(*argv: str) -> str:
    words = json.dumps(argv).replace("}", r"\u007d")
    return f"${{command:{words}}}"


def python(code: str) -> str:
    return written(sys.executable, "-I", "-S", "-c", code)


def command(code: str) -> Reference:
    return Reference("command", json.dumps([sys.executable, "-I", "-S", "-c", code]))


@pytest.fixture
def discovery(tmp_path: Path, forked: Preloaded) -> Discovery:
    return Discovery(tmp_path, forked)


def vault_in(folder: Path) -> tuple[str, Path]:
    """A reference to what a program writes, which leaves a trace of each run; and that."""
    (folder / "vault").write_text(VALUE)
    ran = folder / "ran"
    return python(WRITES.format(ran=str(ran))), ran


def configure(discovery: Discovery) -> tuple[Callable[[], str], Path]:
    """A server that writes what it is given into a file; what reads that, and a trace of runs."""
    seen = discovery.home / "seen"
    token, ran = vault_in(discovery.home)
    env = {"TOKEN": token, "SEEN": str(seen), "STARTS": "${STARTS}"}
    args = ["-c", LISTENS, str(discovery.home / "upstream.py")]
    discovery.configure(listens={"command": sys.executable, "args": args, "env": env})
    return (lambda: seen.read_text() if seen.exists() else ""), ran


@pytest.mark.thorough
@pytest.mark.requirement("SEC-11")
def test_the_line_that_a_program_writes_reaches_the_server_that_refers_to_it(
    discovery: Discovery,
) -> None:
    seen, ran = configure(discovery)

    done = discovery("refresh", "listens")

    assert (done.code, seen(), ran.read_text()) == (0, VALUE, "x")
    files = [file for file in (discovery.home / "data").rglob("*") if file.is_file()]
    assert VALUE.encode() not in b"".join(file.read_bytes() for file in files)


@pytest.mark.thorough
@pytest.mark.requirement("SEC-11")
def test_a_program_is_run_by_a_session_and_by_nothing_that_only_shows(
    discovery: Discovery,
) -> None:
    configure(discovery)
    discovery("refresh", "listens")
    ran = discovery.home / "ran"
    ran.unlink()

    shown = [
        discovery(*words.split())
        for words in (
            "list",
            "list --status",
            "config show",
            "config validate",
            "inspect listens",
            "health",
            "search say",
            "secrets list",
            "trust",
            "tools listens",
            "lint",
        )
    ]

    assert not ran.exists()
    assert not any("Traceback" in done.err for done in shown)
    assert VALUE not in "".join(done.out + done.err for done in shown)


@pytest.mark.thorough
@pytest.mark.requirement("SEC-12")
def test_a_file_that_was_found_runs_no_program_approved_or_not(
    discovery: Discovery, tmp_path: Path
) -> None:
    discovery.configure()
    project = tmp_path / "project"
    project.mkdir()
    token, ran = vault_in(tmp_path)
    entry = {"command": sys.executable, "args": ["-c", ""], "env": {"TOKEN": token}}
    (project / "discovery.yaml").write_text(json.dumps({"servers": {"found": entry}}), "utf-8")
    environ = {k: v for k, v in discovery.environ.items() if k != "DISCOVERY_CONFIG"}

    outputs = [
        discovery.forked(words.split(), cwd=project, environ=environ)
        for words in ("list", "refresh", "trust", "trust --yes", "refresh found", "doctor --online")
    ]

    assert not ran.exists()
    assert "runs for servers of the owner's own configuration only" in outputs[-2].out


@pytest.mark.requirement("SEC-12")
@pytest.mark.parametrize(
    "server",
    [
        pytest.param({"source": "registry"}, id="a server of the registry"),
        pytest.param({"source": "cursor"}, id="a server of another client"),
        pytest.param({"is_untrusted_origin": True}, id="a server of a found file"),
    ],
)
def test_only_an_entry_of_the_owners_own_file_has_a_program_run(
    tmp_path: Path, server: dict[str, Any]
) -> None:
    text, ran = vault_in(tmp_path)
    transport = StdioTransport("/bin/cat", env={"TOKEN": text})
    entry = ServerSettings(ServerName("a"), transport, **server)
    owners = ServerSettings(ServerName("b"), transport)
    secrets = EnvironmentResolver(os.environ)

    given = admitted_transport(owners, secrets, lambda _, __: None)  # its value is known by now
    with pytest.raises(NeedsConfigError, match="owner's own configuration only"):
        admitted_transport(entry, secrets, lambda _, __: None)

    assert isinstance(given, StdioTransport)
    assert given.env == {"TOKEN": VALUE}
    assert ran.read_text() == "x"


@pytest.mark.requirement("SEC-12")
def test_a_server_that_is_not_admitted_has_no_program_run(tmp_path: Path) -> None:
    text, ran = vault_in(tmp_path)
    server = ServerSettings(ServerName("a"), RemoteTransport("https://h/", {"X-Key": text}))

    def admit(server: ServerSettings, _: object) -> None:
        raise UntrustedServerError(server.name, "unpinned")

    with pytest.raises(UntrustedServerError):
        admitted_transport(server, EnvironmentResolver(os.environ), admit)

    assert not ran.exists()


@pytest.mark.thorough
@pytest.mark.requirement("SEC-12")
@pytest.mark.parametrize(
    "entry",
    [
        pytest.param({"command": "TOKEN"}, id="the program"),
        pytest.param({"command": "cat", "args": ["--token", "TOKEN"]}, id="an argument"),
        pytest.param({"command": "cat", "cwd": "TOKEN"}, id="the folder"),
        pytest.param({"url": "https://h/?key=TOKEN"}, id="an address"),
    ],
)
def test_where_others_could_see_it_a_program_is_refused(
    discovery: Discovery, entry: dict[str, Any]
) -> None:
    text = json.dumps(entry).replace("TOKEN", '${command:[\\"pass\\", \\"show\\"]}')
    discovery.configure(shows=json.loads(text))

    done = discovery("config", "validate")

    assert done.code == 2
    assert "must not hold ${command:...}" in done.out + done.err


@pytest.mark.thorough
@pytest.mark.requirement("SEC-13")
@rows(
    ("code", "reason"),
    [
        pytest.param(
            f"print({VALUE!r}); raise SystemExit(3)", "exited with status 3", id="a failure"
        ),
        pytest.param(f"print({VALUE!r}); print(1)", "more than one line", id="two lines"),
        pytest.param("print('a\\rb')", "more than one line", id="a carriage return"),
        pytest.param("print('a\\0b')", "more than one line", id="a zero character"),
        pytest.param("", "wrote nothing", id="nothing"),
        pytest.param("print()", "wrote nothing", id="an empty line"),
        pytest.param("print('x' * 70_000)", "more than 64 KiB", id="too much"),
        pytest.param("while True: print('x' * 4096)", "more than 64 KiB", id="without end"),
        pytest.param("import os; os.write(1, b'\\xff\\xfe')", "not UTF-8", id="no text"),
        pytest.param("input(); print('a')", "exited with status 1", id="it wants to ask"),
        pytest.param("import time; time.sleep(60)", "took more than", id="it hangs"),
        pytest.param(
            "import os; os.close(1); __import__('time').sleep(60)", "took more", id="mute"
        ),
        pytest.param("import os; os.kill(os.getpid(), 9)", "signal 9", id="it is killed"),
    ],
)
def test_what_cannot_be_a_value_is_none_with_a_reason_that_quotes_nothing(
    code: str, reason: str
) -> None:
    outputs = CommandOutputs(os.environ, timeout=2.0 if "took more" in reason else 60.0)
    code = f"import sys; sys.stderr.write({VALUE!r})\n{code}"

    outputs.run(command(code), None)
    with pytest.raises(UnsetReference, match=reason) as raised:
        outputs.value(command(code), None)

    assert VALUE not in raised.value.reason


@pytest.mark.thorough
@pytest.mark.requirement("SEC-13")
@pytest.mark.anyio
async def test_a_program_that_leaves_another_behind_is_ended_with_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = (
        "import os, pathlib, subprocess, sys\n"
        "left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(pid)!r}).write_text(str(left.pid))\nprint('a')"
    )
    outputs = CommandOutputs(os.environ, timeout=5.0)  # two interpreters start meanwhile

    outputs.run(command(code), None)

    with pytest.raises(UnsetReference, match="took more than"):
        outputs.value(command(code), None)
    left = Path("/proc") / pid.read_text() / "cmdline"
    await eventually(lambda: not left.exists() or left.read_bytes() == b"")


@pytest.mark.thorough
@pytest.mark.requirement("SEC-13")
def test_a_daemon_that_keeps_the_pipe_open_holds_up_nobody(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = (
        "import pathlib, subprocess, sys\n"
        "left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        " start_new_session=True)\n"
        f"pathlib.Path({str(pid)!r}).write_text(str(left.pid))\nprint('a')"
    )
    outputs = CommandOutputs(os.environ, timeout=5.0)  # two interpreters start meanwhile

    outputs.run(command(code), None)

    with pytest.raises(UnsetReference, match="took more than"):
        outputs.value(command(code), None)
    os.kill(int(pid.read_text()), signal.SIGKILL)


@pytest.mark.requirement("SEC-13")
def test_a_program_gets_no_secret_of_the_gateway_itself(tmp_path: Path) -> None:
    own = {"DISCOVERY_SECRET_KEY": VALUE, "DISCOVERY_TOKEN": VALUE, "VAULT_ADDR": "here"}
    own |= {"DISCOVERY_SECRETS_PASSPHRASE": VALUE, "DISCOVERY_SECRET_NEW_KEY": VALUE}
    outputs = CommandOutputs({**os.environ, **own})
    reference = command("import json, os; print(json.dumps(dict(os.environ)))")

    outputs.run(reference, str(tmp_path))

    given = outputs.value(reference, str(tmp_path))
    assert VALUE not in given
    assert json.loads(given)["VAULT_ADDR"] == "here"


@pytest.mark.requirement("SEC-13")
@rows(
    "text",
    [
        "${command:pass show github}",
        "${command:}",
        "${command:[]}",
        '${command:[""]}',
        '${command:"pass"}',
        '${command:["a", 1]}',
        '${command:["a\\u0000"]}',
        '${command:["a\\nb"]}',
        '${command:[["a"]]}',
        '${command:{"a": 1}}',
    ],
)
def test_a_command_is_a_list_of_words_for_there_is_no_shell(text: str) -> None:
    with pytest.raises(MalformedReferenceError):
        references(text)


@pytest.mark.requirement("SEC-13")
def test_no_word_of_a_command_is_read_by_a_shell(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    words = [f"; touch {marker}", f"$(touch {marker})", f"`touch {marker}`", f"&& touch {marker}"]
    outputs = CommandOutputs(os.environ)
    reference = Reference("command", json.dumps(["/bin/echo", *words]))

    outputs.run(reference, str(tmp_path))

    assert outputs.value(reference, str(tmp_path)) == " ".join(words)
    assert not marker.exists()


@pytest.mark.requirement("SEC-13")
def test_a_word_of_a_command_that_may_be_a_secret_is_hidden() -> None:
    [reference] = references(
        '${command:["vault", "-token", "s.abc", "--api-key=x1", "ghp_16C7e42F292c6912E7aa"]}'
    )

    assert reference.redacted() == (
        '${command:["vault", "-token", "••••", "--api-key=••••", "••••"]}'
    )


@pytest.mark.requirement("SEC-12")
def test_nothing_but_a_variable_a_header_or_oauth_has_the_value_of_a_program() -> None:
    secrets, text = EnvironmentResolver(os.environ), python("print('a')")
    [reference] = references(text)
    secrets.run(reference, base_dir=None)

    with pytest.raises(UnsetReference, match="of a server only"):
        resolve(text, secrets)

    assert resolve(text, secrets, has_commands=True) == "a"


@pytest.mark.thorough
@pytest.mark.requirement("SEC-11")
@pytest.mark.anyio
async def test_every_session_gets_what_the_program_writes_then(folder: Folder) -> None:
    """A vault that was locked, and a token that was replaced."""
    vault = folder.data.parent / "vault"
    reads = written("cat", str(vault))
    seen = folder.data.parent / "seen"
    code = "import os, pathlib; pathlib.Path(os.environ['SEEN']).write_text(os.environ['TOKEN'])"
    env = {"TOKEN": reads, "SEEN": str(seen)}
    entry = {"command": sys.executable, "args": ["-c", code], "env": env}
    folder.config.write_text(json.dumps({"servers": {"a": entry}}), "utf-8")

    async with folder.open() as engine:
        with anyio.fail_after(60):
            locked = await engine.refresh(["a"])
            vault.write_text("one\n")
            await engine.refresh(["a"])
            first = seen.read_text()
            vault.write_text("two\n")
            await engine.refresh(["a"])

    assert "its command" in repr(locked)
    assert (first, seen.read_text()) == ("one", "two")


@pytest.mark.requirement("SEC-15")
def test_a_value_with_a_line_break_is_no_header(tmp_path: Path) -> None:
    (tmp_path / "two").write_text("a\r\nX-Evil: 1\n")
    origin = Origin(str(tmp_path / "discovery.yaml"))
    transport = RemoteTransport("https://h/", {"X-Key": "${file:two}", "X-Other": "${VARIABLE}"})
    server = ServerSettings(ServerName("a"), transport, origin=origin)

    with pytest.raises(NeedsConfigError) as raised:
        admitted_transport(server, EnvironmentResolver({"VARIABLE": "a\nb"}), lambda _, __: None)

    assert raised.value.reason.count("has a line break, which a header cannot have") == 2
    assert "Evil" not in str(raised.value)


@pytest.mark.requirement("SEC-12")
@pytest.mark.anyio
@pytest.mark.parametrize(
    "words",
    [
        pytest.param({"to": "registry"}, id="the registry"),
        pytest.param({"to": "file", "source": "marketplace"}, id="a marketplace, into the file"),
        pytest.param({"to": "file", "source": "setup"}, id="a setup file, into the file"),
    ],
)
async def test_nobody_adds_a_command_but_who_writes_the_file(
    folder: Folder, words: dict[str, Any]
) -> None:
    folder.config.write_text("servers: {}\n")
    text, ran = vault_in(folder.path)
    entry = {"command": sys.executable, "args": ["-c", ""], "env": {"TOKEN": f"x{text}"}}

    async with folder.open() as engine:
        with pytest.raises(ConfigurationError, match="which runs a program"):
            await engine.servers.add("a", entry, **words)
        assert not engine.view.servers()

    assert (folder.config.read_text(), ran.exists()) == ("servers: {}\n", False)


@pytest.mark.requirement("SEC-14")
@pytest.mark.parametrize(
    "name", ["DISCOVERY_SECRET_KEY", "DISCOVERY_SECRETS_PASSPHRASE", "DISCOVERY_SECRET_NEW_KEY"]
)
def test_no_server_is_given_the_key_of_the_store(name: str) -> None:
    secrets = EnvironmentResolver({name: VALUE, "OTHER": "x"})

    for text in (f"${{{name}}}", f"${{{name}:-y}}"):
        with pytest.raises(UnsetReference, match="for the secret store alone"):
            resolve(text, secrets)

    assert resolve("${OTHER}", secrets) == "x"
