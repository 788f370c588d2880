"""Stored secrets, as their owner and their servers see them: specs/secrets.md."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

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


@pytest.fixture
def discovery(tmp_path: Path, forked: Preloaded) -> Discovery:
    return Discovery(tmp_path, forked)


def configure(discovery: Discovery, token: str) -> Callable[[], str]:
    """A server that writes what it is given into a file; returns what reads that."""
    seen = discovery.home / "seen"
    env = {"TOKEN": token, "SEEN": str(seen), "STARTS": "${STARTS}"}
    args = ["-c", LISTENS, str(discovery.home / "upstream.py")]
    discovery.configure(listens={"command": sys.executable, "args": args, "env": env})
    return lambda: seen.read_text() if seen.exists() else ""


def stored(discovery: Discovery, **environ: str) -> list[str]:
    listed = discovery("secrets", "list", "--json", **environ)
    return [one["name"] for one in json.loads(listed.out)["secrets"]]


@pytest.mark.requirement("SEC-1", "SEC-3")
def test_a_stored_secret_reaches_its_server_and_no_other(discovery: Discovery) -> None:
    seen = configure(discovery, "x${secret:TOKEN}:${secret:listens/KEY}y")
    missing = discovery("execute", "listens", "echo", "--json")
    typed = discovery.at_terminal(
        "secrets", "set", "TOKEN", typed=VALUE + "\n", after="value of TOKEN"
    )
    done = discovery("secrets", "set", "listens/KEY", stdin="ä\n")
    assert discovery("refresh", "listens").code == 0
    assert seen() == f"x{VALUE}:äy"
    configure(discovery, "${secret:demo/KEY}")
    discovery("secrets", "set", "demo/KEY", stdin=VALUE)
    others = discovery("refresh", "listens")

    error = json.loads(missing.err)["error"]
    assert (missing.code, error["code"]) == (6, "SERVER_NEEDS_CONFIG")
    assert "${secret:TOKEN} is not stored" in error["message"]
    assert "discovery secrets set" in error["hint"]
    assert (typed.code, done.code) == (0, 0)
    assert VALUE not in typed.shown
    assert others.code == 6
    assert "is kept for demo alone" in others.out + others.err


@pytest.mark.requirement("OWN-25")
def test_values_that_servers_wait_for_are_asked_for_at_a_terminal_alone(
    discovery: Discovery,
) -> None:
    seen = configure(discovery, "${NOBODY_SET}")

    refused = discovery("secrets", "set", stdin=VALUE + "\n")
    typed = discovery.at_terminal(
        "secrets", "set", typed=VALUE + "\n", after="value of NOBODY_SET for listens"
    )

    assert (refused.code, typed.code, seen()) == (2, 0, VALUE)
    assert VALUE not in typed.shown
    assert "${secret:listens/NOBODY_SET}" in (discovery.home / "discovery.yaml").read_text()
    assert "no server waits for a value" in discovery.at_terminal("secrets", "set").shown


@pytest.mark.requirement("SEC-3")
def test_what_cannot_be_a_secret_is_refused_and_not_repeated(discovery: Discovery) -> None:
    table = [
        ("TOKEN", "", "is empty"),
        ("TOKEN", "\r\n", "is empty"),
        ("TOKEN", f"{VALUE}\nb", "a line break"),
        ("TOKEN", f"{VALUE}\rb", "a line break"),
        ("TOKEN", f"{VALUE}\0b", "a zero character"),
        ("TOKEN", VALUE * 3_000, "more than 64 KiB"),
        (f"{VALUE}!", "a", "no name of a secret"),
        (f"TOKEN={VALUE}", "a", "no name of a secret"),
        ("a/b/c", "a", "no name of a secret"),
    ]

    for name, value, reason in table:
        done = discovery("secrets", "set", name, stdin=value)
        assert (done.code, done.out) == (2, ""), (name, reason)
        assert reason in done.err
        assert VALUE not in done.err

    assert not (discovery.home / "data" / "secrets.json").exists()


@pytest.mark.requirement("SEC-4")
def test_a_list_shows_what_is_stored_and_missing_and_nothing_of_a_value(
    discovery: Discovery,
) -> None:
    configure(discovery, "${secret:TOKEN}:${secret:GONE}")
    args = ["-c", "", "--token", "${secret:TOKEN}"]
    text = (discovery.home / "discovery.yaml").read_text("utf-8")
    servers = yaml.safe_load(text)["servers"] | {"argued": {"command": "true", "args": args}}
    (discovery.home / "discovery.yaml").write_text(json.dumps({"servers": servers}), "utf-8")
    for name, value in [("TOKEN", VALUE), ("other", VALUE), ("unused", "short")]:
        discovery("secrets", "set", name, stdin=value)

    shown, listed = discovery("secrets", "list"), discovery("secrets", "list", "--json")
    checks = discovery("doctor", "--json").json["checks"]
    path = discovery.home / "data" / "secrets.json"
    document = json.loads(path.read_text())
    document["secrets"]["secret/other"] = document["secrets"]["secret/TOKEN"]
    path.write_text(json.dumps(document))
    damaged = discovery("secrets", "list")

    assert listed.json["secrets"] == [
        {"name": "TOKEN", "length": "8 to 31", "servers": ["listens", "argued"]},
        {"name": "other", "length": "8 to 31", "servers": []},
        {"name": "unused", "length": "fewer than 8", "servers": []},
    ]
    assert listed.json["missing"] == [{"name": "GONE", "servers": ["listens"]}]
    assert "discovery secrets set GONE" in shown.err
    assert not any(piece in shown.out + listed.out for piece in (VALUE[:4], VALUE[-4:], "short"))
    visible = [one["subject"] for one in checks if one["code"] == "SECRET_VISIBLE"]
    assert visible == ["server argued"]
    assert damaged.code == 6
    assert "cannot be decrypted" in damaged.out
    assert "8 to 31 characters" in damaged.out


@pytest.mark.requirement("SEC-4")
def test_a_secret_that_is_used_is_not_deleted_without_the_owners_word(discovery: Discovery) -> None:
    configure(discovery, "${secret:TOKEN}")
    for name in ("TOKEN", "pinned", "unused"):
        discovery("secrets", "set", name, stdin=VALUE)
    file = discovery.home / "discovery.yaml"
    pin = {"pattern": "*", "arguments": {"deep": [{"key": "x ${secret:pinned}"}]}}
    file.write_text(f"{file.read_text()}\noverrides: {json.dumps([pin])}\n")

    refused = discovery("secrets", "remove", "unused", "TOKEN")
    pinned = discovery("secrets", "remove", "pinned")
    declined = discovery.at_terminal(
        "secrets", "remove", "TOKEN", typed="n\n", after="Delete it all the same?"
    )
    assert (refused.code, pinned.code, declined.code) == (2, 2, 0)
    assert "TOKEN is used by listens" in refused.err
    assert "pinned is used by overrides.0" in pinned.err
    assert stored(discovery) == ["TOKEN", "pinned", "unused"]

    assert discovery("secrets", "remove", "unused").code == 0
    done = discovery("secrets", "remove", "TOKEN", "OTHER", "--yes")
    assert (done.code, stored(discovery)) == (2, ["pinned"])
    assert "no secret OTHER" in done.err
    file.write_text("servers: [", "utf-8")
    assert discovery("secrets", "remove", "pinned").code == 2
    assert discovery("secrets", "remove", "pinned", "--yes").code == 0


@pytest.mark.requirement("SEC-8", "SEC-14")
def test_a_key_of_the_environment_opens_the_store_and_is_written_nowhere(
    discovery: Discovery,
) -> None:
    key = "tQ2p0pQkq7V0Zr3V4jE0m1m1eQ3n5k8wXl2yZ9uT6bA="
    seen = configure(discovery, "${DISCOVERY_SECRET_KEY:-y}")

    discovery("secrets", "set", "TOKEN", stdin=VALUE, DISCOVERY_SECRET_KEY=key)
    listed = discovery("secrets", "list", "--json", DISCOVERY_SECRET_KEY=key)
    same = discovery("secrets", "list", DISCOVERY_SECRETS_PASSPHRASE=key)
    without = discovery("secrets", "list")
    refused = discovery("refresh", "listens", DISCOVERY_SECRET_KEY=key)
    rotated = discovery(
        "secrets", "rotate-key", DISCOVERY_SECRET_KEY=key, DISCOVERY_SECRET_NEW_KEY="another"
    )
    after = discovery("secrets", "list", DISCOVERY_SECRET_KEY="another")

    assert listed.json["key"] == "passphrase"
    assert (same.code, without.code, rotated.code, after.code) == (0, 6, 0, 0)
    assert "set DISCOVERY_SECRET_KEY to the new key" in rotated.err
    assert (refused.code, seen()) == (6, "")
    assert "for the secret store alone" in refused.out + refused.err
    files = [file for file in (discovery.home / "data").rglob("*") if file.is_file()]
    assert "secrets.key" not in {file.name for file in files}
    assert key.encode() not in b"".join(file.read_bytes() for file in files)


# Secrets of other clients' files

TOKEN, KEY, BEARER, QUERY, FLAG = (f"s3cr3t-canary-{name}-0123456789" for name in "abcde")
ALL = (TOKEN, KEY, BEARER, QUERY, FLAG)
FOUND: dict[str, Any] = {
    "git": {
        "command": "git-server",
        "args": ["--mode", "fast", "MODE=fast"],
        "env": {"GIT_TOKEN": TOKEN, "MODE": "fast", "OTHER_TOKEN": "${env:OTHER}"},
    },
    "web": {
        "url": f"https://example.com/mcp?key={QUERY}&page=2",
        "headers": {"Authorization": f"Bearer {BEARER}", "X-Api-Key": KEY},
    },
    "argued": {"command": "argued", "args": ["--token", FLAG, "--port", "80"]},
    "pem": {"command": "pem", "env": {"PRIVATE_KEY": "-----BEGIN\nx\n-----END"}},
}
STORED = ["argued/token", "git/GIT_TOKEN", "web/Authorization", "web/X-Api-Key", "web/key"]


@pytest.fixture
def importing(discovery: Discovery) -> Discovery:
    (discovery.home / "mcp.json").write_text(json.dumps({"mcpServers": FOUND}), "utf-8")
    (discovery.home / "discovery.yaml").write_text("servers: {}\n", "utf-8")
    return discovery


def words(discovery: Discovery, *more: str) -> list[str]:
    return ["config", "import", "--from", str(discovery.home / "mcp.json"), *more]


def entries(discovery: Discovery) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((discovery.home / "discovery.yaml").read_text())
    return document["servers"] or {}


def everything(discovery: Discovery) -> bytes:
    files = (one for one in discovery.home.rglob("*") if one.is_file() and one.name != "mcp.json")
    return b"".join(file.read_bytes() for file in files)


@pytest.mark.requirement("SEC-20")
def test_secrets_of_a_clients_file_are_stored_and_referred_to(importing: Discovery) -> None:
    before = (importing.home / "mcp.json").read_bytes()
    preview = importing(*words(importing, "--secrets", "store", "--dry-run"))
    assert "stores git/GIT_TOKEN: ••••  8 to 31 characters" in preview.err
    assert (entries(importing), stored(importing)) == ({}, [])

    done = importing(*words(importing, "--secrets", "store", "--yes"))

    assert done.code == 0
    assert stored(importing) == STORED
    taken = entries(importing)
    assert taken["git"]["args"] == FOUND["git"]["args"]
    assert taken["git"]["env"] == {
        "GIT_TOKEN": "${secret:git/GIT_TOKEN}",
        "MODE": "fast",
        "OTHER_TOKEN": "${OTHER}",
    }
    assert taken["web"]["url"] == "https://example.com/mcp?key=${secret:web/key}&page=2"
    assert taken["web"]["headers"] == {
        "Authorization": "Bearer ${secret:web/Authorization}",
        "X-Api-Key": "${secret:web/X-Api-Key}",
    }
    assert taken["argued"]["args"] == ["--token", "${secret:argued/token}", "--port", "80"]
    assert taken["pem"]["env"] == {"PRIVATE_KEY": "${PRIVATE_KEY}"}
    assert "argued gets a secret in its arguments" in done.err
    assert (importing.home / "mcp.json").read_bytes() == before
    again = importing(*words(importing, "--secrets", "store", "--yes"))
    assert (entries(importing), stored(importing)) == (taken, STORED)
    assert "it is there already" in again.out
    outputs = preview.out + preview.err + done.out + done.err + again.out + again.err
    assert not any(one in outputs or one.encode() in everything(importing) for one in ALL)


@pytest.mark.requirement("SEC-20")
def test_without_the_owners_word_no_secret_is_stored(importing: Discovery) -> None:
    declined = importing.at_terminal(*words(importing), typed="n\ny\n", after="refer to them?")
    assert (stored(importing), entries(importing)["git"]["env"]["GIT_TOKEN"]) == (
        [],
        "${GIT_TOKEN}",
    )
    (importing.home / "discovery.yaml").write_text("servers: {}\n", "utf-8")
    done = importing(*words(importing, "--yes"))

    assert entries(importing)["git"]["env"]["GIT_TOKEN"] == "${GIT_TOKEN}"
    assert "argued" not in entries(importing)
    assert stored(importing) == []
    assert "--secrets store encrypts and stores 5 secrets" in done.err
    assert not any(one in declined.shown for one in ALL)
    assert not any(one.encode() in everything(importing) for one in ALL)


READING = (
    *("list", "list --status", "config show", "config validate", "inspect listens", "health"),
    *("search say", "secrets list", "trust", "tools listens", "lint"),
)


def written(*argv: str) -> str:
    words = json.dumps(argv).replace("}", r"\u007d")
    return f"${{command:{words}}}"


def shell(code: str) -> str:
    return written("/bin/sh", "-c", code)


def vault_in(folder: Path) -> tuple[str, Path]:
    """A reference to what a program writes, which leaves a trace of each run; and that."""
    (folder / "vault").write_text(VALUE)
    ran = folder / "ran"
    return shell(f"echo x >> {ran}; cat {folder / 'vault'}"), ran


@pytest.mark.requirement("SEC-11")
def test_a_program_is_run_by_a_session_and_by_nothing_that_only_shows(discovery: Discovery) -> None:
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
async def test_what_is_no_value_is_none_with_a_reason_that_quotes_nothing(folder: Folder) -> None:
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
