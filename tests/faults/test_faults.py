"""One server does something that no server should, and four things hold each time.

Its caller gets the right answer or the right error, at once or when its own time is up; its
neighbour answers as ever meanwhile; nothing of it is left behind (see `conftest`); and its
condition says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
import pytest
from msgspec.structs import replace

from discovery_engine.config.settings import RemoteTransport, ServerSettings, Timeouts
from discovery_engine.errors import (
    DiscoveryError,
    OutcomeUnknownError,
    UnavailableError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from discovery_engine.upstream.state import ServerState
from discovery_engine.upstream.upstreams import Upstreams
from tests.servers.programs import (
    Neighbour,
    call,
    eventually,
    fault_server,
    http_server,
    program,
    remote_server,
    upstreams,
)

pytestmark = pytest.mark.anyio

# Only what never comes has little time: a busy machine may take a second for all else.
PATIENT = Timeouts(connect=60, list=60, call=60)
SHORT_START = Timeouts(connect=0.7, list=60, call=60)
SHORT_CALL = Timeouts(connect=60, list=60, call=0.5)
AT_ONCE = 20.0  # seconds; far from the patience of a minute, and wide for a busy machine

ANSWERED = (ServerState.READY, ServerState.DEGRADED)


@dataclass(frozen=True)
class Fault:
    """What one server does, and what comes of it."""

    server: ServerSettings
    outcome: type[DiscoveryError] | str
    """The error of its caller, or what is in the text of its answer."""
    said: str = ""
    """What is in the message of the error."""
    states: tuple[ServerState, ...] = (ServerState.READY,)
    reason: str = ""
    """What is in the reason of its state."""
    tool: str = "echo"
    is_listed: bool = True
    """Whether it is asked for its tools before."""
    program: str = ""
    """What serves it over HTTP, in the mode that its address names."""


def stdio(mode: str, outcome: type[DiscoveryError] | str, said: str = "", **fields) -> object:
    """A fault of `fault_server.py` whose caller is told at once."""
    server = fault_server(mode, timeouts=PATIENT, **fields.pop("server", {}))
    return pytest.param(Fault(server, outcome, said, **fields), id=mode)


def late(mode: str, said: str = "within 0.5 s", **fields) -> object:
    """A fault whose caller is told when the call's time is up."""
    server = fault_server(mode, timeouts=SHORT_CALL, **fields.pop("server", {}))
    states = fields.pop("states", (ServerState.DEGRADED,))
    reason = fields.pop("reason", "not answered within 0.5 s")
    outcome = fields.pop("outcome", UpstreamTimeoutError)
    fault = Fault(server, outcome, said, states=states, reason=reason, **fields)
    return pytest.param(fault, id=mode)


def at_start(
    server: ServerSettings, said: str, *, name: str, timeouts: Timeouts = PATIENT
) -> object:
    server = replace(server, timeouts=timeouts)
    fault = Fault(
        server, UnavailableError, said, states=(ServerState.FAILING,), reason=said, is_listed=False
    )
    return pytest.param(fault, id=name)


def http(mode: str, outcome: type[DiscoveryError] | str, said: str = "", **fields) -> object:
    timeouts = fields.pop("timeouts", PATIENT)
    kind = "sse" if mode.startswith("sse") else "http"
    where = fields.pop("program", "wire_http_server.py")
    fields = {"is_listed": where != "http_server.py" or mode.endswith("call"), **fields}
    server = remote_server(mode, name=mode, timeouts=timeouts, kind=kind)
    return pytest.param(Fault(server, outcome, said, program=where, **fields), id=f"http-{mode}")


WIRE = {"program": "wire_server.py"}
FAILING = {"states": (ServerState.FAILING,)}
LOCKED = {"states": (ServerState.NEEDS_AUTH,)}
DEGRADED = {"states": (ServerState.DEGRADED,)}
RETIRED = {
    "states": (ServerState.DEGRADED, ServerState.IDLE)
}  # the second once its callers are served
LOST = {"states": (ServerState.FAILING,), "reason": "it "}


STARTS = [
    at_start(program("no-such-program"), "not on the PATH", name="missing"),
    at_start(program(__file__), "may not be executed", name="not-executable"),
    at_start(program("sh", cwd="/no/such"), "does not exist", name="no-directory"),
    at_start(program("cat"), "refused the handshake", name="echoes"),
    at_start(program("yes"), "within 0.7 s", name="says-yes", timeouts=SHORT_START),
    at_start(program("true"), "exited with status 0", name="ends"),
    at_start(program("sh", "-c", "kill -9 $$"), "by SIGKILL", name="killed"),
    at_start(program("sh", "-c", "exec >&-; sleep 600"), "closed its output", name="closes-output"),
    at_start(fault_server("crash_start"), "exited with status 3", name="crash_start"),
    at_start(fault_server("handshake_error"), "not one of MCP", name="handshake_error"),
    at_start(fault_server("hang_start"), "within 0.7 s", name="hang_start", timeouts=SHORT_START),
    stdio("slow_start", "hi", server=WIRE, is_listed=False),
    stdio("exit_on_unknown", "hi", is_listed=False),
    stdio("stubborn", "hi"),
]

