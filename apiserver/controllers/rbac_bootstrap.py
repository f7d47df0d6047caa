"""Creates and reconciles the default roles and bindings before the server is ready.

Stored objects are compared in memory, and written only if something is missing. As in Kubernetes, an object
that cannot be reconciled does not keep the server from becoming ready. An unreachable store does; a full one
does not, so that users can free space.

Unlike in Kubernetes their fields have no owners: recording those of 138 objects took 4 to 9 ms of a start of
100 ms. Source: k8s.io/kubernetes, pkg/registry/rbac/rest/storage_rbac.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import orjson

from apiserver.auth.authz.rbac import reconciliation
from apiserver.auth.authz.rbac.default_roles import (
    DefaultObject,
    autoupdate_key,
    default_objects,
    on_by_default,
)
from apiserver.auth.authz.rbac.rule_coverage import TooManyRules
from apiserver.auth.authz.rbac.rules import CACHED_BYTES_MAX, CACHED_MAX
from apiserver.catalogue.core.namespaces import new_namespace
from apiserver.controllers.bootstrap import BootstrapHook, BootstrapObject
from apiserver.meta.brand import Brand
from apiserver.meta.errors import AlreadyExists, ApiError, Conflict, NotFound
from apiserver.meta.options import DeleteOptions
from apiserver.meta.text_caches import text_cache
from apiserver.meta.vocabulary import Document
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject, document_of_tail
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.errors import StorageError, StorageFull, ValueTooLarge
from apiserver.storage.interface import MOST_RECENT

log = logging.getLogger(__name__)

HOOK: Final = "rbac/bootstrap-roles"
RETRY_S: Final = 0.5
# Other servers and users may write the same objects, but not all the time.
ATTEMPTS_MAX: Final = 10
_RESOURCES: Final = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}


class RbacBootstrapHook(NamedTuple):
    """A `BootstrapHook` that also reconciles existing objects.

    objects: the default objects by namespace; cluster-scoped ones under "".
    namespaces: the hooks that create namespaces first, by name.
    autoupdate: the annotation by which users exclude an object.
    """

    name: str
    objects: Mapping[str, tuple[tuple[ServedResource, DefaultObject], ...]]
    namespaces: Mapping[str, BootstrapHook]
    autoupdate: str

    async def run(self, registry: Registry) -> None:
        """Reconcile all objects, and return when each grants what it should, or cannot be reconciled."""
        await registry.cache.wait_until_filled()
        async with asyncio.TaskGroup() as tasks:
            for namespace, objects in self.objects.items():
                tasks.create_task(self._reconcile_namespace(registry, namespace, objects))

    async def _reconcile_namespace(
        self, registry: Registry, namespace: str, objects: Iterable[tuple[ServedResource, DefaultObject]]
    ) -> None:
        if namespace:
            await self.namespaces[namespace].run(registry)
        async with asyncio.TaskGroup() as tasks:
            for resource, default in objects:
                if not self._is_reconciled(registry, resource, default):
                    document = default.document()
                    tasks.create_task(_Reconciliation(registry, resource, document, self.autoupdate).run())

    def _is_reconciled(self, registry: Registry, resource: ServedResource, default: DefaultObject) -> bool:
        """Returns whether nothing has to be done, as far as the cache knows."""
        found = registry.cache.get_cached(registry.key(resource, default.namespace, default.name))
        if found is None or found.value is None or not found.value.head:
            return False
        try:
            compare = _compared if len(found.value.tail) <= CACHED_BYTES_MAX else _compare
            return compare(found.value.tail, default.content, self.autoupdate)
        except Exception:  # `_Reconciliation` logs it.
            return False


def _compare(tail: bytes, default_json: bytes, autoupdate: str) -> bool:
    """Returns whether a stored object includes its default, compared mostly once for the servers of a
    process.

    tail: that of the object, see `StoredObject`. default_json: its default.
    Raises TooManyRules, and any error caused by a malformed object.
    """
    stored, default = document_of_tail(tail), orjson.loads(default_json)
    if reconciliation.is_protected(stored, autoupdate):
        return True
    is_complete = reconciliation.reconciled(stored, default) == stored
    return is_complete and not reconciliation.must_be_recreated(stored, default)


_compared: Final = text_cache(CACHED_MAX)(_compare)


def rbac_bootstrap_hooks(
    table: ResourceTable, brand: Brand, is_on: Callable[[str], bool] = on_by_default
) -> Iterator[RbacBootstrapHook]:
    """Returns the hook, if any of RBAC's types is served. is_on: whether a feature gate is on."""
    group, namespaces = brand.group("rbac.authorization"), table.find("", "v1", "namespaces")
    served = {kind: table.hub(group, resource) for kind, resource in _RESOURCES.items()}
    objects: dict[str, list[tuple[ServedResource, DefaultObject]]] = defaultdict(list)
    for default in default_objects(brand, is_on):
        if (resource := served[default.kind]) is not None:
            objects[default.namespace].append((resource, default))
    if not objects:
        return
    assert namespaces is not None
    yield RbacBootstrapHook(
        HOOK,
        {namespace: tuple(defaults) for namespace, defaults in objects.items()},
        {
            name: BootstrapHook(HOOK, (BootstrapObject(namespaces, new_namespace(name, brand)),))
            for name in filter(None, objects)
        },
        autoupdate_key(brand),
    )


