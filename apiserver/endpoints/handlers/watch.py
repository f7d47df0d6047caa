"""Handles GET with `watch`: sends the current state, if requested, and every change after it."""

from __future__ import annotations

import secrets
from typing import Final

from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.handlers.encoders import Encoders
from apiserver.endpoints.handlers.long_selectors import wait_for_turn
from apiserver.endpoints.watch_stream import WatchStreams
from apiserver.meta.brand import Brand
from apiserver.meta.errors import Expired
from apiserver.meta.options import ListOptions
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.errors import RevisionCompacted
from apiserver.storage.interface import ReadAt
from apiserver.storage.watch_cache import KeyVersion, Watcher

_RANDOM_STEPS: Final = 1_000_000


def watch_handler(
    registry: Registry,
    encoders: Encoders,
    brand: Brand,
    streams: WatchStreams,
    *,
    min_request_timeout_s: float,
) -> Handler:
    """Returns a handler that streams the changes of a collection.

    Rows I10, I11, K26-K28, K38-K44, M01-M11.
    """
    cache = registry.cache

    async def watch(call: ApiCall) -> None:
        resource, info = call.resource, call.info
        encoder = encoders.for_call(call)
        await wait_for_turn(call.query)
        options = ListOptions.for_watch(call.query, resource.known_fields, brand.meta_group)
        selection = registry.selection(resource, info.namespace, options, name=info.name)
        prefix = registry.prefix_of(resource)
        lifetime_s = options.timeout_s or watch_lifetime_s(min_request_timeout_s)
        # With no revision to start after, a watch starts now, and initial events are of the same revision.
        after = options.start_after
        if options.send_initial_events or not after:
            after = await cache.revision_at(options.at)
        # The cache cannot select by views that a webhook has to make: it passes such changes on.
        view_predicate = selection.predicate if selection.is_of_views else None
        stream = streams.new(call, encoder, resource, lifetime_s=lifetime_s, view_predicate=view_predicate)
        watcher: Watcher[StoredObject] = Watcher(
            after=after,
            predicate=selection.predicate,
            trigger=selection.trigger,
            tests_late=selection.is_long,
            on_ready=stream.on_event,
        )
        try:
            # Before the state is read: changes meanwhile wait in the watcher, however long reading takes.
            cache.watch(prefix, watcher, selection.scope)
        except RevisionCompacted as error:
            # As kube-apiserver does: the stream opens, says so, and ends (row M08).
            await stream.fail(Expired(f"too old resource version: {error.requested} ({error.oldest})"))
            return
        try:
            initial: list[KeyVersion[StoredObject]] = []
            if options.send_initial_events:
                at = ReadAt.exactly(after)
                predicate = selection.predicate if view_predicate is None else None
                listing = await cache.list(selection.keys, at, predicate=predicate)
                initial = list(listing.versions)
                cache.count_initial_events(prefix, len(initial))
                # `run` empties the list: a watch must not hold a whole state for as long as it lasts.
                del listing
            initial_bookmark = after if options.ends_initial_events_with_bookmark else None
            sends_bookmarks = options.allow_bookmarks
            del options  # Nor the requirements of a long selector.
            with streams.open(stream):
                await stream.run(
                    watcher,
                    initial,
                    initial_bookmark=initial_bookmark,
                    progress=lambda: cache.revision,
                    sends_bookmarks=sends_bookmarks,
                )
        finally:
            cache.unwatch(prefix, watcher, selection.scope)

    async def watch_in_place(call: ApiCall) -> None:
        with streams.place(call.user):
            await watch(call)

    return watch_in_place


def watch_lifetime_s(least_s: float) -> float:
    """Returns a random lifetime between the minimum and twice that, so that watches do not end together (row
    J10).
    """
    return least_s * (1 + secrets.randbelow(_RANDOM_STEPS) / _RANDOM_STEPS)
