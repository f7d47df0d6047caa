"""Serves /debug/faults: the faults of this server, for tests in any language.

    GET     /debug/faults          {"faults": [...]}
    GET     /debug/faults/ID       one of them
    POST    /debug/faults          injects one (see `apiserver.testkit.faults.documents`), and shows it
    POST    /debug/faults/compact  drops the server's history up to now
    DELETE  /debug/faults/ID       clears one, and shows it
    DELETE  /debug/faults          clears all, and shows them

It is served only with `--enable-fault-injection`, and only to authorized members of `system:masters`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.bodies import load_json, read_body
from apiserver.endpoints.responses import send_document
from apiserver.meta.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    MethodNotAllowed,
    NoSuchEndpoint,
    TooManyRequests,
)
from apiserver.meta.vocabulary import SYSTEM_MASTERS, Document
from apiserver.testkit.faults import FaultInjector, InvalidFault, RefuseTls, TooManyFaults
from apiserver.testkit.faults.documents import fault_document, parse
from apiserver.wire.json_text import InvalidJson

log = logging.getLogger(__name__)

_NUMBER_DIGITS_MAX = 9


class NoSuchFault(ApiError):
    """No fault has this id, or it has been cleared."""

    code, reason = 404, "NotFound"

    def __init__(self, name: str) -> None:
        super().__init__(f'fault "{name}" not found', details={"name": name, "kind": "faults"})


class FaultRequests:
    """Serves /debug/faults. compact: drops the history, and returns the current revision."""

    def __init__(self, injector: FaultInjector, compact: Callable[[], Awaitable[int]]) -> None:
        self._injector, self._compact = injector, compact

    async def __call__(self, call: ApiCall, name: str) -> None:
        """Responds to a request. Raises Forbidden, MethodNotAllowed, …

        name: the segment that follows /debug/faults; empty if there is none.
        """
        if SYSTEM_MASTERS not in call.user.groups:
            raise Forbidden(
                f"{call.info.path} is forbidden: only members of {SYSTEM_MASTERS} may inject faults"
            )
        match call.info.method, name:
            case "GET" | "HEAD", "":
                await send_document(call, {"faults": [fault_document(fault) for fault in self._injector]})
            case "GET" | "HEAD", _:
                fault = self._injector.find(_number(name))
                if fault is None:
                    raise NoSuchFault(name)
                await send_document(call, fault_document(fault))
            case "POST", "":
                await send_document(call, self._injected(call, await _document(call)), 201)
            case "POST", "compact":
                revision = await self._compact()
                log.warning(
                    "fault injection: %s compacted the history up to revision %d", call.user.name, revision
                )
                await send_document(call, {"resourceVersion": str(revision)})
            case "DELETE", "":
                cleared = self._injector.clear_all()
                log.warning("fault injection: %s cleared all %d faults", call.user.name, len(cleared))
                await send_document(call, {"faults": [fault_document(fault) for fault in cleared]})
            case "DELETE", _:
                await send_document(call, self._cleared(call, name))
            case "POST", _:
                raise NoSuchEndpoint
            case _:
                raise MethodNotAllowed

    def _injected(self, call: ApiCall, document: Any) -> Document:
        """Inject the fault in the body of a request."""
        try:
            asked = parse(document)
            if isinstance(asked.effect, RefuseTls) and asked.effect.seconds is None and asked.times is None:
                raise InvalidFault(
                    "effect.seconds",
                    "must be set if times is not set: otherwise, no client could connect to clear the fault",
                )
            fault = self._injector.inject(asked.effect, asked.match, asked.times)
        except InvalidFault as error:
            cause = {"reason": "FieldValueInvalid", "message": error.why, "field": error.field}
            refused = BadRequest(f"the fault is not valid: {error}")
            refused.details = {"causes": [cause]}
            raise refused from None
        except TooManyFaults as error:
            raise TooManyRequests(str(error)) from None
        log.warning("fault injection: %s injected %s", call.user.name, fault)
        return fault_document(fault)

    def _cleared(self, call: ApiCall, name: str) -> Document:
        """Clear a fault."""
        fault = self._injector.clear(_number(name))
        if fault is None:
            raise NoSuchFault(name)
        log.warning("fault injection: %s cleared %s", call.user.name, fault)
        return fault_document(fault)


def _number(name: str) -> int:
    """Returns the number of a fault; 0, which no fault has, for an invalid id."""
    return int(name) if name.isascii() and name.isdigit() and len(name) <= _NUMBER_DIGITS_MAX else 0


async def _document(call: ApiCall) -> Any:
    """Returns the document in the body of a request."""
    body = await read_body(call)
    try:
        return load_json(body.data)
    except InvalidJson as error:
        raise BadRequest(f"the fault is not valid JSON: {error}") from None
