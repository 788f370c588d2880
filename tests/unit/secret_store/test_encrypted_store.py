from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import keyring
import keyring.backend
import keyring.errors
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.errors import SecretStoreError
from discovery_engine.secret_store import keys
from discovery_engine.secret_store.encrypted_store import EncryptedStore
from discovery_engine.secret_store.keys import VARIABLE, working_keyring
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


@pytest.mark.requirement("AUT-20")
def test_what_is_set_is_got_by_another_store_and_gone_when_it_is_deleted(tmp_path: Path) -> None:
    opened(tmp_path).set("oauth/a", TOKEN)
    opened(tmp_path).set("oauth/b", "other")

    assert opened(tmp_path).get("oauth/a") == TOKEN
    assert opened(tmp_path).names() == ("oauth/a", "oauth/b")
    assert opened(tmp_path).delete("oauth/a")
    assert not opened(tmp_path).delete("oauth/a")
    assert opened(tmp_path).get("oauth/a") is None
    assert opened(tmp_path).get("oauth/b") == "other"


def test_an_empty_folder_has_no_secrets_and_stays_empty(tmp_path: Path) -> None:
    store = opened(tmp_path / "not" / "there")

    assert (store.get("a"), store.names(), store.key_place()) == (None, (), None)
    assert not store.exists
    assert list(tmp_path.iterdir()) == []


@pytest.mark.requirement("AUT-20")
def test_no_file_holds_a_secret_and_all_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        opened(tmp_path).set("oauth/a", TOKEN)
    finally:
        os.umask(before)

    assert TOKEN.encode() not in content(tmp_path)
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


@given(
    secrets=st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=8),
        st.text(st.characters(codec="utf-8"), max_size=20),
        max_size=4,
    )
)
def test_any_text_is_kept_as_it_is(
    secrets: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("store")
    for name, value in secrets.items():
        opened(folder).set(name, value)

    assert {name: opened(folder).get(name) for name in secrets} == secrets
    assert opened(folder).names() == tuple(sorted(secrets))


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
    @pytest.mark.requirement("AUT-22")
    def test_it_is_used_where_no_keyring_works(self, tmp_path: Path) -> None:
        store = opened(tmp_path)
        store.set("a", TOKEN)

        assert store.key_place() == "file"
        assert (tmp_path / "secrets.key").exists()

    def test_without_it_nothing_is_given_and_nothing_is_lost(self, tmp_path: Path) -> None:
        opened(tmp_path).set("a", TOKEN)
        key = (tmp_path / "secrets.key").read_bytes()
        (tmp_path / "secrets.key").unlink()

        with pytest.raises(SecretStoreError, match=r"secrets\.key is gone"):
            opened(tmp_path).get("a")
        with pytest.raises(SecretStoreError, match=r"secrets\.key is gone"):
            opened(tmp_path).set("b", "c")

        (tmp_path / "secrets.key").write_bytes(key)
        (tmp_path / "secrets.key").chmod(0o600)
        assert opened(tmp_path).get("a") == TOKEN

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

    @rows("key", [b"", b"AAAA", b"!!", b"\xff"])
    def test_one_that_holds_no_key_is_refused(self, tmp_path: Path, key: bytes) -> None:
        opened(tmp_path).set("a", TOKEN)
        (tmp_path / "secrets.key").write_bytes(key)

        with pytest.raises(SecretStoreError, match="holds no key"):
            opened(tmp_path).get("a")

    def test_a_link_in_its_place_is_not_followed(self, tmp_path: Path) -> None:
        opened(tmp_path).set("a", TOKEN)
        (tmp_path / "secrets.key").rename(tmp_path / "elsewhere")
        (tmp_path / "secrets.key").symlink_to(tmp_path / "elsewhere")

        with pytest.raises(SecretStoreError, match="cannot be used"):
            opened(tmp_path).get("a")


class TestPassphrase:
    @pytest.mark.requirement("AUT-22")
    def test_it_is_needed_again_and_must_be_the_same(self, tmp_path: Path) -> None:
        opened(tmp_path, **{VARIABLE: "long words"}).set("a", TOKEN)

        assert opened(tmp_path, **{VARIABLE: "long words"}).get("a") == TOKEN
        assert not (tmp_path / "secrets.key").exists()
        with pytest.raises(SecretStoreError, match="passphrase, which is not set"):
            opened(tmp_path).get("a")
        with pytest.raises(SecretStoreError, match="passphrase is not the one"):
            opened(tmp_path, **{VARIABLE: "other words"}).get("a")
        with pytest.raises(SecretStoreError, match="passphrase is not the one"):
            opened(tmp_path, **{VARIABLE: "other words"}).set("b", "c")
        assert opened(tmp_path, **{VARIABLE: "long words"}).names() == ("a",)

    def test_one_that_is_given_later_replaces_the_key_file(self, tmp_path: Path) -> None:
        opened(tmp_path).set("a", TOKEN)
        later = opened(tmp_path, **{VARIABLE: "long words"})
        assert later.get("a") == TOKEN

        later.set("b", "other")

        assert later.key_place() == "passphrase"
        assert (later.get("a"), later.get("b")) == (TOKEN, "other")
        assert not (tmp_path / "secrets.key").exists()


class TestKeyring:
    @pytest.mark.requirement("AUT-22")
    def test_it_keeps_the_key_where_one_works(self, tmp_path: Path) -> None:
        memory = MemoryKeyring()
        keyring.set_keyring(memory)
        opened(tmp_path).set("a", TOKEN)

        assert opened(tmp_path).key_place() == "keyring"
        assert opened(tmp_path).get("a") == TOKEN
        assert not (tmp_path / "secrets.key").exists()
        [key] = memory.passwords.values()
        assert key.encode() not in content(tmp_path)

    def test_one_that_is_locked_later_is_an_error_and_nothing_is_lost(self, tmp_path: Path) -> None:
        memory = MemoryKeyring()
        keyring.set_keyring(memory)
        opened(tmp_path).set("a", TOKEN)

        keyring.set_keyring(NO_KEYRING)
        with pytest.raises(SecretStoreError, match="does not give it"):
            opened(tmp_path).get("a")
        with pytest.raises(SecretStoreError):
            opened(tmp_path).set("b", "c")
        keyring.set_keyring(memory)
        assert opened(tmp_path).get("a") == TOKEN

    @pytest.mark.requirement("AUT-22")
    def test_the_one_that_always_fails_is_none(self) -> None:
        from keyring.backends import fail, null

        keyring.set_keyring(fail.Keyring())
        assert working_keyring() == ""
        keyring.set_keyring(null.Keyring())
        assert working_keyring() == ""

    def test_one_that_keeps_plain_files_is_none(self) -> None:
        keyring.set_keyring(MemoryKeyring(priority=0.5))

        assert working_keyring() == ""

    @pytest.mark.requirement("AUT-22")
    def test_one_that_waits_for_ever_delays_the_first_secret_by_seconds(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(keys, "_PROBE", 0.01)
        keyring.set_keyring(HangingKeyring())

        opened(tmp_path).set("a", TOKEN)

        assert opened(tmp_path).key_place() == "file"


@pytest.mark.requirement("AUT-23")
def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from discovery_engine.secret_store.encrypted_store import EncryptedStore\n"
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


@pytest.mark.requirement("AUT-23")
def test_a_lock_is_free_once_and_released_with_its_block(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)

    with first.try_lock("a") as held:
        assert held
        with second.try_lock("a") as also, second.try_lock("b") as other:
            assert (also, other) == (False, True)
    with second.try_lock("a") as later:
        assert later


def test_a_change_shows_in_the_stamp(tmp_path: Path) -> None:
    store = opened(tmp_path)
    stamps = [store.stamp()]
    for value in ("x", "y", "y"):
        store.set("a", value)
        stamps.append(store.stamp())
    store.delete("a")

    assert len({*stamps, store.stamp()}) == 5


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")

    with pytest.raises(SecretStoreError, match="cannot be"):
        opened(tmp_path / "file").set("a", TOKEN)