class _Reconciliation(NamedTuple):
    """Reconciles one object with its default."""

    registry: Registry
    resource: ServedResource
    default: Document
    autoupdate: str

    async def run(self) -> None:
        """Returns when the object is reconciled, or cannot be."""
        attempts = 0
        while attempts < ATTEMPTS_MAX:
            try:
                await self._try()
            except (AlreadyExists, Conflict, NotFound):
                attempts += 1  # Another server was faster, which may have left nothing to do.
            except (ApiError, TooManyRules, ValueTooLarge, StorageFull) as error:
                log.warning("cannot reconcile %s: %s", self, error)
                return
            except StorageError as error:
                log.warning("cannot reconcile %s, retrying: %s", self, error)
                await asyncio.sleep(RETRY_S)
            except Exception:  # An object that breaks us must not keep the server from starting.
                log.exception("cannot reconcile %s", self)
                return
            else:
                return
        log.warning("cannot reconcile %s: other clients keep changing it", self)

    async def _try(self) -> None:
        """Reconcile the object once."""
        registry, resource = self.registry, self.resource
        meta = self.default["metadata"]
        namespace, name = meta.get("namespace", ""), meta["name"]
        if registry.cache.get_cached(registry.key(resource, namespace, name)) is None:
            try:
                await self._create()
            except AlreadyExists:
                pass
            else:
                return
        stored = (await registry.get(resource, namespace, name, MOST_RECENT)).document()
        if reconciliation.is_protected(stored, self.autoupdate):
            return
        if reconciliation.must_be_recreated(stored, self.default):
            options = DeleteOptions(uid=stored["metadata"]["uid"])
            await registry.delete(DeleteRequest(resource, namespace, name, options))
            await self._create()
            log.info("recreated %s because the binding granted another role", self)
        else:
            request = WriteRequest(resource=resource, namespace=namespace, name=name)
            await registry.update(request, self._reconciled)

    async def _create(self) -> None:
        document = {**self.default, "metadata": {**self.default["metadata"]}}
        meta = document["metadata"]
        request = WriteRequest(resource=self.resource, namespace=meta.get("namespace", ""), name=meta["name"])
        await self.registry.create(request, ProposedObject(document))

    def _reconciled(self, found: StoredObject) -> ProposedObject:
        stored = found.document()
        if reconciliation.is_protected(stored, self.autoupdate):
            return ProposedObject(stored)
        return ProposedObject(reconciliation.reconciled(stored, self.default))

    def __str__(self) -> str:
        meta = self.default["metadata"]
        return "/".join(filter(None, (self.resource.kind, meta.get("namespace"), meta["name"])))
