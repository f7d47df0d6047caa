"""The APIServices of the versions that a server itself serves, and the order of groups and versions in
discovery.

Greater priorities come first, among groups, and among the versions of a group.
Source: k8s.io/kubernetes, cmd/kube-apiserver/app and pkg/controlplane/apiserver, aggregator.go;
pkg/controlplane/controller/crdregistration.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document, GroupVersion

# Values of the label that names the manager of an APIService: built-in ones are registered when a server
# starts; those of definitions exist as long as their definition.
ON_START: Final = "onstart"
CONTINUOUSLY: Final = "true"


class Priority(NamedTuple):
    """The fields `groupPriorityMinimum` and `versionPriority` of an APIService."""

    group: int
    version: int


# What definitions define comes after all that is built in.
CUSTOM: Final = Priority(1_000, 100)
# The group of APIServices has none for itself, and is the first of all.
_OWN: Final = Priority(20_001, 15)
# A group that ends with a dot is in the domain of built-in groups.
_GROUPS: Final = {
    "": 18_000,
    "apps": 17_800,
    "events.": 17_750,
    "authentication.": 17_700,
    "authorization.": 17_600,
    "autoscaling": 17_500,
    "batch": 17_400,
    "certificates.": 17_300,
    "networking.": 17_200,
    "policy": 17_100,
    "rbac.authorization.": 17_000,
    "storage.": 16_800,
    "apiextensions.": 16_700,
    "admissionregistration.": 16_700,
    "scheduling.": 16_600,
    "coordination.": 16_500,
    "node.": 16_300,
    "discovery.": 16_200,
    "resource.": 16_200,
    "flowcontrol.apiserver.": 16_100,
}
_OTHER_GROUP: Final = 16_000
_CORE_VERSION: Final = 1
# Of `v1`; that of `v2` is twice as great.
_STABLE: Final = 15
_BETA: Final = 9
_ALPHA: Final = 1
# Versions whose priority is not that of their stability.
_VERSIONS: Final = {("resource.", "v1"): 20, ("events.", "v1beta1"): 5, ("discovery.", "v1beta1"): 12}


def group_of(brand: Brand) -> str:
    """Returns the API group of APIServices."""
    return brand.group("apiregistration")


def automanaged_label(brand: Brand) -> str:
    return f"kube-aggregator.{brand.vendor}.io/automanaged"


def name_of(group_version: GroupVersion) -> str:
    """Returns the required name of a version's APIService."""
    return f"{group_version.version}.{group_version.group}"


def builtin_priority(brand: Brand, group_version: GroupVersion) -> Priority:
    """Returns the priority of a built-in version."""
    group, version = group_version
    if group == group_of(brand):
        return _OWN
    name = group.removesuffix(brand.group_domain) if group.endswith(f".{brand.group_domain}") else group
    return Priority(_GROUPS.get(name, _OTHER_GROUP), _version_priority(name, version))


def _version_priority(group: str, version: str) -> int:
    if not group:
        return _CORE_VERSION
    if (priority := _VERSIONS.get((group, version))) is not None:
        return priority
    stable = version.removeprefix("v")
    if stable.isdigit():
        return _STABLE * int(stable)
    return _BETA if "beta" in version else _ALPHA


def local_spec(group_version: GroupVersion, priority: Priority) -> Document:
    """Returns the `spec` of the APIService of a version that the server itself serves."""
    group, version = group_version
    return {
        **({"group": group} if group else {}),
        "version": version,
        "groupPriorityMinimum": priority.group,
        "versionPriority": priority.version,
    }
