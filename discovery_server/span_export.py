"""Exports the spans of calls, if the environment says where to.

    pip install 'mcp-discovery-engine[otel]'
    OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 discovery serve

The variables are those of OpenTelemetry. A program that opens an engine itself sets up its own
tracer provider, and needs none of this.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from discovery_engine.extras import extra_missing

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

logger = logging.getLogger(__name__)

_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


@contextmanager
def exporting_spans(environ: Mapping[str, str]) -> Iterator[None]:
    """A block in which spans are exported as `environ` says; what waits is sent at its end."""
    kind = _kind(environ)
    provider = _provider(kind, environ) if kind else None
    try:
        yield
    finally:
        if provider is not None:
            provider.shutdown()


def _kind(environ: Mapping[str, str]) -> str:
    """`otlp`, `console`, or empty for no export."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return ""
    default = "otlp" if any(map(environ.get, _ENDPOINTS)) else ""
    kind = environ.get(_EXPORTER, default).strip().lower()
    if kind in ("otlp", "console"):
        return kind
    if kind not in ("", "none"):
        logger.warning("$%s has %r, and `otlp` and `console` are known", _EXPORTER, kind)
    return ""


def _provider(kind: str, environ: Mapping[str, str]) -> TracerProvider | None:
    # What exports takes half a second to load.
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import (
            BatchSpanProcessor,
            ConsoleSpanExporter,
            SpanExporter,
        )

        exporter: SpanExporter = ConsoleSpanExporter(out=sys.stderr)
        if kind == "otlp":
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
                OTLPSpanExporter,
            )

            exporter = OTLPSpanExporter()
    except ImportError as error:
        logger.warning(
            "%s", extra_missing("otel", "the export of spans", error.name or "opentelemetry")
        )
        return None
    name = environ.get("OTEL_SERVICE_NAME") or "discovery"
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: name}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider
