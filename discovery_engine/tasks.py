"""Task groups as this project uses them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def open_task_group() -> AsyncIterator[TaskGroup]:
    """A task group out of which a lone error comes as itself, not wrapped in a group."""
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        [error] = group.exceptions
        raise error from error.__cause__
