"""Stored secrets, as their owner and their servers see them: specs/secrets.md."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import keyring
import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from discovery_cli.program import cli
from discovery_engine.config.settings import ServerSettings, StdioTransport
from discovery_engine.errors import InvalidSecretError, SecretStoreError
from discovery_engine.secret_store.encrypted_store import EncryptedStore
from discovery_engine.secret_store.keys import NEXT_VARIABLE, VARIABLE
from discovery_engine.secret_store.owner_secrets import OwnerSecrets
from discovery_engine.secret_store.stored_secret_resolver import StoredSecretResolver
from discovery_engine.secrets.references import UnsetReference, is_secret_name
from discovery_engine.secrets.resolver import resolve
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.identity import identity_as_configured
from discovery_engine.upstream.state import ServerState
from tests.contract.discovery import Discovery
from tests.engines import Folder, good, summary
from tests.forked import Preloaded
from tests.keyrings import FailingKeyring, MemoryKeyring
from tests.kinds import thinned
from tests.servers.programs import eventually

VALUE = "s3cr3t-canary-0123456789"
LISTENS = """
import os, pathlib, runpy, sys
pathlib.Path(os.environ["SEEN"]).write_text(os.environ["TOKEN"])
runpy.run_path(sys.argv[1], run_name="__main__")
"""


class LockedKeyring(MemoryKeyring):
    """Has every key, and gives none."""

    asked = 0

    def get_password(self, service: str, username: str) -> str | None:
        self.asked += 1
        return None


@pytest.fixture(autouse=True)
def _no_keyring() -> None:
    keyring.set_keyring(FailingKeyring())


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


@pytest.mark.requirement("SEC-1", "SEC-3")
@pytest.mark.parametrize(
    ("name", "written"),
    thinned(
        [
            ("TOKEN", "${secret:TOKEN}"),
            ("listens/TOKEN", "${secret:listens/TOKEN}"),
            ("a.b-c", "x${secret:a.b-c}y"),
        ]
    ),
)
def test_a_stored_secret_reaches_the_server_that_refers_to_it(
    discovery: Discovery, name: str, written: str
) -> None:
    seen = configure(discovery, written)

    done = discovery("secrets", "set", name, stdin=VALUE + "\n")
    refreshed = discovery("refresh", "listens")

    assert (done.code, refreshed.code, seen()) == (
        0,
        0,
        written.replace(f"${{secret:{name}}}", VALUE),
    )
    assert VALUE not in done.out + done.err


@pytest.mark.requirement("SEC-3")
def test_a_value_that_is_typed_is_not_shown(discovery: Discovery) -> None:
    seen = configure(discovery, "${secret:TOKEN}")

    typed = discovery.at_terminal(
        "secrets", "set", "TOKEN", typed=VALUE + "\n", after="value of TOKEN"
    )
    discovery("refresh", "listens")

    assert (typed.code, seen()) == (0, VALUE)
    assert VALUE not in typed.shown


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


@pytest.mark.requirement("OWN-25")
def test_init_asks_for_an_input_in_the_words_of_the_client(discovery: Discovery) -> None:
    asked = {"id": "key", "type": "promptString", "description": "Key of the shop"}
    shop = {"command": "true", "env": {"SHOP_KEY": "${input:key}"}}
    document = {"inputs": [asked], "servers": {"shop": shop}}
    (discovery.home / "mcp.json").write_text(json.dumps(document), "utf-8")

    typed = discovery.at_terminal(
        *("init", "--from", "vscode:mcp.json"),
        typed="y\ny\n",
        after="[Y/n]",
        then={'INPUT_KEY ("Key of the shop") for shop': f"{VALUE}\n"},
    )

    assert (typed.code, VALUE in typed.shown) == (0, False)
    assert "${secret:shop/INPUT_KEY}" in (discovery.home / "discovery.yaml").read_text("utf-8")


@pytest.mark.requirement("SEC-1")
def test_a_secret_that_is_not_stored_is_named_with_the_command_that_stores_it(
    discovery: Discovery,
) -> None:
    configure(discovery, "${secret:TOKEN}")

    done = discovery("execute", "listens", "echo", "--json")

    error = json.loads(done.err)["error"]
    assert (done.code, error["code"]) == (6, "SERVER_NEEDS_CONFIG")
    assert "${secret:TOKEN} is not stored" in error["message"]
    assert "discovery secrets set TOKEN" in error["hint"]


@pytest.mark.requirement("SEC-2")
def test_a_secret_of_one_server_has_no_value_in_the_entry_of_another(discovery: Discovery) -> None:
    seen = configure(discovery, "${secret:demo/TOKEN}")
    discovery("secrets", "set", "demo/TOKEN", stdin=VALUE)

    done = discovery("refresh", "listens")

    assert (done.code, seen()) == (6, "")
    assert "is kept for demo alone" in done.out + done.err


@pytest.mark.requirement("SEC-4")
def test_a_list_shows_what_is_stored_what_is_missing_and_nothing_of_a_value(
    discovery: Discovery,
) -> None:
    configure(discovery, "${secret:TOKEN}:${secret:GONE}")
    discovery("secrets", "set", "TOKEN", stdin=VALUE)
    discovery("secrets", "set", "unused", stdin="short")

    shown, listed = discovery("secrets", "list"), discovery("secrets", "list", "--json")

    assert json.loads(listed.out)["secrets"] == [
        {"name": "TOKEN", "length": "8 to 31", "servers": ["listens"]},
        {"name": "unused", "length": "fewer than 8", "servers": []},
    ]
    assert json.loads(listed.out)["missing"] == [{"name": "GONE", "servers": ["listens"]}]
    assert "referenced, not stored" in shown.out
    assert "discovery secrets set GONE" in shown.err
    assert not any(piece in shown.out + listed.out for piece in (VALUE[:4], VALUE[-4:], "short"))


def left(discovery: Discovery) -> list[str]:
    return [one["name"] for one in discovery("secrets", "list", "--json").json["secrets"]]


@pytest.mark.requirement("SEC-17")
def test_a_secret_that_is_used_is_not_deleted_without_the_owners_word(
    discovery: Discovery,
) -> None:
    configure(discovery, "${secret:TOKEN}")
    for name in ("TOKEN", "unused"):
        discovery("secrets", "set", name, stdin=VALUE)

    refused = discovery("secrets", "delete", "unused", "TOKEN")
    assert (refused.code, left(discovery)) == (2, ["TOKEN", "unused"])
    assert "TOKEN is used by listens" in refused.err
    assert "--yes" in refused.err
    declined = discovery.at_terminal(
        "secrets", "delete", "TOKEN", typed="n\n", after="Delete it all the same?"
    )
    assert (declined.code, left(discovery)) == (0, ["TOKEN", "unused"])
    assert "no secret was deleted" in declined.shown
    assert discovery("secrets", "delete", "unused").code == 0
    done = discovery("secrets", "delete", "TOKEN", "--yes", "--json")

    assert (done.code, left(discovery)) == (0, [])
    assert (done.json["deleted"], done.json["unknown"]) == (["TOKEN"], [])
    assert done.json["used_by"] == {"TOKEN": ["listens"]}


@pytest.mark.requirement("SEC-17")
def test_a_secret_that_an_override_or_an_unreadable_entry_may_use_is_asked_for(
    discovery: Discovery,
) -> None:
    discovery("secrets", "set", "TOKEN", stdin=VALUE)
    pinned = {"pattern": "*", "arguments": {"deep": [{"key": "x ${secret:TOKEN}"}]}}
    text = json.dumps({"servers": {}, "overrides": [{**pinned, "arguments": {"a": 1}}, pinned]})
    (discovery.home / "discovery.yaml").write_text(text, "utf-8")

    pinning = discovery("secrets", "delete", "TOKEN")
    (discovery.home / "discovery.yaml").write_text("servers: [", "utf-8")
    invalid = discovery("secrets", "delete", "TOKEN")
    done = discovery("secrets", "delete", "TOKEN", "--yes")

    assert "TOKEN is used by overrides.1" in pinning.err
    assert "the configuration is invalid" in invalid.err
    assert [pinning.code, invalid.code, done.code] == [2, 2, 0]


@pytest.mark.requirement("SEC-4")
def test_what_is_deleted_is_gone_and_what_was_never_there_is_said(discovery: Discovery) -> None:
    configure(discovery, "${secret:TOKEN}")
    discovery("secrets", "set", "TOKEN", stdin=VALUE)

    done = discovery("secrets", "delete", "TOKEN", "OTHER", "--yes")

    assert (done.code, json.loads(discovery("secrets", "list", "--json").out)["secrets"]) == (2, [])
    assert "TOKEN is deleted" in done.err
    assert "no secret OTHER" in done.err


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        pytest.param("TOKEN", "", "is empty", id="nothing"),
        pytest.param("TOKEN", "a\nb", "a line break", id="two lines"),
        pytest.param("TOKEN", "a\r\n", "is empty", id="an end of line alone"),
        pytest.param("TOKEN", "a\rb", "a line break", id="a carriage return"),
        pytest.param("TOKEN", "a\0b", "a zero character", id="zero"),
        pytest.param("TOKEN", "a" * 70_000, "more than 64 KiB", id="long"),
        pytest.param(VALUE + "!", "a", "no name of a secret", id="a value as a name"),
        pytest.param("a/b/c", "a", "no name of a secret", id="two servers"),
        pytest.param("", "a", "no name of a secret", id="no name"),
    ],
)
def test_what_cannot_be_a_secret_is_refused_and_not_repeated(
    discovery: Discovery, name: str, value: str, reason: str
) -> None:
    if value == "a\r\n":
        value = "\r\n"

    done = discovery("secrets", "set", name, stdin=value)

    assert (done.code, done.out) == (2, "")
    assert reason in done.err
    assert VALUE not in done.err
    assert not (discovery.home / "data" / "secrets.json").exists()


@pytest.mark.requirement("SEC-3")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(name=st.text(max_size=8), value=st.text(st.characters(codec="utf-8"), max_size=20))
@example(name="TOKEN", value=VALUE)
@example(name="server/TOKEN", value="ä ${secret:TOKEN}")
def test_what_is_stored_is_resolved_unchanged(tmp_path: Path, name: str, value: str) -> None:
    secrets = OwnerSecrets(EncryptedStore(tmp_path, {}))
    try:
        secrets.set(name, value)
    except InvalidSecretError:
        assert not is_secret_name(name) or not value or {"\n", "\r", "\0"} & set(value)
        return
    resolver = StoredSecretResolver({}, tmp_path)

    assert resolve(f"${{secret:{name}}}", resolver, server=name.rpartition("/")[0]) == value


@pytest.mark.anyio
@pytest.mark.requirement("SEC-5")
async def test_a_gateway_lists_a_server_as_soon_as_its_secret_is_stored_elsewhere(
    folder: Folder,
) -> None:
    server = good("waiting")
    assert isinstance(server.transport, StdioTransport)
    content: dict[str, Any] = {"command": server.transport.command}
    content |= {"args": list(server.transport.args), "env": {"TOKEN": "${secret:TOKEN}"}}
    folder.config.write_text(json.dumps({"servers": {"waiting": content}}), "utf-8")

    async with folder.open() as engine, anyio.create_task_group() as tasks:
        tasks.start_soon(engine.run_maintenance)
        await eventually(lambda: summary(engine.view, "waiting").state is ServerState.NEEDS_CONFIG)
        OwnerSecrets(EncryptedStore(folder.data, os.environ)).set("TOKEN", VALUE)
        await eventually(lambda: summary(engine.view, "waiting").state is ServerState.READY)
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
@pytest.mark.requirement("SEC-1", "SEC-2")
async def test_a_program_stores_secrets_through_the_engine(folder: Folder) -> None:
    folder.write(good("a"))

    async with folder.open() as engine:
        engine.secrets.set("TOKEN", VALUE)
        stored = (engine.secrets.names(), engine.secrets.get("TOKEN"))
        deleted = engine.secrets.delete("TOKEN")

    assert (stored, deleted) == ((("TOKEN",), VALUE), True)


@pytest.mark.requirement("SEC-6")
def test_an_approval_covers_the_name_of_a_secret_and_not_its_value(tmp_path: Path) -> None:
    texts = {"TOKEN": "${secret:TOKEN}", "PATH": "/bin:${secret:TOKEN}"}
    args = ("--url", "https://h/${secret:TOKEN}", "${secret:TOKEN}")
    server = ServerSettings(ServerName("a"), StdioTransport("/bin/cat", args, texts))
    secrets = OwnerSecrets(EncryptedStore(tmp_path, {}))

    def subject() -> object:
        resolver = StoredSecretResolver({}, tmp_path)
        return identity_as_configured(server, resolver, {}).subject

    subjects = [subject()]
    for value in ("one", "two"):
        secrets.set("TOKEN", value)
        subjects.append(subject())

    assert subjects[0] == subjects[1] == subjects[2]


@pytest.mark.requirement("SEC-6")
def test_the_secrets_that_a_server_gets_are_shown_before_it_is_approved(
    discovery: Discovery,
) -> None:
    (discovery.home / "project").mkdir()
    found = {"command": "/bin/cat", "env": {"TOKEN": "${secret:TOKEN}"}}
    text = "servers: " + json.dumps({"cat": found})
    (discovery.home / "project" / "discovery.yaml").write_text(text, "utf-8")
    discovery.configure()

    shown = discovery.forked(
        ["trust"],
        cwd=discovery.home / "project",
        environ={k: v for k, v in discovery.environ.items() if k != "DISCOVERY_CONFIG"},
    )

    assert "it gets the stored secret TOKEN" in shown.out + shown.err


@pytest.mark.requirement("SEC-8")
def test_after_a_new_key_everything_is_read_and_the_old_key_is_gone(discovery: Discovery) -> None:
    seen = configure(discovery, "${secret:TOKEN}")
    discovery("secrets", "set", "TOKEN", stdin=VALUE)
    key = discovery.home / "data" / "secrets.key"
    before = key.read_bytes()

    done = discovery("secrets", "rotate-key")
    discovery("refresh", "listens")

    assert (done.code, seen()) == (0, VALUE)
    assert before not in key.read_bytes()


@pytest.mark.thorough
@pytest.mark.requirement("SEC-8")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="a child is ended at each of its lines")
def test_a_change_of_the_key_may_end_at_any_line(tmp_path: Path) -> None:
    names = {f"s{i}": f"{VALUE}-{i}" for i in range(3)}
    store = EncryptedStore(tmp_path, {})
    for name, value in names.items():
        store.set(name, value)

    ended = 0
    while _ends_at_line(ended, tmp_path):
        ended += 1
        assert {name: EncryptedStore(tmp_path, {}).get(name) for name in names} == names
        assert set(_keys_that_open(tmp_path).values()) == {1}

    assert ended >= 200  # so many places were tried
    assert {name: EncryptedStore(tmp_path, {}).get(name) for name in names} == names


def _keys_that_open(folder: Path) -> dict[str, int]:
    """How many of the keys that are kept open each secret."""
    document = json.loads((folder / "secrets.json").read_text())
    keys = [line.split()[-1] for line in (folder / "secrets.key").read_bytes().splitlines()]
    opened = dict.fromkeys(document["secrets"], 0)
    for name, text in document["secrets"].items():
        data, bound = base64.b64decode(text), f"1|{document['key']['id']}|{name}".encode()
        for key in keys:
            with suppress(InvalidTag):
                AESGCM(base64.b64decode(key)).decrypt(data[:12], data[12:], bound)
                opened[name] += 1
    return opened


def _ends_at_line(number: int, folder: Path) -> bool:
    """Rotate the key in a child that is killed at its nth line; false if it has fewer."""
    if (child := os.fork()) == 0:
        left = number

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal left
            if (
                "secret_store" not in frame.f_code.co_filename
                and "files.py" not in frame.f_code.co_filename
            ):
                return None
            if event == "line":
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        try:
            EncryptedStore(folder, {}).rotate_key()
        except SecretStoreError:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL)
    return os.waitstatus_to_exitcode(status) != 0


@pytest.mark.requirement("SEC-9")
def test_without_a_reference_to_a_secret_its_store_is_not_loaded(folder: Folder) -> None:
    folder.write(good("a"))
    program = f"""
