"""The default roles that Kubernetes has only if a feature gate is on, and the rules that it adds to others.

The gates are those of types and paths that are not served without them.
Source: policy.go and controller_policy.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from apiserver.auth.authz.rbac.defaults import cluster_roles, controller_roles
from apiserver.auth.authz.rbac.defaults.notation import (
    CONTROLLER_PREFIX,
    EVENTS,
    READ,
    Bindings,
    Roles,
    RuleRow,
    accounts,
    groups,
    role,
)
from apiserver.releases.emulation import DEFAULT_MINOR
from apiserver.releases.gates import gates_of

_NONE: Final[Mapping[str, tuple[RuleRow, ...]]] = MappingProxyType({})
_BUNDLES: Final = RuleRow(READ, "certificates.", "clustertrustbundles")
_CLEANER: Final = "podcertificaterequestcleaner"
_REQUESTS: Final = "podcertificaterequests"
_POOL_STATUS: Final = "resourcepoolstatusrequest-controller"
_POOL_REQUESTS: Final = "resourcepoolstatusrequests"
_TAINT_RULES: Final = RuleRow(READ, "resource.", "devicetaintrules")
_PUBLISHER: Final = "kube-apiserver-serving-clustertrustbundle-publisher"


class GatedRoles(NamedTuple):
    """What a gate adds.

    added_rules: to roles that exist anyway, by their names. added_urls: to the first rule of such roles.
    """

    roles: Roles = MappingProxyType({})
    bindings: Bindings = MappingProxyType({})
    added_rules: Mapping[str, tuple[RuleRow, ...]] = _NONE
    added_urls: Mapping[str, str] = MappingProxyType({})


_BY_GATE: Final[Mapping[str, GatedRoles]] = {
    "ClusterTrustBundle": GatedRoles(
        {
            "system:cluster-trust-bundle-discovery": role(_BUNDLES),
            f"{CONTROLLER_PREFIX}{_PUBLISHER}": role(
                RuleRow("attest", "certificates.", "signers", names="kubernetes.io/kube-apiserver-serving"),
                RuleRow("create update delete list watch", "certificates.", "clustertrustbundles"),
                EVENTS,
            ),
        },
        {
            "system:cluster-trust-bundle-discovery": groups("system:serviceaccounts"),
            f"{CONTROLLER_PREFIX}{_PUBLISHER}": accounts(_PUBLISHER),
        },
        {"system:node": (_BUNDLES,)},
    ),
    "PodCertificateRequest": GatedRoles(
        {
            f"{CONTROLLER_PREFIX}{_CLEANER}": role(
                RuleRow("get list watch delete", "certificates.", _REQUESTS)
            )
        },
        {f"{CONTROLLER_PREFIX}{_CLEANER}": accounts(_CLEANER)},
        {"system:node": (RuleRow("create get list watch", "certificates.", _REQUESTS),)},
    ),
    "DRADeviceTaintRules": GatedRoles(
        added_rules={
            "system:kube-scheduler": (_TAINT_RULES,),
            f"{CONTROLLER_PREFIX}device-taint-eviction-controller": (
                RuleRow("update patch", "resource.", "devicetaintrules/status"),
                _TAINT_RULES,
            ),
        }
    ),
    "DRAResourcePoolStatus": GatedRoles(
        {
            f"{CONTROLLER_PREFIX}{_POOL_STATUS}": role(
                RuleRow("get list watch delete", "resource.", _POOL_REQUESTS),
                RuleRow("update patch", "resource.", f"{_POOL_REQUESTS}/status"),
                RuleRow(READ, "resource.", "resourceslices"),
                RuleRow(READ, "resource.", "resourceclaims"),
                RuleRow(READ, "resource.", "devicetaintrules"),
                EVENTS,
            )
        },
        {f"{CONTROLLER_PREFIX}{_POOL_STATUS}": accounts(_POOL_STATUS)},
    ),
    "CompositePodGroup": GatedRoles(
        added_rules={"system:kube-scheduler": (RuleRow(READ, "scheduling.", "compositepodgroups"),)}
    ),
    "ComponentFlagz": GatedRoles(added_urls={"system:monitoring": "/flagz"}),
    "ComponentStatusz": GatedRoles(added_urls={"system:monitoring": "/statusz"}),
    "GenericWorkload": GatedRoles(
        added_rules={"system:kube-scheduler": (RuleRow(READ, "scheduling.", "podgroups workloads"),)}
    ),
}


def on_by_default(name: str) -> bool:
    """Whether a gate is on in the default release."""
    return gates_of(DEFAULT_MINOR, ()).is_on(name)


# The gates on which default roles depend.
GATES: Final = frozenset(_BY_GATE)


def all_roles(is_on: Callable[[str], bool]) -> tuple[Roles, Bindings]:
    """Returns all default cluster roles and their bindings. is_on: whether a feature gate is."""
    roles = {**cluster_roles.ROLES, **controller_roles.ROLES}
    bindings = {**cluster_roles.BINDINGS, **controller_roles.BINDINGS}
    for gate, gated in _BY_GATE.items():
        if is_on(gate):
            roles |= gated.roles
            bindings |= gated.bindings
            for name, rows in gated.added_rules.items():
                roles[name] = roles[name]._replace(rows=(*roles[name].rows, *rows))
            for name, urls in gated.added_urls.items():
                first, *others = roles[name].rows
                wider = first._replace(urls=f"{first.urls} {urls}")
                roles[name] = roles[name]._replace(rows=(wider, *others))
    return roles, bindings
