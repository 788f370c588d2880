"""When the system has nothing left to give."""

from __future__ import annotations

import json
import subprocess
import sys

import anyio
import pytest

from tests.servers.programs import HERE, http_server

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("what", "address"),
    [
        pytest.param("descriptors", ["busy", 1.0], id="no-descriptors"),
        pytest.param("threads", ["answered", '{"text": "hi"}'], id="no-threads"),
    ],
)
@pytest.mark.requirement("UPS-66")
async def test_without_room_new_servers_are_refused_and_old_ones_go_on(
    what: str, address: list[object]
) -> None:
    with http_server("modern") as url:
        command = [sys.executable, "-m", "tests.servers.cramped", what, url]
        done = await anyio.run_process(command, cwd=HERE.parent.parent, stderr=subprocess.PIPE)

    told = json.loads(done.stdout)
    assert told["program"] == ["busy", 1.0]
    assert told["address"] == address
    assert (told["old"], told["later"]) == ('{"text": "hi"}', '{"text": "hi"}')
    assert told["left"] == len(["the old server", "the reaper"])
