"""Creates the objects that every namespace has: the service account `default`, and the ConfigMap with the CA.

In a cluster kube-controller-manager creates them (its serviceaccount and root-ca-certificate-publisher
controllers). Without the account no pod can be created that does not name another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from apiserver.controller_runtime.controller import Controller, DriftCorrected, Outcome
from apiserver.controller_runtime.informer import Informer, ListWatch, Notification
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.meta.errors import AlreadyExists, Forbidden, NotFound
from apiserver.meta.vocabulary import Document
from apiserver.registry.guard import TransactionGuard
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import KUBE_CONTROLLER_MANAGER, ProposedObject, WriteRequest

BACKOFF: Final = Backoff(base_s=1.0, max_s=5.0)


class DefaultObject(NamedTuple):
    """An object that every namespace has.

    document: returns a new copy of it, without its namespace.
    is_current: whether an existing object is kept; otherwise it is replaced.
    """

    resource: str
    name: str
    document: Callable[[], Document]
    is_current: Callable[[Document], bool] = lambda document: True


def default_service_account() -> DefaultObject:
    return DefaultObject("serviceaccounts", "default", lambda: {"metadata": {"name": "default"}})


def root_ca_config_map(certificates: Callable[[], str]) -> DefaultObject:
    """Returns the ConfigMap with the CA by which pods verify this server.

    certificates: returns those of the current CA, in PEM.
    """
    name = "kube-root-ca.crt"
    annotations = {
        "kubernetes.io/description": (
            "Contains a CA bundle that can be used to verify the API server when it is reached by the "
            "addresses inside of a cluster. No other usage is guaranteed across distributions."
        )
    }
    return DefaultObject(
        "configmaps",
        name,
        lambda: {
            "metadata": {"name": name, "annotations": dict(annotations)},
            "data": {"ca.crt": certificates()},
        },
        lambda document: bool(document.get("data") == {"ca.crt": certificates()}),
    )


def _is_named(end: str, found: StoredObject) -> bool:
    """Returns a predicate on keys that end with a name."""
    return found.key.endswith(end)


class NamespaceDefaultObjects:
    """Keeps objects of the core group in all namespaces.

    queue: that of names of namespaces. name: that of the queue.
    may_create: checks that an object of a resource may be created in a namespace. Returns a condition of the
        write; raises NotFound or Forbidden.
    """

    def __init__(
        self,
        registry: Registry,
        served: ServedTable,
        may_create: Callable[[ServedResource, str, str], Awaitable[TransactionGuard | None]],
        objects: Sequence[DefaultObject],
        *,
        name: str,
    ) -> None:
        self._registry = registry
        self._served = served
        self._may_create = may_create
        self._objects = objects
        self._namespaces: set[str] = set()
        self.queue: WorkQueue[str] = WorkQueue(name, BACKOFF)

    def look_again(self) -> None:
        """Reconcile all namespaces, because the required objects have changed."""
        for namespace in self._namespaces:
            self.queue.add(namespace)

    async def run(self) -> None:
        """Reconcile all namespaces until cancelled."""
        informers = [self._informer("namespaces", self._on_namespace)]
        informers += [self._informer(each.resource, self._on_object, each.name) for each in self._objects]
        await Controller(self.queue, self._reconcile, informers=informers).run()

    def _informer(
        self, resource: str, handler: Callable[[Notification], None], name: str | None = None
    ) -> Informer:
        """Returns an informer of relevant objects."""
        prefix = self._registry.prefix_of(self._served.require("", resource))
        selects = None if name is None else partial(_is_named, f"/{name}")
        return Informer(
            ListWatch(self._registry.cache, prefix, selects=selects),
            handler,
            wait_for_room=self.queue.wait_for_room,
        )

    def _on_namespace(self, notification: Notification) -> None:
        if notification.new is None:
            self._namespaces.discard(notification.name)
        else:
            self._namespaces.add(notification.name)
            self.queue.add(notification.name)

    def _on_object(self, notification: Notification) -> None:
        self.queue.add(notification.namespace)

    async def _reconcile(self, namespace: str) -> Outcome:
        try:
            written = [each.name for each in self._objects if await self._ensure(each, namespace)]
            if not written:
                return None
            owner = await self._registry.get(self._served.require("", "namespaces"), "", namespace)
        except (NotFound, Forbidden):
            return None  # The namespace is gone, or going.
        # With the uid: to delete a namespace and create it again is not to undo what was written to it.
        uid = await self._registry.offload.read(owner, lambda document: document["metadata"]["uid"])
        return DriftCorrected((uid, *written))

    async def _ensure(self, default: DefaultObject, namespace: str) -> bool:
        """Create or replace an object, and return whether that was necessary.

        Raises NotFound or Forbidden if the namespace accepts no objects.
        """
        resource = self._served.require("", default.resource)
        wanted = {**default.document(), "apiVersion": resource.api_version, "kind": resource.kind}
        guard = await self._may_create(resource, namespace, default.name)
        try:
            found = await self._registry.get(resource, namespace, default.name)
        except NotFound:
            try:
                request = WriteRequest(
                    resource=resource,
                    namespace=namespace,
                    name=default.name,
                    guard=guard,
                    writer=KUBE_CONTROLLER_MANAGER,
                )
                await self._registry.create(request, ProposedObject(wanted))
            except AlreadyExists:
                return False  # Another server was faster.
            return True
        if await self._registry.offload.read(found, default.is_current):
            return False

        def replaced(current: StoredObject) -> ProposedObject:
            return ProposedObject({**wanted, "metadata": current.document()["metadata"]})

        request = WriteRequest(
            resource=resource, namespace=namespace, name=default.name, writer=KUBE_CONTROLLER_MANAGER
        )
        await self._registry.update(request, replaced)
        return True
