"""One server without a configuration: `--command` and `--url`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.contract.discovery import UPSTREAM, Discovery
from tests.forked import Preloaded
from tests.rows import rows


@pytest.fixture
def discovery(tmp_path: Path, forked: Preloaded) -> Discovery:
    (tmp_path / "upstream.py").write_text(UPSTREAM, "utf-8")
    return Discovery(tmp_path, forked)


def command(discovery: Discovery) -> str:
    starts = f"STARTS={discovery.home}/starts"
    return shlex.join([starts, sys.executable, str(discovery.home / "upstream.py")])


@pytest.mark.requirement("CLI-91")
@rows(
    ("words", "shown"),
    [
        (["tools"], "echo(text, loud?, tags?, times?)"),
        (["search", "say again"], "server:echo"),
        (["inspect", "echo"], "What to say"),
        (["execute", "echo", "text=hello", "times=2"], '{"text": "hello", "times": 2}'),
        (["execute", "server", "echo", "text=hello"], '{"text": "hello"'),
    ],
)
def test_a_server_is_used_without_a_configuration_and_leaves_nothing(
    discovery: Discovery, words: list[str], shown: str
) -> None:
    before = {*discovery.home.iterdir()}

    done = discovery(*words, "--command", command(discovery), DISCOVERY_CONFIG="")

    assert done.code == 0
    assert shown in done.out
    assert {*discovery.home.iterdir()} - before <= {discovery.home / "starts"}


@pytest.mark.requirement("CLI-91")
@rows(
    ("words", "code", "shown"),
    [
        (["tools", "--command", "no-such-program-of-all"], 5, "is not on the PATH"),
        (["tools", "--url", "http://127.0.0.1:9/mcp"], 5, "connection refused"),
        (["execute", "echo", "--url", "http://127.0.0.1:9/mcp"], 5, "connection refused"),
        (["tools", "--command", "A=1"], 2, "names no program"),
        (["tools", "--command", "x", "--header", "A: b"], 2, "belongs to --url"),
        (["tools", "--url", "http://127.0.0.1:9", "--header", "A"], 2, "NAME: VALUE"),
        (["tools", "--command", "x 'y"], 2, "cannot be read"),
        (["tools", "--command", "x", "--url", "http://127.0.0.1:9"], 2, "exclude each other"),
        (["--config", "y", "tools", "--command", "x"], 2, "exclude each other"),
    ],
)
def test_a_server_that_cannot_be_used_is_an_error(
    discovery: Discovery, words: list[str], code: int, shown: str
) -> None:
    done = discovery(*words, DISCOVERY_CONFIG="")

    assert done.code == code
    assert shown in done.err
    assert str(discovery.home / "discovery.yaml") not in done.err
