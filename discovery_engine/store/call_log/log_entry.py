"""An entry of the call log, and which entries a reader asks for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue

EntryKind: TypeAlias = Literal[
    "call",
    "ping",
    "resource-read",
    "prompt-get",
    "notification",
    "progress",
    "question",
    "stderr",
]
Actor: TypeAlias = Literal["agent", "person", "program"]
"""The caller: an agent through its meta-tools, a person on the command line, or a program."""
ExportForm: TypeAlias = Literal["ndjson", "csv"]
"""Lines of JSON, or comma-separated values."""

KINDS: tuple[EntryKind, ...] = get_args(EntryKind)
CALL_KINDS: tuple[EntryKind, ...] = ("call", "resource-read", "prompt-get")
"""The kinds that a client waits for, and that count as calls."""
SUCCESSES = ("ok", "task")
"""Outcomes that are no errors; neither is `cancelled`."""
NO_ERRORS = (*SUCCESSES, "cancelled", "")


class LogEntry(Struct, frozen=True):
    """One thing that happened. Texts are redacted, and cut with a label."""

    at: float
    """Unix time in seconds, when it ended."""
    kind: EntryKind
    server: str = ""
    """Empty if a call named none, and no server has such a tool."""
    tool: str = ""
    """The tool, or the key of a resource or prompt (`prompt:review`); else the method."""
    outcome: str = ""
    """`ok`, `tool_error`, `cancelled`, `task`, or the code of the error; empty if there is none."""
    seconds: float = 0.0
    queue_seconds: float = 0.0
    """The part of `seconds` that it waited for other calls to its server."""
    argument_size: int = 0
    """Characters, counted up to a limit, before anything is cut."""
    result_size: int = 0
    client: str = ""
    """The client's name for itself, and where clients are distinguished the first characters of
    its id."""
    view: str = ""
    """The view of the configuration that the client sees; empty for all."""
    by: Actor = "program"
    trace_id: str = ""
    """32 hexadecimal digits; empty without a trace."""
    arguments: JSONValue = None
    """The data sent to the server, or what the server asked for; None if it is not kept."""
    result: JSONValue = None
    """The answer or output of the server, or the answer to its question; None if it is not kept."""
    id: int = 0
    """The place in the log; 0 before it is written."""

    @property
    def is_error(self) -> bool:
        return self.outcome not in NO_ERRORS

    def to_json(self) -> JSONObject:
        """Return all fields as `--json`, NDJSON and CSV have them; `time` is `at` for people."""
        others = {name: getattr(self, name) for name in self.__struct_fields__}
        return {"id": self.id, "time": self.time} | others

    @property
    def time(self) -> str:
        """ISO 8601 in UTC, with milliseconds."""
        moment = datetime.fromtimestamp(self.at, UTC).isoformat(timespec="milliseconds")
        return moment.replace("+00:00", "Z")


class LogFilter(Struct, frozen=True):
    """A choice of entries: those that satisfy every condition given."""

    servers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    views: tuple[str, ...] = ()
    """The views of the configuration that the clients used."""
    kinds: tuple[EntryKind, ...] = ()
    statuses: tuple[str, ...] = ()
    """`ok`, `error`, or an outcome."""
    since: float | None = None
    """Unix time in seconds."""
    until: float | None = None
    text: str = ""
    """Text in client, tool, arguments or result; the case of ASCII letters is ignored."""


class RunningCall(Struct, frozen=True):
    """A call that has run for a second or more. Texts are redacted, and cut with a label."""

    began_at: float
    """Unix time in seconds."""
    kind: EntryKind = "call"
    server: str = ""
    tool: str = ""
    client: str = ""
    view: str = ""
    by: Actor = "program"
    question: str | None = None
    """The oldest question of its server that its client has not answered; empty if it is not kept,
    and None if there is none."""
    arguments: JSONValue = None


DescribeRunning: TypeAlias = Callable[[float], RunningCall]
"""Returns a call as it is now, which began at this Unix time; may be called from any thread."""

EVERYTHING = LogFilter()
PAGE = 100  # entries
