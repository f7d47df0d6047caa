"""ClusterCIDRs of networking/v1alpha1 in releases 1.25 to 1.28: address ranges of pods.

They are stored, but have no effect: no controller assigns addresses to nodes. Source:
pkg/apis/networking/validation, ValidateClusterCIDR, and pkg/registry/networking/clustercidr (release 1.27).
"""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.pod_specs.scheduling import validate_node_selector
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.validation.checks import immutable_fields
from apiserver.schema.validation.documents import at

_HOST_BITS_MIN: Final = 4
# Fields of networks, their families as Kubernetes names them, and the bits of an address.
_FAMILIES: Final = (("ipv4", "IPv4", 32), ("ipv6", "IPv6", 128))
_FIELDS: Final = ("nodeSelector", "perNodeHostBits", "ipv4", "ipv6")
_TERM_FIELDS: Final = (("MatchExpressions", "matchExpressions"), ("MatchFields", "matchFields"))
_NONE: Final = "<none>"


def validate_cluster_cidr(document: Document) -> Errors:
    spec, errors = document.get("spec", {}), Errors()
    if (selector := spec.get("nodeSelector")) is not None:
        errors += validate_node_selector("spec.nodeSelector", selector)
    if not any(spec.get(field) for field, _, _ in _FAMILIES):
        return [*errors, required("spec", "one or both of `ipv4` and `ipv6` must be specified")]
    for field, family, bits in _FAMILIES:
        if network := spec.get(field):
            errors += _network(family, bits, network, spec.get("perNodeHostBits") or 0)
    return errors


def _network(family: str, bits: int, text: str, host_bits: int) -> Errors:
    path = f"spec.{family}"
    try:
        if "/" not in text:
            raise ValueError(text)
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return [invalid(path, text, f"must be a valid CIDR: {text}")]
    errors: Errors = []
    if network.max_prefixlen != bits:
        errors.append(invalid(path, text, f"must be a valid {family} CIDR"))
    path, most = "spec.perNodeHostBits", bits - network.prefixlen
    if host_bits < _HOST_BITS_MIN:
        errors.append(invalid(path, host_bits, f"must be greater than or equal to {_HOST_BITS_MIN}"))
    if host_bits > most:
        errors.append(invalid(path, host_bits, f"must be less than or equal to {most}"))
    return errors


def validate_cluster_cidr_update(new: Document, old: Document) -> Errors:
    return immutable_fields("spec", new.get("spec") or {}, old.get("spec") or {}, _FIELDS)


def _network_cell(field: str) -> Any:
    show = field_cell("spec", field, default=_NONE)
    return lambda document, now: show(document, now) or _NONE


def _selector(document: Document, now: float) -> str:
    """Returns a cell with a selector as Go prints it."""
    terms = at(document, "spec", "nodeSelector", "nodeSelectorTerms") or ()
    shown = [
        f"{title}: [{' '.join(map(_requirement, requirements))}]"
        for term in terms
        for title, field in _TERM_FIELDS
        if (requirements := term.get(field))
    ]
    return ",".join(shown) or _NONE


def _requirement(each: Document) -> str:
    return f"{{{each.get('key', '')} {each.get('operator', '')} [{' '.join(each.get('values') or ())}]}}"


BUILTIN_TYPE: Final = BuiltinType(
    "networking.",
    "v1alpha1",
    "clustercidrs",
    "ClusterCIDR",
    is_namespaced=False,
    strategy=Strategy(
        name_rule=names.dns_label,
        validate_create=validate_cluster_cidr,
        update=UpdateStrategy(validate=validate_cluster_cidr_update),
    ),
    columns=columns(
        Column(
            "PerNodeHostBits",
            lambda document, now: str(at(document, "spec", "perNodeHostBits") or 0),
            "The number of host bits in the address range of a node.",
        ),
        Column("IPv4", _network_cell("ipv4"), "The network of IPv4 addresses."),
        Column("IPv6", _network_cell("ipv6"), "The network of IPv6 addresses."),
        AGE,
        Column("NodeSelector", _selector, "The selector of the nodes.", priority=1),
    ),
)
