"""Records requests for auditing: applies the audit policy to each, and writes its events.

`record` is the outermost middleware, around the one that turns errors into responses: it sees how each
request ends. `begin` runs inside authentication, where the user is known. For a request that is refused
before (401), and for a login to the console, `_end` makes the only event; a request that is refused later
(403, 429) has those of any other request.
Source: k8s.io/apiserver, pkg/endpoints/filters/{audit,authn_audit,audit_init}.go.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from aiohttp import hdrs
from multidict import istr

from apiserver.audit.event_fields import REMEMBERED_BYTES_MAX, AuditTarget, Caller, ObjectReference, caller_of
from apiserver.audit.events import AuditBackend, Event, size_of
from apiserver.audit.policy import (
    PANIC,
    REMEMBERED_CHARACTERS_MAX,
    REQUEST_RECEIVED,
    RESPONSE_COMPLETE,
    RESPONSE_STARTED,
    Policy,
)
from apiserver.audit.request_audit import AnnotationKeys, RecordingContext, RequestAudit
from apiserver.endpoints.api_call import ApiCall, Handler, Middleware
from apiserver.endpoints.confidentiality import redacted_uri
from apiserver.endpoints.request_info import READ_VERBS, selected_name
from apiserver.golang.durations import duration_text
from apiserver.meta.brand import Brand
from apiserver.meta.errors import InternalError
from apiserver.metrics.audit import AuditMetrics
from apiserver.metrics.requests import RequestMetrics

# Of slower requests it is recorded what took so long.
SLOW_NS: Final = 500_000_000
_NS_IN_S: Final = 1_000_000_000
# Targets that are remembered, some kilobytes each at most; if there are more, all are forgotten. What is
# longer than `REMEMBERED_CHARACTERS_MAX` is not remembered.
TARGETS_MAX: Final = 4_096
# Characters of what a client says of itself that are kept while its connection is open.
CALLER_LENGTH_MAX: Final = 2_048
_X_REAL_IP: Final = istr("X-Real-Ip")

_ANYBODY: Final = "", ()

# Verb, URI, and what the policy looks at of a user.
_TargetKey: TypeAlias = tuple[str, str, tuple[str | None, tuple[str, ...]]]


class Auditor:
    """The middleware that audits requests. clock_ns: nanoseconds since 1970."""

    def __init__(
        self,
        policy: Policy,
        backend: AuditBackend,
        brand: Brand,
        metrics: AuditMetrics,
        clock_ns: Callable[[], int],
    ) -> None:
        self._policy, self._process, self._metrics = policy, backend.process, metrics
        self._keeps_order = backend.keeps_order
        self._clock_ns = clock_ns
        self._recording = RecordingContext(AnnotationKeys.of(brand))
        self._targets: dict[_TargetKey, AuditTarget] = {}

    def record(self, metrics: RequestMetrics) -> Middleware:
        """Begin a record of each request, and end it; includes `middleware.measure`.

        A separate coroutine for each request would cost half as much as its events.
        """
        clock_ns, recording = self._clock_ns, self._recording

        def middleware(handle: Handler) -> Handler:
            async def recorded(call: ApiCall) -> None:
                began = time.perf_counter()
                audit = call.audit = RequestAudit(clock_ns(), recording)
                try:
                    await handle(call)
                finally:
                    waiting = self._end(call, audit) if call.audit is not None else None
                    if call.status:
                        metrics.observe(call, time.perf_counter() - began)
                    if waiting is not None:
                        await waiting

            return recorded

        return middleware

    def begin(self, handle: Handler) -> Handler:
        """The middleware that applies the policy, and makes the first event."""

        clock_ns, metrics, process = self._clock_ns, self._metrics, self._process
        at_once = READ_VERBS if self._keeps_order else frozenset()

        # Not a coroutine: if nothing has to be waited for, the request only passes through.
        def begun(call: ApiCall) -> Awaitable[None]:
            audit = call.audit
            assert audit is not None
            audit.authenticated_at_ns = clock_ns()
            if not self._begin(call, audit):
                return handle(call)
            if call.info.is_long_running:
                audit.on_response_started = partial(self._start_response, audit)
            if audit.details is None and not audit.target.omits:
                metrics.events += 1
                waiting = process(audit.received, audit.size)
            else:
                waiting = self._emit(audit.event(REQUEST_RECEIVED, audit.received_at_ns))
            if waiting is None or (call.info.verb in at_once and not call.info.is_long_running):
                return handle(call)
            return received(call, waiting)

        async def received(call: ApiCall, waiting: Awaitable[bool]) -> None:
            """Handle a request after its first event has been written.

            Raises InternalError if the event must be written but cannot be; then no other event follows.
            """
            if not await waiting:
                metrics.rejected += 1
                call.audit = None
                raise InternalError("failed to store audit event")
            await handle(call)

        return begun

    def _begin(self, call: ApiCall, audit: RequestAudit) -> bool:
        """Apply the policy to a call. Returns whether the request is recorded; otherwise its call has no
        record.
        """
        user, request = call.known_user, call.request
        policy = self._policy
        key = call.info.verb, request.raw_path, policy.known_of(user) if policy.looks_at_callers else _ANYBODY
        # A malformed request is about nothing, whatever its URI names.
        target = None if call.malformed else self._targets.get(key)
        if target is None:
            target = self._find_target(call, key)
        self._metrics.levels[target.level_name] += 1
        if not target.is_recorded:
            call.audit = None
            return False
        # Most requests on one connection come from the same user.
        connection, header = call.connection, request.headers.get
        client = header(hdrs.X_FORWARDED_FOR, ""), header(_X_REAL_IP, ""), header(hdrs.USER_AGENT, "")
        known = connection.audited
        if known is not None and known[0] is user and known[1] == client:
            caller = known[2]
        else:
            caller = _caller(call, client)
        audit.begin(call.audit_id, target, caller)
        return True

    def _find_target(self, call: ApiCall, key: _TargetKey) -> AuditTarget:
        """Find the policy's rule for a request.

        key: everything that the rule depends on, for requests that are not malformed.
        """
        user, info, raw_path = call.known_user, call.info, call.request.raw_path
        name = info.name or (selected_name(info, call.query) if call.query else "")
        reference = None
        if info.is_resource:
            reference = ObjectReference(
                info.resource, info.namespace, name, "", info.group, info.version, "", info.subresource
            )
        config = self._policy.config_of(info, user, name)
        target = AuditTarget.of(config, redacted_uri(_uri(raw_path)), info.verb, reference)
        user_name, groups = key[2]
        length = sum(map(len, (raw_path, user_name or "", *groups)))
        if length <= REMEMBERED_CHARACTERS_MAX and not call.malformed:
            if len(self._targets) >= TARGETS_MAX:
                self._targets.clear()
            self._targets[key] = target
        return target

    def _start_response(self, audit: RequestAudit, code: int) -> None:
        """Make the event for the start of a long-running response, which nothing waits for."""
        audit.on_response_started = None
        self._emit(audit.event(RESPONSE_STARTED, self._clock_ns(), code))

    def _end(self, call: ApiCall, audit: RequestAudit) -> Awaitable[bool] | None:
        """Make the last event of a request that has been answered, or will not be. Returns an awaitable, if
        the event has to be waited for.
        """
        audit.completed_at_ns = now_ns = self._clock_ns()
        audit.code = code = call.status
        if audit.level is None:
            # Requests answered before authentication, as CORS preflights, are not recorded, unless they are
            # refused, or have made the user known themselves, as logins do.
            if call.known_user is None:
                if code >= 400 and self._begin(call, audit):
                    return self._emit(audit.event(RESPONSE_STARTED, now_ns, code))
            elif self._begin(call, audit):
                return self._emit(audit.last_event(RESPONSE_COMPLETE, now_ns, code))
            return None
        stage = PANIC if audit.has_panicked else RESPONSE_COMPLETE
        if stage is RESPONSE_COMPLETE:
            if audit.on_response_started is not None:
                self._start_response(audit, code)
            if now_ns - audit.received_at_ns > SLOW_NS:
                self._annotate_latencies(audit, now_ns)
        decision = audit.decision
        is_usual = stage is RESPONSE_COMPLETE and audit.details is None and not audit.target.omits
        if is_usual and code and decision is not None:
            reason_length = len(decision[1])
            # A longer one is not kept beyond the request but in an event whose size is known.
            if reason_length <= REMEMBERED_BYTES_MAX:
                self._metrics.events += 1
                return self._process(audit.completed, audit.size + reason_length)
        return self._emit(audit.last_event(stage, now_ns, code))

    def _emit(self, event: Event | None) -> Awaitable[bool] | None:
        """Write an event that is already made, if there is one."""
        if event is None:
            return None
        self._metrics.events += 1
        return self._process(lambda: event, size_of(event))

    def _annotate_latencies(self, audit: RequestAudit, now_ns: int) -> None:
        prefix, received_at_ns = self._recording.keys.latency, audit.received_at_ns
        audit.annotate(f"{prefix}total", duration_text((now_ns - received_at_ns) / _NS_IN_S))
        audit.took("authentication", (audit.authenticated_at_ns - received_at_ns) / _NS_IN_S)
        for layer, seconds in audit.latencies.items():
            audit.annotate(f"{prefix}{layer}", duration_text(seconds))


def _caller(call: ApiCall, client: tuple[str, str, str]) -> Caller:
    """Returns the user and client of a request, which the connection remembers.

    client: the values of three headers.

    Only recorded values are kept for the next request: other headers may contain secrets.
    """
    forwarded_for, real_ip, user_agent = client
    caller = caller_of(call.known_user, forwarded_for, real_ip, call.request.remote or "", user_agent)
    is_short = sum(map(len, client)) <= CALLER_LENGTH_MAX
    call.connection.audited = (call.known_user, client, caller) if is_short else None
    return caller


def _uri(raw_path: str) -> str:
    """Returns path and query of a request's target; the whole target if it is not a URL."""
    if raw_path.startswith("/"):
        return raw_path
    try:
        url = urlsplit(raw_path)
    except ValueError:
        return raw_path
    return f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
