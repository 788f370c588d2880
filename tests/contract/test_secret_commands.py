"""Values that a program of the owner's writes: `${command:[…]}` of specs/secrets.md."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from discovery_engine import ConfigurationError
from tests.contract.discovery import Discovery
from tests.engines import Folder
from tests.forked import Preloaded
from tests.servers.programs import eventually

VALUE = "s3cr3t-canary-0123456789"
LISTENS = """
import os, pathlib, runpy, sys
pathlib.Path(os.environ["SEEN"]).write_text(os.environ["TOKEN"])
runpy.run_path(sys.argv[1], run_name="__main__")
"""
READING = (
    *("list", "list --status", "config show", "config validate", "inspect listens", "health"),
    *("search say", "secrets list", "trust", "tools listens", "lint"),
)


def written(*argv: str) -> str:
    words = json.dumps(argv).replace("}", r"\u007d")
    return f"${{command:{words}}}"


def shell(code: str) -> str:
    return written("/bin/sh", "-c", code)


@pytest.fixture
def discovery(tmp_path: Path, forked: Preloaded) -> Discovery:
    return Discovery(tmp_path, forked)


def vault_in(folder: Path) -> tuple[str, Path]:
    """A reference to what a program writes, which leaves a trace of each run; and that."""
    (folder / "vault").write_text(VALUE)
    ran = folder / "ran"
    return shell(f"echo x >> {ran}; cat {folder / 'vault'}"), ran


def configure(discovery: Discovery, token: str) -> Callable[[], str]:
    """A server that writes what it is given into a file; what reads that."""
    seen = discovery.home / "seen"
    env = {"TOKEN": token, "SEEN": str(seen), "STARTS": "${STARTS}"}
    args = ["-c", LISTENS, str(discovery.home / "upstream.py")]
    discovery.configure(listens={"command": sys.executable, "args": args, "env": env})
    return lambda: seen.read_text() if seen.exists() else ""


@pytest.mark.requirement("SEC-11")
def test_a_program_is_run_by_a_session_and_by_nothing_that_only_shows(
    discovery: Discovery,
) -> None:
    token, ran = vault_in(discovery.home)
    seen = configure(discovery, token)

    assert discovery("refresh", "listens").code == 0
    assert (seen(), ran.read_text()) == (VALUE, "x\n")
    shown = [discovery(*words.split()) for words in READING]
    assert ran.read_text() == "x\n"
    (discovery.home / "vault").write_text("another")
    discovery("refresh", "listens")

    assert seen() == "another"
    assert VALUE not in "".join(done.out + done.err for done in shown)
    files = [file for file in (discovery.home / "data").rglob("*") if file.is_file()]
    assert VALUE.encode() not in b"".join(file.read_bytes() for file in files)


@pytest.mark.requirement("SEC-12")
def test_no_file_but_the_owners_own_has_a_program_run(discovery: Discovery) -> None:
    token, ran = vault_in(discovery.home)
    entry = {"command": sys.executable, "args": ["-c", ""], "env": {"TOKEN": token}}
    project = discovery.home / "project"
    project.mkdir()
    (project / "discovery.yaml").write_text(json.dumps({"servers": {"found": entry}}), "utf-8")
    environ = {k: v for k, v in discovery.environ.items() if k != "DISCOVERY_CONFIG"}
    found = [
        discovery.forked(words.split(), cwd=project, environ=environ)
        for words in (
            "list",
            "refresh",
            "review servers",
            "review servers --yes",
            "refresh found",
            "doctor --online",
        )
    ]
    (discovery.home / "mcp.json").write_text(json.dumps({"mcpServers": {"other": entry}}), "utf-8")
    sources = [{"type": "custom", "path": "mcp.json"}]
    (discovery.home / "discovery.yaml").write_text(json.dumps({"sources": sources}), "utf-8")
    discovery("refresh")

    assert not ran.exists()
    assert "runs for servers of the owner's own configuration only" in found[-2].out


@pytest.mark.anyio
@pytest.mark.requirement("SEC-12")
async def test_nobody_adds_a_command_but_who_writes_the_file(folder: Folder) -> None:
    folder.config.write_text("servers: {}\n")
    text, ran = vault_in(folder.path)
    entry = {"command": sys.executable, "args": ["-c", ""], "env": {"TOKEN": f"x{text}"}}
    ways: list[dict[str, Any]] = [
        {"to": "registry"},
        {"to": "file", "source": "marketplace"},
        {"to": "file", "source": "setup"},
    ]

    async with folder.open() as engine:
        for way in ways:
            with pytest.raises(ConfigurationError, match="which runs a program"):
                await engine.servers.add("a", entry, **way)
        assert not engine.view.servers()

    assert (folder.config.read_text(), ran.exists()) == ("servers: {}\n", False)


@pytest.mark.requirement("SEC-12", "SEC-13")
def test_where_others_could_see_its_value_or_without_a_list_of_words_it_is_an_error(
    discovery: Discovery,
) -> None:
    token = written("pass", "show")
    visible: dict[str, Any] = {
        "program": {"command": token},
        "argument": {"command": "cat", "args": ["--token", token]},
        "folder": {"command": "cat", "cwd": token},
        "address": {"url": f"https://h/?key={token}"},
    }
    texts = ("pass show github", "", "[]", '"pass"', '["a", 1]', '["a\\nb"]', '{"a": 1}')
    malformed = {
        f"malformed{number}": {"command": "cat", "env": {"A": f"${{command:{text}}}"}}
        for number, text in enumerate(texts)
    }
    discovery.configure(**visible, **malformed)

    done = discovery("config", "check")

    assert done.code == 2
    said = done.out + done.err
    assert said.count("must not hold ${command:...}") == len(visible)
    assert [name for name in (*visible, *malformed) if f"servers.{name}." not in said] == []


@pytest.mark.requirement("SEC-13")
def test_a_program_gets_no_shell_and_no_secret_of_the_gateway(discovery: Discovery) -> None:
    marker, environ = discovery.home / "marker", discovery.home / "environ"
    words = [f"; touch {marker}", f"$(touch {marker})", f"`touch {marker}`", f"&& touch {marker}"]
    seen = configure(discovery, written("/bin/echo", *words))
    assert discovery("refresh", "listens").code == 0
    assert seen() == " ".join(words)
    assert not marker.exists()

    keys = ["vault", "-token", "s.abc", "--api-key=x1", "ghp_16C7e42F292c6912E7aa"]
    configure(discovery, written(*keys))
    shown = discovery("config", "show").out
    assert not any(one in shown for one in ("s.abc", "x1", "ghp_16C7"))

    configure(discovery, shell(f"env > {environ}; echo a"))
    own = dict.fromkeys(("DISCOVERY_SECRET_KEY", "DISCOVERY_TOKEN"), VALUE)
    assert discovery("refresh", "listens", VAULT_ADDR="here", **own).code == 0
    assert "VAULT_ADDR=here" in environ.read_text()
    assert VALUE not in environ.read_text()


FAILING = {
    "fails": ("cat {vault}; exit 3", "exited with status 3"),
    "lines": ("cat {vault}; echo; echo 1", "more than one line"),
    "return": ("printf 'a\\rb'", "more than one line"),
    "nothing": ("", "wrote nothing"),
    "empty": ("echo", "wrote nothing"),
    "endless": ("while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done", "more than 64 KiB"),
    "binary": ("printf '\\377\\376'", "not UTF-8"),
    "asks": ("read a && echo $a", "exited with status 1"),
    "hangs": ("sleep 600", "took more than"),
    "killed": ("kill -9 $$", "signal 9"),
    "leaves": ("sleep 600 & echo $! > {pid}; echo a", "took more than"),
}


@pytest.mark.anyio
@pytest.mark.requirement("SEC-13")
async def test_what_is_no_value_is_none_with_a_reason_that_quotes_nothing(
    folder: Folder,
) -> None:
    pid, vault = folder.path / "pid", folder.path / "vault"
    vault.write_text(VALUE)
    two = folder.path / "two"
    two.write_text("a\r\nX-Evil: 1\n")
    servers: dict[str, Any] = {
        name: {
            "command": "/bin/cat",
            "env": {
                "A": shell(
                    f"cat {vault} >&2; {code}".replace("{pid}", str(pid)).replace(
                        "{vault}", str(vault)
                    )
                )
            },
        }
        for name, (code, _) in FAILING.items()
    }
    servers["header"] = {"url": "http://127.0.0.1:9/", "headers": {"X-Key": f"${{file:{two}}}"}}
    folder.config.write_text(json.dumps({"servers": servers}), "utf-8")

    async with folder.open() as engine:
        report = await engine.refresh()

    reasons = {name: failure for name, failure in report.servers if failure}
    assert {failure.code for failure in reasons.values()} == {"SERVER_NEEDS_CONFIG"}
    for name, (_, reason) in FAILING.items():
        assert reason in reasons[name].message, name
    assert "has a line break, which a header cannot have" in reasons["header"].message
    assert VALUE not in repr(report)
    assert "Evil" not in repr(report)
    left = Path("/proc") / pid.read_text().strip() / "cmdline"
    await eventually(lambda: not left.exists() or left.read_bytes() == b"")
