"""What every namespace has: an account for pods that name none, and the CA by which they know this server.

In a cluster kube-controller-manager makes them (its serviceaccount and root-ca-certificate-publisher
controllers). Without the account no pod can be created that does not name another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from apiserver.controllers.informer import follow_for_ever
from apiserver.errors import AlreadyExists, ApiError, Forbidden, NotFound
from apiserver.meta.options import WriteOptions
from apiserver.registry.guard import Guard
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import CorruptObject, StoredObject
from apiserver.vocabulary import Document
from storage.errors import StorageError

log = logging.getLogger(__name__)

RETRY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class DefaultObject:
    """One object that every namespace has. document: without its namespace; made anew each time.

    is_kept: given the object as it is, whether it may stay like that; where not, it is set right.
    """

    resource: str
    name: str
    document: Callable[[], Document]
    is_kept: Callable[[Document], bool] = lambda document: True


def default_service_account() -> DefaultObject:
    return DefaultObject("serviceaccounts", "default", lambda: {"metadata": {"name": "default"}})


def root_ca(certificates: str) -> DefaultObject:
    """certificates: of the CA, in PEM."""
    name, data = "kube-root-ca.crt", {"ca.crt": certificates}
    annotations = {
        "kubernetes.io/description": (
            "Contains a CA bundle that can be used to verify the API server when it is reached by the "
            "addresses inside of a cluster. No other usage is guaranteed across distributions."
        )
    }
    return DefaultObject(
        "configmaps",
        name,
        lambda: {"metadata": {"name": name, "annotations": dict(annotations)}, "data": dict(data)},
        lambda document: bool(document.get("data") == data),
    )


class NamespaceDefaultObjects:
    """Keeps objects of the core group in all namespaces.

    may_create: whether, and while what holds, a resource's object may be created in a namespace; raises
        NotFound or Forbidden.
    """

    def __init__(
        self,
        registry: Registry,
        table: Callable[[], ResourceTable],
        may_create: Callable[[ServedResource, str, str], Awaitable[Guard | None]],
        contents: Sequence[DefaultObject],
    ) -> None:
        self._registry = registry
        self._table = table
        self._may_create = may_create
        self._contents = contents
        # Namespaces to look at, each once.
        self._due: dict[str, None] = {}
        self._is_due = asyncio.Event()

    async def run(self) -> None:
        """Look after all namespaces until cancelled."""
        cache = self._registry.cache
        async with asyncio.TaskGroup() as tasks:
            namespaces = self._registry.prefix_of(self._resource("namespaces"))
            tasks.create_task(follow_for_ever(cache, namespaces, self._on_namespace))
            for content in self._contents:
                prefix = self._registry.prefix_of(self._resource(content.resource))
                on_object = self._watching(content, len(prefix))
                tasks.create_task(follow_for_ever(cache, prefix, on_object))
            while True:
                await self._is_due.wait()
                self._is_due.clear()
                while self._due:
                    await self._fill(next(iter(self._due)))

    def _on_namespace(self, key: str, found: StoredObject | None) -> None:
        if found is not None:
            self._look_at(key.rpartition("/")[2])

    def _watching(
        self, content: DefaultObject, prefix_length: int
    ) -> Callable[[str, StoredObject | None], None]:
        def on_object(key: str, found: StoredObject | None) -> None:
            namespace, _, name = key[prefix_length:].partition("/")
            if name == content.name:
                self._look_at(namespace)

        return on_object

    def _look_at(self, namespace: str) -> None:
        self._due[namespace] = None
        self._is_due.set()

    async def _fill(self, namespace: str) -> None:
        self._due.pop(namespace, None)
        try:
            for content in self._contents:
                await self._keep(content, namespace)
        except (NotFound, Forbidden):
            pass  # The namespace is gone, or going.
        except (ApiError, StorageError, CorruptObject) as error:
            log.warning("namespace %s cannot be filled yet: %s", namespace, error)
            self._look_at(namespace)
            await asyncio.sleep(RETRY_S)

    async def _keep(self, content: DefaultObject, namespace: str) -> None:
        """Raises NotFound or Forbidden where the namespace takes no objects."""
        resource = self._resource(content.resource)
        wanted = {**content.document(), "apiVersion": resource.api_version, "kind": resource.kind}
        guard = await self._may_create(resource, namespace, content.name)
        try:
            found = await self._registry.get(resource, namespace, content.name)
        except NotFound:
            with suppress(AlreadyExists):  # Another server was faster.
                await self._registry.create(resource, namespace, wanted, WriteOptions(), guard)
            return
        if not content.is_kept(found.document()):

            def set_right(current: StoredObject) -> Document:
                return {**wanted, "metadata": current.document()["metadata"]}

            await self._registry.update(resource, namespace, content.name, set_right, WriteOptions())

    def _resource(self, name: str) -> ServedResource:
        found = self._table().find("", "v1", name)
        assert found is not None
        return found