import anyio, sys
from discovery_engine import open_engine
async def main():
    async with open_engine({str(folder.config)!r}, data_dir={str(folder.data)!r}) as engine:
        await engine.execute("a", "echo", {{"text": "x"}})
        assert "discovery_engine.secret_store.stored_secret_resolver" in sys.modules
        assert "discovery_engine.secret_store.owner_secrets" not in sys.modules
        assert "cryptography" not in sys.modules
anyio.run(main)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.requirement("SEC-10")
def test_a_locked_keyring_is_asked_once_however_many_secrets_wait_for_it(tmp_path: Path) -> None:
    keyring.set_keyring(MemoryKeyring())
    for name in ("A", "B", "C"):
        OwnerSecrets(EncryptedStore(tmp_path, {})).set(name, VALUE)
    locked = LockedKeyring()
    keyring.set_keyring(locked)
    resolver = StoredSecretResolver({}, tmp_path)

    for name in ("A", "B", "C"):
        with pytest.raises(UnsetReference, match="cannot be read"):
            resolve(f"${{secret:{name}}}", resolver)

    assert locked.asked == 1


@pytest.mark.requirement("SEC-4")
def test_a_damaged_secret_hides_no_other_and_is_stored_again(discovery: Discovery) -> None:
    configure(discovery, "${secret:TOKEN}")
    for name in ("TOKEN", "OTHER"):
        discovery("secrets", "set", name, stdin=VALUE)
    path = discovery.home / "data" / "secrets.json"
    document = json.loads(path.read_text())
    document["secrets"]["secret/TOKEN"] = document["secrets"]["secret/OTHER"]
    path.write_text(json.dumps(document))

    listed = discovery("secrets", "list")
    again = discovery("secrets", "set", "TOKEN", stdin=VALUE)

    assert listed.code == 6
    assert "cannot be decrypted" in listed.out
    assert "8 to 31 characters" in listed.out
    assert (again.code, discovery("secrets", "list").code) == (0, 0)


