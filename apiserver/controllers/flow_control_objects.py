"""Keeps the FlowSchemas and priority levels that every server has: the mandatory and the suggested ones.

The specs of mandatory ones are always restored. Suggested ones are updated, too, until a user changes them:
the annotation `apf.kubernetes.io/autoupdate-spec` decides whether the server updates one, and without it the
generation shows whether a user has changed it. Missing objects are created again. Objects that only an
earlier release suggested are deleted, if the server may update them.

As in kube-apiserver every server does this, whether Priority and Fairness is on or not; each step may be
repeated. Source: kubernetes, pkg/registry/flowcontrol/{rest,ensurer}.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import orjson

from apiserver.catalogue.flowcontrol.defaults import FLOW_SCHEMAS, PRIORITY_LEVELS
from apiserver.catalogue.flowcontrol.flow_schemas import MANDATORY_FLOW_SCHEMAS
from apiserver.catalogue.flowcontrol.priority_level_configurations import MANDATORY_PRIORITY_LEVELS
from apiserver.controllers.kept_objects import KeptObject, keep, keep_forever
from apiserver.golang.booleans import parse_bool
from apiserver.meta.errors import ApiError, Conflict, NotFound
from apiserver.meta.options import DeleteOptions
from apiserver.meta.vocabulary import Document
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import CorruptObject
from apiserver.registry.write_request import InternalWriter
from apiserver.storage.errors import StorageFull
from apiserver.storage.event_loop_turns import in_turns
from apiserver.storage.interface import ANY
from apiserver.storage.keys import prefix_range

log = logging.getLogger(__name__)

HOOK: Final = "priority-and-fairness-config-producer"
INTERVAL_S: Final = 60.0
_PRODUCER: Final = InternalWriter("api-priority-and-fairness-config-producer-v1")
AUTOUPDATE: Final = "apf.kubernetes.io/autoupdate-spec"


class MaintainedObjects(NamedTuple):
    """The objects of one resource to keep.

    specs: by name. mandatory: the names of those that users cannot change.
    """

    resource: ServedResource
    specs: Mapping[str, Document]
    mandatory: frozenset[str]


def maintained(
    flow_schemas: ServedResource | None, priority_levels: ServedResource | None
) -> Iterator[MaintainedObjects]:
    """Yields the objects to keep, for the served resources."""
    if flow_schemas is not None:
        yield MaintainedObjects(flow_schemas, FLOW_SCHEMAS, frozenset(MANDATORY_FLOW_SCHEMAS))
    if priority_levels is not None:
        yield MaintainedObjects(priority_levels, PRIORITY_LEVELS, frozenset(MANDATORY_PRIORITY_LEVELS))


class FlowControlObjects:
    """Keeps the objects of each of some resources."""

    def __init__(self, registry: Registry, resources: tuple[MaintainedObjects, ...]) -> None:
        self._registry = registry
        self._resources = resources

    async def run(self, on_first: Callable[[], None]) -> None:
        """Keep the objects until cancelled. on_first: called once they exist."""
        await keep_forever(self._registry, self.reconcile, INTERVAL_S, on_first)

    async def reconcile(self) -> None:
        """Write objects that differ from their required state, and delete obsolete ones. Raises
        StorageError.
        """
        for resource, specs, mandatory in self._resources:
            objects = (
                KeptObject(resource, "", name, _wanted(name, spec, is_mandatory=name in mandatory), _PRODUCER)
                for name, spec in specs.items()
            )
            # At the same time: at the first start that takes a tenth of the time.
            await asyncio.gather(*(self._keep(each) for each in objects))
            await self._remove_obsolete(resource, specs)

    async def _keep(self, kept: KeptObject) -> None:
        """Keep an object."""
        try:
            await keep(self._registry, kept)
        except StorageFull as error:
            log.warning("cannot write %s: %s", kept, error)

    async def _remove_obsolete(self, resource: ServedResource, specs: Mapping[str, Document]) -> None:
        """Delete obsolete objects."""
        registry = self._registry
        prefix = registry.prefix_of(resource)
        listing = await registry.cache.list(prefix_range(prefix), ANY)
        async for version in in_turns(listing.versions):
            name = version.key[len(prefix) :]
            if name in specs or version.value is None:
                continue
            try:
                document = version.value.document()
            except CorruptObject:
                continue  # Its owner is unknown.
            meta = document["metadata"]
            if _autoupdate(meta) is not True:
                continue
            options = DeleteOptions(uid=meta["uid"], resource_version=meta["resourceVersion"])
            try:
                with suppress(NotFound, Conflict):  # Another client is changing it; the next pass decides.
                    await registry.delete(DeleteRequest(resource, "", name, options))
                    log.info("deleted %s %s, which this release does not need", resource.kind, name)
            except ApiError as error:
                log.warning("cannot delete %s %s: %s", resource.kind, name, error)


def _wanted(name: str, spec: Document, *, is_mandatory: bool) -> Callable[[Document | None], Document]:
    def wanted(current: Document | None) -> Document:
        if current is None:
            annotations = {AUTOUPDATE: "true"}
            return {"metadata": {"name": name, "annotations": annotations}, "spec": _copied(spec)}
        return updated(current, spec, is_mandatory=is_mandatory)

    return wanted


def updated(current: Document, spec: Document, *, is_mandatory: bool) -> Document:
    """Returns an object with the required spec, if the server may update it, and marked accordingly."""
    meta = current["metadata"]
    marked = _autoupdate(meta)
    # Without an annotation: the spec has not changed since the object was created.
    is_servers = is_mandatory or (meta.get("generation") == 1 if marked is None else marked)
    result = current
    if marked is not is_servers:
        annotations = {**(meta.get("annotations") or {}), AUTOUPDATE: "true" if is_servers else "false"}
        result = {**result, "metadata": {**meta, "annotations": annotations}}
    if spec.get("type") == "Exempt" and (current.get("spec") or {}).get("exempt"):
        spec = {
            **spec,
            "exempt": current["spec"]["exempt"],
        }  # What the exempt level lends is for users to say.
    if is_servers and result.get("spec") != spec:
        result = {**result, "spec": _copied(spec)}
    return result


def _copied(spec: Document) -> Document:
    # Ten times as fast as copy.deepcopy, which was a fortieth of a start.
    copied: Document = orjson.loads(orjson.dumps(spec))
    return copied


def _autoupdate(meta: Document) -> bool | None:
    """Returns the value of the annotation; None if it is absent or invalid."""
    return parse_bool((meta.get("annotations") or {}).get(AUTOUPDATE))
