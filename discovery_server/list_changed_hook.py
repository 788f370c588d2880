"""`server.onListChanged`: the owner's program that runs after a client's list of tools changed."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
from anyio import BrokenResourceError, WouldBlock

from discovery_engine._util.tasks import open_task_group
from discovery_engine.secrets.references import UnsetReference
from discovery_engine.secrets.resolver import EnvironmentResolver, resolve

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream

    from discovery_engine.engine import Engine

logger = logging.getLogger(__name__)

_HOOK_TIMEOUT = 60.0  # seconds


@asynccontextmanager
async def open_list_changed_hook(
    engine: Engine, environ: Mapping[str, str]
) -> AsyncIterator[Callable[[], None]]:
    """Yield a function that starts the program; changes while it runs start it once more."""
    changes, received = anyio.create_memory_object_stream[None](1)

    def on_change() -> None:
        with suppress(WouldBlock, BrokenResourceError):
            changes.send_nowait(None)

    async with changes, received, open_task_group() as tasks:
        tasks.start_soon(_run_each, engine, environ, received)
        yield on_change
        tasks.cancel_scope.cancel()


async def _run_each(
    engine: Engine, environ: Mapping[str, str], changes: MemoryObjectReceiveStream[None]
) -> None:
    async for _ in changes:
        await engine.complete_settings()  # what is remembered has no commands
        settings = engine.settings
        if not (command := settings.server.on_list_changed):
            continue
        # Few configurations have one.
        from discovery_engine.upstream.stdio.environment import child_environment  # noqa: PLC0415

        folder = os.path.dirname(settings.path) if settings.path else None  # noqa: PTH120 - "" stays
        try:
            environment = child_environment(environ, {}, settings.server.pass_env)
            secrets = EnvironmentResolver(environ)
            words = [resolve(word, secrets, base_dir=folder or None) for word in command]
            status = await _run(words, environment)
        except (OSError, UnsetReference) as error:
            logger.warning("`server.onListChanged` cannot be run: %s", error)
        else:
            if status is None:
                logger.warning("`server.onListChanged` took more than %g s: ended", _HOOK_TIMEOUT)
            elif status:
                logger.warning("`server.onListChanged` exited with status %d", status)


async def _run(words: Sequence[str], env: Mapping[str, str]) -> int | None:
    """Return the exit status; None if it was ended because it took too long."""
    nothing = subprocess.DEVNULL
    process = await anyio.open_process(
        words, stdin=nothing, stdout=nothing, stderr=nothing, env=env, start_new_session=True
    )
    try:
        with anyio.move_on_after(_HOOK_TIMEOUT):
            return await process.wait()
        return None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                if sys.platform == "win32":
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)
            with anyio.CancelScope(shield=True):
                await process.wait()
