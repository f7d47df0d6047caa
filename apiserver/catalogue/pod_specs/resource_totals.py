"""The resources that pods request, as numbers. Source: component-helpers, resource.PodRequests."""

from __future__ import annotations

from collections.abc import Mapping

from apiserver.catalogue.pod_specs.resource_requirements import is_pod_level_resource, total_of_containers
from apiserver.meta.quantity import Quantity, parse_quantity
from apiserver.vocabulary import Document


def quantities(texts: Mapping[str, object] | None) -> dict[str, Quantity]:
    return {name: parse_quantity(str(text)) for name, text in (texts or {}).items()}


def sum_of(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Returns the sum of each resource, in the form in which `one` has it."""
    total = dict(one)
    for name, added in other.items():
        there = total.get(name)
        total[name] = there + added if there else added
    return total


def total_of_pod(spec: Document, field: str) -> dict[str, Quantity]:
    """What a pod needs, without what its runtime does: what it says of itself, else what its containers say.

    field: `requests` or `limits`.
    """
    own = (spec.get("resources") or {}).get(field)
    return total_of_containers(spec, field) | {
        name: needed for name, needed in quantities(own).items() if is_pod_level_resource(name)
    }