DEATHS = [
    stdio("crash_call", OutcomeUnknownError, "exited with status 7", **LOST),
    stdio("partial_call", OutcomeUnknownError, "exited with status 0", **LOST),
    stdio("orphan_call", OutcomeUnknownError, "exited with status 5", **LOST),
    stdio("kills_itself", OutcomeUnknownError, "by SIGKILL", server=WIRE, **LOST),
    stdio("closes_output", OutcomeUnknownError, "closed its output", server=WIRE, **LOST),
    stdio("exits_when_idle", "hi", server=WIRE, states=(ServerState.IDLE,)),
    stdio("list_dies", UnavailableError, "while its tools were listed", **LOST),
]

HANGS = [
    late("hang_call", tool="hang"),
    late("late", tool="hang", server=WIRE),
    late("stops_reading", server=WIRE),
    late("freezes", server=WIRE),
    late("hang_progress", server=WIRE),
    late("wrong_id", server=WIRE),
    late("null_id", server=WIRE),
    late("float_id", server=WIRE),
    late("request_storm", server=WIRE),
    late("stderr_storm", server=WIRE),
]

WORDS = [
    stdio("noise", "hi"),
    stdio("binary", "hi", server=WIRE),
    stdio("garbage_flood", "hi", server=WIRE),
    stdio("blank_flood", "hi", server=WIRE),
    stdio("notice_flood", "hi", server=WIRE),
    stdio("request_flood", "hi", server=WIRE, reason="did not read their answers", **RETIRED),
    stdio("strays", "hi", server=WIRE, reason="without a request", **RETIRED),
    stdio("answers_twice", "hi", server=WIRE, states=ANSWERED),
    stdio("text_id", "hi", server=WIRE),
    stdio("whole_float_id", "hi", server=WIRE),
    stdio("batch", "hi", server=WIRE),
    stdio("no_version", "hi", server=WIRE),
    stdio("both", "hi", server=WIRE),
    stdio("crlf", "hi", server=WIRE),
    stdio("bom", "hi", server=WIRE),
    stdio("drip", "hi", server=WIRE),
    stdio("strange_progress", "hi", server=WIRE),
    stdio("list_changed", "changed"),
    stdio("bad_utf8", "caf\ufffd"),
    stdio("surrogate", "half \ufffd"),
    stdio("nul", "a\ufffdb", server=WIRE),
    stdio("stderr_flood", "hi"),
    stdio("log_flood", "hi", server=WIRE),
    stdio("big_result", "xxx", server=WIRE),
    stdio("many_objects", "many", server=WIRE),
    stdio("many_tools", "hi", server=WIRE),
    stdio("bad_tools", "hi"),
    stdio("endless_pages", "hi"),
    stdio("cursor_loop", "hi"),
    stdio("tool_error", "did not work"),
    stdio("text_result", UpstreamProtocolError, "`result` is a text", server=WIRE),
    stdio("two_on_a_line", UpstreamProtocolError, "cannot be read", server=WIRE),
    stdio("long_int", UpstreamProtocolError, "5000 digits", server=WIRE),
    stdio("big_float", UpstreamProtocolError, "beyond all bounds", server=WIRE),
    stdio("nan", UpstreamProtocolError, "NaN"),
    stdio("deep", UpstreamProtocolError, "too deeply"),
    stdio("nested", UpstreamProtocolError, "100 levels"),
    stdio("huge", UpstreamProtocolError, "longer than 8 MiB", tool="huge"),
    stdio("huge_id_last", UpstreamProtocolError, "longer than 8 MiB"),
    stdio("endless_line", UpstreamProtocolError, "longer than 8 MiB", server=WIRE),
    stdio("refuses_call", UpstreamProtocolError, "Invalid arguments"),
    stdio("odd_error", UpstreamProtocolError, "it gave no message"),
]

OLD = {"program": "http_server.py"}

