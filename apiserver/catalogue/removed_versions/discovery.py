"""EndpointSlices of discovery/v1beta1 and v1alpha1, where topology labels give the place of an endpoint.

v1 has fields for the zone and the node's name; it keeps other labels, which clients of v1 cannot write.
v1alpha1 is that of 1.17 to 1.20: the address type `IP`, the default of 1.16, was removed by 1.17. Source:
pkg/apis/discovery/v1beta1/conversion.go, pkg/registry/discovery/endpointslice (release 1.24). Row T07.
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import CurrentTypes, hub_of, other_version
from apiserver.catalogue.discovery.endpoint_slices import count_endpoint_slice_update
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import DEFAULT_STRATEGY, UpdateStrategy

_VERSIONS: Final = ("v1beta1", "v1alpha1")
_ZONE: Final = "topology.kubernetes.io/zone"
_HOST: Final = "kubernetes.io/hostname"


def types(current: CurrentTypes) -> tuple[BuiltinType, ...]:
    v1 = current["discovery.", "endpointslices"]
    strategy = v1.strategy._replace(
        prepare_create=DEFAULT_STRATEGY.prepare_create, update=UpdateStrategy(count_endpoint_slice_update)
    )
    hub = hub_of(v1, to_v1, to_v1beta1)
    return tuple(other_version(v1, version, strategy=strategy, hub=hub) for version in _VERSIONS)


def to_v1(document: Document) -> None:
    for endpoint in document.get("endpoints") or ():
        topology = endpoint.pop("topology", None) or {}
        if _ZONE in topology:
            endpoint["zone"] = topology.pop(_ZONE)
        host = topology.get(_HOST)
        # Another host than the node's stays among the labels.
        if host is not None and endpoint.setdefault("nodeName", host) == host:
            del topology[_HOST]
        if topology:
            endpoint["deprecatedTopology"] = topology


def to_v1beta1(document: Document) -> None:
    for endpoint in document.get("endpoints") or ():
        topology = endpoint.pop("deprecatedTopology", None) or {}
        if "zone" in endpoint:
            topology[_ZONE] = endpoint.pop("zone")
        if "nodeName" in endpoint and not topology.get(_HOST):
            topology[_HOST] = endpoint["nodeName"]
        if topology:
            endpoint["topology"] = topology
