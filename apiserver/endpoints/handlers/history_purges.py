"""Handles requests that remove changes from the history: DELETE of `…/NAME/history`, and of `/history`.

Users need a right that nothing else needs: `delete` on the subresource `history`, or on the path `/history`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Final

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.bodies import read_body
from apiserver.endpoints.responses import send_document
from apiserver.meta import names
from apiserver.meta.errors import BadRequest, MethodNotAllowed
from apiserver.meta.options import first, require_only
from apiserver.registry.history.purges import Purges
from apiserver.storage.history.purges import Purged
from apiserver.wire import json_text

log = logging.getLogger(__name__)

# Clients send one with every DELETE. What becomes of dependents has no meaning here.
OPTIONS_TAKEN: Final = frozenset({"apiVersion", "kind", "propagationPolicy"})
# Short enough to be parsed on the event loop.
OPTIONS_BYTES_MAX: Final = 4096


class PurgeHandlers:
    """The handlers of these requests. The user has been authorized."""

    def __init__(self, purges: Purges) -> None:
        self._purges = purges

    async def of_object(self, call: ApiCall) -> None:
        """Purge the history of one object. Raises MethodNotAllowed, and as `_require_only` and `Purges`."""
        info = call.info
        if info.rest:
            raise MethodNotAllowed
        await _require_only(call)
        purging = self._purges.of_object(call.resource, info.namespace, info.name)
        await _send(call, f"of {call.resource.group_resource} {info.namespace}/{info.name}", purging)

    async def of_many(self, call: ApiCall) -> None:
        """Purge the history of a namespace, or all before a moment. Raises as `of_object`."""
        await _require_only(call, "namespace", "before")
        namespace, moment = first(call.query, "namespace"), first(call.query, "before")
        if bool(namespace) == bool(moment):
            raise BadRequest("exactly one of the parameters namespace and before must be set")
        if namespace:
            if problems := names.dns_label(namespace):
                raise BadRequest(f"namespace {namespace!r} is not a name: {problems[0]}")
            await _send(call, f"of namespace {namespace}", self._purges.of_namespace(namespace))
        else:
            await _send(call, f"before {moment}", self._purges.before(moment))


async def _require_only(call: ApiCall, *parameters: str) -> None:
    """Check that there are no other parameters, and no options in the body. Raises as `read_body`.

    Who sends `dryRun`, for example, expects that nothing is lost.
    """
    require_only(call.query, parameters)
    body = await read_body(call)
    if body.data:
        _check_options(body.data)


def _check_options(data: bytes) -> None:
    """Check that the options in a body mean nothing for a purge. Raises BadRequest."""
    if len(data) > OPTIONS_BYTES_MAX:
        raise BadRequest(f"the body must have at most {OPTIONS_BYTES_MAX} bytes, not {len(data)}")
    try:
        options = json_text.load(data)
    except ValueError as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    if not isinstance(options, dict):
        raise BadRequest("the body is not a JSON object")
    if unknown := sorted(options.keys() - OPTIONS_TAKEN):
        raise BadRequest(f"unknown option {unknown[0]!r} in the body: a purge has no options")


async def _send(call: ApiCall, what: str, purging: Awaitable[Purged]) -> None:
    """Log and await a purge, and send what it has removed."""
    # Before it, too: if the client leaves, the purge goes on, and nobody hears of its end.
    log.warning("user %r purges the history %s", call.user.name, what)
    purged = await purging
    log.warning("user %r purged the history %s: %d changes", call.user.name, what, purged.changes)
    await send_document(call, {"changes": purged.changes, "objects": purged.objects})
