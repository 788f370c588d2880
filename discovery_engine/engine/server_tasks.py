"""Tasks of servers that were handed to clients: `engine.tasks`.

A client that takes tasks gets the handle of one from `Engine.execute`, and asks for it here. To
every other client, and once the owner has withheld its tool, a task does not exist.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.errors import DiscoveryError, TaskNotFoundError, concerning
from discovery_engine.runtime.call_record import CallRecord
from discovery_engine.tools.model import ToolKey

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.engine.core import EngineCore
    from discovery_engine.rpc.client import Client
    from discovery_engine.runtime.current_view import CurrentView
    from discovery_engine.upstream.open_tasks import OpenTask


class TaskReport(Struct, frozen=True):
    """The facts that a client may know of its task."""

    fields: JSONObject
    """The fields of `tasks/get`, with the handle as the id."""
    tool: ToolKey
    select: str
    """The expression that was last given to `ServerTasks.select`."""


class ServerTasks:
    """Made by the engine."""

    def __init__(self, core: EngineCore, current: CurrentView) -> None:
        self._core = core
        self._current = current

    def begin(self, handle: str, tool: ToolKey, caller: Client | None) -> None:
        """Note the tool of a task that was just handed to a client."""
        self._owned(handle, caller).tool = tool

    def select(self, handle: str, expression: str, caller: Client | None) -> None:
        """Note which part of its result the client wants."""
        self._owned(handle, caller).select = expression

    async def get(self, handle: str, *, caller: Client | None) -> TaskReport:
        """The state of a task, with its result if it is completed.

        Raises:
            TaskNotFoundError: If it is not this client's, or is gone.
            UpstreamError: If its server cannot be reached, or reports what is not valid.
        """
        task, tool, server = self._found(handle, caller)
        fields = task.recent()
        if fields is None:
            with concerning(tool.server, tool.tool):
                fields = await self._core.upstreams.ask_task(server, task, "tasks/get", caller)
            task.remember(fields)
        if task.state.is_over and not task.is_settled:
            task.is_settled = True
            self._record(task, tool, fields, caller)
        return TaskReport(fields, tool, task.select)

    async def update(self, handle: str, responses: JSONObject, *, caller: Client | None) -> None:
        """Pass the client's answers to the questions of a task on.

        Raises:
            TaskNotFoundError, UpstreamError: As `get`.
        """
        task, tool, server = self._found(handle, caller)
        with concerning(tool.server, tool.tool):
            await self._core.upstreams.ask_task(server, task, "tasks/update", caller, responses)
        task.remember(None)

    async def cancel(self, handle: str, *, caller: Client | None) -> None:
        """Ask the server to end a task; it may go on all the same.

        Raises:
            TaskNotFoundError, UpstreamError: As `get`.
        """
        task = self._owned(handle, caller)
        server = self._server(task)
        with concerning(task.server, task.subject):
            await self._core.upstreams.ask_task(server, task, "tasks/cancel", caller)
        task.remember(None)

    def _owned(self, handle: str, caller: Client | None) -> OpenTask:
        owner = caller.id if caller else None
        task = self._core.upstreams.open_task(handle, owner=owner)
        if task is None:
            raise TaskNotFoundError
        return task

    def _found(
        self, handle: str, caller: Client | None
    ) -> tuple[OpenTask, ToolKey, ServerSettings]:
        task = self._owned(handle, caller)
        if task.tool is None or not self._is_shown(task.tool):
            raise TaskNotFoundError
        return task, task.tool, self._server(task)

    def _server(self, task: OpenTask) -> ServerSettings:
        try:
            return self._core.state.view.require_connectable(task.server)
        except DiscoveryError as error:  # it must not be asked any more
            raise TaskNotFoundError from error

    def _is_shown(self, key: ToolKey) -> bool:
        """Return whether a tool may be used.

        A tool that its server lists no longer counts, too: its task may still end.
        """
        snapshot = self._current.snapshot
        entry = snapshot.catalog.get(key.server, key.tool)
        if entry is None and key.server not in snapshot.settings.by_name:
            return False
        if entry is None:
            return self._core.state.view.catalog.get(key.server, key.tool) is None
        return entry.is_visible

    def _record(
        self, task: OpenTask, tool: ToolKey, fields: JSONObject, caller: Client | None
    ) -> None:
        """Publish the end of the call, as that of one that returned its result itself."""
        seconds = asyncio.get_running_loop().time() - task.began
        view = self._current.snapshot.settings.view
        record = CallRecord(self._core.recorder, tool.server, tool.tool, {}, caller, view=view)
        with record:
            record.record_task(task.state.status, fields.get("result"), seconds)
