"""The tasks that were handed to clients: each by a handle of ours, for its client alone.

A client never gets the id that a server gave its task: servers may count their tasks, and two
servers may use one id. A handle is random, kept in memory only, and bound to the client and to the
session in which the task was begun. Where several gateways share a database it ends with the name
of the process that has the task, which any of them can ask.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.tools.model import ServerName, ToolKey
from discovery_engine.upstream.session import Session
from discovery_engine.upstream.task import SHORTEST_INTERVAL, TaskState

LONGEST_LIFE = 86_400.0
"""Seconds for which a handle is valid, however long the server keeps its task."""
_MAX_OPEN_TASKS = 1024
_MOST_OF_CLIENT = 128
_UNATTENDED = 3600.0  # seconds that a session stays open for a task that no client asks for
_HANDLE = 24  # random bytes


class OpenTask(Struct, eq=False):
    handle: str
    owner: str | None
    """The client; None if there is only one."""
    server: ServerName
    subject: str
    """The tool by the server's own name."""
    session: Session
    state: TaskState
    """The state that the server last reported."""
    began: float
    tool: ToolKey | None = None
    """Set by who made the call, as is the rest."""
    select: str = ""
    """The part of the result that is wanted, as a JMESPath expression."""
    is_settled: bool = False
    """True if its end was recorded."""
    shown: JSONObject | None = None
    """The report that its client was shown last; None if it was over or may have changed since."""
    shown_at: float = 0.0

    def recent(self) -> JSONObject | None:
        """Return what its client was shown a moment ago; None if the server has to be asked."""
        is_recent = asyncio.get_running_loop().time() < self.shown_at + SHORTEST_INTERVAL
        return self.shown if is_recent else None

    def remember(self, shown: JSONObject | None) -> None:
        """Note what its client is shown; None after a request that may change it."""
        self.shown = None if self.state.is_over else shown
        self.shown_at = asyncio.get_running_loop().time()

    def observe(self, state: TaskState) -> None:
        """Note a state; while the task goes on, so does its session."""
        self.state = state
        if state.is_over:
            self.session.release(self.handle)
        else:
            now = asyncio.get_running_loop().time()
            self.session.keep(self.handle, now + _UNATTENDED)


class OpenTasks:
    """Bounded: a client that has too many waits for its results instead."""

    def __init__(self, *, at: str = "") -> None:
        """`at` is the name of this process, by which others find it; empty if there are none."""
        self._at = at and f".{at}"
        self._tasks: dict[str, OpenTask] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def has_room(self, owner: str | None) -> bool:
        """Return whether a client may get one more task; its oldest finished one makes room."""
        for task in list(self._expired()):
            self.remove(task)
        counts = Counter(task.owner for task in self._tasks.values())
        if counts[owner] < _MOST_OF_CLIENT and len(self) < _MAX_OPEN_TASKS:
            return True
        over = [task for task in self._tasks.values() if task.owner == owner and task.state.is_over]
        if over:
            self.remove(over[0])
        return bool(over)

    def add(
        self,
        session: Session,
        server: ServerName,
        subject: str,
        owner: str | None,
        state: TaskState,
    ) -> OpenTask:
        """A task of a client, under a new handle."""
        now = asyncio.get_running_loop().time()
        handle = secrets.token_urlsafe(_HANDLE) + self._at
        task = OpenTask(handle, owner, server, subject, session, state, now)
        task.observe(state)
        self._tasks[handle] = task
        return task

    def get(self, handle: str, *, owner: str | None) -> OpenTask | None:
        """The task of a handle; None if there is none, or it is another client's."""
        task = self._tasks.get(handle)
        now = asyncio.get_running_loop().time()
        is_known = task and task.owner == owner and now < task.began + LONGEST_LIFE
        return task if is_known else None

    def remove(self, task: OpenTask) -> None:
        self._tasks.pop(task.handle, None)
        task.session.release(task.handle)

    def _expired(self) -> Iterator[OpenTask]:
        now = asyncio.get_running_loop().time()
        return (task for task in self._tasks.values() if now >= task.began + LONGEST_LIFE)
