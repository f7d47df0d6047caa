"""What the server logs of requests: the slow ones with where their time went, and with `--v=3` all."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from apiserver.endpoints.api_call import ApiCall, Handler, Middleware
from apiserver.endpoints.recent_requests import ERROR_MIN, EVERYDAY, RecentRequests
from apiserver.meta.vocabulary import RequestInfo
from apiserver.tracing.request_trace import Attributes, Tracer

log = logging.getLogger(__name__)
# Its level is INFO from `--v=3` on.
all_requests = logging.getLogger("apiserver.http")

# As in kube-apiserver (utiltrace.LogIfLong).
SLOW_S: Final = 0.5
# When everything is slow, the log is not the place to count that.
SLOW_LOGGED_PER_S: Final = 10
# Characters of a path in a line, and in the name of a span. Paths may have 64 KiB.
TEXT_LENGTH_MAX: Final = 512
# The groups whose members decide which of their requests are sampled (kubernetes PR 127053).
_TRUSTED_GROUPS: Final = frozenset({"system:masters", "system:monitoring"})


class RequestLog:
    """Logs requests when they have ended. clock: in seconds, never goes back.

    recent: gets the requests that were slow, refused, or failed.
    """

    def __init__(self, recent: RecentRequests, clock: Callable[[], float] = time.monotonic) -> None:
        self._recent, self._clock = recent, clock
        self._second = self._logged = self._omitted = 0

    def ended(self, call: ApiCall) -> None:
        """Log a request that has just ended, and end its span."""
        trace = call.trace
        seconds = time.perf_counter() - trace.began
        if trace.span is not None:
            trace.end_span(_attributes(call, trace.audit_id), is_error=call.status >= 500)
        status = call.status
        is_slow = seconds - trace.delayed_s >= SLOW_S and not call.info.is_long_running
        if is_slow or (status >= ERROR_MIN and status not in EVERYDAY):
            self._recent.add(call, seconds)
        if is_slow and self._may_log():
            log.info(
                "slow request: %s %s took %.0f ms: %s; %s",
                call.info.method,
                cut(call.info.path),
                seconds * 1e3,
                trace.describe(seconds),
                call.client,
            )
        level = all_requests.level  # Asking the logger would cost each request a call. It has none in tests.
        if level <= logging.INFO and (level or all_requests.isEnabledFor(logging.INFO)):
            all_requests.info(
                "%s %s: %d after %.1f ms; %s",
                call.info.method,
                cut(call.request.raw_path),
                call.status,
                seconds * 1e3,
                call.client,
            )

    def _may_log(self) -> bool:
        second = int(self._clock())
        if second != self._second:
            if self._omitted:
                log.info("%d more slow requests were not logged", self._omitted)
            self._second, self._logged, self._omitted = second, 0, 0
        if self._logged >= SLOW_LOGGED_PER_S:
            self._omitted += 1
            return False
        self._logged += 1
        return True


def _attributes(call: ApiCall, audit_id: str) -> Attributes:
    """Returns what describes a request in its span, under OpenTelemetry's names where there are any."""
    return {
        "http.request.method": call.info.method,
        "url.path": call.info.path,
        "http.response.status_code": call.status,
        "user_agent.original": call.user_agent,
        "audit-id": audit_id,
    }


def cut(text: str) -> str:
    """Returns the beginning of a path, or of what a client has said otherwise, for a log line."""
    return text if len(text) <= TEXT_LENGTH_MAX else f"{text[:TEXT_LENGTH_MAX]}…"


def sample_traces(tracer: Tracer) -> Middleware:
    """Begins spans for a sample of authorized requests, except long-running ones."""

    def middleware(handle: Handler) -> Handler:
        # Not a coroutine: the request only passes through.
        def sampled(call: ApiCall) -> Awaitable[None]:
            info = call.info
            if not info.is_long_running:
                tracer.sample(
                    call.trace,
                    call.request.headers,
                    name=_span_name(info),
                    is_parent_trusted=not _TRUSTED_GROUPS.isdisjoint(call.user.groups),
                )
            return handle(call)

        return sampled

    return middleware


def _span_name(info: RequestInfo) -> str:
    """Returns a name with placeholders for names, as kube-apiserver's spans have.

    Other paths are not in it: clients could make any number of names.
    """
    if not info.is_resource:
        return info.method
    parts = ["", "apis", info.group, info.version] if info.group else ["", "api", info.version]
    if info.namespace and info.resource != "namespaces":
        parts += ["namespaces", "{namespace}"]
    parts.append(info.resource)
    if info.name:
        parts.append("{name}")
    if info.subresource:
        parts.append(info.subresource)
    return cut(f"{info.method} {'/'.join(parts)}")
