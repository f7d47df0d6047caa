"""What every request goes through, one small function each; `app` has their order."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Callable

from aiohttp import hdrs

from apiserver.authn import client_cert
from apiserver.authn.chain import AuthenticationChain, Credentials
from apiserver.authz.attributes import Attributes, AuthorizationChain
from apiserver.endpoints.call import Call, Handler, Middleware
from apiserver.endpoints.connection import Connection
from apiserver.endpoints.metrics import Metrics
from apiserver.endpoints.responses import send_error
from apiserver.errors import (
    ApiError,
    InternalError,
    StorageReadError,
    Timeout,
    TooManyRequests,
    from_storage,
)
from apiserver.registry.stored_object import CorruptObject
from apiserver.vocabulary import GroupResource, UserInfo
from storage.errors import StorageError

log = logging.getLogger(__name__)

_READ_VERBS = frozenset({"get", "list", "watch", "head", "options"})
_random = secrets.token_hex(10)
_counter = itertools.count()


def new_audit_id() -> str:
    """A UUID, unique without asking for randomness each time: the process's own part and a count."""
    n = next(_counter)
    return f"{_random[:8]}-{_random[8:12]}-4{_random[12:15]}-a{_random[15:18]}-{n:012x}"


def errors_to_status() -> Middleware:
    """The one place where a failure becomes an answer."""

    def middleware(handle: Handler) -> Handler:
        async def respond(call: Call) -> None:
            try:
                await handle(call)
            except (ConnectionError, asyncio.CancelledError):
                raise  # Nobody is there to be told.
            except Exception as failure:
                error = _as_api_error(failure, call)
                if call.status:
                    # The answer has begun and cannot be taken back; cutting it off tells the client.
                    call.closes = True
                    if call.request.transport is not None:
                        call.request.transport.abort()
                    return
                await send_error(call, error)

        return respond

    return middleware


def _as_api_error(failure: Exception, call: Call) -> ApiError:
    match failure:
        case ApiError():
            return failure
        case StorageError():
            info = call.info
            return from_storage(failure, GroupResource(info.group, info.resource), info.name)
        case CorruptObject():
            log.error("%s", failure)
            return StorageReadError(f"Internal error occurred: {failure}")
        case TimeoutError():
            return Timeout.of_request()
        case _:
            log.error("%s %s failed", call.info.method, call.info.path, exc_info=failure)
            return InternalError("Internal error occurred")


def measure(metrics: Metrics, clock: Callable[[], float]) -> Middleware:
    """Count requests by what they were about and how they ended."""

    def middleware(handle: Handler) -> Handler:
        async def measured(call: Call) -> None:
            try:
                await handle(call)
            finally:
                if call.status:
                    metrics.observe(call, clock() - call.received_at)

        return measured

    return middleware


def authenticate(chain: AuthenticationChain) -> Middleware:
    """Find out who asks."""

    def middleware(handle: Handler) -> Handler:
        async def authenticated(call: Call) -> None:
            authorization = call.request.headers.get(hdrs.AUTHORIZATION, "")
            connection = call.connection
            call.user = chain(Credentials(lambda: _certificate_user(connection), authorization))
            await handle(call)

        return authenticated

    return middleware


def _certificate_user(connection: Connection) -> UserInfo | None:
    """Looked up once for a connection: its certificate does not change."""
    if not connection.has_looked_for_user and connection.transport is not None:
        connection.has_looked_for_user = True
        connection.user = client_cert.user_of(connection.transport.get_extra_info("peercert"))
    return connection.user


def limit_in_flight(metrics: Metrics, *, read_only_max: int, mutating_max: int) -> Middleware:
    """Turn away what cannot be served in time (row Q05). 0 means no limit. Watches do not count."""
    in_flight = metrics.in_flight

    def middleware(handle: Handler) -> Handler:
        async def limited(call: Call) -> None:
            if call.info.verb == "watch":
                await handle(call)
            elif call.info.verb in _READ_VERBS:
                if read_only_max and in_flight.read_only >= read_only_max:
                    raise TooManyRequests
                in_flight.read_only += 1
                try:
                    await handle(call)
                finally:
                    in_flight.read_only -= 1
            else:
                if mutating_max and in_flight.mutating >= mutating_max:
                    raise TooManyRequests
                in_flight.mutating += 1
                try:
                    await handle(call)
                finally:
                    in_flight.mutating -= 1

        return limited

    return middleware


def deadline(request_timeout_s: float) -> Middleware:
    """End what takes too long, wherever it waits: for the body, the store, or the client (row Q05).

    The cancellation goes down to the call to the store. Watches have a time of their own.
    """

    def middleware(handle: Handler) -> Handler:
        async def in_time(call: Call) -> None:
            if call.info.verb == "watch":
                await handle(call)
                return
            async with asyncio.timeout_at(call.received_at + request_timeout_s):
                await handle(call)

        return in_time

    return middleware


def authorize(chain: AuthorizationChain) -> Middleware:
    """Refuse what the caller may not do, before anything of it is looked at."""

    def middleware(handle: Handler) -> Handler:
        async def authorized(call: Call) -> None:
            chain.require(attributes_of(call))
            await handle(call)

        return authorized

    return middleware


def attributes_of(call: Call, verb: str = "") -> Attributes:
    """What the call wants to do; verb: another one than its own."""
    info = call.info
    assert call.user is not None
    return Attributes(
        user=call.user,
        verb=verb or info.verb,
        is_resource=info.is_resource,
        path=info.path,
        group=info.group,
        resource=info.resource,
        subresource=info.subresource,
        namespace=info.namespace,
        name=info.name,
    )
