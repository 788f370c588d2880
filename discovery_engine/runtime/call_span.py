"""A span of OpenTelemetry around a call, if the process has a tracer.

Only the API is used, and only once another part has loaded it: an exporter of spans has, and a
program without one does not pay for the import. A span never holds arguments, results
or names that a caller made up.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from discovery_engine.call_log.log_entry import NO_ERRORS, EntryKind
from discovery_engine.rpc.client import CallbackClient, Client
from discovery_engine.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from discovery_engine._util.json import JSONObject

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


class _TracedClient:
    """A client with other members in `_meta`."""

    def __init__(self, client: Client, meta: JSONObject) -> None:
        self.id = client.id
        self.origin = client.origin
        self.capabilities = client.capabilities
        self.log_level = client.log_level
        self.takes_input_required = client.takes_input_required
        self.takes_tasks = client.takes_tasks
        self.meta = meta
        self.ask = client.ask
        self.notify = client.notify
