"""NetworkPolicies. Source: pkg/apis/networking/validation, pkg/apis/networking/v1/defaults.go."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.field_errors import Errors, forbidden, invalid, not_supported, required
from apiserver.meta import table
from apiserver.meta.table import AGE, Column, columns
from apiserver.registry.strategy import Strategy
from apiserver.schema.compile import Default
from apiserver.validation.checks import cidr, port_name, port_number
from apiserver.validation.defaults import setting
from apiserver.validation.documents import at, items
from apiserver.validation.label_selectors import label_selector
from apiserver.vocabulary import Document


def builtin_type() -> BuiltinType:
    return BuiltinType(
        "networking.",
        "v1",
        "networkpolicies",
        "NetworkPolicy",
        "io.k8s.api.networking.v1.NetworkPolicy",
        short_names=("netpol",),
        defaults=DEFAULTS,
        strategy=Strategy(validate=validate_network_policy, has_generation=True),
        columns=columns(
            Column("Pod-Selector", _pod_selector, description="The labels of the pods that it is about."),
            AGE,
        ),
    )


_PACKAGE: Final = "io.k8s.api.networking.v1."
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_TYPES: Final = ("Ingress", "Egress")


def _complete(document: Document) -> None:
    """Sets the policy types: Ingress, and Egress if there are rules for it."""
    spec = document.get("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = list(_TYPES) if spec.get("egress") else ["Ingress"]


DEFAULTS: Final[Mapping[str, Default]] = {
    f"{_PACKAGE}NetworkPolicyPort": setting(protocol="TCP"),
    f"{_PACKAGE}NetworkPolicy": _complete,
}


def validate_network_policy(document: Document) -> Errors:
    spec = document.get("spec", {})
    errors = label_selector("spec.podSelector", spec.get("podSelector"))
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for where, rule in items(spec, direction, "spec"):
            for port_path, port in items(rule, "ports", where):
                errors += _port(port_path, port)
            for peer_path, peer in items(rule, peers, where):
                errors += _peer(peer_path, peer)
    types = spec.get("policyTypes") or ()
    if len(types) > len(_TYPES):
        text = "may not specify more than two policyTypes"
        return [*errors, invalid("spec.policyTypes", types, text)]
    return errors + [
        not_supported(where, kind, _TYPES)
        for where, kind in items(spec, "policyTypes", "spec")
        if kind not in _TYPES
    ]


def _port(path: str, value: Document) -> Errors:
    errors: Errors = []
    protocol, port, end = value.get("protocol"), value.get("port"), value.get("endPort")
    where, end_path = f"{path}.port", f"{path}.endPort"
    if protocol is not None and protocol not in _PROTOCOLS:
        errors.append(not_supported(f"{path}.protocol", protocol, _PROTOCOLS))
    if isinstance(port, str):
        if end is not None:
            errors.append(invalid(end_path, end, "may not be specified when `port` is non-numeric"))
        return errors + [invalid(where, port, problem) for problem in port_name(port)]
    if port is None:
        if end is not None:
            errors.append(invalid(end_path, end, "may not be specified when `port` is not specified"))
        return errors
    errors += port_number(where, port)
    if end is not None:
        if end < port:
            errors.append(invalid(end_path, end, "must be greater than or equal to `port`"))
        errors += port_number(end_path, end)
    return errors


def _peer(path: str, peer: Document) -> Errors:
    selectors = [name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None]
    errors = [error for name in selectors for error in label_selector(f"{path}.{name}", peer[name])]
    block = peer.get("ipBlock")
    if block is not None:
        errors += _ip_block(f"{path}.ipBlock", block)
        if selectors:
            errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
    elif not selectors:
        errors.append(required(path, "must specify a peer"))
    return errors


def _ip_block(path: str, block: Document) -> Errors:
    text = block.get("cidr")
    if not text:
        return [required(f"{path}.cidr")]
    if errors := cidr(f"{path}.cidr", text):
        return errors
    network = ipaddress.ip_network(text, strict=False)
    errors = []
    for where, excepted in items(block, "except", path):
        if problems := cidr(where, excepted):
            errors += problems
        elif not _is_strict_subset(ipaddress.ip_network(excepted, strict=False), network):
            errors.append(invalid(where, excepted, "must be a strict subset of `cidr`"))
    return errors


_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _is_strict_subset(inner: _Network, outer: _Network) -> bool:
    return inner.network_address in outer and inner.prefixlen > outer.prefixlen


# ---- columns


def _pod_selector(document: Document, now: float) -> str:
    return table.selector_text(at(document, "spec", "podSelector"))
