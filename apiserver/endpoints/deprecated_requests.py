"""Serves /debug/deprecations: the clients that use APIs which will be removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from aiohttp import hdrs

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.responses import send_document, unicode_of
from apiserver.meta import timestamps
from apiserver.meta.releases.deprecated_calls import DeprecatedApi, DeprecatedCalls
from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.meta.vocabulary import Document, Removal
from apiserver.registry.served_resource import ServedResource

DEPRECATIONS_PATH: Final = "debug/deprecations"
_NOT_KNOWN: Final = Removal()


class DeprecatedRequests:
    """Counts the requests for APIs that will be removed, and lists the clients that make them.

    release: the one that is emulated. clock: seconds since 1970.
    worker: the `worker_identity` of this process.
    """

    def __init__(
        self, release: EmulatedRelease, clock: Callable[[], float], worker: Mapping[str, Any]
    ) -> None:
        self._release, self._clock, self._worker = release, clock, worker
        self._calls, self._began = DeprecatedCalls(), clock()

    def count(self, call: ApiCall, resource: ServedResource) -> None:
        """Count a request, which has been authorized."""
        deprecation = resource.deprecation
        api = DeprecatedApi(
            resource.group_version,
            resource.resource,
            deprecation.since if deprecation is not None else "",
            resource.removal or _NOT_KNOWN,
        )
        user_agent = call.request.headers.get(hdrs.USER_AGENT, "")
        self._calls.count(api, call.user.name, user_agent, self._clock())

    async def respond(self, call: ApiCall) -> None:
        """Serve the list."""
        await send_document(call, self._document())

    def _document(self) -> Document:
        return {
            "release": str(self._release),
            **self._worker,
            "since": timestamps.to_text(self._began),
            "requests": [
                {
                    "group": api.group_version.group,
                    "version": api.group_version.version,
                    "resource": api.resource,
                    "deprecatedRelease": api.deprecated,
                    "removedRelease": api.removal.release,
                    "replacement": api.removal.replacement,
                    "user": caller.user,
                    "userAgent": unicode_of(caller.user_agent),
                    "count": calls.count,
                    "lastSeen": timestamps.to_text(calls.last_seen),
                }
                for api, caller, calls in self._calls
            ],
        }
