"""The middleware that every request passes, one small function each; `app` puts them in order."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from aiohttp import hdrs

from apiserver.auth.authn.chain import (
    NO_CERTIFICATE,
    Authenticate,
    Credentials,
    Identity,
    NoCredentials,
    PeerCertificate,
)
from apiserver.auth.authn.peer_certificates import PeerCertificates
from apiserver.auth.authn.token_file import bearer_token, is_token_misplaced
from apiserver.auth.authn.websocket_protocols import read_protocols
from apiserver.auth.authz.attributes import ALLOW, Attributes, Verdict, require_allowed
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.endpoints.api_call import ApiCall, Handler, Middleware
from apiserver.endpoints.bodies import discard_body
from apiserver.endpoints.body_limits import BodyLimits
from apiserver.endpoints.calls_under_way import CallsUnderWay
from apiserver.endpoints.confidentiality import RedactedError
from apiserver.endpoints.connection import Connection
from apiserver.endpoints.priority_and_fairness import Fairness
from apiserver.endpoints.request_info import READ_VERBS, selected_name
from apiserver.endpoints.request_slots import RequestSlot, Slot, SlotLimit, SlotLimits
from apiserver.endpoints.responses import send_error
from apiserver.endpoints.websocket import asks_for_websocket
from apiserver.golang.durations import parse_duration
from apiserver.load.late_import import LateImport
from apiserver.meta.errors import (
    ApiError,
    BadRequest,
    InternalError,
    Timeout,
    Unauthorized,
    from_storage,
)
from apiserver.meta.options import first
from apiserver.meta.vocabulary import UNAUTHENTICATED, GroupResource
from apiserver.metrics.authentication import ERROR, FAILURE, AuthenticationMetrics
from apiserver.metrics.authorization import AuthorizationMetrics
from apiserver.metrics.requests import RequestEnding, RequestMetrics
from apiserver.storage.errors import StorageError
from apiserver.storage.event_loop_turns import TURN_S, Turn
from apiserver.tracing.request_trace import QUEUE, delayed, traced

log = logging.getLogger(__name__)

# How much longer than its timeout a request may take.
LATE_AFTER_MAX_S: Final = 1.0
_COLLECTION_VERBS: Final = frozenset({"list", "watch", "deletecollection"})


def strict_transport_security(directives: Sequence[str]) -> Middleware:
    """Tells browsers to use only HTTPS for this host from now on (RFC 6797)."""
    line = f"Strict-Transport-Security: {'; '.join(directives)}\r\n".encode()

    def middleware(handle: Handler) -> Handler:
        # Not a coroutine: the request only passes through.
        def secured(call: ApiCall) -> Awaitable[None]:
            call.head_lines += line
            return handle(call)

        return secured

    return middleware


# Whether objects of a resource hold secrets.
IsConfidential: TypeAlias = Callable[[GroupResource], bool]


def errors_to_status(is_confidential: IsConfidential = lambda _: False) -> Middleware:
    """Turns exceptions of handlers and of inner middleware into responses, and refuses malformed requests."""

    async def answer(call: ApiCall, error: ApiError) -> None:
        is_logged = isinstance(error, _UnexpectedError)
        recorded, resource = error.to_record(), call.found_resource
        if resource is not None and is_confidential(resource.stored_group_resource):
            shown = RedactedError(error, resource.group_kind, call.info.name, has_copied=call.has_copied)
            error, recorded = shown.to_client, shown.recorded
        if error.code == InternalError.code and not is_logged:
            log.error("%s %s failed: %s; %s", call.info.method, call.info.path, recorded.message, call.client)
        call.warnings += error.warnings
        if not call.status:
            if error.is_termination:
                call.ending = RequestEnding.TERMINATED
            await send_error(call, error, recorded)
            return
        # The response has begun and cannot be taken back. The client sees that it is cut off.
        call.ending = RequestEnding.ABORTED
        call.closes_connection = True
        if call.request.transport is not None:
            call.request.transport.abort()

    def middleware(handle: Handler) -> Handler:
        async def respond(call: ApiCall) -> None:
            try:
                if call.malformed:
                    raise BadRequest(call.malformed)
                await handle(call)
            except ConnectionError:
                raise  # The client is gone.
            except asyncio.CancelledError:
                if not call.has_timed_out:
                    raise  # The client is gone, or the server is stopping.
                asyncio.current_task().uncancel()  # type: ignore[union-attr]
                await answer(call, Timeout.of_request())
            except Exception as failure:
                await answer(call, _as_api_error(failure, call))

        return respond

    return middleware


def _as_api_error(failure: Exception, call: ApiCall) -> ApiError:
    match failure:
        case ApiError():
            return failure
        case StorageError():
            info = call.info
            return from_storage(failure, GroupResource(info.group, info.resource), info.name)
        case TimeoutError():
            return Timeout.of_request()
        case _:
            if call.audit is not None:
                call.audit.has_panicked = True
            log.error("%s %s failed; %s", call.info.method, call.info.path, call.client, exc_info=failure)
            return _UnexpectedError("Internal error occurred")


class _UnexpectedError(InternalError):
    """The error for an exception that is no ApiError, which has been logged with its traceback."""


def measure(metrics: RequestMetrics) -> Middleware:
    """Records each request and its duration in the metrics."""

    def middleware(handle: Handler) -> Handler:
        async def measured(call: ApiCall) -> None:
            began = time.perf_counter()
            try:
                await handle(call)
            finally:
                if call.status:
                    metrics.observe(call, time.perf_counter() - began)

        return measured

    return middleware


# Beyond a burst, the answers of a second: together they take some tenth of a processor.
FAILURES_PER_S: Final = 200
BURST: Final = 100
# No answer waits for longer: a connection costs more than the request.
DELAY_S_MAX: Final = 1.0


class FailureThrottle:
    """Delays responses to requests with invalid credentials: a token bucket whose debt is waited for.

    Rejecting a signed token takes as long as a read from the cache: a client that sends one after the other
    would take most of the event loop's time. A client whose token has expired may try a few times without
    delay.
    """

    def __init__(self) -> None:
        self._next_at = 0.0

    def delay_s(self, now: float) -> float:
        """Count a failure at `now`, in seconds of a clock that never goes back; returns how long to wait."""
        earliest = now - BURST / FAILURES_PER_S
        self._next_at = min(max(self._next_at, earliest) + 1 / FAILURES_PER_S, now + DELAY_S_MAX)
        return max(0.0, self._next_at - now)

    async def wait(self) -> None:
        """Wait before a failed authentication is answered."""
        delay_s = self.delay_s(asyncio.get_running_loop().time())
        if delay_s:
            await asyncio.sleep(delay_s)


_EXTRA_SPACE: Final = (
    "the provided Authorization header contains extra space before the bearer token, and is ignored"
)


class OpenPaths(NamedTuple):
    """Paths outside of resources that are for everybody, or for every user. prefix: of them all.

    answer: answers a request, and returns whether it was for one of these paths. Raises ApiError.
    routed: paths that every authenticated user may ask for, and that are handled as all others are.
    """

    prefix: str
    answer: Callable[[ApiCall], Awaitable[bool]]
    routed: frozenset[str] = frozenset()


def authenticate(
    chain: Authenticate,
    certificates: PeerCertificates,
    metrics: AuthenticationMetrics,
    open_paths: OpenPaths | None = None,
) -> Middleware:
    """Authenticates the request. chain: returns the user of the credentials, for a path.

    certificates: verifies client certificates. open_paths: those that need no user.
    """
    failures = FailureThrottle()
    # What reads keys and certificates, which an idle server does without: 10 MB, and 50 ms to import.
    cryptography = LateImport(
        "apiserver.auth.authn.certificate_verifier", "apiserver.auth.authn.service_account_keys"
    )

    def middleware(handle: Handler) -> Handler:
        async def authenticated(call: ApiCall) -> None:
            if not cryptography.is_done and _may_need_cryptography(call, open_paths):
                await cryptography.finish()
            if (
                open_paths is not None
                and not call.info.is_resource
                and call.info.path.startswith(open_paths.prefix)
                and await open_paths.answer(call)
            ):
                return
            headers, connection = call.request.headers, call.connection
            authorization = headers.get(hdrs.AUTHORIZATION, "")
            if "  " in authorization and is_token_misplaced(authorization):
                call.warnings.append(_EXTRA_SPACE)
            if hdrs.SEC_WEBSOCKET_PROTOCOL in headers and asks_for_websocket(call.request):
                token = read_protocols(headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL)).token
                if token and not bearer_token(authorization):
                    authorization = f"Bearer {token}"
            certificate = connection.certificate or identify(connection, certificates)
            began = time.perf_counter()
            try:
                found = await chain(Credentials(certificate, authorization, headers), call.info.path)
            except ApiError as error:
                result = FAILURE if isinstance(error, NoCredentials) else ERROR
                metrics.refused(result, time.perf_counter() - began)
                if isinstance(error, Unauthorized):
                    _annotate(call, error.annotations)
                    await delayed(failures.wait())
                raise
            if isinstance(found, Identity):
                user = found.user
                _annotate(call, found.annotations)
                if found.warning:
                    call.warnings.append(found.warning)
            else:
                user = found
            metrics.identified(user.name, time.perf_counter() - began)
            call.trace.add("authentication", began)
            call.set_user(user)
            connection.asker = user
            await handle(call)

        return authenticated

    return middleware


def _may_need_cryptography(call: ApiCall, open_paths: OpenPaths | None) -> bool:
    """Whether a request has credentials, or reads or writes resources, or logs in on one of `open_paths`.

    Other requests are probes, and reads of what all may see.
    """
    headers, transport = call.request.headers, call.connection.transport
    return (
        call.info.is_resource
        or hdrs.AUTHORIZATION in headers
        or hdrs.SEC_WEBSOCKET_PROTOCOL in headers
        or (open_paths is not None and call.info.path.startswith(open_paths.prefix))
        or (transport is not None and bool(transport.get_extra_info("peercert")))
    )


def _annotate(call: ApiCall, annotations: Sequence[tuple[str, str]]) -> None:
    """Add annotations about the credentials to the audit event of a call."""
    if call.audit is not None:
        for name, value in annotations:
            call.audit.annotate(call.audit.keys.authentication + name, value)


def identify(connection: Connection, certificates: PeerCertificates) -> PeerCertificate:
    """Returns the identity that the client certificate proves, determined once per connection."""
    transport, found = connection.transport, NO_CERTIFICATE
    # None, too, if the connection has been lost.
    if transport is not None and (described := transport.get_extra_info("peercert")):
        found = certificates.of(described, transport.get_extra_info("ssl_object"))
    connection.certificate = found
    return found


def limit_in_flight(limits: SlotLimits, body_limits: BodyLimits, fairness: Fairness | None) -> Middleware:
    """Assigns each request a slot, or seats, or rejects it (row Q05); long-running requests need none.

    It runs inside authorization: a request that is not allowed gets no slot, and its body is not read. A read
    takes its slot at once, a write when its body has arrived, in `bodies.read_body`.
    fairness: None if there are only slots.
    """

    def slot_of(call: ApiCall, limit: SlotLimit) -> RequestSlot:
        return Slot(limit, call.user, call.info)

    seats_of = slot_of if fairness is None else fairness.seats_of

    def middleware(handle: Handler) -> Handler:
        async def read(call: ApiCall) -> None:
            slot: RequestSlot
            if call.info.is_resource:
                slot = seats_of(call, limits.read_only)
            else:
                limit = limits.of_path(call.info.path)
                slot = slot_of(call, limit) if limit.is_apart else seats_of(call, limit)
            call.slot = slot
            try:
                if (waiting := slot.take()) is not None:
                    await traced(QUEUE, waiting)
                await handle(call)
            finally:
                slot.release()

        async def write(call: ApiCall) -> None:
            slot = call.slot = seats_of(call, limits.mutating)
            call.body_limits = body_limits
            try:
                await handle(call)
            finally:
                slot.release()
                if call.body_room is not None:
                    call.body_room.release()

        watch = handle if fairness is None else fairness.limit_watches(handle)

        def limited(call: ApiCall) -> Awaitable[None]:
            info = call.info
            if info.verb not in READ_VERBS:
                return handle(call) if info.is_long_running else write(call)
            if info.is_long_running and info.verb != "watch":
                return handle(call)  # Its body is another server's.
            respond = watch if info.verb == "watch" else read
            request = call.request
            if not request.body_exists or request.content.is_eof():
                return respond(call)
            return discard_body(call, respond)

        return limited

    return middleware


class Deadlines:
    """Ends requests that take too long, wherever they wait: for the body, or the store (row Q05).

    `UnreadAnswers` limits how long clients may take to read responses. The cancellation reaches the call to
    the store. Watches have a separate timeout. All requests are checked together at intervals, which costs
    each nothing; a timer for each took 4 µs.
    """

    def __init__(
        self, request_timeout_s: float, loop: asyncio.AbstractEventLoop, calls: CallsUnderWay
    ) -> None:
        self._timeout_s, self._loop, self._under_way = request_timeout_s, loop, calls.tasks

    def middleware(self, handle: Handler) -> Handler:
        under_way, loop = self._under_way, self._loop

        async def in_time(call: ApiCall) -> None:
            if call.info.is_long_running:
                await handle(call)
                return
            if "timeout" in call.query and (timeout_s := _timeout_s(call)) < self._timeout_s:
                # The client allows less time than the server.
                call.deadline = loop.time() + timeout_s
                async with asyncio.timeout(timeout_s):
                    await handle(call)
                return
            under_way[call] = asyncio.current_task(loop)
            try:
                await handle(call)
            finally:
                del under_way[call]

        return in_time

    async def run(self) -> None:
        """Check all requests at intervals until cancelled."""
        while True:
            await asyncio.sleep(min(LATE_AFTER_MAX_S, self._timeout_s / 10))
            self._end_late_ones()

    def _end_late_ones(self) -> None:
        began_before = self._loop.time() - self._timeout_s
        for call, task in self._under_way.items():
            if call.received_at > began_before:
                break
            if not (call.has_timed_out or call.is_answered) and task is not None:
                call.has_timed_out = True
                task.cancel()


def _timeout_s(call: ApiCall) -> float:
    """Returns the timeout that the client has set. Raises BadRequest."""
    text = call.query["timeout"][0]
    try:
        timeout_s = parse_duration(text)
    except ValueError as error:
        raise BadRequest(f"invalid timeout specified in the request URL: {error}") from None
    return timeout_s or math.inf


# Users whose authorization takes long that are remembered; if there are more, all are forgotten.
TAKING_LONG_MAX: Final = 1_000
# A user is forgotten after this many quick decisions in a row, too: the slow one may have been due to garbage
# collection or a busy machine. A user with many roles gets one decision in so many out of turn.
QUICK_ANSWERS: Final = 100


def authorize(
    chain: AuthorizationChain, metrics: AuthorizationMetrics, open_paths: OpenPaths | None = None
) -> Middleware:
    """Rejects requests that the user is not allowed to make, before the body is read. open_paths: those that
    need a user, but no right.

    Authorizing a user with ten thousand bound roles takes some turns of the event loop for each new request.
    Only a few such authorizations run at once; others wait for their turns.
    """
    taking_long: dict[str, int] = {}  # how many quick answers are left until each is forgotten

    def require(call: ApiCall, attributes: Attributes, verdict: Verdict, began: float) -> None:
        """Record a verdict, and refuse a request that it does not allow. Raises Forbidden, InternalError."""
        metrics.decided(verdict, time.perf_counter() - began)
        call.trace.add("authorization", began)
        is_allowed = verdict.decision is ALLOW
        if call.audit is not None:
            if is_allowed or not verdict.error:
                call.audit.decision = is_allowed, verdict.reason
            else:
                call.audit.annotate(call.audit.keys.reason, "internal error")
        if not is_allowed:
            require_allowed(attributes, verdict)

    def middleware(handle: Handler) -> Handler:
        async def authorized(call: ApiCall) -> None:
            if (
                open_paths is not None
                and not call.info.is_resource
                and call.info.path.startswith(open_paths.prefix)
            ):
                if await open_paths.answer(call):
                    return
                if call.info.path in open_paths.routed:
                    if UNAUTHENTICATED in call.user.groups:
                        raise Unauthorized
                    await handle(call)
                    return
            attributes = authorizer_attributes(call)
            user = attributes.user.name
            if user in taking_long:
                turn = Turn()
                if turn.is_over():
                    await turn.next()
            began = time.perf_counter()
            answer = None
            try:
                answer = chain(attributes)
                if isinstance(answer, Verdict):
                    require(call, attributes, answer, began)
            finally:
                if time.perf_counter() - began > TURN_S:
                    if len(taking_long) >= TAKING_LONG_MAX:
                        taking_long.clear()
                    taking_long[user] = QUICK_ANSWERS
                elif user in taking_long:
                    taking_long[user] -= 1
                    if not taking_long[user]:
                        del taking_long[user]
            if not isinstance(answer, Verdict):
                require(call, attributes, await answer.decide(), began)
            await handle(call)

        return authorized

    return middleware


def authorizer_attributes(call: ApiCall, verb: str = "") -> Attributes:
    """Returns the attributes by which a request is authorized. verb: used instead of the request's own."""
    info = call.info
    name, field_selector, label_selector = info.name, "", ""
    if info.verb in _COLLECTION_VERBS and (query := call.query) and not info.has_watch_prefix:
        if "labelSelector" in query:
            label_selector = first(query, "labelSelector")
        if "fieldSelector" in query:
            field_selector = first(query, "fieldSelector")
            name = name or selected_name(info, query)
    # By position, as by name they take every request twice as long.
    return Attributes(
        call.user,
        verb or info.verb,
        info.is_resource,
        info.path,
        info.group,
        info.resource,
        info.subresource,
        info.namespace,
        name,
        info.version,
        field_selector,
        label_selector,
    )
