"""Builds the controllers that run in the server, as `--controllers` selects them."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.app.core import Core
from apiserver.controllers.cluster_role_aggregation import ClusterRoleAggregation
from apiserver.controllers.controller import Runnable
from apiserver.controllers.namespace_default_objects import (
    DefaultObject,
    NamespaceDefaultObjects,
    default_service_account,
    root_ca_config_map,
)
from apiserver.controllers.namespaces import NamespaceController
from apiserver.controllers.resource_quotas import ResourceQuotaController
from apiserver.controllers.storage_protection import CLAIMS, VOLUMES, StorageProtection
from apiserver.serving import pki
from apiserver.serving.listening import trusted_ca


def build_controllers(
    core: Core, lifecycle: NamespaceLifecycle, certificates: pki.Pki
) -> Iterable[tuple[str, Runnable]]:
    """Yields the controllers that are to run, with their names in kube-controller-manager."""
    registry, served, runs = core.registry, core.served, core.config.runs_controller

    def default_objects(queue: str, default: DefaultObject) -> Runnable:
        return NamespaceDefaultObjects(registry, served, lifecycle.check_create, [default], name=queue)

    if runs(name := "namespace-controller"):
        yield name, NamespaceController(registry, served, core.clock)
    if runs(name := "serviceaccount-controller"):
        yield name, default_objects("serviceaccount", default_service_account())
    if runs(name := "root-ca-certificate-publisher-controller"):
        root_ca = root_ca_config_map(trusted_ca(core.config, certificates).decode())
        yield name, default_objects("root_ca_cert_publisher", root_ca)
    if runs(name := "resourcequota-controller"):
        yield name, ResourceQuotaController(registry, served, core.brand, core.offload)
    if runs(name := "persistentvolumeclaim-protection-controller"):
        yield name, StorageProtection(registry, served, CLAIMS)
    if runs(name := "persistentvolume-protection-controller"):
        yield name, StorageProtection(registry, served, VOLUMES)
    if runs(name := "clusterrole-aggregation-controller"):
        yield name, ClusterRoleAggregation(registry, served, core.brand)
