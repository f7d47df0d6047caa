"""Cluster roles that aggregate others have their rules: kube-controller-manager's controller of this name.

All are worked out together, in memory, so that a role that is aggregated into a role that is aggregated
is in the last one at once, and each is written at most once for a change. Several servers on one store
all run this; to write what is there already changes nothing. Who owns a role's rules stays as it is.
Source: k8s.io/kubernetes, pkg/controller/clusterroleaggregation.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from apiserver.authz.rbac.rules import Malformed, PolicyRule, parse_rules
from apiserver.brand import Brand
from apiserver.controllers.informer import follow_for_ever
from apiserver.errors import ApiError, NotFound
from apiserver.meta.options import WriteOptions
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import CorruptObject, StoredObject
from apiserver.validation.checks import selects
from apiserver.vocabulary import Document
from storage.errors import StorageError, ValueTooLarge
from storage.interface import ANY
from storage.keys import prefix_range

log = logging.getLogger(__name__)

RETRY_S: Final = 5.0
# Thousands of roles may come at once. Whoever else needs the processor gets it 20 times as long.
REST_FACTOR: Final = 20

_Rules = tuple[PolicyRule, ...]


class ClusterRole(NamedTuple):
    """selectors: of the roles whose rules it has; empty if it has rules of its own."""

    labels: Mapping[str, str]
    rules: _Rules
    selectors: tuple[Document, ...]

    @classmethod
    def of(cls, document: Document) -> ClusterRole:
        """Raises Malformed."""
        labels = document["metadata"].get("labels") or {}
        aggregation = document.get("aggregationRule") or {}
        if not isinstance(labels, dict) or not isinstance(aggregation, dict):
            raise Malformed("its labels, or its aggregationRule, are no object")
        selectors = aggregation.get("clusterRoleSelectors") or ()
        try:
            for selector in selectors:
                selects(selector, labels)
        except (LookupError, TypeError, AttributeError) as error:
            raise Malformed(f"its aggregationRule selects nothing: {error!r}") from None
        return cls(labels, parse_rules(document), tuple(selectors))


_NO_ROLE: Final = ClusterRole({}, (), ())


class ClusterRoleAggregation:
    def __init__(self, registry: Registry, table: Callable[[], ResourceTable], brand: Brand) -> None:
        self._registry = registry
        self._table = table
        self._group = brand.group("rbac.authorization")
        # What was read of each, by name: as of a revision.
        self._known: dict[str, tuple[int, ClusterRole]] = {}
        self._is_due = asyncio.Event()

    async def run(self) -> None:
        """Aggregate until cancelled."""
        resource = self._resource()
        if resource is None:
            return  # Not served.
        prefix = self._registry.prefix_of(resource)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(follow_for_ever(self._registry.cache, prefix, self._on_role))
            while True:
                await self._is_due.wait()
                self._is_due.clear()
                try:
                    await asyncio.sleep(await self._aggregate(resource, prefix))
                except StorageError as error:
                    log.warning("cluster roles cannot be aggregated yet: %s", error)
                    await self._retry()
                except Exception:  # An object that breaks us must not stop the server.
                    log.exception("cluster roles cannot be aggregated")
                    await self._retry()

    async def _retry(self) -> None:
        self._is_due.set()
        await asyncio.sleep(RETRY_S)

    def _on_role(self, key: str, found: StoredObject | None) -> None:
        self._is_due.set()

    async def _aggregate(self, resource: ServedResource, prefix: str) -> float:
        """Write all rules that are not as they should be. Returns for how long to rest, in seconds.

        Raises the storage's errors.
        """
        began = time.monotonic()
        roles = await self._roles(prefix)
        wanted = aggregated(roles)
        rest_s = (time.monotonic() - began) * REST_FACTOR
        for name, rules in wanted.items():
            if rules == roles[name].rules:
                continue
            try:
                await self._write(resource, name, rules)
            except NotFound:
                pass  # It is gone.
            except (ApiError, CorruptObject, ValueTooLarge) as error:
                log.warning("cluster role %s cannot be aggregated yet: %s", name, error)
                self._is_due.set()
                rest_s = max(rest_s, RETRY_S)
        return rest_s

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
                    role = ClusterRole.of(version.value.document())
                except (CorruptObject, Malformed) as error:
                    log.error("cluster role %s has nothing to aggregate: %s", name, error)
                    role = _NO_ROLE
                before = version.revision, role
            self._known[name] = before
        return {name: role for name, (_, role) in self._known.items()}

    async def _write(self, resource: ServedResource, name: str, rules: _Rules) -> None:
        def with_rules(found: StoredObject) -> Document:
            document = found.document()
            if ClusterRole.of(document).selectors:
                document["rules"] = [rule.document() for rule in rules]
            return document

        await self._registry.update(resource, "", name, with_rules, WriteOptions())

    def _resource(self) -> ServedResource | None:
        return self._table().find(self._group, "v1", "clusterroles")


def aggregated(roles: Mapping[str, ClusterRole]) -> dict[str, _Rules]:
    """The rules of each role that aggregates others, by name. roles: all there are, by name.

    A role has the rules of those that a selector finds, in the order of their names, for each of its
    selectors; no rule twice.
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
