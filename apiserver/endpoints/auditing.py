"""Records requests: asks the audit policy about each, and has its events written.

`record` stands outside of what makes answers of errors: it sees how a request ends, whatever happens to it.
`begin` stands inside of authentication: from there on it is known who asks.
Source: k8s.io/apiserver, pkg/endpoints/filters/{audit,authn_audit,audit_init}.go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol, TypeAlias
from urllib.parse import urlsplit

from aiohttp import hdrs
from multidict import istr

from apiserver.audit.event_fields import ObjectReference
from apiserver.audit.events import Event
from apiserver.audit.policy import (
    PANIC,
    REMEMBERED_CHARACTERS_MAX,
    REQUEST_RECEIVED,
    RESPONSE_COMPLETE,
    RESPONSE_STARTED,
    Policy,
)
from apiserver.audit.request_audit import (
    AnnotationKeys,
    AuditTarget,
    Caller,
    RequestAudit,
    Room,
    caller_of,
)
from apiserver.brand import Brand
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.request_info import selected_name
from apiserver.errors import InternalError
from apiserver.golang.durations import duration_text
from apiserver.metrics.audit import AuditMetrics
from apiserver.vocabulary import UserInfo

# Of slower requests it is recorded what took so long.
SLOW_S: Final = 0.5
# Targets that are remembered, some kilobytes each at most; if there are more, all are forgotten. What is
# longer than `REMEMBERED_CHARACTERS_MAX` is not remembered.
TARGETS_MAX: Final = 4_096
# Characters of what a client says of itself that are kept while its connection is open.
CALLER_LENGTH_MAX: Final = 2_048
_X_REAL_IP: Final = istr("X-Real-Ip")

# Verb, URI, and what the policy looks at of a user.
_TargetKey: TypeAlias = tuple[str, str, tuple[str | None, tuple[str, ...]]]


class AuditBackend(Protocol):
    """Takes events."""

    def process(self, event: Event) -> Awaitable[bool] | None:
        """Returns what the request has to wait for, if anything: whether it may go on."""
        ...


class Auditor:
    """clock: seconds since 1970."""

    def __init__(
        self,
        policy: Policy,
        backend: AuditBackend,
        brand: Brand,
        metrics: AuditMetrics,
        clock: Callable[[], float],
    ) -> None:
        self._policy, self._backend, self._metrics, self._clock = policy, backend, metrics, clock
        self._keys, self._room = AnnotationKeys.of(brand), Room()
        self._targets: dict[_TargetKey, AuditTarget] = {}

    def record(self, handle: Handler) -> Handler:
        """The middleware that begins a record, and ends it."""

        clock, keys, room = self._clock, self._keys, self._room

        async def recorded(call: ApiCall) -> None:
            audit = call.audit = RequestAudit(call.audit_id, clock(), keys, room)
            try:
                await handle(call)
            finally:
                if call.audit is not None:
                    try:
                        waiting = self._end(call, audit)
                    finally:
                        audit.forget_response()
                    if waiting is not None:
                        await waiting

        return recorded

    def begin(self, handle: Handler) -> Handler:
        """The middleware that asks the policy, and makes the first event."""

        # Not a coroutine: if nothing has to be waited for, the request only passes through.
        def begun(call: ApiCall) -> Awaitable[None]:
            audit = call.audit
            assert audit is not None
            audit.authenticated_at = self._clock()
            if not self._begin(call, audit):
                return handle(call)
            if call.info.is_long_running:
                audit.on_response_started = partial(self._start_response, audit)
            waiting = self._process(audit.event(REQUEST_RECEIVED, audit.received_at))
            return handle(call) if waiting is None else received(call, waiting)

        async def received(call: ApiCall, waiting: Awaitable[bool]) -> None:
            """Raises InternalError if the event must be written, and cannot be."""
            if not await waiting:
                self._metrics.rejected += 1
                raise InternalError("failed to store audit event")
            await handle(call)

        return begun

    def _begin(self, call: ApiCall, audit: RequestAudit) -> bool:
        """Returns whether the request is recorded."""
        user = call.user
        key = call.info.verb, call.request.raw_path, self._policy.known_of(user)
        # A malformed request is about nothing, whatever its URI names.
        target = None if call.malformed else self._targets.get(key)
        if target is None:
            target = self._find_target(call, key)
        self._metrics.levels[target.level_name] += 1
        if not target.is_recorded:
            call.audit = None
            return False
        audit.begin(target, _caller(call, user))
        return True

    def _find_target(self, call: ApiCall, key: _TargetKey) -> AuditTarget:
        """Ask the policy. key: all that the answer depends on for requests that are not malformed."""
        user, info, raw_path = call.user, call.info, call.request.raw_path
        name = info.name or (selected_name(info, call.query) if call.query else "")
        reference = None
        if info.is_resource:
            reference = ObjectReference(
                info.resource, info.namespace, name, "", info.group, info.version, "", info.subresource
            )
        config = self._policy.config_of(info, user, name)
        target = AuditTarget.of(config, _uri(raw_path), info.verb, reference)
        user_name, groups = key[2]
        length = sum(map(len, (raw_path, user_name or "", *groups)))
        if length <= REMEMBERED_CHARACTERS_MAX and not call.malformed:
            if len(self._targets) >= TARGETS_MAX:
                self._targets.clear()
            self._targets[key] = target
        return target

    def _start_response(self, audit: RequestAudit, code: int) -> None:
        """The response of a request begins that runs long. Nobody waits for this event."""
        audit.on_response_started = None
        self._process(audit.event(RESPONSE_STARTED, self._clock(), code))

    def _end(self, call: ApiCall, audit: RequestAudit) -> Awaitable[bool] | None:
        """Make the last events: the request is answered, or will not be. Returns what to wait for."""
        now = self._clock()
        if audit.level is None:
            # Nobody has been identified; what was answered before that was asked, as to a page's browser,
            # is not recorded.
            if call.user is None and call.status >= 400 and self._begin(call, audit):
                return self._process(audit.event(RESPONSE_STARTED, now, call.status))
            return None
        if audit.has_panicked:
            return self._process(audit.event(PANIC, now, call.status))
        if audit.on_response_started is not None:
            self._start_response(audit, call.status)
        if now - audit.received_at > SLOW_S:
            self._tell_latencies(audit, now - audit.received_at)
        return self._process(audit.event(RESPONSE_COMPLETE, now, call.status))

    def _tell_latencies(self, audit: RequestAudit, total_s: float) -> None:
        prefix = self._keys.latency
        audit.annotate(f"{prefix}total", duration_text(total_s))
        audit.took("authentication", audit.authenticated_at - audit.received_at)
        for layer, seconds in audit.latencies.items():
            audit.annotate(f"{prefix}{layer}", duration_text(seconds))

    def _process(self, event: Event | None) -> Awaitable[bool] | None:
        if event is None:
            return None
        self._metrics.events += 1
        return self._backend.process(event)


def _caller(call: ApiCall, user: UserInfo | None) -> Caller:
    """Returns who makes a request. On one connection that is nearly always the same.

    No more of a request is kept until the next than is recorded: its other headers may be secrets.
    """
    request, connection = call.request, call.connection
    header, known = request.headers.get, connection.audited
    client = header(hdrs.X_FORWARDED_FOR, ""), header(_X_REAL_IP, ""), header(hdrs.USER_AGENT, "")
    if known is not None and known[0] is user and known[1] == client:
        return known[2]
    forwarded_for, real_ip, user_agent = client
    caller = caller_of(user, forwarded_for, real_ip, request.remote or "", user_agent)
    is_short = sum(map(len, client)) <= CALLER_LENGTH_MAX
    connection.audited = (user, client, caller) if is_short else None
    return caller


def _uri(raw_path: str) -> str:
    """Returns path and query of a request's target; all of one that is not a URL."""
    if raw_path.startswith("/"):
        return raw_path
    try:
        url = urlsplit(raw_path)
    except ValueError:
        return raw_path
    return f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
