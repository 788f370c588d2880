from __future__ import annotations

import base64
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import keyring
import keyring.backend
import keyring.errors
import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from discovery_engine.errors import SecretStoreError
from discovery_engine.secrets import keys
from discovery_engine.secrets.encrypted_store import EncryptedStore
from discovery_engine.secrets.keys import working_keyring
from tests.keyrings import FailingKeyring, HangingKeyring, MemoryKeyring
from tests.rows import rows

TOKEN = "ya29-canary-0123456789abcdef"
NO_KEYRING = FailingKeyring()


@pytest.fixture(autouse=True)
def _no_keyring() -> None:
    keyring.set_keyring(NO_KEYRING)


def opened(folder: Path, **environ: str) -> EncryptedStore:
    return EncryptedStore(folder, environ)


def content(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.mark.requirement("AUT-24")
def test_no_file_holds_a_secret_and_all_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        opened(tmp_path).set("oauth/a", TOKEN)
    finally:
        os.umask(before)

    assert TOKEN.encode() not in content(tmp_path)
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


@pytest.mark.requirement("AUT-21")
@rows("damage", [b"", b"{", b"[]", b'{"version": 1}', b"\xff\xfe", b"null"])
def test_a_damaged_file_is_an_error_and_is_left_as_it_is(tmp_path: Path, damage: bytes) -> None:
    store = opened(tmp_path)
    store.set("a", TOKEN)
    store.path.write_bytes(damage)

    for use in (lambda: store.get("a"), lambda: store.set("b", "c"), lambda: store.delete("a")):
        with pytest.raises(SecretStoreError, match="is damaged; it was left as it is"):
            use()

    assert store.path.read_bytes() == damage


@pytest.mark.requirement("AUT-21")
def test_a_pipe_in_its_place_is_an_error_at_once(tmp_path: Path) -> None:
    os.mkfifo(opened(tmp_path).path)

    with pytest.raises(SecretStoreError, match="cannot be read: not a regular file"):
        opened(tmp_path).names()


@pytest.mark.requirement("AUT-21")
def test_a_damaged_secret_affects_no_other(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.set("a", TOKEN)
    store.set("b", "other")
    change(store.path, lambda secrets: secrets | {"a": secrets["a"][:-8] + "AAAAAAA="})

    with pytest.raises(SecretStoreError, match="'a' is damaged"):
        store.get("a")
    with pytest.raises(SecretStoreError, match="'a' is damaged"):
        store.verify()
    assert store.get("b") == "other"
    store.set("c", "new")
    assert store.names() == ("a", "b", "c")


@pytest.mark.requirement("AUT-21")
def test_a_secret_that_was_moved_to_another_name_is_not_given(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.set("oauth/good", TOKEN)
    change(store.path, lambda secrets: {"oauth/evil": secrets["oauth/good"]})

    with pytest.raises(SecretStoreError):
        store.get("oauth/evil")


def change(path: Path, edit: Callable[[dict[str, str]], dict[str, str]]) -> None:
    document = json.loads(path.read_bytes())
    document["secrets"] = edit(document["secrets"])
    path.write_text(json.dumps(document), "utf-8")


@pytest.mark.requirement("AUT-21")
def test_a_newer_file_is_not_touched(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.set("a", TOKEN)
    newer = store.path.read_bytes().replace(b'"version": 1', b'"version": 2')
    store.path.write_bytes(newer)

    with pytest.raises(SecretStoreError, match="version 2"):
        store.set("a", "x")
    assert store.path.read_bytes() == newer


class TestKeyFile:
    @pytest.mark.requirement("AUT-21")
    def test_another_key_is_an_error(self, tmp_path: Path) -> None:
        opened(tmp_path).set("a", TOKEN)
        opened(tmp_path / "other").set("a", TOKEN)
        (tmp_path / "other" / "secrets.key").replace(tmp_path / "secrets.key")

        with pytest.raises(SecretStoreError, match="is not the key"):
            opened(tmp_path).get("a")
        with pytest.raises(SecretStoreError, match="is not the key"):
            opened(tmp_path).set("b", "c")

    @rows("mode", [0o644, 0o660])
    def test_one_that_others_may_read_is_refused(self, tmp_path: Path, mode: int) -> None:
        opened(tmp_path).set("a", TOKEN)
        (tmp_path / "secrets.key").chmod(mode)

        with pytest.raises(SecretStoreError, match="chmod 600"):
            opened(tmp_path).get("a")

    def test_a_link_in_its_place_is_not_followed(self, tmp_path: Path) -> None:
        opened(tmp_path).set("a", TOKEN)
        (tmp_path / "secrets.key").rename(tmp_path / "elsewhere")
        (tmp_path / "secrets.key").symlink_to(tmp_path / "elsewhere")

        with pytest.raises(SecretStoreError, match="cannot be used"):
            opened(tmp_path).get("a")


class TestKeyring:
    @pytest.mark.requirement("AUT-21")
    def test_it_keeps_the_key_where_one_works(self, tmp_path: Path) -> None:
        memory = MemoryKeyring()
        keyring.set_keyring(memory)
        opened(tmp_path).set("a", TOKEN)

        assert opened(tmp_path).key_place() == "keyring"
        assert opened(tmp_path).get("a") == TOKEN
        assert not (tmp_path / "secrets.key").exists()
        [key] = memory.passwords.values()
        assert key.encode() not in content(tmp_path)

    @pytest.mark.requirement("AUT-21")
    def test_the_one_that_always_fails_is_none(self) -> None:
        from keyring.backends import fail, null

        keyring.set_keyring(fail.Keyring())
        assert working_keyring() == ""
        keyring.set_keyring(null.Keyring())
        assert working_keyring() == ""

    @pytest.mark.requirement("AUT-21")
    def test_one_that_waits_for_ever_delays_the_first_secret_by_seconds(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(keys, "_PROBE", 0.01)
        keyring.set_keyring(HangingKeyring())

        opened(tmp_path).set("a", TOKEN)

        assert opened(tmp_path).key_place() == "file"


@pytest.mark.requirement("AUT-21")
def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from discovery_engine.secrets.encrypted_store import EncryptedStore\n"
        "for i in range(10):\n"
        "    EncryptedStore(Path(sys.argv[1]), {}).set(f'{sys.argv[2]}/{i}', sys.argv[2])\n"
    )
    environ = {**os.environ, "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), name], env=environ)
        for name in ("x", "y", "z")
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]

    store = opened(tmp_path)
    assert len(store.names()) == 30
    assert {store.get(f"{name}/9") for name in "xyz"} == {"x", "y", "z"}
    store.verify()


@pytest.mark.thorough
@pytest.mark.requirement("SEC-8")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="a child is ended at each of its lines")
def test_a_change_of_the_key_may_end_at_any_line(tmp_path: Path) -> None:
    names = {f"s{i}": f"{TOKEN}-{i}" for i in range(3)}
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
                "encrypted_store.py" not in frame.f_code.co_filename
                and "keys.py" not in frame.f_code.co_filename
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
