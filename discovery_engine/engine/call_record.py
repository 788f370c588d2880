"""Records each call: at its end as an event, which never has its contents, and in the call log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine._util.text import one_line
from discovery_engine._util.version import __version__
from discovery_engine.errors import DiscoveryError, UpstreamProtocolError
from discovery_engine.events import EventBus, ToolCalled
from discovery_engine.rpc.client import ELICIT, AskedClient, CallbackClient, Client
from discovery_engine.secrets.references import REDACTED
from discovery_engine.store.call_log.log_entry import (
    NO_ERRORS,
    Actor,
    EntryKind,
    LogEntry,
    RunningCall,
)
from discovery_engine.tools.model import ServerName, ToolName

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from discovery_engine.rpc.messages import OnProgress
    from discovery_engine.store.call_log.call_log import CallLog
    from discovery_engine.upstream.question import Question

_CLIENT = 8  # characters: with the whole id, a reader of the log could use the session
_NAME = 64  # characters
_MOST_PROGRESS = 100  # entries of one call; a server may report each percent, and each byte
_TRACE = lazy_pattern(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")


class CallRecorder(Struct, frozen=True):
    """The places in which calls are recorded."""

    events: EventBus
    log: CallLog
    actor: Actor
    """The actor of calls of which nothing else is known."""


class CallRecord:
    """A block that runs one call; its outcome is recorded at the end.

    It implements `CallObserver`.
    """

    def __init__(
        self,
        recorder: CallRecorder,
        server: str | None,
        tool: str,
        arguments: JSONObject,
        caller: Client | None,
        *,
        kind: EntryKind = "call",
        view: str = "",
        by: Actor | None = None,
    ) -> None:
        """Begun now; `view` is that of the caller, and `by` who it is, if that is known."""
        self._recorder = recorder
        self._kind = kind
        self._server = ServerName(server or "")
        self._tool = ToolName(tool)
        self._arguments = arguments
        self._caller = caller
        self._view = view
        self._by: Actor = by or recorder.actor
        self._outcome = "cancelled"
        self._result: JSONObject | None = None
        self._error: DiscoveryError | None = None
        self._queued = 0.0
        self._questions: Sequence[Question] = ()
        """Questions that wait, the oldest first; replaced on change, for other threads read it."""
        self._progress = 0
        self._is_known = False
        self._span = begin_span(kind, caller)
        self._started = time.monotonic()
        self.is_named = False
        """True if the name of the tool stays as it is when there is an error."""

    def __enter__(self) -> Self:
        self._recorder.log.begin(self._describe)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._recorder.log.end(self._describe)
        if isinstance(error, DiscoveryError):
            self._record_error(error)
        seconds = time.monotonic() - self._started
        sizes = self._log_call(seconds)
        if self._span:
            named = (self._server, self._tool) if self._is_known else ("", "")
            self._span.end(*named, self._outcome, self._queued)
        if self._recorder.events.wants(ToolCalled):
            client = self._caller.id if self._caller else None
            size = 0 if self._result is None else sizes[1]
            self._recorder.events.publish(
                ToolCalled(self._server, self._tool, self._outcome, seconds, client, sizes[0], size)
            )

    @property
    def client(self) -> Client | None:
        """The caller; what it gives to the server names the span of this call, if there is one."""
        return self._span.carried_by(self._caller) if self._span else self._caller

    @property
    def _trace_id(self) -> str:
        return self._span.trace_id if self._span else trace_id(self._caller)

    def set_name(self, server: ServerName, name: str) -> None:
        self._server, self._tool, self._is_known = server, ToolName(name), True

    def record_result(self, result: JSONObject) -> None:
        self._outcome = "tool_error" if result.get("isError") else "ok"
        if result.get("resultType") == "task":
            self._outcome = "task"
        self._result = result

    def record_task(self, status: str, result: JSONObject | None, seconds: float) -> None:
        """The end of a task that was begun so many seconds ago."""
        self._is_known = True
        self._span = None  # that of the request by which the task began has ended
        self._started = time.monotonic() - seconds
        if result is not None:
            self.record_result(result)
        else:
            self._outcome = "cancelled" if status == "cancelled" else UpstreamProtocolError.code

    def record_wait(self, seconds: float) -> None:
        """Add seconds for which the call has waited for others; see `CallObserver`."""
        self._queued += seconds

    def begin_question(self, question: Question) -> None:
        """Show a question of the server until its answer is recorded; see `CallObserver`."""
        self._questions = [*self._questions, question]

    def record_question(
        self, question: Question, answer: JSONObject | Exception, seconds: float
    ) -> None:
        """Record a question of the server and its answer; see `CallObserver`."""
        method, params = question.method, question.params
        self._questions = [other for other in self._questions if other is not question]
        outcome, result = "ok", answer
        if isinstance(answer, Exception):
            outcome, result = "error", {"error": str(answer)}
        elif method == ELICIT and "content" in answer:
            # What a person has typed in may be anything; that it was answered is enough.
            content = answer["content"]
            placeholder = (
                dict.fromkeys(content, REDACTED) if isinstance(content, dict) else REDACTED
            )
            result = {**answer, "content": placeholder}
        self._recorder.log.record(self._entry("question", method, outcome, seconds), params, result)

    def recording(self, on_progress: OnProgress | None) -> OnProgress | None:
        """The same callback, with each progress recorded; None stays None."""
        if on_progress is None:
            return None

        async def record(progress: float, total: float | None, message: str | None) -> None:
            self._record_progress(progress, total, message)
            await on_progress(progress, total, message)

        return record

    def _record_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._progress += 1
        if self._progress > _MOST_PROGRESS:
            return
        seconds = time.monotonic() - self._started
        reported = {"progress": progress, "total": total, "message": message}
        self._recorder.log.record(self._entry("progress", self._tool, "", seconds), result=reported)

    def _record_error(self, error: DiscoveryError) -> None:
        self._outcome = error.code
        self._error = error
        self._server = ServerName(error.server or self._server)
        if not self.is_named:
            self._tool = ToolName(error.tool or self._tool)

    def _entry(
        self, kind: EntryKind, tool: str, outcome: str, seconds: float, queued: float = 0.0
    ) -> LogEntry:
        caller = self._caller
        return LogEntry(
            self._recorder.log.now(),
            kind,
            self._server,
            tool,
            outcome,
            seconds,
            queued,
            client=_label(caller) if caller else "",
            view=self._view,
            by=self._by,
            trace_id=self._trace_id,
        )

    def _describe(self, began_at: float) -> RunningCall:
        questions = self._questions
        return RunningCall(
            began_at,
            self._kind,
            self._server,
            self._tool,
            _label(self._caller) if self._caller else "",
            self._view,
            self._by,
            questions[0].summary if questions else None,
            self._arguments,
        )

    def _log_call(self, seconds: float) -> tuple[int, int]:
        """Log the call, and return the characters in its arguments and its result."""
        result: JSONValue = self._result
        if self._error is not None:
            result = {"error": {"code": self._error.code, "message": self._error.message}}
        entry = self._entry(self._kind, self._tool, self._outcome, seconds, self._queued)
        return self._recorder.log.record(entry, self._arguments, result, is_known=self._is_known)


def trace_id(caller: Client | None) -> str:
    """The trace that a client's request belongs to; empty if it names none."""
    parent = caller.meta.get("traceparent") if caller else None
    match = _TRACE.fullmatch(parent) if isinstance(parent, str) else None
    return match[1] if match else ""


