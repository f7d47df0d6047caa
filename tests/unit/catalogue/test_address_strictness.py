"""The addresses and ranges of all kinds follow the gate StrictIPCIDRValidation, on since 1.36.

What is stored may stay, as long as what is around it does; see `validation.addresses` for the spellings.
Source: pkg/apis/{core,discovery,networking}/validation, the users of IsValidIPForLegacyField and
IsValidCIDRForLegacyField.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pytest

from apiserver.meta.vocabulary import Document
from tests.unit.catalogue.served_kinds import Changes, ServedKind

OFF: Final = ("StrictIPCIDRValidation=false",)
SERVICE: Final[Document] = {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}
BALANCED: Final[Document] = {"spec": {**SERVICE["spec"], "type": "LoadBalancer"}}
POLICY: Final[Document] = {
    "spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}
}
SLICE: Final[Document] = {"addressType": "IPv4", "endpoints": [{"addresses": ["10.9.8.7"]}]}
ENDPOINTS: Final[Document] = {"subsets": [{"addresses": [{"ip": "10.9.8.7"}]}]}
POD: Final[Document] = {"spec": {"containers": [{"name": "a", "image": "a"}]}}
INGRESS: Final[Document] = {"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}}


class Place(NamedTuple):
    """Where a kind has an address or a range.

    field: as errors name it. stays: whether an address that is stored is taken again with other changes,
    as `elsewhere`.
    """

    kind: str
    valid: Document
    path: str
    field: str
    stays: bool = True
    subresource: str = ""
    elsewhere: Changes = {"metadata.annotations": {"a": "b"}}


def balancer(host: str) -> dict[str, Any]:
    return {"status.loadBalancer": {"ingress": [{"hostname": host}]}}


IPS: Final = {
    "an external IP": Place("services", SERVICE, "spec.externalIPs", "spec.externalIPs[0]"),
    "a cluster IP": Place("services", SERVICE, "spec.clusterIPs", "spec.clusterIPs[0]"),
    "a load balancer of a service": Place(
        "services", BALANCED, "status.loadBalancer", "status.loadBalancer.ingress[0].ip", True, "status"
    ),
    "a load balancer of an ingress": Place(
        "ingresses.networking.k8s.io",
        INGRESS,
        "status.loadBalancer",
        "status.loadBalancer.ingress[0].ip",
        True,
        "status",
    ),
    "endpoints": Place("endpoints", ENDPOINTS, "subsets.0.addresses.0.ip", "subsets[0].addresses[0].ip"),
    "endpoints that are not ready": Place(
        "endpoints", ENDPOINTS, "subsets.0.notReadyAddresses", "subsets[0].notReadyAddresses[0].ip"
    ),
    "an address of a pod": Place("pods", POD, "status.podIPs", "status.podIPs[0]", True, "status"),
    "an address of a pod's node": Place("pods", POD, "status.hostIPs", "status.hostIPs[0]", True, "status"),
    "a server of names": Place("pods", POD, "spec.dnsConfig", "spec.dnsConfig.nameservers[0]", stays=False),
    "an alias of a host": Place("pods", POD, "spec.hostAliases", "spec.hostAliases[0].ip", stays=False),
    "an alias in a template": Place(
        "deployments.apps",
        {
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]},
            }
        },
        "spec.template.spec.hostAliases",
        "spec.template.spec.hostAliases[0].ip",
        stays=False,
    ),
    "a slice of endpoints": Place(
        "endpointslices.discovery.k8s.io", SLICE, "endpoints.0.addresses.0", "endpoints[0].addresses[0]"
    ),
}
CIDRS: Final = {
    "a source range": Place(
        "services", BALANCED, "spec.loadBalancerSourceRanges", "spec.LoadBalancerSourceRanges[0]"
    ),
    "a source range in an annotation": Place(
        "services",
        BALANCED,
        "metadata.annotations",
        "metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]",
        elsewhere={"metadata.labels": {"a": "b"}},
    ),
    "a block of a policy": Place(
        "networkpolicies.networking.k8s.io",
        POLICY,
        "spec.ingress.0.from.0.ipBlock.cidr",
        "spec.ingress[0].from[0].ipBlock.cidr",
        elsewhere={"spec.policyTypes": ["Ingress", "Egress"]},
    ),
    "an exception of a policy": Place(
        "networkpolicies.networking.k8s.io",
        POLICY,
        "spec.ingress.0.from.0.ipBlock.except",
        "spec.ingress[0].from[0].ipBlock.except[0]",
        elsewhere={"spec.policyTypes": ["Ingress", "Egress"]},
    ),
    "a range of a node's pods": Place(
        "nodes", {"spec": {}}, "spec.podCIDRs", "spec.podCIDRs[0]", stays=False
    ),
}
_WRAPPED: Final[Mapping[str, Callable[[str], Any]]] = {
    "status.podIPs": lambda text: [{"ip": text}],
    "status.hostIPs": lambda text: [{"ip": text}],
    "spec.dnsConfig": lambda text: {"nameservers": [text]},
    "spec.hostAliases": lambda text: [{"ip": text}],
    "spec.template.spec.hostAliases": lambda text: [{"ip": text}],
    "spec.externalIPs": lambda text: [text],
    "spec.clusterIPs": lambda text: [text],
    "spec.loadBalancerSourceRanges": lambda text: [text],
    "spec.podCIDRs": lambda text: [text],
    "spec.ingress.0.from.0.ipBlock.except": lambda text: [text],
    "status.loadBalancer": lambda text: {"ingress": [{"ip": text, "ipMode": "VIP"}]},
    "subsets.0.notReadyAddresses": lambda text: [{"ip": text}],
    "metadata.annotations": lambda text: {"service.beta.kubernetes.io/load-balancer-source-ranges": text},
}


def with_text(place: Place, text: str) -> dict[str, Any]:
    wrap = _WRAPPED.get(place.path)
    value = text if wrap is None else wrap(text)
    changes: dict[str, Any] = {place.path: value}
    if place.path == "spec.clusterIPs":
        changes["spec.clusterIP"] = text
    if place.path == "status.hostIPs":
        changes["status.hostIP"] = text
    if place.kind == "ingresses.networking.k8s.io":
        changes = {"status.loadBalancer": {"ingress": [{"ip": text}]}}
    return changes


def written(place: Place, text: str, gates: tuple[str, ...] = ()) -> list[str]:
    kind = ServedKind(place.kind, place.valid, gates=gates)
    if place.subresource:
        return kind.update(with_text(place, text), place.subresource).texts
    return kind.create(with_text(place, text)).texts


WRONG: Final = {
    **{
        (name, text): (place, text, "must not have leading 0s")
        for name, place in IPS.items()
        for text in ("010.1.2.3",)
    },
    **{
        (name, text): (place, text, "must not be an IPv4-mapped IPv6 address")
        for name, place in IPS.items()
        for text in ("::ffff:10.1.2.3",)
    },
    **{
        (name, "10.1.02.0/24"): (place, "10.1.02.0/24", "must not have leading 0s in IP or prefix length")
        for name, place in CIDRS.items()
    },
    **{
        (name, "10.1.2.3/24"): (place, "10.1.2.3/24", "must not have bits set beyond the prefix length")
        for name, place in CIDRS.items()
    },
    **{
        (name, "::ffff:10.1.2.0/120"): (
            place,
            "::ffff:10.1.2.0/120",
            "must not have an IPv4-mapped IPv6 address",
        )
        for name, place in CIDRS.items()
        if name != "an exception of a policy"
    },
}


@pytest.mark.parametrize(("place", "text", "problem"), WRONG.values(), ids=[f"{a} {b}" for a, b in WRONG])
def test_spellings_that_are_refused(place: Place, text: str, problem: str) -> None:
    refusal = f'{place.field}: Invalid value: "{text}": {problem}'
    assert refusal in written(place, text)
    assert refusal not in written(place, text, OFF)


@pytest.mark.parametrize(("place", "text", "problem"), WRONG.values(), ids=[f"{a} {b}" for a, b in WRONG])
def test_what_is_stored_may_stay(place: Place, text: str, problem: str) -> None:
    kind = ServedKind(place.kind, place.valid)
    changes = place.elsewhere
    texts = kind.update(changes, place.subresource, old=with_text(place, text)).texts
    refusal = f'{place.field}: Invalid value: "{text}": {problem}'
    assert (refusal in texts) is not place.stays
    if place.stays:
        assert texts == []


@pytest.mark.parametrize("place", [*IPS.values(), *CIDRS.values()], ids=[*IPS, *CIDRS])
def test_valid_addresses_are_accepted(place: Place) -> None:
    is_range = place in CIDRS.values()
    assert written(place, "10.0.0.0/16" if is_range else "10.0.2.3") == []


WARNED: Final = {
    "an address of a pod": ("status.podIPs[0].ip", "IPv6 address"),
    "an address of a pod's node": ("status.hostIPs[0].ip", "IPv6 address"),
    "a server of names": ("spec.dnsConfig.nameservers[0]", "IPv6 address"),
    "an alias in a template": ("spec.template.spec.hostAliases[0].ip", "IPv6 address"),
    "an external IP": ("spec.externalIPs[0]", "IPv6 address"),
    "endpoints": ("subsets[0].addresses[0].ip", "IPv6 address"),
    "a source range": ("spec.loadBalancerSourceRanges[0]", "IPv6 CIDR value"),
    "a block of a policy": ("spec.ingress[0].from[0].ipBlock.cidr", "IPv6 CIDR value"),
    "a range of a node's pods": ("spec.podCIDRs[0]", "IPv6 CIDR value"),
    "a load balancer of an ingress": ("status.loadBalancer.ingress[0]", "IPv6 address"),
    "a load balancer of a service": ("status.loadBalancer.ingress[0]", "IPv6 address"),
}


@pytest.mark.parametrize(("name", "warning"), WARNED.items(), ids=WARNED)
def test_unusual_spellings_cause_warnings(name: str, warning: tuple[str, str]) -> None:
    place = (IPS | CIDRS)[name]
    path, what = warning
    text, canonical = ("FD00::/64", "fd00::/64") if name in CIDRS else ("FD00::1", "fd00::1")
    kind = ServedKind(place.kind, place.valid)
    changes = with_text(place, text)
    told = f'{path}: {what} "{text}" should be in RFC 5952 canonical format ("{canonical}")'
    if not place.subresource:
        assert told in kind.strategy.warn(kind.create(changes).document, None)
        return
    rules = kind.resource.subresources[place.subresource].update
    assert rules is not None
    assert rules.warn is not None
    new = kind.update(changes, place.subresource).document
    assert rules.warn(new, kind.create().document) == [told]
