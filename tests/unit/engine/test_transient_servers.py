"""How long a server for a trial runs."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from discovery_engine.engine.transient_servers import TransientServers
from tests.engines import Folder, entry, good

pytestmark = pytest.mark.anyio


async def test_it_ends_when_it_was_not_used_for_its_time(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write()
    async with folder.open() as engine, anyio.create_task_group() as tasks:
        ended = anyio.Event()

        def on_change(_: str, is_running: bool) -> None:
            if not is_running:
                ended.set()

        transient = TransientServers(engine, folder.data, os.environ, on_change=on_change, ttl=0.2)
        tasks.start_soon(transient.run)
        written = {key: entry(good())[key] for key in ("command", "args", "env")}
        server = await transient.start(await transient.plan(written))
        with transient.used(server.handle) as own:  # however long that takes
            for _ in range(3):
                await own.refresh()
            assert transient.has(server.handle)
        with anyio.fail_after(60):
            await ended.wait()
        assert not transient.has(server.handle)
        tasks.cancel_scope.cancel()
