"""What becomes of the secrets in another client's file when its servers are imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.config.editing.import_entries import ImportCandidate, import_entry
from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.config.sources.variables import escape
from discovery_engine.errors import InvalidSecretError
from discovery_engine.secret_store.encrypted_store import EncryptedStore
from discovery_engine.secret_store.owner_secrets import OwnerSecrets
from discovery_engine.secret_store.stored_secret_resolver import StoredSecretResolver
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.connection import resolved_transport
from tests.contract.discovery import Discovery
from tests.forked import Preloaded

TOKEN, KEY, BEARER, QUERY, FLAG = (f"s3cr3t-canary-{name}-0123456789" for name in "abcde")
ALL = (TOKEN, KEY, BEARER, QUERY, FLAG)
FOUND: dict[str, Any] = {
    "git": {
        "command": "git-server",
        "args": ["--mode", "fast"],
        "env": {"GIT_TOKEN": TOKEN, "MODE": "fast", "OTHER_TOKEN": "${env:OTHER}"},
    },
    "web": {
        "url": f"https://example.com/mcp?key={QUERY}&page=2",
        "headers": {"Authorization": f"Bearer {BEARER}", "X-Api-Key": KEY},
    },
    "argued": {"command": "argued", "args": ["--token", FLAG, "--port", "80"]},
    "pem": {"command": "pem", "env": {"PRIVATE_KEY": "-----BEGIN\nx\n-----END"}},
}


@pytest.fixture
def discovery(tmp_path: Path, forked: Preloaded) -> Discovery:
    found = tmp_path / "mcp.json"
    found.write_text(json.dumps({"mcpServers": FOUND}), "utf-8")
    (tmp_path / "discovery.yaml").write_text("servers: {}\n", "utf-8")
    return Discovery(tmp_path, forked)


def imported(discovery: Discovery, *words: str, **environ: str) -> Any:
    return discovery("import", "--from", str(discovery.home / "mcp.json"), *words, **environ)


def entries(discovery: Discovery) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((discovery.home / "discovery.yaml").read_text())
    return document["servers"] or {}


def stored(discovery: Discovery) -> dict[str, str | None]:
    secrets = OwnerSecrets(EncryptedStore(discovery.home / "data", {}))
    return {name: secrets.get(name) for name in secrets.names()}


def everything(folder: Path) -> bytes:
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != "mcp.json")
    return b"".join(file.read_bytes() for file in files)


@pytest.mark.requirement("SEC-20")
def test_secrets_of_a_clients_file_are_stored_and_referred_to(discovery: Discovery) -> None:
    before = (discovery.home / "mcp.json").read_bytes()

    done = imported(discovery, "--secrets", "store", "--yes")

    assert done.code == 0
    assert entries(discovery)["git"]["env"] == {
        "GIT_TOKEN": "${secret:git/GIT_TOKEN}",
        "MODE": "fast",
        "OTHER_TOKEN": "${OTHER}",
    }
    web = entries(discovery)["web"]
    assert web["url"] == "https://example.com/mcp?key=${secret:web/key}&page=2"
    assert web["headers"] == {
        "Authorization": "Bearer ${secret:web/Authorization}",
        "X-Api-Key": "${secret:web/X-Api-Key}",
    }
    assert entries(discovery)["argued"]["args"] == [
        *("--token", "${secret:argued/token}", "--port", "80"),
    ]
    assert stored(discovery) == {
        "argued/token": FLAG,
        "git/GIT_TOKEN": TOKEN,
        "web/Authorization": BEARER,
        "web/X-Api-Key": KEY,
        "web/key": QUERY,
    }
    assert entries(discovery)["pem"]["env"] == {"PRIVATE_KEY": "${PRIVATE_KEY}"}
    assert "argued gets a secret in its arguments" in done.err
    assert (discovery.home / "mcp.json").read_bytes() == before
    assert not any(one.encode() in everything(discovery.home) for one in ALL)
    assert not any(one in done.out + done.err for one in ALL)


@pytest.mark.requirement("OWN-24", "SEC-20", "SEC-23")
def test_a_server_in_force_is_copied_with_its_secrets_and_takes_its_place(
    discovery: Discovery,
) -> None:
    source = {"type": "custom", "path": "mcp.json"}
    (discovery.home / "discovery.yaml").write_text(f"sources: [{json.dumps(source)}]\n", "utf-8")
    before = discovery("list", "--json").json["servers"]

    done = imported(discovery, "--yes")
    once = files(discovery)
    imported(discovery, "--yes")

    assert files(discovery) == once
    assert f"{discovery.home / 'mcp.json'}, in place of that entry" in done.out
    assert "pem it has a secret that cannot be stored" in " ".join(done.out.split())
    assert "--secrets store" not in done.err
    assert entries(discovery)["git"]["env"]["GIT_TOKEN"] == "${secret:git/GIT_TOKEN}"
    assert stored(discovery)["argued/token"] == FLAG
    after = discovery("list", "--json").json["servers"]
    assert [one["name"] for one in after] == [one["name"] for one in before]
    own = {one["name"] for one in after if one["source"] == "discovery.yaml"}
    assert own == {"argued", "git", "web"}


@pytest.mark.requirement("OWN-24")
@pytest.mark.parametrize("command", ["disable git", "import --from custom:mcp.json --yes"])
def test_a_copy_leaves_a_secret_that_the_owner_stored(discovery: Discovery, command: str) -> None:
    source = {"type": "custom", "path": "mcp.json"}
    (discovery.home / "discovery.yaml").write_text(f"sources: [{json.dumps(source)}]\n", "utf-8")
    discovery("secrets", "set", "git/GIT_TOKEN", stdin="s3cr3t-of-mine")

    done = discovery(*command.split())

    assert done.code == 0, done.err
    assert stored(discovery)["git/GIT_TOKEN"] == "s3cr3t-of-mine"
    assert stored(discovery)["git/GIT_TOKEN-2"] == TOKEN
    assert entries(discovery)["git"]["env"]["GIT_TOKEN"] == "${secret:git/GIT_TOKEN-2}"


def files(discovery: Discovery) -> tuple[str, dict[str, str | None]]:
    return (discovery.home / "discovery.yaml").read_text("utf-8"), stored(discovery)


@pytest.mark.requirement("SEC-23")
@pytest.mark.parametrize("words", ["store", "keep", "ask"])
def test_a_second_import_changes_nothing(discovery: Discovery, words: str) -> None:
    (discovery.home / "discovery.yaml").write_text("servers: {argued: {command: mine}}\n", "utf-8")
    assert imported(discovery, "--secrets", "store", "--yes").code == 0
    before = files(discovery)
    assert "argued@custom" in before[0]

    again = imported(discovery, "--secrets", words, "--yes")

    assert files(discovery) == before
    assert "it is there already, as 'argued@custom'" in again.out
    assert "--secrets store" not in again.err
    assert not any(one in again.out + again.err for one in ALL)


@pytest.mark.requirement("SEC-23")
def test_a_secret_that_was_replaced_makes_no_second_server(discovery: Discovery) -> None:
    imported(discovery, "--secrets", "store", "--yes")
    discovery("secrets", "set", "argued/token", stdin="s3cr3t-canary-new-0123456789")
    text = (discovery.home / "mcp.json").read_text("utf-8").replace(QUERY, f"{QUERY}-new")
    (discovery.home / "mcp.json").write_text(text, "utf-8")
    before = files(discovery)

    imported(discovery, "--secrets", "store", "--yes")

    assert files(discovery) == before


@pytest.mark.requirement("SEC-23")
def test_another_account_of_a_server_is_another_server(discovery: Discovery) -> None:
    imported(discovery, "--secrets", "store", "--yes", "--only", "argued")
    other = {"command": "argued", "args": ["--token", f"{FLAG}-other", "--port", "80"]}
    for name in ("argued", "second"):
        found = {"mcpServers": {"first": FOUND["argued"], name: other}}
        (discovery.home / "mcp.json").write_text(json.dumps(found), "utf-8")
        imported(discovery, "--secrets", "store", "--yes")

    assert list(entries(discovery)) == ["argued", "argued@custom"]
    assert stored(discovery)["argued@custom/token"] == f"{FLAG}-other"


@pytest.mark.requirement("SEC-20")
def test_a_preview_shows_names_and_a_class_of_length(discovery: Discovery) -> None:
    done = imported(discovery, "--secrets", "store", "--dry-run")
    form = imported(discovery, "--secrets", "store", "--dry-run", "--json").json

    assert "stores git/GIT_TOKEN: ••••  8 to 31 characters" in done.err
    assert {"name": "git/GIT_TOKEN", "length": "8 to 31"} in form["secrets"]
    assert (entries(discovery), stored(discovery)) == ({}, {})
    assert not any(one in done.out + done.err + json.dumps(form) for one in ALL)
    assert not any(piece in done.out + done.err for one in ALL for piece in (one[:9], one[-12:]))


@pytest.mark.requirement("SEC-20")
@pytest.mark.parametrize("words", [["--secrets", "keep"], ["--secrets", "ask"], []])
def test_without_the_owners_word_nothing_is_stored(discovery: Discovery, words: list[str]) -> None:
    done = imported(discovery, *words, "--yes")

    assert entries(discovery)["git"]["env"]["GIT_TOKEN"] == "${GIT_TOKEN}"
    assert "argued" not in entries(discovery)
    assert stored(discovery) == {}
    assert ("--secrets store encrypts and stores 5 secrets" in done.err) is (
        words != ["--secrets", "keep"]
    )
    assert not any(one.encode() in everything(discovery.home) for one in ALL)


@pytest.mark.requirement("SEC-20")
@pytest.mark.parametrize(("typed", "count"), [("y\ny\n", 5), ("n\ny\n", 0), ("y\nn\n", 0)])
def test_at_a_terminal_the_owner_is_asked(discovery: Discovery, typed: str, count: int) -> None:
    done = discovery.at_terminal(
        *("import", "--from", str(discovery.home / "mcp.json")), typed=typed, after="refer to them?"
    )

    assert len(stored(discovery)) == count
    assert not any(one in done.shown for one in ALL)


@pytest.mark.requirement("SEC-21")
def test_if_the_file_cannot_be_written_no_secret_is_left(discovery: Discovery) -> None:
    secrets = OwnerSecrets(EncryptedStore(discovery.home / "data", {}))
    secrets.set("git/GIT_TOKEN", "an earlier one")
    backup = discovery.home / "discovery.yaml.bak"
    backup.mkdir()  # where the backup would be written

    done = imported(discovery, "--secrets", "store", "--yes")

    assert done.code != 0
    assert (entries(discovery), stored(discovery)) == ({}, {"git/GIT_TOKEN": "an earlier one"})


PROGRAM = """
import os, sys
left = int(sys.argv.pop(1))
def trace(frame, event, _):
    global left
    if "/discovery_engine/secret_store/" not in frame.f_code.co_filename and not any(
        part in frame.f_code.co_filename for part in ("_util/files.py", "commands/import_.py")
    ):
        return None
    if event == "line":
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
    return trace
