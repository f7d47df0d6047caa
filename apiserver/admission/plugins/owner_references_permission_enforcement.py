"""Protects objects and their owners from deletion through owner references by users without permission.

A user who changes the owners of an object must be allowed to delete it; a user who sets `blockOwnerDeletion`
must be allowed to change the owner's finalizers, which has the same effect.
Source: kubernetes, plugin/pkg/admission/gc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.listers import refused
from apiserver.admission.plugin_context import PluginContext
from apiserver.admission.plugins.pod_specs import PODS
from apiserver.auth.authz.attributes import Attributes, Decision
from apiserver.meta.vocabulary import Document, GroupKind, GroupResource
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.storage.event_loop_turns import in_turns

# The strategy of this subresource keeps the owners as they are.
_UNCHECKED: Final = (PODS, "status")


class OwnerReferencesPermissionEnforcement(Plugin):
    name = "OwnerReferencesPermissionEnforcement"

    def __init__(self, context: PluginContext) -> None:
        self._authorize = context.authorize
        self._served = context.served

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return operation in (Operation.CREATE, Operation.UPDATE) and (resource, subresource) != _UNCHECKED

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        owners, before = _owners(new), _owners(old)
        if owners == before:
            return
        if old is not None and (why := await self._refusal(self._deletion(attributes))) is not None:
            raise refused(attributes, new, f"cannot set an ownerRef on a resource you can't delete: {why}")
        blocked = {each.get("uid") for each in before if each.get("blockOwnerDeletion")}
        # There may be thousands.
        async for owner in in_turns(owners):
            if owner.get("blockOwnerDeletion") and owner.get("uid") not in blocked:
                await self._require_finalizers(attributes, new, owner)

    async def _require_finalizers(
        self, attributes: AdmissionAttributes, new: Document, owner: Document
    ) -> None:
        """Require that the caller may change the finalizers of an owner."""
        api_version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
        resources = self._resources(api_version, kind)
        if not resources:
            raise refused(
                attributes,
                new,
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion "
                f'{api_version} Kind {kind}: no matches for kind "{kind}" in version "{api_version}"',
            )
        for resource in resources:
            asked = Attributes(
                attributes.user,
                "update",
                group=resource.group_version.group,
                resource=resource.resource,
                subresource="finalizers",
                namespace=attributes.namespace if resource.is_namespaced else "",
                name=owner.get("name", ""),
                version=resource.group_version.version,
            )
            if (why := await self._refusal(asked)) is not None:
                raise refused(
                    attributes,
                    new,
                    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set "
                    f"finalizers on: {why}",
                )

    def _resources(self, api_version: str, kind: str) -> Sequence[ServedResource]:
        """Returns all resources of a kind, in the version that the reference names."""
        by_kind = self._served.current.derived(OwnerReferencesPermissionEnforcement, _resources_by_kind)
        group, slash, _ = api_version.rpartition("/")
        found = by_kind.get(GroupKind(group if slash else "", kind), [])
        return [each for each in found if each.api_version == api_version]

    def _deletion(self, attributes: AdmissionAttributes) -> Attributes:
        version, resource = attributes.resource.group_version.version, attributes.resource.group_resource
        return Attributes(
            attributes.user,
            "delete",
            group=resource.group,
            resource=resource.resource,
            subresource=attributes.subresource,
            namespace=attributes.namespace,
            name=attributes.name,
            version=version,
        )

    async def _refusal(self, asked: Attributes) -> str | None:
        """Returns why something is not allowed, in Go's words; None if it is allowed."""
        verdict = await self._authorize.decide(asked)
        return None if verdict.decision is Decision.ALLOW else f"{verdict.reason}, {verdict.error or '<nil>'}"


def _owners(document: Document | None) -> Sequence[Document]:
    return ((document or {}).get("metadata") or {}).get("ownerReferences") or ()


def _resources_by_kind(table: ResourceTable) -> dict[GroupKind, list[ServedResource]]:
    found: dict[GroupKind, list[ServedResource]] = {}
    for each in table.resources:
        found.setdefault(GroupKind(each.group_version.group, each.kind), []).append(each)
    return found