ADDRESSES = [
    http("ok", "hi"),
    http("big_body", "xxx"),
    http("many_body", "many"),
    http("many_events", "many"),
    http("nul_body", "a\ufffdb"),
    http("nul_event", "a\ufffdb"),
    http("forgetful", "hi", **OLD),
    http("wrong_id", UpstreamProtocolError, "to another request"),
    http("no_rpc", UpstreamProtocolError, "neither `result` nor `error`"),
    http("empty", UpstreamProtocolError, "cannot be read"),
    http("deep_body", UpstreamProtocolError, "too deeply"),
    http("nan_body", UpstreamProtocolError, "NaN"),
    http("huge_body", UpstreamProtocolError, "longer than 8 MiB"),
    http("comments", UpstreamTimeoutError, "0.5 s", timeouts=SHORT_CALL, **DEGRADED),
    http("tiny_chunks", UpstreamTimeoutError, "0.5 s", timeouts=SHORT_CALL, **DEGRADED),
    http("redirects", UnavailableError, "a redirect after 5 others", **DEGRADED),
    http("html_call", OutcomeUnknownError, "text/html", **DEGRADED),
    http("not_http", OutcomeUnknownError, "does not keep to HTTP", **DEGRADED),
    http("closes", OutcomeUnknownError, "does not keep to HTTP", **DEGRADED),
    http("cut_chunk", OutcomeUnknownError, "does not keep to HTTP", **DEGRADED),
    http("bad_gzip", OutcomeUnknownError, "DecodingError", **DEGRADED),
    http("garbage_events", "hi"),
    http("huge_event", UpstreamProtocolError, "longer than 8 MiB"),
    http("busy", UnavailableError, "HTTP 429", **DEGRADED),
    http("gone", UnavailableError, "HTTP 410", **DEGRADED),
    http("login", UnavailableError, "HTTP 401", **LOCKED),
    http("drip", UpstreamTimeoutError, "within 0.5 s", timeouts=SHORT_CALL, **DEGRADED),
    http("event_storm", UpstreamTimeoutError, "0.5 s", timeouts=SHORT_CALL, **DEGRADED),
    http("fail_call", OutcomeUnknownError, "HTTP 502", **OLD, **DEGRADED),
    http("unavailable_call", UnavailableError, "HTTP 503", **OLD, **DEGRADED),
    http("hang_call", UpstreamTimeoutError, "0.5 s", timeouts=SHORT_CALL, **OLD, **DEGRADED),
    http("hang", UnavailableError, "within 0.7 s", timeouts=SHORT_START, **OLD, **FAILING),
    http("html", UnavailableError, "text/html", **OLD, **FAILING),
    http("not_json", UnavailableError, "it cannot be read", **OLD, **FAILING),
    http("status_401", UnavailableError, "HTTP 401", **OLD, **LOCKED),
    http("status_403", UnavailableError, "HTTP 403", **OLD, **LOCKED),
    http("status_404", UnavailableError, "HTTP 404", **OLD, **FAILING),
    http("status_405", UnavailableError, "HTTP 405", **OLD, **FAILING),
    http("status_429", UnavailableError, "HTTP 429", **OLD, **FAILING),
    http("status_500", UnavailableError, "HTTP 500", **OLD, **FAILING),
    http("sse_ends", OutcomeUnknownError, "went away", **OLD, **FAILING),
    http("sse_fails", OutcomeUnknownError, "HTTP 500", **OLD, **DEGRADED),
    http("sse_odd", UnavailableError, "begin with an endpoint", **OLD, **FAILING),
    http("sse_silent", UnavailableError, "within 0.7 s", timeouts=SHORT_START, **OLD, **FAILING),
    http("sse_elsewhere", UnavailableError, "which is not used", **OLD, **FAILING),
]


@contextmanager
def served(fault: Fault) -> Iterator[ServerSettings]:
    """The server of a fault, with an address if it needs one."""
    transport = fault.server.transport
    if not isinstance(transport, RemoteTransport):
        yield fault.server
        return
    with http_server(transport.url, program=fault.program) as url:
        yield replace(fault.server, transport=replace(transport, url=url))


async def outcome_of(opened: Upstreams, server: ServerSettings, fault: Fault) -> object:
    with anyio.fail_after(AT_ONCE):
        try:
            if fault.is_listed:
                await opened.list_tools(server)
            return await call(opened, server, fault.tool, text="hi")
        except DiscoveryError as error:
            return error


@pytest.mark.parametrize("fault", [*STARTS, *DEATHS, *HANGS, *WORDS, *ADDRESSES])
@pytest.mark.requirement("UPS-13")
async def test_a_fault_is_told_contained_and_shown(fault: Fault) -> None:
    with served(fault) as server:
        async with upstreams() as opened, anyio.create_task_group() as tasks:
            neighbour = Neighbour(opened, fault_server(name="neighbour"))
            tasks.start_soon(neighbour.ask_on)
            await eventually(lambda: neighbour.answers > 0)

            outcome = await outcome_of(opened, server, fault)

            answers = neighbour.answers
            await eventually(lambda: neighbour.answers > answers + 1)
            conditions = opened.states
            await eventually(lambda: conditions()[server.name].state in fault.states)
            await eventually(lambda: fault.reason in conditions()[server.name].reason)
            others = conditions()[neighbour.server.name]
            tasks.cancel_scope.cancel()

    if isinstance(fault.outcome, str):
        assert fault.outcome in str(outcome)
    else:
        assert isinstance(outcome, fault.outcome), outcome
        assert fault.said in outcome.message
    assert (others.state, others.stats.failures) == (ServerState.READY, 0)
