"""NetworkPolicies. Source: pkg/apis/networking/validation, pkg/apis/networking/v1/defaults.go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Final, TypeAlias

from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType
from apiserver.meta import table
from apiserver.meta.field_errors import Errors, forbidden, invalid, not_supported, required
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy
from apiserver.schema.validation.addresses import (
    STRICT_ADDRESSES,
    AddressChecks,
    WrittenCidr,
    cidr_warnings,
    parse_cidr,
)
from apiserver.schema.validation.checks import follows, port_name, port_number
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.documents import at, items
from apiserver.schema.validation.label_selectors import label_selector


def builtin_type(gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    addresses = AddressChecks(gates.is_on(STRICT_ADDRESSES))
    return BuiltinType(
        "networking.",
        "v1",
        "networkpolicies",
        "NetworkPolicy",
        short_names=("netpol",),
        defaults={
            f"{_PACKAGE}NetworkPolicyPort": setting(protocol="TCP"),
            f"{_PACKAGE}NetworkPolicy": _complete,
        },
        strategy=Strategy(
            validate_ratcheting=partial(validate_network_policy, addresses=addresses),
            warn=warn_network_policy,
            has_generation=True,
        ),
        columns=columns(Column("Pod-Selector", _pod_selector, "The label selector of the pods."), AGE),
    )


_PACKAGE: Final = "io.k8s.api.networking.v1."
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_TYPES: Final = ("Ingress", "Egress")


def _complete(document: Document) -> None:
    """Sets the policy types: Ingress, and Egress if there are rules for it."""
    spec = document.get("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = list(_TYPES) if spec.get("egress") else ["Ingress"]


_PEERS: Final = (("ingress", "from"), ("egress", "to"))


def validate_network_policy(document: Document, old: Document | None, *, addresses: AddressChecks) -> Errors:
    """Checks a policy. old: the stored one, whose ranges remain valid anywhere."""
    spec = document.get("spec", {})
    keeps_selector = old is not None and bool(label_selector("", at(old, "spec", "podSelector")))
    select = partial(label_selector, allows_invalid_values=keeps_selector)
    errors = select("spec.podSelector", spec.get("podSelector"))
    ranges = frozenset(_ranges(old)) if old is not None else frozenset()
    check_block = partial(_ip_block, addresses=addresses, old=ranges)
    for direction, peers in _PEERS:
        for where, rule in items(spec, direction, "spec"):
            for port_path, port in items(rule, "ports", where):
                errors += _port(port_path, port)
            for peer_path, peer in items(rule, peers, where):
                errors += _peer(peer_path, peer, select, check_block)
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
        return errors + follows(where, port, port_name)
    if port is None:
        if end is not None:
            errors.append(invalid(end_path, end, "may not be specified when `port` is not specified"))
        return errors
    errors += port_number(where, port)
    if end is not None:
        if end < port:
            # Kubernetes shows the port here.
            errors.append(invalid(end_path, port, "must be greater than or equal to `port`"))
        errors += port_number(end_path, end)
    return errors


_Check: TypeAlias = Callable[[str, Document], Errors]


def _peer(path: str, peer: Document, select: _Check, check_block: _Check) -> Errors:
    selectors = [name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None]
    errors = [error for name in selectors for error in select(f"{path}.{name}", peer[name])]
    block = peer.get("ipBlock")
    if block is not None:
        errors += check_block(f"{path}.ipBlock", block)
        if selectors:
            errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
    elif not selectors:
        errors.append(required(path, "must specify a peer"))
    return errors


def _ip_block(path: str, block: Document, *, addresses: AddressChecks, old: Collection[str]) -> Errors:
    text = block.get("cidr")
    if not text:
        return [required(f"{path}.cidr")]
    errors = addresses.cidr(f"{path}.cidr", text, old)
    if (found := parse_cidr(text)) is None:
        return errors
    for where, excepted in items(block, "except", path):
        errors += addresses.cidr(where, excepted, old)
        inner = parse_cidr(excepted)
        if inner is not None and not _is_strict_subset(inner, found):
            errors.append(invalid(where, excepted, "must be a strict subset of `cidr`"))
    return errors


def _is_strict_subset(inner: WrittenCidr, outer: WrittenCidr) -> bool:
    return inner.network.network_address in outer.network and inner.length > outer.length


def _blocks(document: Document) -> Iterator[tuple[str, Document]]:
    """Returns the address blocks of a policy, with their paths."""
    for direction, peers in _PEERS:
        for where, rule in items(document.get("spec", {}), direction, "spec"):
            for path, peer in items(rule, peers, where):
                if (block := peer.get("ipBlock")) is not None:
                    yield f"{path}.ipBlock", block


def _ranges(document: Document) -> Iterator[str]:
    for _, block in _blocks(document):
        yield block.get("cidr", "")
        yield from block.get("except") or ()


def warn_network_policy(new: Document, old: Document | None) -> list[str]:
    warnings: list[str] = []
    for path, block in _blocks(new):
        warnings += cidr_warnings(f"{path}.cidr", block.get("cidr", ""))
        for where, excepted in items(block, "except", path):
            warnings += cidr_warnings(where, excepted)
    return warnings


# ---- columns


def _pod_selector(document: Document, now: float) -> str:
    return table.selector_text(at(document, "spec", "podSelector"))
