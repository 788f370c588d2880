from __future__ import annotations

import gc
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from mcp import Client

from discovery_engine.config.settings import LogSettings, Settings
from discovery_server import app

pytestmark = pytest.mark.anyio

QUIET = LogSettings(stderr=False)


@asynccontextmanager
async def serving(config: app.Config, folder: Path) -> AsyncIterator[str]:
    """The address of a server in this process; told to stop by a signal, as people do."""
    send, receive = anyio.create_memory_object_stream[str](1)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks, receive:

            async def serve() -> None:
                with send:
                    await app.serve_http(
                        config,
                        token=None,
                        on_listening=lambda address, _: send.send_nowait(address),
                        environ={},
                        data_dir=folder,
                    )

            tasks.start_soon(serve)
            address = await receive.receive()
            async with Client(address):
                yield address
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.requirement("CAT-25")
async def test_what_lives_when_serving_begins_is_left_out_of_collections(tmp_path: Path) -> None:
    gc.unfreeze()  # what the tests froze

    async with serving(Settings(log=QUIET), tmp_path):
        frozen = gc.get_freeze_count()

    assert gc.get_freeze_count() == 0
    assert frozen > 10_000  # the modules of this process alone are several times as many objects
