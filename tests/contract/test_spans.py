"""Spans of calls: OpenTelemetry in a program, and in `discovery serve`."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import propagate, trace
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler, SamplingResult
from opentelemetry.trace import SpanKind, StatusCode

from discovery_engine import CallbackClient, DiscoveryError
from discovery_server.app import exporting_spans
from tests.engines import Folder, good
from tests.factories import make_definition
from tests.servers.offerings import World, resource

pytestmark = pytest.mark.anyio

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
EXPORTED = InMemorySpanExporter()


class Switch(Sampler):
    """Records while a test wants it: a process can have one provider, which stays."""

    is_on = False

    def should_sample(self, *args: Any, **options: Any) -> SamplingResult:
        return (ALWAYS_ON if self.is_on else ALWAYS_OFF).should_sample(*args, **options)

    def get_description(self) -> str:
        return "Switch"


SWITCH = Switch()
CARRIED = propagate.get_global_textmap()


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    """The spans of one test."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider(sampler=SWITCH)
        provider.add_span_processor(SimpleSpanProcessor(EXPORTED))
        trace.set_tracer_provider(provider)
    propagate.set_global_textmap(CARRIED)
    SWITCH.is_on = True
    yield EXPORTED
    SWITCH.is_on = False
    EXPORTED.clear()
    # The provider stays for the whole process; messages of other tests carry nothing of it.
    propagate.set_global_textmap(CompositePropagator([]))


def named(spans: tuple[ReadableSpan, ...], name: str) -> ReadableSpan:
    [span] = [span for span in spans if span.name == name]
    return span


@pytest.mark.requirement("MTR-14")
async def test_a_call_is_a_span_in_the_trace_of_its_client(
    folder: Folder, exported: InMemorySpanExporter
) -> None:
    folder.write(good())
    parent = f"00-{TRACE}-{PARENT}-01"
    client = CallbackClient(id="c", meta={"traceparent": parent, "vendor": 1})
    async with folder.open() as engine:
        await engine.execute("good", "echo", {"text": "confidential"}, caller=client)
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "echo", {"text": 7}, caller=client)
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "made_up_s3cret", {})
        entries = await engine.call_log.entries()

    ok, failed, unknown = exported.get_finished_spans()
    assert (ok.name, ok.kind) == ("tools/call echo", SpanKind.CLIENT)
    assert ok.attributes
    assert ok.attributes["gen_ai.tool.name"] == "echo"
    assert ok.attributes["discovery.server"] == "good"
    assert ok.attributes["discovery.outcome"] == "ok"
    assert ok.attributes["discovery.queue_seconds"] == 0
    assert ok.parent
    assert f"{ok.context.trace_id:032x}" == TRACE == entries[0].trace_id
    assert f"{ok.parent.span_id:016x}" == PARENT
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes
    assert failed.attributes["error.type"] == "INVALID_ARGUMENTS"
    assert unknown.name == "tools/call"
    written = "".join(span.to_json() for span in (ok, failed, unknown))
    assert "confidential" not in written
    assert "made_up_s3cret" not in written
    assert entries[2].trace_id == f"{unknown.context.trace_id:032x}"


@pytest.mark.requirement("MTR-14")
async def test_the_server_gets_the_span_of_the_call_as_its_parent(
    tmp_path: Path, exported: InMemorySpanExporter
) -> None:
    folder, world = Folder(tmp_path), World(tmp_path / "world.json")
    world.offer(tools=[make_definition("t")], resources=[resource("x:/a")])
    folder.write(world.server(era="modern"))
    client = CallbackClient(meta={"traceparent": f"00-{TRACE}-{PARENT}-01", "vendor": "kept"})
    async with folder.open() as engine:
        await engine.refresh()
        await engine.execute("docs", "t", {}, caller=client)
        await engine.execute("docs", "t", {})
        await engine.offerings.read_resource("x:/a", caller=client)

    first, second, third = exported.get_finished_spans()
    with_client, alone = (one["params"]["_meta"] for one in world.asked("tools/call"))
    [read] = (one["params"]["_meta"] for one in world.asked("resources/read"))
    assert with_client["vendor"] == "kept"
    assert with_client["traceparent"] == f"00-{TRACE}-{first.context.span_id:016x}-01"
    assert alone["traceparent"].split("-")[2] == f"{second.context.span_id:016x}"
    assert read["traceparent"] == f"00-{TRACE}-{third.context.span_id:016x}-01"
    assert third.name == "resources/read resource:x:/a"


@pytest.mark.requirement("MTR-14")
@pytest.mark.parametrize(
    ("environ", "warning"),
    [
        ({}, ""),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, ""),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}, ""),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "`otlp` and `console` are known"),
    ],
)
def test_spans_are_exported_only_if_the_environment_says_so(
    environ: dict[str, str], warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), exporting_spans(environ):
        pass

    assert [warning in line for line in caplog.messages] == ([True] if warning else [])


SERVE = """
import sys
sys.modules["opentelemetry.exporter"] = None
from discovery_server.app import exporting_spans
import logging
logging.basicConfig()
with exporting_spans({"OTEL_TRACES_EXPORTER": sys.argv[1]}):
    from opentelemetry import trace
    with trace.get_tracer("test").start_as_current_span("tools/call log"):
        pass
"""


@pytest.mark.requirement("MTR-14")
@pytest.mark.parametrize(
    ("kind", "expected"),
    [("console", '"name": "tools/call log"'), ("otlp", "pip install 'mcp-discovery-engine[otel]'")],
)
def test_spans_are_on_stderr_or_a_warning_says_what_is_missing(kind: str, expected: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVE, kind], capture_output=True, text=True, timeout=100, check=True
    )

    assert expected in done.stderr
    assert done.stdout == ""
