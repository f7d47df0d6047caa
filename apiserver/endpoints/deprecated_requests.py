"""Serves /debug/deprecations: the clients that use APIs which will be removed."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

from aiohttp import hdrs

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.responses import send_document
from apiserver.meta import timestamps
from apiserver.meta.vocabulary import Document, Removal
from apiserver.registry.served_resource import ServedResource
from apiserver.releases.deprecated_calls import DeprecatedApi, DeprecatedCalls
from apiserver.releases.emulation import EmulatedRelease

DEPRECATIONS_PATH: Final = "debug/deprecations"
_NOT_KNOWN: Final = Removal()


class DeprecatedRequests:
    """Counts the requests for APIs that will be removed, and lists the clients that make them.

    release: the one that is emulated. clock: seconds since 1970.
    workers: how many processes serve the port, each of which counts its own requests.
    """

    def __init__(self, release: EmulatedRelease, clock: Callable[[], float], workers: int = 1) -> None:
        self._release, self._clock, self._workers = release, clock, workers
        self._id = secrets.token_hex(8)
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
            "workers": self._workers,
            "worker": self._id,
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
                    "userAgent": _unicode(caller.user_agent),
                    "count": calls.count,
                    "lastSeen": timestamps.to_text(calls.last_seen),
                }
                for api, caller, calls in self._calls
            ],
        }


def _unicode(header: str) -> str:
    """Returns the value of a header, whose bytes need not be UTF-8, as JSON may have it."""
    return header.encode(errors="surrogateescape").decode(errors="replace")
