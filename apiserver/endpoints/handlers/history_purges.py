"""Handles requests that remove changes from the history: DELETE of `…/NAME/history`, and of `/history`.

Users need a right that nothing else needs: `delete` on the subresource `history`, or on the path `/history`.
"""

from __future__ import annotations

import logging

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.responses import send_document
from apiserver.meta import names
from apiserver.meta.errors import BadRequest, MethodNotAllowed
from apiserver.meta.options import first
from apiserver.registry.history.purges import Purges
from apiserver.storage.history.purges import Purged

log = logging.getLogger(__name__)


class PurgeHandlers:
    """The handlers of these requests. The user has been authorized."""

    def __init__(self, purges: Purges) -> None:
        self._purges = purges

    async def of_object(self, call: ApiCall) -> None:
        """Purge the history of one object. Raises BadRequest, MethodNotAllowed, and as `Purges`."""
        info = call.info
        if info.rest:
            raise MethodNotAllowed
        _require_only(call)
        purged = await self._purges.of_object(call.resource, info.namespace, info.name)
        await _send(call, f"of {call.resource.group_resource} {info.namespace}/{info.name}", purged)

    async def of_many(self, call: ApiCall) -> None:
        """Purge the history of a namespace, or all before a moment. Raises BadRequest, and as `Purges`."""
        _require_only(call, "namespace", "before")
        namespace, moment = first(call.query, "namespace"), first(call.query, "before")
        if bool(namespace) == bool(moment):
            raise BadRequest("exactly one of the parameters namespace and before must be set")
        if namespace:
            if problems := names.dns_label(namespace):
                raise BadRequest(f"namespace {namespace!r} is not a name: {problems[0]}")
            await _send(call, f"of namespace {namespace}", await self._purges.of_namespace(namespace))
        else:
            await _send(call, f"before {moment}", await self._purges.before(moment))


def _require_only(call: ApiCall, *parameters: str) -> None:
    """Check that there are no other parameters. Raises BadRequest.

    Who sends `dryRun`, for example, expects that nothing is lost.
    """
    if unknown := sorted(call.query.keys() - set(parameters)):
        raise BadRequest(f"unknown parameter {unknown[0]!r}: a purge takes {', '.join(parameters) or 'none'}")
    for each in parameters:
        if len(call.query.get(each, ())) > 1:
            raise BadRequest(f"the parameter {each} must be set once")


async def _send(call: ApiCall, what: str, purged: Purged) -> None:
    log.warning("user %r purged the history %s: %d changes", call.user.name, what, purged.changes)
    await send_document(call, {"changes": purged.changes, "objects": purged.objects})
