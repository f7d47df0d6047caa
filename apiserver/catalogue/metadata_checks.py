"""The number of times that Kubernetes checks the metadata of each built-in type: responses repeat causes as
often.

Its generic code checks metadata and the change of it on every update, and most types do either again. Types
whose code does not, or only by the rules of all API servers, accept finalizers without a domain. Source:
pkg/registry/*/strategy.go and pkg/apis/*/validation, the calls of ValidateObjectMeta and
ValidateObjectMetaUpdate (release 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import UpdateStrategy


class MetadataChecks(NamedTuple):
    """The numbers of checks of the metadata, and of its change, by updates of a type or a subresource."""

    of_object: int = 1
    of_change: int = 2


_DEFAULT: Final = MetadataChecks()
_BOTH_TWICE: Final = MetadataChecks(2, 2)
_OBJECT_TWICE: Final = MetadataChecks(2, 1)
_ONCE: Final = MetadataChecks(1, 1)

# By group and resource, as types have them, or else by those of the hub version; a subresource follows.
_CHECKS: Final[Mapping[str, MetadataChecks]] = {
    **dict.fromkeys(
        (
            "/configmaps",
            "/endpoints",
            "/namespaces",
            "/nodes",
            "/persistentvolumeclaims",
            "/pods",
            "/secrets",
            "/serviceaccounts",
            "apiregistration./apiservices",
            "apps/controllerrevisions",
            "batch/jobs",
            "certificates./certificatesigningrequests",
            "certificates./certificatesigningrequests/approval",
            "certificates./certificatesigningrequests/status",
            "certificates./clustertrustbundles",
            "networking./ingressclasses",
            "networking./ingresses",
            "networking./ipaddresses",
            "node./runtimeclasses",
            "rbac.authorization./clusterrolebindings",
            "rbac.authorization./clusterroles",
            "rbac.authorization./rolebindings",
            "rbac.authorization./roles",
            "resource./deviceclasses",
            "resource./resourceclaims",
            "resource./resourceclaimtemplates",
            "storage./csistoragecapacities",
            "storage./storageclasses",
            "storage./volumeattributesclasses",
            "storagemigration./storageversionmigrations",
        ),
        _BOTH_TWICE,
    ),
    **dict.fromkeys(
        (
            "/limitranges",
            "admissionregistration./mutatingadmissionpolicies",
            "admissionregistration./mutatingadmissionpolicybindings",
            "admissionregistration./mutatingwebhookconfigurations",
            "admissionregistration./validatingadmissionpolicies",
            "admissionregistration./validatingadmissionpolicybindings",
            "admissionregistration./validatingwebhookconfigurations",
            "discovery./endpointslices",
            "flowcontrol.apiserver./flowschemas",
            "flowcontrol.apiserver./prioritylevelconfigurations",
            "storage./csinodes",
            "storage./volumeattachments",
        ),
        _OBJECT_TWICE,
    ),
    **dict.fromkeys(
        (
            "/events",
            "admissionregistration./validatingadmissionpolicies/status",
            "batch/cronjobs/status",
            "internal.apiserver./storageversions",
            "internal.apiserver./storageversions/status",
            "policy/poddisruptionbudgets",
            "policy/poddisruptionbudgets/status",
        ),
        _ONCE,
    ),
    "/persistentvolumes": MetadataChecks(3, 1),
    # Stored as the core group's, but with separate checks.
    "events./events": _DEFAULT,
}
# Types whose finalizers need no domain: groups, and resources of others.
_ANY_FINALIZERS: Final = frozenset(
    {
        "/events",
        "admissionregistration.",
        "apiextensions.",
        "apiregistration.",
        "coordination.",
        "node.",
        "policy/poddisruptionbudgets",
    }
)


def with_metadata_checks(builtin: BuiltinType, hub: BuiltinType) -> BuiltinType:
    """Returns a type that checks metadata as often, and as strictly, as Kubernetes. hub: its hub version."""
    key, strategy = f"{hub.group}/{hub.resource}", builtin.strategy
    own = f"{builtin.group}/{builtin.resource}"
    checked = own if own in _CHECKS else key
    return replace(
        builtin,
        strategy=strategy._replace(
            update=_counted(strategy.update, checked),
            allows_unqualified_finalizers=hub.group in _ANY_FINALIZERS or checked in _ANY_FINALIZERS,
        ),
        subresources=tuple(_subresource(each, f"{key}/{each.name}") for each in builtin.subresources),
    )


def _counted(update: UpdateStrategy, key: str) -> UpdateStrategy:
    checks = _CHECKS.get(key, _DEFAULT)
    return update._replace(object_checks=checks.of_object, change_checks=checks.of_change)


def _subresource(subresource: Subresource, key: str) -> Subresource:
    if subresource.update is None:
        return subresource
    return subresource._replace(update=_counted(subresource.update, key))