# A span of OpenTelemetry around a call, if the process has a tracer.
#
# Only the API is used, and only once another part has loaded it: an exporter of spans has, and a
# program without one does not pay for the import. A span never holds arguments, results or names
# that a caller made up.

_API = "opentelemetry.trace"
_METHODS: Mapping[EntryKind, str] = {
    "call": "tools/call",
    "resource-read": "resources/read",
    "prompt-get": "prompts/get",
}
_CARRIED = ("traceparent", "tracestate")


class CallSpan:
    """Begun by `begin_span`."""

    def __init__(self, span: Any, method: str) -> None:
        self._span = span
        self._method = method

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits."""
        return f"{self._span.get_span_context().trace_id:032x}"

    def carried_by(self, caller: Client | None) -> Client:
        """The same client, whose server gets this span as the parent of its own."""
        from opentelemetry.trace import set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import (
            TraceContextTextMapPropagator,
        )

        caller = caller or CallbackClient()
        carried: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carried, set_span_in_context(self._span))
        return _TracedClient(caller, {**caller.meta, **carried})

    def end(self, server: str, tool: str, outcome: str, queue_seconds: float) -> None:
        """End it; `server` and `tool` are empty if they do not exist."""
        from opentelemetry.trace import Status, StatusCode

        span = self._span
        if tool:
            span.update_name(f"{self._method} {tool}")
            span.set_attribute("gen_ai.tool.name", tool)
        span.set_attribute("discovery.server", server)
        span.set_attribute("discovery.outcome", outcome)
        span.set_attribute("discovery.queue_seconds", queue_seconds)
        if outcome not in NO_ERRORS:
            span.set_attribute("error.type", outcome)
            span.set_status(Status(StatusCode.ERROR, outcome))
        span.end()


def begin_span(kind: EntryKind, caller: Client | None) -> CallSpan | None:
    """A span in the client's trace, else below the current one; None if no spans are recorded."""
    api = sys.modules.get(_API)
    method = _METHODS.get(kind)
    if api is None or method is None:
        return None
    provider = api.get_tracer_provider()
    if isinstance(provider, (api.ProxyTracerProvider, api.NoOpTracerProvider)):
        return None
    tracer = provider.get_tracer("discovery_engine", __version__)
    span = tracer.start_span(
        method,
        context=_parent(caller),
        kind=api.SpanKind.CLIENT,
        attributes={"mcp.method.name": method},
    )
    return CallSpan(span, method) if span.is_recording() else None


def _parent(caller: Client | None) -> Any:
    """The context that a client's request names; None for the current one."""
    meta = caller.meta if caller else {}
    carrier = {name: meta[name] for name in _CARRIED if isinstance(meta.get(name), str)}
    if "traceparent" not in carrier:
        return None
    from opentelemetry.trace.propagation.tracecontext import (
        TraceContextTextMapPropagator,
    )

    return TraceContextTextMapPropagator().extract(carrier)


def _label(client: Client) -> str:
    """Return the client's name for itself, and the first characters of its id."""
    return f"{one_line(client.name)[:_NAME]} {(client.id or '')[:_CLIENT]}".strip()


class _TracedClient(AskedClient):
    """A client with other members in `_meta`."""

    def __init__(self, client: Client, meta: JSONObject) -> None:
        super().__init__(client)
        self.takes_input_required = client.takes_input_required
        self.takes_tasks = client.takes_tasks
        self.meta = meta
