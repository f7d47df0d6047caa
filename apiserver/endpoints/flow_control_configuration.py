"""Applies the FlowSchemas and priority levels to API Priority and Fairness, on every server.

It also reports in the status of each FlowSchema whether its priority level exists. As in kube-apiserver every
server with fairness does so; the others find it up to date.
Source: k8s.io/apiserver, pkg/util/flowcontrol/apf_controller.go.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final, Generic, Protocol, Self, TypeVar

from apiserver.controller_runtime.controller import Controller, Cooldown, Outcome, Requeue
from apiserver.controller_runtime.informer import InformerCallbacks, Notification, resource_informer
from apiserver.controller_runtime.undone_writes import UndoneWrites
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.endpoints.flowcontrol.flow_control import FlowControl
from apiserver.endpoints.flowcontrol.flow_schemas import FlowSchema, Malformed
from apiserver.endpoints.flowcontrol.priority_levels import LevelSpec
from apiserver.meta import timestamps
from apiserver.meta.conditions import applied_condition, find_condition, set_condition
from apiserver.meta.errors import ApiError, NotFound
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import CorruptObject, StoredObject
from apiserver.registry.strategy import UpdateStrategy
from apiserver.registry.write_request import InternalWriter, ProposedObject, WriteRequest
from apiserver.storage.errors import StorageFull, ValueTooLarge

log = logging.getLogger(__name__)

HOOK: Final = "priority-and-fairness-config-consumer"
QUEUE: Final = "priority_and_fairness_config_queue"
BACKOFF: Final = Backoff(base_s=0.2, max_s=60.0)
DANGLING: Final = "Dangling"
_CONSUMER: Final = InternalWriter(
    "api-priority-and-fairness-config-consumer-v1", "status", lambda new: applied_condition(new, DANGLING)
)
# The one key of the queue: levels share seats, so all are looked at together.
_ALL: Final = "all"
# Thousands of schemas may come at once. Other tasks get the processor 20 times as long.
REST_FACTOR: Final = 20
# Statuses that are written at the same time; there are a dozen at the first start.
WRITES_AT_ONCE: Final = 16
# The server itself writes the status: nothing is copied from the stored object.
_BY_SERVER: Final = UpdateStrategy()


class _Named(Protocol):
    @property
    def name(self) -> str: ...
    @classmethod
    def of(cls, document: Document, /) -> Self: ...


_T = TypeVar("_T", bound=_Named)


class _Objects(Generic[_T]):
    """The usable objects of one resource, by name.

    conditions: the condition `Dangling` of each object, None if it has none.
    """

    def __init__(
        self, registry: Registry, resource: ServedResource, kind: type[_T], on_change: Callable[[], None]
    ) -> None:
        self._resource, self._kind = resource, kind
        self.by_name: dict[str, _T] = {}
        self.conditions: dict[str, Document | None] = {}
        self._is_changed = True
        self.informer = resource_informer(
            registry,
            resource,
            self._on_object,
            callbacks=InformerCallbacks(on_batch=on_change),
            reports_missed_deletions=True,
        )

    def take_change(self) -> bool:
        """Returns whether the objects, except their conditions, have changed since the last call."""
        is_changed, self._is_changed = self._is_changed, False
        return is_changed

    def _on_object(self, notification: Notification) -> None:
        name, found = notification.name, None
        if notification.new is not None:
            try:
                found, condition = self._parsed(name, notification.new)
            except (CorruptObject, Malformed) as error:
                log.error("cannot use %s %s: %s", self._resource.kind, name, error)
        if found != self.by_name.get(name):
            self._is_changed = True
        if found is None:
            self.by_name.pop(name, None)
            self.conditions.pop(name, None)
        else:
            self.by_name[name], self.conditions[name] = found, condition

    def _parsed(self, name: str, stored: StoredObject) -> tuple[_T, Document | None]:
        """Returns a parsed object, and its condition."""
        document = stored.document()
        found = self._kind.of(document)
        if found.name != name:
            raise Malformed(f"the object is named {found.name!r}")
        try:
            return found, find_condition(document, DANGLING)
        except (TypeError, AttributeError) as error:
            raise Malformed(repr(error)) from None


class FlowControlConfiguration:
    """The controller that applies FlowSchemas and PriorityLevelConfigurations to this server.

    clock: seconds since 1970. is_complete: whether the objects that every server has exist.
    """

    def __init__(
        self,
        registry: Registry,
        flow_schemas: ServedResource,
        priority_levels: ServedResource,
        control: FlowControl,
        clock: Callable[[], float],
        is_complete: Callable[[], bool],
    ) -> None:
        self._registry = registry
        self._resource = flow_schemas
        self._control = control
        self._clock = clock
        self._is_complete = is_complete
        self.queue: WorkQueue[str] = WorkQueue(QUEUE, BACKOFF)
        self._schemas = _Objects(registry, flow_schemas, FlowSchema, self.look_again)
        self._levels = _Objects(registry, priority_levels, LevelSpec, self.look_again)
        self._undone: UndoneWrites[str] = UndoneWrites(self.queue)
        # Schemas whose status another client keeps writing, and until when they are skipped.
        self._resting: dict[str, float] = {}
        self._on_first: Callable[[], None] | None = None

    def look_again(self) -> None:
        """Reconcile all objects again."""
        self.queue.add(_ALL)

    async def run(self, on_first: Callable[[], None]) -> None:
        """Follow the objects until cancelled.

        on_first: called when all objects that existed at the start are applied.
        """
        self._on_first = on_first
        informers = [self._schemas.informer, self._levels.informer]
        await Controller(self.queue, self._reconcile, informers=informers).run()

    async def _reconcile(self, _: str) -> Outcome:
        """Apply the current objects."""
        schemas, levels = self._schemas, self._levels
        if not (schemas.informer.has_synced.is_set() and levels.informer.has_synced.is_set()):
            return Requeue(BACKOFF.base_s)
        began = time.monotonic()
        if schemas.take_change() | levels.take_change():
            self._control.configure(levels.by_name.values(), schemas.by_name.values(), began)
        now = self.queue.now()
        self._resting = {name: until for name, until in self._resting.items() if until > now}
        rest_s = (time.monotonic() - began) * REST_FACTOR
        if not self._is_complete():
            return Cooldown(rest_s)  # `look_again` is called then: until then levels are missing.
        is_written = await self._write_conditions(
            {
                schema.name: (schema.uid, wanted)
                for schema in schemas.by_name.values()
                if schema.name not in self._resting
                and not _says(schemas.conditions[schema.name], wanted := _condition(schema, levels.by_name))
            }
        )
        if self._on_first is not None:
            on_first, self._on_first = self._on_first, None
            on_first()
        if not is_written:
            return Requeue(cooldown_s=rest_s)
        if self._resting:
            return Requeue(max(0.0, min(self._resting.values()) - now), cooldown_s=rest_s)
        return Cooldown(rest_s)

    async def _write_conditions(self, wrong: Mapping[str, tuple[str, Document]]) -> bool:
        """Write the conditions that are wrong; returns whether all could be written.

        wrong: UID and condition by name.

        Raises the storage's errors.
        """
        is_written = True
        entries = list(wrong.items())
        for begin in range(0, len(entries), WRITES_AT_ONCE):
            batch = entries[begin : begin + WRITES_AT_ONCE]
            writes = (self._write(name, uid, wanted) for name, (uid, wanted) in batch)
            for written in await asyncio.gather(*writes, return_exceptions=True):
                # A full store must not keep the server from becoming ready, so that users can free space.
                if isinstance(written, ApiError | StorageFull | ValueTooLarge):
                    log.warning("cannot write the status of a FlowSchema, retrying: %s", written)
                    is_written = False
                elif isinstance(written, BaseException):
                    raise written
        return is_written

    async def _write(self, name: str, uid: str, wanted: Document) -> None:
        """Write a condition."""

        def with_condition(found: StoredObject) -> ProposedObject:
            document = found.document()
            if not _says(find_condition(document, DANGLING), wanted):
                set_condition(document, wanted, timestamps.to_text(self._clock()))
            return ProposedObject(document)

        request = WriteRequest(
            resource=self._resource, namespace="", name=name, update=_BY_SERVER, writer=_CONSUMER
        )
        try:
            await self._registry.update(request, with_condition)
        except NotFound:
            return  # It is gone.
        if cooldown_s := self._undone.cooldown_s(name, (uid, *wanted.values())):
            self._resting[name] = self.queue.now() + cooldown_s


def _condition(schema: FlowSchema, levels: Mapping[str, LevelSpec]) -> Document:
    """Returns the condition of a schema about its level."""
    about = f'This FlowSchema references the PriorityLevelConfiguration object named "{schema.level}"'
    if schema.level in levels:
        status, reason, message = "False", "Found", f"{about} and it exists"
    else:
        status, reason, message = "True", "NotFound", f"{about} but there is no such object"
    return {"type": DANGLING, "status": status, "reason": reason, "message": message}


def _says(condition: Document | None, wanted: Document) -> bool:
    return condition is not None and all(condition.get(field) == value for field, value in wanted.items())
