"""Keeps the server's own objects in their required state, by checking them periodically."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple

from apiserver.controller_runtime.work_queue import Backoff
from apiserver.meta.errors import AlreadyExists, ApiError, NotFound
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import CorruptObject
from apiserver.registry.write_request import KUBE_APISERVER, InternalWriter, ProposedObject, WriteRequest
from apiserver.storage.errors import StorageError

log = logging.getLogger(__name__)

# At the start, when the server is not ready before.
RETRY: Final = Backoff(base_s=0.5, max_s=5.0)


class KeptObject(NamedTuple):
    """An object that the server keeps in its required state.

    wanted: returns the required object, given the current one, or None if there is none.
    writer: the field manager of its writes.
    """

    resource: ServedResource
    namespace: str
    name: str
    wanted: Callable[[Document | None], Document]
    writer: InternalWriter = KUBE_APISERVER

    def __str__(self) -> str:
        return "/".join(filter(None, (self.resource.kind, self.namespace, self.name)))


def cached(registry: Registry, resource: ServedResource, namespace: str, name: str) -> Document | None:
    """Returns the object from the watch cache. Raises CorruptObject."""
    found = registry.cache.get_cached(registry.key(resource, namespace, name))
    return None if found is None or found.value is None else found.value.document()


async def keep(registry: Registry, kept: KeptObject) -> None:
    """Create an object, or update it to its required state; refused writes are logged.

    Raises StorageError.
    """
    resource, namespace, name, wanted, writer = kept
    request = WriteRequest(resource=resource, namespace=namespace, name=name, writer=writer)
    try:
        current = cached(registry, resource, namespace, name)
        if current is None:
            document = {"apiVersion": resource.api_version, "kind": resource.kind, **wanted(None)}
            with suppress(AlreadyExists):  # Another server was faster.
                await registry.create(request, ProposedObject(document))
        elif wanted(current) != current:
            with suppress(NotFound):
                await registry.update(request, lambda found: ProposedObject(wanted(found.document())))
    except (ApiError, CorruptObject) as error:
        log.warning("cannot write %s: %s", kept, error)
    except StorageError:
        raise
    except Exception:  # What is stored may be malformed, of which the API makes nothing.
        log.exception("cannot compare %s", kept)


async def keep_forever(
    registry: Registry,
    reconcile: Callable[[], Awaitable[None]],
    interval_s: float,
    on_first: Callable[[], None],
    changed: asyncio.Event | None = None,
) -> None:
    """Call `reconcile` every `interval_s` until cancelled. on_first: called after the first time.

    reconcile: its errors are logged. While the store does not respond, it is called again with back-off until
        it does for the first time. A damaged or malformed object must not keep the server from being ready.
    changed: when it is set, `reconcile` is called soon.
    """
    changed = changed or asyncio.Event()
    await registry.cache.wait_until_filled()
    is_first, failures = True, 0
    while True:
        changed.clear()
        has_answer = True
        try:
            await reconcile()
        except StorageError as error:
            log.warning("cannot write the server's own objects, retrying: %s", error)
            has_answer = False
        except Exception:  # It must not stop the server.
            log.exception("cannot write all of the server's own objects")
        if is_first and has_answer:
            on_first()
            is_first = False
        with suppress(TimeoutError):
            async with asyncio.timeout(RETRY.delay_s(failures) if is_first else interval_s):
                await changed.wait()
        failures += 1
