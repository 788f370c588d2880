"""What a call costs does not depend on the other servers: specs/upstreams.md."""

from __future__ import annotations

import cProfile
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine._util.text import clean
from discovery_engine.agent.definitions import META_TOOLS
from discovery_engine.agent.dispatch import Caller, call
from discovery_engine.catalog import Catalog
from discovery_engine.config.settings import ServerSettings
from discovery_engine.engine import Engine
from discovery_engine.redaction.server_output import OutputRedactor
from discovery_engine.runtime.ingestion.carry_over import carried_over
from discovery_engine.runtime.ingestion.listing_result import parse_listing
from discovery_engine.runtime.ingestion.server_parts import part_from_result
from discovery_engine.search.searcher import build_searcher
from tests.engines import Folder, good, program
from tests.servers.programs import HERE

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("UPS-19")]

CALLS = 20
LONG_LINES = "head -c 160000 /dev/zero | tr '\\0' x | fold -w 8000 >&2; "
SERVE = (sys.executable, "-I", "-S", str(HERE / "fault_server.py"), "ok")


def failing(number: int) -> ServerSettings:
    """A program that writes twenty long lines to stderr, and exits."""
    return program(f"failing{number}", "/bin/sh", "-c", LONG_LINES + "exit 3")


def verbose(number: int) -> ServerSettings:
    """A program that writes twenty long lines to stderr, and serves."""
    script = LONG_LINES + 'exec "$0" "$@"'
    return program(f"verbose{number}", "/bin/sh", "-c", script, *SERVE)


async def work(ask: Callable[[], Awaitable[Any]]) -> int:
    """How many functions are called while something is asked so many times; none redacts."""
    await ask()
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(CALLS):
        await ask()
    profile.disable()
    entries = profile.getstats()  # type: ignore[attr-defined] # unknown to the stubs
    called = {entry.code for entry in entries}
    assert not called & {OutputRedactor.redact_stderr.__code__, OutputRedactor.redact.__code__}
    return sum(entry.callcount for entry in entries)


WAYS: dict[str, Callable[[Engine], Awaitable[Any]]] = {
    "two words": lambda engine: engine.execute("good", "echo", {"text": "x"}),
    "a server's name in another case": lambda engine: engine.execute("Good", "echo", {"text": "x"}),
    "one word": lambda engine: engine.execute(None, "good:echo", {"text": "x"}),
    "as hosts write it": lambda engine: engine.execute(None, "mcp__good__echo", {"text": "x"}),
    "a tool alone": lambda engine: engine.execute(None, "environment", {}),
    "as an agent": lambda engine: call(
        engine,
        META_TOOLS["execute_tool"],
        {"tool": "good:echo", "arguments": {"text": "x"}},
        Caller(),
    ),
    "as an agent that names the server": lambda engine: call(
        engine,
        META_TOOLS["execute_tool"],
        {"server": "good", "tool": "echo", "arguments": {"text": "x"}},
        Caller(),
    ),
}


@pytest.mark.thorough
async def test_a_call_costs_as_much_beside_fifty_servers_as_beside_three(tmp_path: Path) -> None:
    counted: dict[int, dict[str, int]] = {}
    for others in (2, 48):
        folder = Folder(tmp_path / str(others))
        folder.path.mkdir()
        noise = [verbose(0), *map(failing, range(others - 1))]
        only_in_one = {"pattern": "environment", "server": "verbose*", "enabled": False}
        folder.write(good(), *noise, toolRules=[only_in_one])
        async with folder.open() as engine:
            with anyio.fail_after(60):
                await engine.refresh()
                counted[others] = {
                    way: await work(lambda ask=ask: ask(engine)) for way, ask in WAYS.items()
                }

    for way in WAYS:
        assert counted[48][way] < 1.2 * counted[2][way], way


async def test_what_a_program_wrote_is_redacted_once_however_often_it_is_shown(
    folder: Folder,
) -> None:
    folder.write(failing(0))
    async with folder.open() as engine:
        await engine.refresh()
        await engine.health()
        profile = cProfile.Profile()
        with profile:
            for _ in range(CALLS):
                await engine.health()
                engine.view.servers()
                await engine.search("echo")

    called = {entry.code for entry in profile.getstats()}  # type: ignore[attr-defined] # as above
    assert not called & {clean.__code__}


@pytest.mark.requirement("UPS-35")
async def test_what_takes_as_long_as_there_are_tools_is_not_done_on_the_event_loop(
    folder: Folder,
) -> None:
    folder.write(good())
    async with folder.open() as engine:
        with cProfile.Profile() as profile:  # of this thread alone
            await engine.refresh()
            folder.write(good(), toolRules=[{"pattern": "pid", "enabled": False}])
            await engine.reload()

    assert [entry.tool.name for entry in engine.view.catalog.visible] == ["echo", "environment"]
    called = {entry.code for entry in profile.getstats()}  # type: ignore[attr-defined] # as above
    in_threads = {Catalog.diff, part_from_result, carried_over, parse_listing, build_searcher}
    assert not called & {function.__code__ for function in in_threads}
