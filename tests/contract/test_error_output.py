"""What programs write to their error output, as `discovery serve` logs it."""

from __future__ import annotations

import sys

import pytest

from discovery_engine.config.settings import LogSettings, ServerSettings, StdioTransport
from discovery_engine.tools.model import ServerName
from discovery_server.logs import log_to
from tests.engines import Folder
from tests.servers.programs import fault_server

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("UPS-25")]

LEAKS = r"import os, sys; sys.stderr.write('\x1b[31mkey %s\nlast words' % os.environ['KEY'])"


async def log_of(folder: Folder, *servers: ServerSettings) -> list[str]:
    """What is in the log file once all servers were asked."""
    folder.write(*servers)
    path = folder.path / "discovery.log"
    with log_to(LogSettings(file=str(path)), {}):
        async with folder.open() as engine:
            await engine.refresh()
    return path.read_text("utf-8").splitlines()


def said(lines: list[str]) -> list[str]:
    marker = "discovery_engine.upstream.stderr_log: "
    return [line.partition(marker)[2] for line in lines if marker in line]


async def test_it_is_reported_with_the_servers_name_and_without_its_secrets(folder: Folder) -> None:
    transport = StdioTransport(sys.executable, ("-c", LEAKS), {"KEY": "tr0ub4dor"})

    lines = await log_of(folder, ServerSettings(ServerName("leaky"), transport))

    assert said(lines)[:2] == ["leaky: <U+001B>[31mkey ••••", "leaky: last words"]
    assert "tr0ub4dor" not in "\n".join(lines)


async def test_a_flood_of_one_leaves_room_for_the_others(folder: Folder) -> None:
    flood = fault_server("stderr_flood", name="flood")
    dying = fault_server("crash_start", name="dying")

    told = said(await log_of(folder, flood, dying))

    assert sum(line.startswith("flood: ") for line in told) <= 51
    assert any(line.startswith("dying: ") for line in told)
