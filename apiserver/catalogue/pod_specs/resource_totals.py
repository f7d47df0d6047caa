"""The total requests of pods, as numbers. Source: component-helpers, resource.PodRequests."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from apiserver.catalogue.pod_specs.resource_requirements import is_pod_level_resource, total_of_containers
from apiserver.meta.quantity import Quantity, parse_quantity
from apiserver.meta.vocabulary import Document


def quantities(texts: Mapping[str, object] | None) -> dict[str, Quantity]:
    return {name: parse_quantity(str(text)) for name, text in (texts or {}).items()}


def sum_of(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Returns the sum of each resource, in the format of `one`."""
    total = dict(one)
    for name, added in other.items():
        there = total.get(name)
        total[name] = there + added if there else added
    return total


def with_actual_resources(pod: Document) -> Document:
    """Returns the spec of a pod with the larger of requested and actual resources for each container.

    A container that is being resized keeps its old resources until its kubelet reports new ones, and also if
    the kubelet reports the new size as infeasible.
    Source: component-helpers, resource.PodRequests with UseStatusResources.
    """
    spec: Document = pod["spec"]
    status = pod.get("status") or {}
    actual = {
        each["name"]: each
        for field in ("containerStatuses", "initContainerStatuses")
        for each in status.get(field) or ()
        if each.get("resources") is not None
    }
    if not actual:
        return spec
    pending = (each for each in status.get("conditions") or () if each.get("type") == "PodResizePending")
    is_infeasible = any(each.get("reason") == "Infeasible" for each in islice(pending, 1))

    def resized(container: Document) -> Document:
        own, found = container.get("resources") or {}, actual.get(container["name"])
        if found is None:
            return container
        has, allocated = found["resources"], found.get("allocatedResources")
        wants = {} if is_infeasible else own
        requests = _greatest(wants.get("requests"), has.get("requests"), allocated)
        limits = _greatest(wants.get("limits"), has.get("limits"))
        return {**container, "resources": {**own, "requests": requests, "limits": limits}}

    sidecars = (
        resized(each) if each.get("restartPolicy") == "Always" else each
        for each in spec.get("initContainers") or ()
    )
    return {
        **spec,
        "containers": [resized(each) for each in spec.get("containers") or ()],
        "initContainers": [*sidecars],
    }


def _greatest(*amounts: Mapping[str, object] | None) -> dict[str, object]:
    """Returns the greatest amount of each resource."""
    greatest: dict[str, object] = {}
    for each in amounts:
        for name, text in (each or {}).items():
            if name not in greatest or parse_quantity(str(greatest[name])) < parse_quantity(str(text)):
                greatest[name] = text
    return greatest


def total_of_pod(spec: Document, field: str) -> dict[str, Quantity]:
    """Returns the total of a pod, without its runtime's overhead: its pod-level resources, or those of its
    containers.

    field: `requests` or `limits`.
    """
    own = (spec.get("resources") or {}).get(field)
    return total_of_containers(spec, field) | {
        name: needed for name, needed in quantities(own).items() if is_pod_level_resource(name)
    }
