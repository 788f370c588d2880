"""The first answer of `discovery serve`, remembered from the last run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.e2e.commands import Shell
from tests.e2e.serving import Home, fault_entry
from tests.forked import Preloaded
from tests.kinds import thinned
from tests.servers.programs import eventually
from tests.unit.server.wire import INITIALIZE, INITIALIZED, PROBE

pytestmark = [pytest.mark.e2e, pytest.mark.requirement("SRV-2")]

LIST = {"jsonrpc": "2.0", "id": 99, "method": "tools/list"}


@pytest.fixture
def home(tmp_path: Path, forked: Preloaded) -> Home:
    """Its server is known, so that no answer is out of date when a gateway has listed it."""
    home = Home(tmp_path)
    home.write({"one": fault_entry()}, cache={"ttl": 86400})
    assert Shell(home.config, home.folder, forked).run(["refresh"]).code == 0
    return home


def answered(home: Home, *messages: dict[str, Any], settled: bool = False) -> list[bytes]:
    """The answers of one run, in order; `settled` waits until its first one is remembered."""
    with home.process() as process:
        lines = []
        for message in messages:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            if "id" in message:
                lines.append(process.stdout.readline())
        if settled:
            anyio.run(eventually, lambda: bool(remembered(home)))
        process.stdin.close()
        assert process.wait(60) == 0
        return lines


def remembered(home: Home) -> list[Path]:
    return list((home.folder / "data" / "first-answers").glob("*.json"))


def is_answered_early(home: Home, message: dict[str, Any]) -> bool:
    """Whether the first request is answered before the command line is loaded."""
    code = (
        "import sys\n"
        "sys.argv[0] = 'discovery'\n"
        "sys.modules['click'] = None\n"  # importing it fails
        "from discovery_cli.main import main\n"
        "main()\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, "serve"],
        input=json.dumps(message).encode() + b"\n",
        env=home.environ,
        cwd=home.folder,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return bool(run.stdout)


@pytest.mark.parametrize("opening", [INITIALIZE, PROBE], ids=["initialize", "discover"])
def test_the_next_start_sends_the_same_bytes_before_it_loads_the_engine(
    home: Home, opening: dict[str, Any]
) -> None:
    first = answered(home, opening, settled=True)

    assert is_answered_early(home, opening)
    assert answered(home, opening) == first


def test_a_client_that_was_answered_from_memory_is_served_as_any_other(home: Home) -> None:
    first = answered(home, INITIALIZE, INITIALIZED, LIST, settled=True)

    assert answered(home, INITIALIZE, INITIALIZED, LIST) == first
    # A probe that was answered from memory may still be followed by `initialize`.
    assert [json.loads(line)["id"] for line in answered(home, PROBE, INITIALIZE, LIST)] == [
        PROBE["id"],
        INITIALIZE["id"],
        LIST["id"],
    ]


@pytest.mark.parametrize(
    "change", thinned(["configuration", "decisions", "database", "request", "clear"])
)
def test_after_a_change_the_engine_answers(home: Home, change: str) -> None:
    answered(home, INITIALIZE, settled=True)
    assert is_answered_early(home, INITIALIZE)

    opening, data = INITIALIZE, home.folder / "data"
    if change == "configuration":
        home.write({"another": fault_entry()})
    elif change == "decisions":
        with (data / "registry.mark").open("ab") as mark:
            mark.write(b"\n")
    elif change == "database":
        (data / "registry.db").unlink()
    elif change == "request":
        strange = {**INITIALIZE["params"], "capabilities": {"experimental": {"x": 1}}}
        opening = {**INITIALIZE, "params": strange}
    else:
        command = [sys.executable, "-m", "discovery_cli", "registry", "clear"]
        subprocess.run(command, env=home.environ, cwd=home.folder, check=True, capture_output=True)
        assert remembered(home) == []

    assert not is_answered_early(home, opening)
    assert len(answered(home, opening)) == 1
