"""Refuses creates in namespaces that do not exist or are being deleted, and deletes of protected namespaces.

With a check before the write, an object could be created in a namespace that is deleted in between, and
outlive it. So the state of the checked namespace is a condition of the write (`TransactionGuard`).
NamespaceAutoProvision, which comes before it and is off by default, creates the missing namespaces.
Source: k8s.io/apiserver, pkg/admission/plugin/namespace/lifecycle; kubernetes,
plugin/pkg/admission/namespace/autoprovision. Rows A12, A13, A16.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from apiserver.meta.errors import AlreadyExists, ApiError, Forbidden, NotFound
from apiserver.meta.vocabulary import GroupResource
from apiserver.registry.guard import TransactionGuard
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.write_request import KUBE_APISERVER, ProposedObject, WriteRequest
from apiserver.storage.interface import Condition

# The server needs these itself.
PROTECTED_NAMESPACES: Final = frozenset({"default", "kube-system", "kube-public"})
_NAMESPACES: Final = GroupResource("", "namespaces")


class NamespaceLifecycle:
    """Checks creates and deletes against namespaces, like the Kubernetes plugin, but cannot be disabled."""

    def __init__(self, registry: Registry, namespaces: ServedResource, *, provisions: bool = False) -> None:
        """provisions: whether missing namespaces of requests are created."""
        self._registry = registry
        self._namespaces = namespaces
        self._folder = registry.prefix_of(namespaces)
        self._provisions = provisions

    async def check_create(
        self, resource: ServedResource, namespace: str, name: str, *, may_provision: bool = False
    ) -> TransactionGuard | None:
        """Returns the condition under which the object may be created. Raises NotFound, Forbidden.

        may_provision: whether it is a request and not a dry run.
        """
        if not resource.is_namespaced:
            return None
        cached = self._registry.cache.get_cached(self._folder + namespace)
        if cached is not None and (found := cached.value) and found.head and not found.is_terminating():
            condition = Condition(cached.key, cached.revision)
        else:
            # The namespace may have been created a moment ago, by another server.
            try:
                condition = await self._check(resource, namespace, name)
            except NotFound:
                if not (self._provisions and may_provision):
                    raise
                await self._provision(resource, namespace, name)
                condition = await self._check(resource, namespace, name)
        return TransactionGuard(condition, partial(self._check, resource, namespace, name))

    async def _check(self, resource: ServedResource, namespace: str, name: str) -> Condition:
        found = await self._registry.get(self._namespaces, "", namespace)
        if found.is_terminating():
            raise Forbidden.to_resource(
                resource.group_resource,
                name,
                f"unable to create new content in namespace {namespace} because it is being terminated",
                causes=[
                    {
                        "reason": "NamespaceTerminating",
                        "message": f"namespace {namespace} is being terminated",
                        "field": "metadata.namespace",
                    }
                ],
            )
        return Condition(found.key, int(found.resource_version))

    async def _provision(self, resource: ServedResource, namespace: str, name: str) -> None:
        """Create the namespace, unless another client has just created it. Raises Forbidden."""
        namespaces = self._namespaces
        document = {
            "apiVersion": namespaces.api_version,
            "kind": namespaces.kind,
            "metadata": {"name": namespace},
        }
        namespaces.check(document)  # sets the defaults, whose owner is the creator
        try:
            request = WriteRequest(resource=namespaces, namespace="", name=namespace, writer=KUBE_APISERVER)
            await self._registry.create(request, ProposedObject(document))
        except AlreadyExists:
            return
        except ApiError as error:
            raise Forbidden.to_resource(resource.group_resource, name, str(error)) from None

    def check_delete(self, resource: ServedResource, name: str) -> None:
        """Refuse to delete a protected namespace. Raises Forbidden."""
        if resource.group_resource == _NAMESPACES and name in PROTECTED_NAMESPACES:
            raise Forbidden.to_resource(_NAMESPACES, name, "this namespace may not be deleted")