@pytest.mark.requirement("SEC-8")
def test_a_new_passphrase_takes_the_place_of_the_old_one(discovery: Discovery) -> None:
    discovery.configure()
    old, new = {VARIABLE: "one"}, {VARIABLE: "two"}
    discovery("secrets", "set", "TOKEN", stdin=VALUE, **old)

    done = discovery("secrets", "rotate-key", **old, **{NEXT_VARIABLE: "two"})

    assert (done.code, discovery("secrets", "list", **new).code) == (0, 0)
    assert "set DISCOVERY_SECRETS_PASSPHRASE to the new passphrase" in done.err
    assert discovery("secrets", "list", **old).code == 6


@pytest.mark.thorough
@pytest.mark.requirement("SEC-3")
def test_more_than_the_store_may_hold_is_refused_and_what_it_holds_remains(tmp_path: Path) -> None:
    secrets = OwnerSecrets(EncryptedStore(tmp_path, {}))
    value = "x" * 64 * 1024
    while sum(len(path.read_bytes()) for path in tmp_path.glob("*.json")) < 16 * 1024**2 - 90_000:
        secrets.set(f"s{len(secrets.names())}", value)
    names = secrets.names()

    with pytest.raises(SecretStoreError, match="would have more than 16 MiB"):
        secrets.set("one-more", value)

    assert secrets.names() == names
    assert secrets.get(names[0]) == value


