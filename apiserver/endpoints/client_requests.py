"""Serves /debug/clients: who sends how many requests, and what they take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.responses import send_document, unicode_of
from apiserver.endpoints.watch_stream import WatchStreams
from apiserver.meta.vocabulary import Document
from apiserver.metrics.client_usage import (
    OTHER,
    SOURCES_MAX,
    ClientUsage,
    Source,
    Usage,
    bounded_source,
    shared_source,
)
from apiserver.metrics.requests import source_of
from apiserver.storage.event_loop_turns import in_turns

CLIENTS_PATH: Final = "debug/clients"


class ClientRequests:
    """Lists the sources of requests, those that took the most time first.

    worker: the `worker_identity` of this process.
    """

    def __init__(self, usage: ClientUsage, streams: WatchStreams, worker: Mapping[str, Any]) -> None:
        self._usage, self._streams, self._worker = usage, streams, worker

    async def respond(self, call: ApiCall) -> None:
        """Serve the list."""
        await send_document(call, await self._document())

    async def _document(self) -> Document:
        seconds, usages = self._usage.read()
        watches: dict[Source, int] = {}
        async for call in in_turns(self._streams.calls()):
            source = bounded_source(source_of(call))
            if source not in usages and len(watches) >= SOURCES_MAX:
                source = shared_source(OTHER)
            watches[source] = watches.get(source, 0) + 1
        usages |= {source: Usage() for source in watches if source not in usages}
        busiest = sorted(usages.items(), key=lambda item: (-item[1].seconds, -item[1].requests, item[0]))
        return {
            **self._worker,
            "seconds": round(seconds, 3),
            "clients": [
                _row(source, usage, watches.get(source, 0)) async for source, usage in in_turns(busiest)
            ],
        }


def _row(source: Source, usage: Usage, watches: int) -> Document:
    return {
        "user": source.user,
        "userAgent": unicode_of(source.user_agent),
        "verb": source.verb,
        "group": source.group,
        "resource": source.resource,
        "subresource": source.subresource,
        "requests": usage.requests,
        "seconds": round(usage.seconds, 6),
        "sentBytes": usage.sent_bytes,
        "refused": usage.refused,
        "failed": usage.failed,
        "watches": watches,
    }
