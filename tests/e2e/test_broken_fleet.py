"""One configuration with every kind of broken server in it, and good ones beside them."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import open_task_group
from discovery_engine.engine import open_engine
from discovery_engine.events import ServerConnected
from discovery_engine.upstream.state import ServerState
from tests.e2e.commands import Shell
from tests.e2e.serving import Home, fault_entry
from tests.engines import heard, summary
from tests.forked import Preloaded

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]

GOOD = {"good": fault_entry(), "other": fault_entry()}
BROKEN = {
    "dead": fault_entry("crash_start"),
    "missing": {"command": "no-such-program-anywhere"},
    "hanging": fault_entry("hang_start", timeouts={"connect": 1}),
    "unset": fault_entry(env={"TOKEN": "${NO_SUCH_TOKEN}"}),
    "misspelt": {"comand": "x"},
}
MALFORMED = {"malformed": fault_entry("bad_tools")}
FLEET = GOOD | BROKEN | MALFORMED


@pytest.fixture
def shell(tmp_path: Path, forked: Preloaded) -> Shell:
    home = Home(tmp_path)
    home.write(FLEET)
    return Shell(home.config, tmp_path, forked)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory, forked: Preloaded) -> Shell:
    """The same, once every server has been asked; tests only read what is remembered."""
    home = Home(tmp_path_factory.mktemp("fleet"))
    home.write(FLEET)
    shell = Shell(home.config, home.folder, forked)
    assert shell.run(["refresh"]).code == 5
    return shell


def test_a_refresh_lists_the_good_ones_and_explains_the_others(shell: Shell) -> None:
    done = shell.run(["refresh", "--json"])

    servers = {server["name"]: server for server in done.answer["servers"]}
    assert done.code == 5
    assert {name for name, s in servers.items() if s["success"]} == {"good", "other", "malformed"}
    assert servers["good"]["tool_count"] == 3
    assert servers["malformed"]["tool_count"] >= 2
    assert servers["unset"]["code"] == "SERVER_NEEDS_CONFIG"
    assert "misspelt" not in servers


async def test_nothing_waits_for_those_that_are_broken(tmp_path: Path) -> None:
    home = Home(tmp_path)
    forever: JSONObject = fault_entry("hang_start", timeouts={"connect": 3600})
    home.write(FLEET | {"hanging": forever, "hanging too": forever})

    data = tmp_path / "data"
    async with open_engine(home.config, data_dir=data) as engine, open_task_group() as tasks:
        with engine.subscribe() as events:
            tasks.start_soon(engine.refresh)
            listed = {(await heard(events, ServerConnected)).server for _ in range(3)}
        with anyio.fail_after(60):
            answer = await engine.search("echo")
            result = await engine.execute("other", "echo", {"text": "hi"})
        waiting = summary(engine.view, "hanging").state
        tasks.cancel_scope.cancel()

    assert listed == {"good", "other", "malformed"}
    assert answer.hits
    assert "hi" in result["content"][0]["text"]
    assert waiting is ServerState.STARTING