@pytest.mark.requirement("SEC-3")
def test_a_refused_name_is_not_repeated_at_a_terminal(discovery: Discovery) -> None:
    typed = discovery.at_terminal("secrets", "set", f"TOKEN={VALUE}")

    assert (typed.code, VALUE in typed.shown) == (2, False)


@pytest.mark.requirement("SEC-14")
def test_a_key_of_the_environment_opens_the_store_and_is_written_nowhere(
    discovery: Discovery,
) -> None:
    discovery.configure()
    key = "tQ2p0pQkq7V0Zr3V4jE0m1m1eQ3n5k8wXl2yZ9uT6bA="

    before = discovery("secrets", "list", DISCOVERY_SECRET_KEY=key)
    discovery("secrets", "set", "TOKEN", stdin=VALUE, DISCOVERY_SECRET_KEY=key)
    listed = discovery("secrets", "list", "--json", DISCOVERY_SECRET_KEY=key)
    same = discovery("secrets", "list", DISCOVERY_SECRETS_PASSPHRASE=key)
    without = discovery("secrets", "list")
    rotated = discovery(
        "secrets", "rotate-key", DISCOVERY_SECRET_KEY=key, DISCOVERY_SECRET_NEW_KEY="another"
    )
    after = discovery("secrets", "list", DISCOVERY_SECRET_KEY="another")

    assert "the key of a first one would be derived from the passphrase or key" in before.err
    assert json.loads(listed.out)["key"] == "passphrase"
    assert (same.code, without.code, rotated.code, after.code) == (0, 6, 0, 0)
    assert "set DISCOVERY_SECRET_KEY to the new key" in rotated.err
    files = [file for file in (discovery.home / "data").rglob("*") if file.is_file()]
    assert {file.name for file in files} & {"secrets.key"} == set()
    assert key.encode() not in b"".join(file.read_bytes() for file in files)


