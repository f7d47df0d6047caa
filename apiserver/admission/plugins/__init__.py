"""The admission plugins that a server has of its own, as kube-apiserver has them switched on.

One that is about a type which is not served lets everything pass. Others that kube-apiserver has are named in
`plugin_names`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from apiserver.admission.chain import Plugin
from apiserver.admission.plugins.certificates import (
    Authorize,
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from apiserver.admission.plugins.default_ingress_class import DefaultIngressClass
from apiserver.admission.plugins.default_storage_class import DefaultStorageClass
from apiserver.admission.plugins.default_toleration_seconds import DefaultTolerationSeconds
from apiserver.admission.plugins.limit_ranger import LimitRanger
from apiserver.admission.plugins.listers import Lister, Table
from apiserver.admission.plugins.persistent_volume_claim_resize import PersistentVolumeClaimResize
from apiserver.admission.plugins.pod_security import PodSecurity
from apiserver.admission.plugins.priority import Priority
from apiserver.admission.plugins.resource_quota import ResourceQuota
from apiserver.admission.plugins.runtime_class import RuntimeClass
from apiserver.admission.plugins.service_account import ServiceAccount
from apiserver.admission.plugins.storage_object_in_use_protection import StorageObjectInUseProtection
from apiserver.admission.plugins.taint_nodes_by_condition import TaintNodesByCondition
from apiserver.brand import Brand
from apiserver.registry.store import Registry


def builtin_plugins(
    registry: Registry,
    table: Table,
    brand: Brand,
    authorize: Authorize,
    is_on: Callable[[str], bool],
) -> Sequence[Plugin]:
    """In the order in which they are asked, which is kube-apiserver's.

    is_on: whether a plugin, by its name, is to be asked.
    """

    def all_of(group: str, resource: str) -> Lister:
        return Lister(registry, table, group, resource)

    storage_classes = all_of(brand.group("storage"), "storageclasses")
    plugins = (
        LimitRanger(all_of("", "limitranges")),
        ServiceAccount(all_of("", "serviceaccounts")),
        TaintNodesByCondition(),
        PodSecurity(all_of("", "namespaces"), all_of("", "pods")),
        Priority(all_of(brand.group("scheduling"), "priorityclasses")),
        DefaultTolerationSeconds(),
        DefaultStorageClass(storage_classes),
        StorageObjectInUseProtection(),
        PersistentVolumeClaimResize(storage_classes),
        RuntimeClass(all_of(brand.group("node"), "runtimeclasses")),
        CertificateApproval(authorize, brand),
        CertificateSigning(authorize, brand),
        CertificateSubjectRestriction(brand),
        DefaultIngressClass(all_of(brand.group("networking"), "ingressclasses")),
        # The last one, since what it has counted is not given back.
        ResourceQuota(registry, all_of("", "resourcequotas"), brand),
    )
    return tuple(plugin for plugin in plugins if is_on(plugin.name))
