"""Handles bindings, which assign a pod to a node, once.

Source: k8s.io/kubernetes, pkg/registry/core/pod/storage, BindingREST.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.admission.plugins.pod_topology_labels import GATE as LABELS_GATE
from apiserver.catalogue.core.pods.preparation import assign_node
from apiserver.catalogue.core.pods.rules import CLEARING_GATE
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.handlers.virtual_kinds import VirtualKinds, send_success
from apiserver.load.size_class import size_class_of_document
from apiserver.meta import timestamps
from apiserver.meta.errors import BadRequest, Conflict, Invalid
from apiserver.meta.field_errors import Errors, not_supported, required
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.strategy import UpdateStrategy
from apiserver.registry.subresources import BINDING
from apiserver.registry.write_request import ProposedObject, WriteRequest

_PODS_BINDING = GroupResource("", "pods/binding")
# The server changes the pod: the rules for changes by clients do not apply, and what is wanted of it, which
# the generation counts, stays the same.
_BY_SERVER = UpdateStrategy(change_checks=0, object_checks=1, raises_generation=False)


def binding_handlers(
    registry: Registry,
    served: ServedTable,
    virtual: VirtualKinds,
    lifecycle: NamespaceLifecycle,
    clock: Callable[[], float],
    gates: FeatureGates,
) -> Mapping[str, Handler]:
    """Returns the handlers of pods/{name}/binding and of the collection bindings, by verb.

    clock: seconds since 1970.
    """
    kind = virtual.kinds[BINDING]
    clears_nomination = gates.is_on(CLEARING_GATE)
    # What of its metadata comes to the pod.
    passed_on = ("annotations", "labels") if gates.is_on(LABELS_GATE) else ("annotations",)

    async def create(call: ApiCall) -> None:
        info = call.info
        pods = served.find("", "v1", "pods")
        assert pods is not None
        binding, options, _ = await virtual.read_posted(call, kind)
        meta = binding["metadata"]
        name = meta.get("name", "")
        if info.name and info.name != name:
            raise BadRequest("name in URL does not match name in Binding object")
        if errors := validate_pod_binding(binding):
            # kube-apiserver answers 500 here.
            raise Invalid(kind.group_kind, name, errors)
        await lifecycle.check_create(pods, info.namespace, name, may_provision=not options.dry_run)
        await virtual.admit(call, kind, name, binding, options)
        # Admission may have put other metadata in place of what was sent, and far more.
        meta, size = binding["metadata"], size_class_of_document(binding)

        def assign(current: StoredObject) -> ProposedObject:
            pod = current.document()
            _require_assignable(pod)
            for field, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
                if meta.get(field) and meta[field] != pod["metadata"][field]:
                    raise Conflict(
                        pods.group_resource,
                        name,
                        f"Precondition failed: {label} in precondition: {meta[field]}, "
                        f"{label} in object meta: {pod['metadata'][field]}",
                    )
            for field in passed_on:
                if meta.get(field):
                    pod["metadata"][field] = {**(pod["metadata"].get(field) or {}), **meta[field]}
            now = timestamps.to_text(clock())
            assign_node(pod, binding["target"]["name"], now, clears_nomination=clears_nomination)
            return ProposedObject(pod)

        request = WriteRequest(
            resource=pods, namespace=info.namespace, name=name, options=options, update=_BY_SERVER, size=size
        )
        await registry.update(request, assign)
        await send_success(call)

    return {"create": create}


def validate_pod_binding(binding: Document) -> Errors:
    target = binding["target"]
    errors = []
    if target.get("kind", "") not in ("", "Node"):
        errors.append(not_supported("target.kind", target["kind"], ["Node", "<empty>"]))
    if not target.get("name"):
        errors.append(required("target.name"))
    return errors


def _require_assignable(pod: Document) -> None:
    """Raises Conflict for a pod that cannot be assigned to a node."""
    name, spec = pod["metadata"]["name"], pod.get("spec", {})
    if "deletionTimestamp" in pod["metadata"]:
        raise _conflict(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _conflict(name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _conflict(name, f"pod {name} has non-empty .spec.schedulingGates")


def _conflict(name: str, why: str) -> Conflict:
    return Conflict(_PODS_BINDING, name, why)