@pytest.mark.requirement("SEC-14")
def test_a_list_of_secrets_shows_where_their_key_is(discovery: Discovery) -> None:
    discovery.configure()
    discovery("secrets", "set", "TOKEN", stdin=VALUE)

    listed, doctor = discovery("secrets", "list"), discovery("doctor")

    assert "1 secret, encrypted; the key is kept in secrets.key of the data folder" in listed.err
    assert "1 secret, encrypted; the key is in a file beside them" in doctor.out


@pytest.mark.requirement("SEC-14")
def test_a_keyring_is_named_where_there_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring.set_keyring(MemoryKeyring())
    monkeypatch.setenv("DISCOVERY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    OwnerSecrets(EncryptedStore(tmp_path / "data", {})).set("TOKEN", VALUE)

    with pytest.raises(SystemExit):
        cli.main(["secrets", "list"])
    listed = capsys.readouterr()
    with pytest.raises(SystemExit):
        cli.main(["doctor"])
    doctor = capsys.readouterr()

    name = keyring.get_keyring().name
    assert f"the key is kept in the system's keyring, {name}" in listed.err
    assert f"the key is in the system's keyring, {name}" in doctor.out
    assert VALUE not in listed.out + listed.err + doctor.out


@pytest.mark.requirement("SEC-16")
def test_a_secret_in_an_argument_is_pointed_out(discovery: Discovery) -> None:
    entry = {"command": sys.executable, "args": ["-c", "", "--token", "${secret:TOKEN}"]}
    discovery.configure(argued=entry)
    discovery("secrets", "set", "TOKEN", stdin=VALUE)

    done = discovery("doctor", "--json")

    found = [one for one in done.json["checks"] if one["code"] == "SECRET_VISIBLE"]
    assert [one["subject"] for one in found] == ["server argued"]
    assert "${secret:TOKEN} in its arguments" in found[0]["message"]
