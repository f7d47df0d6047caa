"""Sends spans to an OpenTelemetry collector, by OTLP over gRPC.

The library decides nothing about sampling: a request that is not sampled costs one random number.
It is an optional dependency; importing this module without it raises ImportError.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span as LibrarySpan
from opentelemetry.trace import SpanKind, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace import Tracer as LibraryTracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from apiserver.tracing.request_trace import Attributes, RequestTrace

MILLION: Final = 1_000_000
# How long an export, and a stop with spans that have not been sent, may take.
EXPORT_TIMEOUT_S: Final = 5
# A batch with longer ones could exceed the 4 MiB that collectors accept, and all of it would be lost.
ATTRIBUTE_LENGTH_MAX: Final = 1_024
_PROPAGATOR: Final = TraceContextTextMapPropagator()


class OpenTelemetryTracer:
    """Begins spans for some requests. Spans are sent in batches, by a thread of the library."""

    def __init__(
        self, endpoint: str, sampled_per_million: int, *, name: str, version: str, instance: str
    ) -> None:
        """endpoint: of the collector, as HOST:PORT; with https:// for TLS. name, version, instance: describe
        this server in each span.
        """
        resource = Resource(
            {SERVICE_NAME: name, SERVICE_VERSION: version, SERVICE_INSTANCE_ID: instance}, schema_url=None
        )
        limits = SpanLimits(max_attribute_length=ATTRIBUTE_LENGTH_MAX)
        self._provider = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False, span_limits=limits)
        exporter = OTLPSpanExporter(
            endpoint=endpoint, insecure=not endpoint.startswith("https://"), timeout=EXPORT_TIMEOUT_S
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("apiserver")
        self._sampled_per_million = sampled_per_million

    def sample(
        self, trace: RequestTrace, headers: Mapping[str, str], *, name: str, is_parent_trusted: bool
    ) -> None:
        """Give the request a span if it is sampled.

        headers: those of the request. name: of the span. is_parent_trusted: whether the client decides about
        sampling, and whether its span is the parent.
        """
        parent = None
        if is_parent_trusted and "traceparent" in headers:
            # The library looks for exact names, in lower case.
            carrier = {each: headers[each] for each in _PROPAGATOR.fields if each in headers}
            parent = _PROPAGATOR.extract(carrier)
            decision = get_current_span(parent).get_span_context()
            if decision.is_valid and not decision.trace_flags.sampled:
                return
            if not decision.is_valid:
                parent = None
        # Which requests are sampled need not be unpredictable.
        if parent is None and random.randrange(MILLION) >= self._sampled_per_million:  # noqa: S311
            return
        clock = _TraceClock()
        span = self._tracer.start_span(
            str(_encodable(name)),
            context=parent,
            kind=SpanKind.SERVER,
            start_time=clock.since_1970_ns(trace.began),
        )
        trace.span = _Span(self._tracer, span, clock)

    def close(self) -> None:
        """Send what has not been sent, for at most `EXPORT_TIMEOUT_S`."""
        # The library waits longer. What it then still does must not keep the process alive.
        closing = threading.Thread(target=self._provider.shutdown, name="tracer-close", daemon=True)
        closing.start()
        closing.join(EXPORT_TIMEOUT_S)


class _TraceClock:
    """Converts readings of perf_counter to the time of day, all of one trace by the same difference: their
    order stays as it is, also when the time of day is corrected meanwhile.
    """

    __slots__ = ("_difference_ns",)

    def __init__(self) -> None:
        self._difference_ns = time.time_ns() - time.perf_counter_ns()

    def since_1970_ns(self, seconds: float) -> int:
        return self._difference_ns + round(seconds * 1e9)


class _Span:
    """Implements `request_trace.Span`."""

    def __init__(self, tracer: LibraryTracer, span: LibrarySpan, clock: _TraceClock) -> None:
        self._tracer, self._span, self._clock = tracer, span, clock
        self._context = set_span_in_context(span)
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, self._context)
        self.headers: Sequence[tuple[str, str]] = tuple(carrier.items())

    def child(self, name: str, detail: str, began: float, *, is_call: bool = False) -> _Span:
        span = self._tracer.start_span(
            name,
            context=self._context,
            kind=SpanKind.CLIENT if is_call else SpanKind.INTERNAL,
            attributes={"detail": _encodable(detail)} if detail else None,
            start_time=self._clock.since_1970_ns(began),
        )
        return _Span(self._tracer, span, self._clock)

    def end(self, ended: float, attributes: Attributes, *, is_error: bool = False) -> None:
        self._span.set_attributes({name: _encodable(value) for name, value in attributes.items()})
        if is_error:
            self._span.set_status(StatusCode.ERROR)
        self._span.end(self._clock.since_1970_ns(ended))


def _encodable(value: str | int) -> str | int:
    """Escapes what UTF-8 cannot encode, as bytes of headers that are no UTF-8."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
