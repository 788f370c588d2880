"""The tokens that an owner makes for clients: what is stored, and what is refused."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from discovery_engine.errors import ConfigurationError
from discovery_server.access_tokens import AccessTokens
from tests.factories import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(tmp_path: Path, clock: Clock) -> AccessTokens:
    return AccessTokens(tmp_path / "data" / "tokens.json", clock=clock)


def is_open(tokens: AccessTokens, value: str) -> bool:
    found = tokens.find(value.encode())
    return found is not None and tokens.is_valid(found.id)


@pytest.mark.requirement("VIEW-20")
def test_the_file_has_a_digest_and_is_its_owners_alone(tokens: AccessTokens) -> None:
    before = os.umask(0)
    try:
        value, token = tokens.create(name="ci", view="readers")
    finally:
        os.umask(before)
    text = tokens.path.read_text("utf-8")

    assert value not in text
    assert value.removeprefix("discovery_") not in text
    assert hashlib.sha256(value.encode()).hexdigest() in text
    assert len(value.removeprefix("discovery_")) == 43
    assert value not in repr(token)
    assert tokens.path.stat().st_mode & 0o777 == 0o600
    assert tokens.path.parent.stat().st_mode & 0o777 == 0o700


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def _newer(path: Path) -> None:
    path.write_text(json.dumps({"version": 99, "tokens": []}))


@pytest.mark.requirement("VIEW-20")
@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda path: path.write_text("{"), id="damaged"),
        pytest.param(lambda path: path.write_text("[]"), id="of another kind"),
        pytest.param(lambda path: path.chmod(0o666), id="writable by others"),
        pytest.param(_link, id="a link"),
        pytest.param(_newer, id="newer"),
        pytest.param(lambda path: path.write_bytes(b" " * (1 << 21)), id="large"),
    ],
)
def test_a_file_that_cannot_be_trusted_opens_nothing_and_stays_as_it_is(
    tokens: AccessTokens, spoil: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    value, token = tokens.create()
    assert is_open(tokens, value)
    spoil(tokens.path)
    left = tokens.path.read_bytes()

    assert [is_open(tokens, value) for _ in range(3)] == [False] * 3
    for change in (tokens.create, lambda: tokens.revoke(token.id)):
        with pytest.raises(ConfigurationError) as refused:
            change()
        assert refused.value.problems[0].code == "SERVE_TOKEN_INVALID"
    assert tokens.path.read_bytes() == left
    assert len(caplog.records) == 1


@pytest.mark.requirement("VIEW-20")
def test_processes_that_write_at_once_lose_nothing(tokens: AccessTokens) -> None:
    program = """
import sys
from pathlib import Path
from discovery_server.access_tokens import AccessTokens
tokens = AccessTokens(Path(sys.argv[1]))
sys.stdin.readline()
for number in range(5):
    tokens.create(name=f"{sys.argv[2]}-{number}")
"""
    pipes = {"stdin": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", program, str(tokens.path)]
    writers = [subprocess.Popen([*command, str(number)], **pipes) for number in range(4)]
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=60)

    assert {writer.returncode for writer in writers} == {0}
    assert len(tokens.all()) == 20


@pytest.mark.requirement("VIEW-20")
def test_a_token_is_found_by_itself_only(tokens: AccessTokens) -> None:
    value, token = tokens.create(view="readers")
    other, _ = tokens.create()

    found = tokens.find(value.encode())
    assert found == token
    assert found is not None
    assert found.view == "readers"
    assert found.scopes == {"read", "call"}
    wrong = (value[:-1], value + "a", value.swapcase(), token.digest, token.id, "", "discovery_")
    assert not any(is_open(tokens, one) for one in wrong)
    assert value != other
