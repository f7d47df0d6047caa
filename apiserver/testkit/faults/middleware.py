"""Applies injected faults to requests: responses, delays, lost connections, expired tokens.

A server without an injector does not have this middleware.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from aiohttp import hdrs

from apiserver.auth.authn.chain import Authenticate, Credentials, Identity
from apiserver.auth.authn.token_file import bearer_token
from apiserver.endpoints.api_call import ApiCall, Handler, Middleware
from apiserver.endpoints.request_info import selected_name
from apiserver.endpoints.responses import AnswerLost
from apiserver.meta.errors import ApiError, Unauthorized, details_of
from apiserver.meta.vocabulary import GroupResource, UserInfo
from apiserver.storage.errors import StorageError
from apiserver.testkit.faults import Answer, CutConnection, Delay, Fault, FaultInjector, RequestAttributes
from apiserver.testkit.faults.effects import REASONS

FAULTS_PATH: Final = "/debug/faults"
# All faults can be cleared, and probes have a separate fault.
_NEVER: Final = ("/livez", "/readyz", "/healthz", FAULTS_PATH)


class InjectedFailure(ApiError):
    """The response of a fault."""

    def __init__(self, answer: Answer, attributes: RequestAttributes) -> None:
        self.code, self.reason = answer.code, answer.reason or REASONS.get(answer.code, "")
        resource = GroupResource(attributes.group, attributes.resource)
        super().__init__(
            answer.message or f"an injected fault: {self.reason or answer.code}",
            details=details_of(resource, attributes.name) if attributes.resource else {},
            retry_after_s=answer.retry_after_s,
        )


def is_exempt(path: str) -> bool:
    """Returns whether requests of a path are exempt from faults."""
    return path.startswith(_NEVER)


def attributes_of(call: ApiCall) -> RequestAttributes:
    """Returns the attributes of a call that matches compare."""
    info = call.info
    return RequestAttributes(
        info.verb,
        info.group,
        info.resource,
        info.subresource,
        info.namespace,
        info.name or selected_name(info, call.query),
        getattr(call.known_user, "name", ""),
        call.request.headers.get(hdrs.USER_AGENT, ""),
    )


def inject_faults(injector: FaultInjector) -> Middleware:
    """Returns the middleware that makes faults happen to the requests that match them.

    It runs inside authorization: forbidden requests have no faults.
    """

    def middleware(handle: Handler) -> Handler:
        async def respond(call: ApiCall) -> None:
            if not injector.of_requests or is_exempt(call.info.path):
                await handle(call)
                return
            attributes = attributes_of(call)
            ending = await _delayed(injector, attributes)
            match ending:
                case None:
                    await handle(call)
                case Answer(after_write=True) | CutConnection("after-write"):
                    await _handle_for_nothing(call, handle)
                    _end(call, ending, attributes)
                case _:
                    _end(call, ending, attributes)

        return respond

    return middleware


async def _delayed(injector: FaultInjector, attributes: RequestAttributes) -> Answer | CutConnection | None:
    """Wait for the delays of a request, and return the fault that ends it."""
    reserved = deque(injector.reserve(attributes))
    try:
        while reserved:
            fault = reserved.popleft()
            if not fault.hit_reserved():
                continue
            if not isinstance(fault.effect, Delay):
                assert isinstance(fault.effect, Answer | CutConnection)
                return fault.effect
            await _delay(injector, fault, fault.effect.seconds)
    finally:
        for fault in reserved:  # The client has gone, or the request's time is up.
            fault.release()
    return None


async def _delay(injector: FaultInjector, fault: Fault, seconds: float) -> None:
    """Wait for some time, or until a fault is cleared."""
    cleared = asyncio.Event()

    def review() -> None:
        if fault.is_cleared:
            cleared.set()

    injector.subscribe(review)
    try:
        async with asyncio.timeout(seconds):
            await cleared.wait()
    except TimeoutError:
        return
    finally:
        injector.unsubscribe(review)


async def _handle_for_nothing(call: ApiCall, handle: Handler) -> None:
    """Execute a call, and discard its response."""
    call.is_answer_lost = True
    try:
        await handle(call)
    except (AnswerLost, ApiError, StorageError, TimeoutError):
        # The fault decides what the client gets.
        return
    finally:
        call.is_answer_lost = False


def _end(call: ApiCall, ending: Answer | CutConnection, attributes: RequestAttributes) -> None:
    """End a request by a fault."""
    if isinstance(ending, Answer):
        raise InjectedFailure(ending, attributes)
    call.closes_connection = True
    if call.request.transport is not None:
        call.request.transport.abort()
    raise ConnectionResetError("an injected fault has cut the connection")


class ExpiringTokens:
    """An authentication chain that rejects the bearer tokens that faults have expired."""

    def __init__(self, injector: FaultInjector, chain: Authenticate) -> None:
        self._injector, self._chain = injector, chain

    async def __call__(self, credentials: Credentials, path: str) -> UserInfo | Identity:
        """Authenticates a request."""
        found = await self._chain(credentials, path)
        token = bearer_token(credentials.authorization)
        if token and credentials.certificate.user is None and not is_exempt(path):
            user = found.user if isinstance(found, Identity) else found
            user_agent = ", ".join(credentials.headers.getall(hdrs.USER_AGENT, ()))
            if self._injector.expires(token, user.name, user_agent):
                raise Unauthorized("an injected fault: the token has expired")
        return found
