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
    ("what", "told_of_new", "left"),
    [
        pytest.param("descriptors", ["busy", 1.0], 2, id="no-descriptors"),
        pytest.param("threads", ["answered", '{"text": "hi"}'], 3, id="no-threads"),
    ],
)
@pytest.mark.requirement("UPS-66")
async def test_without_room_new_servers_are_refused_and_without_threads_they_need_none(
    what: str, told_of_new: list[object], left: int
) -> None:
    with http_server("modern") as url:
        command = [sys.executable, "-m", "tests.servers.cramped", what, url]
        done = await anyio.run_process(command, cwd=HERE.parent.parent, stderr=subprocess.PIPE)

    told = json.loads(done.stdout)
    assert told["program"] == told["address"] == told_of_new
    assert (told["old"], told["later"]) == ('{"text": "hi"}', '{"text": "hi"}')
    assert told["left"] == left  # the reaper, the old server, and the new one if it was started
