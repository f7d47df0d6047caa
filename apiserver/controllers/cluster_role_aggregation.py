"""Gives aggregated cluster roles the rules of their selected roles, as kube-controller-manager does.

All are computed together, in memory: rules that pass through several aggregated roles reach the last one at
once, and each role is written at most once for a change. All servers on a store run this; writing existing
rules again changes nothing. The owners of the rules in managedFields do not change.
Source: k8s.io/kubernetes, pkg/controller/clusterroleaggregation.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from apiserver.auth.authz.rbac.rules import CACHED_BYTES_MAX, CACHED_MAX, Malformed, PolicyRule, parse_rules
from apiserver.controller_runtime.controller import Controller, Cooldown, Outcome, Requeue
from apiserver.controller_runtime.informer import Informer, ListWatch
from apiserver.controller_runtime.undone_writes import UndoneWrites
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.load.offload import run_unqueued
from apiserver.load.size_class import size_class
from apiserver.meta.brand import Brand
from apiserver.meta.errors import ApiError, NotFound
from apiserver.meta.text_caches import text_cache
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import CorruptObject, StoredObject, document_of_tail
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.schema.validation.label_selectors import selects
from apiserver.storage.errors import ValueTooLarge
from apiserver.storage.interface import ANY
from apiserver.storage.keys import prefix_range

log = logging.getLogger(__name__)

BACKOFF: Final = Backoff(base_s=5.0, max_s=60.0)
# The one key of the queue: all roles are computed together.
_ALL: Final = "all"
# Thousands of roles may come at once. Other tasks get the processor 20 times as long.
REST_FACTOR: Final = 20

_Rules = tuple[PolicyRule, ...]


class ClusterRole(NamedTuple):
    """A cluster role. selectors: those of aggregationRule; empty if it has its own rules."""

    labels: Mapping[str, str]
    rules: _Rules
    selectors: tuple[Document, ...]

    @classmethod
    def of(cls, document: Document) -> ClusterRole:
        """Returns the cluster role that a document describes. Raises Malformed."""
        labels = document["metadata"].get("labels") or {}
        aggregation = document.get("aggregationRule") or {}
        if not isinstance(labels, dict) or not isinstance(aggregation, dict):
            raise Malformed("the labels or the aggregationRule is not an object")
        selectors = aggregation.get("clusterRoleSelectors") or ()
        try:
            for selector in selectors:
                selects(selector, labels)
        except (LookupError, TypeError, AttributeError) as error:
            raise Malformed(f"the aggregationRule is not valid: {error!r}") from None
        return cls(labels, parse_rules(document), tuple(selectors))


_NO_ROLE: Final = ClusterRole({}, (), ())


def _read(found: StoredObject) -> ClusterRole:
    """Returns a stored cluster role, parsed once per process. Raises CorruptObject, Malformed."""
    found.require_sound()
    return (_parsed if len(found.tail) <= CACHED_BYTES_MAX else _parse)(found.tail)


def _parse(tail: bytes) -> ClusterRole:
    return ClusterRole.of(document_of_tail(tail))


_parsed: Final = text_cache(CACHED_MAX)(_parse)


class ClusterRoleAggregation:
    def __init__(self, registry: Registry, served: ServedTable, brand: Brand) -> None:
        self._registry = registry
        self._served = served
        self._group = brand.group("rbac.authorization")
        # What was read of each role, by name, and at which revision.
        self._known: dict[str, tuple[int, ClusterRole]] = {}
        self.queue: WorkQueue[str] = WorkQueue("ClusterRoleAggregator", BACKOFF)
        self._undone: UndoneWrites[str] = UndoneWrites(self.queue)
        # Roles that another client keeps writing, and until when they are skipped.
        self._resting: dict[str, float] = {}

    async def run(self) -> None:
        """Aggregate rules until cancelled."""
        resource = self._resource()
        if resource is None:
            return  # Not served.
        prefix = self._registry.prefix_of(resource)
        informer = Informer(ListWatch(self._registry.cache, prefix), lambda _: self.queue.add(_ALL))

        async def reconcile(_: str) -> Outcome:
            return await self._aggregate(resource, prefix)

        controller = Controller(
            self.queue, reconcile, informers=[informer], failure_cooldown_s=BACKOFF.base_s
        )
        await controller.run()

    async def _aggregate(self, resource: ServedResource, prefix: str) -> Outcome:
        """Write all rules that have changed.

        Raises the storage's errors.
        """
        began = time.monotonic()
        roles = await self._roles(prefix)
        wanted = aggregated(roles)
        rest_s = (time.monotonic() - began) * REST_FACTOR
        is_complete, now = True, self.queue.now()
        self._resting = {name: until for name, until in self._resting.items() if until > now}
        for name, rules in wanted.items():
            if rules == roles[name].rules or name in self._resting:
                continue
            try:
                uid = await self._write(resource, name, rules)
                # With the uid: to delete a role and create it again is not to undo what was written to it.
                if cooldown_s := self._undone.cooldown_s(name, (uid, rules)):
                    self._resting[name] = now + cooldown_s
            except NotFound:
                pass  # It is gone.
            except (ApiError, ValueTooLarge) as error:
                log.warning("cannot aggregate cluster role %s, retrying: %s", name, error)
                is_complete = False
        if not is_complete:
            return Requeue(cooldown_s=rest_s)
        if self._resting:
            return Requeue(min(self._resting.values()) - now, cooldown_s=rest_s)
        return Cooldown(rest_s)

    async def _roles(self, prefix: str) -> dict[str, ClusterRole]:
        listing = await self._registry.cache.list(prefix_range(prefix), ANY)
        known, self._known = self._known, {}
        for version in listing.versions:
            if version.value is None or not version.value.head:
                continue
            name = version.key[len(prefix) :]
            before = known.get(name)
            if before is None or before[0] != version.revision:
                try:
                    size = size_class(len(version.value.tail))
                    role = await run_unqueued(size, _read, version.value)
                except (CorruptObject, Malformed) as error:
                    log.error("cannot read cluster role %s; its rules are not aggregated: %s", name, error)
                    role = _NO_ROLE
                before = version.revision, role
            self._known[name] = before
        return {name: role for name, (_, role) in self._known.items()}

    async def _write(self, resource: ServedResource, name: str, rules: _Rules) -> str:
        """Write the rules of a role, and return its uid."""

        def with_rules(found: StoredObject) -> ProposedObject:
            document = found.document()
            if ClusterRole.of(document).selectors:
                document["rules"] = [rule.document() for rule in rules]
            return ProposedObject(document)

        request = WriteRequest(resource=resource, namespace="", name=name)
        written = await self._registry.update(request, with_rules)
        return str(written.found.document()["metadata"]["uid"])

    def _resource(self) -> ServedResource | None:
        return self._served.hub(self._group, "clusterroles")


def aggregated(roles: Mapping[str, ClusterRole]) -> dict[str, _Rules]:
    """Returns the rules of each aggregated role, by name. roles: all cluster roles, by name.

    A role has the rules of the roles that each of its selectors finds, in the order of their names, without
    duplicates.
    """
    names = sorted(roles)
    selected = {
        name: [
            other
            for selector in role.selectors
            for other in names
            if other != name and selects(selector, roles[other].labels)
        ]
        for name, role in roles.items()
        if role.selectors
    }
    rules = {name: role.rules for name, role in roles.items()}
    for _ in selected:  # No chain is longer. Roles that aggregate each other may never be done.
        before = {name: rules[name] for name in selected}
        for name, others in selected.items():
            rules[name] = tuple(dict.fromkeys(rule for other in others for rule in rules[other]))
        if all(rules[name] == before[name] for name in selected):
            break
    return {name: rules[name] for name in selected}
