"""Handles `POST /history/rewrite`: encrypts what the history keeps of values again, after a key has changed.

A request does some of it, so that changes are recorded in between, and `apiserver storage rewrite` sends
requests until the last one. Users need the right to `post` to this path.
"""

from __future__ import annotations

from typing import Final

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.handlers.history import number_of
from apiserver.endpoints.responses import send_document
from apiserver.meta import names
from apiserver.meta.errors import BadRequest, ServiceUnavailable
from apiserver.meta.options import first, require_only
from apiserver.meta.vocabulary import Document
from apiserver.registry.history.past import PastReads
from apiserver.registry.history.recorder import CANNOT_RECORD
from apiserver.registry.history.writes import HistoryWrites
from apiserver.storage.keys import resource_prefix

PATH: Final = "history/rewrite"
# A path has no more in it.
RESOURCES_MAX: Final = 1_000
_PARAMETERS: Final = ("resources", "continue", "pretty", "timeout")


class RewriteHandler:
    """Handles these requests. prefix: of all keys. The user has been authorized."""

    def __init__(self, past: PastReads, writes: HistoryWrites, prefix: str) -> None:
        self._past, self._writes, self._prefix = past, writes, prefix

    async def rewrite(self, call: ApiCall) -> None:
        """Encrypt some values again. Raises BadRequest, ServiceUnavailable."""
        require_only(call.query, _PARAMETERS)
        position, prefixes = number_of(call, "continue"), self._prefixes(first(call.query, "resources"))
        # What is recorded later gets the current key.
        await self._past.complete()
        try:
            done = await self._writes.rewrite(position, prefixes)
        except CANNOT_RECORD as error:
            raise ServiceUnavailable(f"the history was not encrypted again completely: {error}") from None
        document: Document = {
            "rewritten": done.rewritten,
            "unchanged": done.unchanged,
            "lost": done.lost,
        }
        if done.position:
            document["continue"] = str(done.position)
        await send_document(call, document)

    def _prefixes(self, text: str) -> tuple[str, ...]:
        """Returns the prefixes of the keys of resources. text: their names, with commas between them."""
        if not text:
            return ("",)
        found = text.split(",")
        if len(found) > RESOURCES_MAX:
            raise BadRequest(f"resources must have at most {RESOURCES_MAX} names, not {len(found)}")
        return tuple(map(self._prefix_of, found))

    def _prefix_of(self, name: str) -> str:
        resource, dot, group = name.partition(".")
        if names.dns_label(resource) or (dot and names.dns_subdomain(group)):
            raise BadRequest(f"resources must have names such as secrets or deployments.apps, not {name!r}")
        return resource_prefix(self._prefix, group, resource)
