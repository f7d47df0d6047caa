"""Finds the objects that a binding refers to.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/generic/policy_dispatcher.go, CollectParams.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.admission.policies.policy import Binding, ParamKind, Policy
from apiserver.load.offload import Offload
from apiserver.load.size_class import size_class
from apiserver.meta.errors import NotFound
from apiserver.meta.options import ListOptions
from apiserver.meta.selectors import TooManyTerms, label_selector_of
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ResourceTable, ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.storage.interface import ANY

# Of one binding, for one write: what a selector selects beyond is an error.
PARAMS_MAX: Final = 1_000


class UnusableParams(Exception):
    """The parameters that a binding refers to cannot be used; the message is for the client."""


class Params:
    """Finds parameters in the watch cache."""

    def __init__(self, registry: Registry, served: ServedTable, offload: Offload) -> None:
        self._registry = registry
        self._offload = offload
        self._served = served

    async def of(self, policy: Policy, binding: Binding, namespace: str) -> Sequence[Document | None]:
        """Returns the parameters with which a policy is evaluated, one by one; None means without parameters.

        namespace: that of the write; empty if it has none. Raises UnusableParams, and the errors of reads.
        """
        if policy.params is None or binding.params is None:
            return (None,)
        resource = self.resource(policy.params)
        if resource is None:
            raise UnusableParams(f"paramKind kind `{policy.params}` not known")
        ref = binding.params
        if resource.is_namespaced:
            namespace = ref.namespace or namespace
            if not namespace:
                raise UnusableParams(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                )
        elif ref.namespace:
            raise UnusableParams("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        else:
            namespace = ""
        if ref.name:
            found = await self._named(resource, namespace, ref.name)
        else:
            found = await self._selected(resource, namespace, ref.selector or {})
        if not found and ref.needs_params:
            raise UnusableParams("no params found for policy binding with `Deny` parameterNotFoundAction")
        return found

    def resource(self, kind: ParamKind) -> ServedResource | None:
        """Returns the resource of a kind; None if it is not served."""
        table = self._served.current
        known = table.derived(Params, _no_kinds)
        if kind not in known:
            known[kind] = next(
                (
                    each
                    for each in table.resources
                    if (each.api_version, each.kind) == kind and "get" in each.verbs
                ),
                None,
            )
        return known[kind]

    async def _named(self, resource: ServedResource, namespace: str, name: str) -> Sequence[Document]:
        try:
            found = await self._registry.get(resource, namespace, name, ANY)
        except NotFound:
            return ()
        return [await self._offload.document(found)]

    async def _selected(
        self, resource: ServedResource, namespace: str, selector: Document
    ) -> Sequence[Document]:
        """Returns the selected parameters."""
        everything = ListOptions.for_list({"resourceVersion": ["0"]}, resource.known_fields, "")
        try:
            selected = everything._replace(labels=label_selector_of(selector), limit=PARAMS_MAX + 1)
        except TooManyTerms as error:
            raise UnusableParams(f"paramRef.selector: {error}") from None
        found = (await self._registry.list(resource, namespace, selected)).objects
        if len(found) > PARAMS_MAX:
            raise UnusableParams(f"paramRef.selector selects more than {PARAMS_MAX} objects")
        size = size_class(sum(len(each.tail) for each in found))
        return await self._offload.run_begun(size, lambda: [each.document() for each in found])


def _no_kinds(_: ResourceTable) -> dict[ParamKind, ServedResource | None]:
    """Returns an empty cache of the resources of kinds."""
    return {}