sys.settrace(trace)
from discovery_cli.main import main
sys.argv[0] = "discovery"
main()
"""


@pytest.mark.thorough
@pytest.mark.requirement("SEC-21")
def test_an_import_that_is_killed_leaves_no_reference_without_its_secret(
    discovery: Discovery,
) -> None:
    """Killed at lines all over it; a further run completes what is missing."""
    words = ["import", "--from", str(discovery.home / "mcp.json"), "--secrets", "store", "--yes"]
    killed, line = 0, 40
    while True:
        command = [sys.executable, "-c", PROGRAM, str(line), *words]
        done = subprocess.run(
            command, env=discovery.environ, cwd=discovery.home, capture_output=True, check=False
        )
        known = stored(discovery)
        texts = json.dumps(entries(discovery))
        for name in ("git/GIT_TOKEN", "web/Authorization", "web/key", "argued/token"):
            assert f"${{secret:{name}}}" not in texts or known.get(name) in ALL
        assert not any(one.encode() in everything(discovery.home) for one in ALL)
        if done.returncode == 0:
            break
        assert done.returncode == -9, done.stderr
        killed, line = killed + 1, int(line * 1.6)

    assert killed > 4
    assert len(stored(discovery)) == 5


@pytest.mark.requirement("SEC-21")
def test_secrets_are_as_they_were_if_what_refers_to_them_fails(tmp_path: Path) -> None:
    secrets = OwnerSecrets(EncryptedStore(tmp_path, {}))
    secrets.set("a/OLD", "old")

    with pytest.raises(InvalidSecretError), secrets.storing({"a/OLD": "x", "a/B": "y", "a/C": ""}):
        raise AssertionError("the block must not run")
    with pytest.raises(KeyboardInterrupt), secrets.storing({"a/OLD": "x", "a/B": "y"}):
        raise KeyboardInterrupt

    assert {name: secrets.get(name) for name in secrets.names()} == {"a/OLD": "old"}


SECRET = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), min_size=1, max_size=30)


@pytest.mark.requirement("SEC-20")
@given(token=SECRET, header=SECRET, query=st.text("abcXYZ0123456789-_~", min_size=1, max_size=30))
def test_what_is_stored_gives_the_server_what_its_client_gave_it(
    token: str, header: str, query: str
) -> None:
    stdio = StdioTransport("x", ("--token", escape(token)), {"API_TOKEN": escape(token)})
    address = f"https://example.com/mcp?key={query}"
    remote = RemoteTransport(address, {"X-Api-Key": escape(header)})

    for transport in (stdio, remote):
        server = ServerSettings(ServerName("a"), transport)
        taken = import_entry(server, is_stored=True)
        assert isinstance(taken, ImportCandidate)
        assert not taken.variables
        assert repr(taken.secrets).count("••••") == len(taken.secrets)
        resolved = resolved_transport(taken.server, _Values(taken.secrets))
        assert resolved == resolved_transport(server, _Values({}))
        assert taken.server == replace(server, transport=taken.server.transport)


class _Values(StoredSecretResolver):
    def __init__(self, values: Any) -> None:
        super().__init__(os.environ, Path())
        self._values = values

    def _stored(self, name: str) -> str | None:
        return str(self._values[name])
