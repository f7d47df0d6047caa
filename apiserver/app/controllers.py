"""Builds the controllers that run in the server, as `--controllers` selects them."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterable
from typing import Final

from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.app.core import Core
from apiserver.controllers import ttl_after_finished
from apiserver.controllers.cluster_role_aggregation import ClusterRoleAggregation
from apiserver.controllers.controller import Runnable
from apiserver.controllers.controller_manager import ControllerManager, ControllerSpec
from apiserver.controllers.disruption import controller as disruption
from apiserver.controllers.disruption.controller import DisruptionController
from apiserver.controllers.disruption.stale_conditions import StaleDisruptionConditions
from apiserver.controllers.event_recorder import EventRecorder
from apiserver.controllers.garbage_collector.garbage_collector import GarbageCollector
from apiserver.controllers.leader_election import ElectionTimes, LeaderElector
from apiserver.controllers.namespace_default_objects import (
    DefaultObject,
    NamespaceDefaultObjects,
    default_service_account,
    root_ca_config_map,
)
from apiserver.controllers.namespaces import NamespaceController, OtherServers
from apiserver.controllers.policy_type_checking import controller as policy_type_checking
from apiserver.controllers.policy_type_checking.controller import PolicyTypeChecking
from apiserver.controllers.resource_quotas import ResourceQuotaController
from apiserver.controllers.service_cidrs import ServiceCidrController
from apiserver.controllers.storage_protection import CLAIMS, VOLUMES, StorageProtection
from apiserver.controllers.ttl_after_finished import TtlAfterFinished
from apiserver.metrics.leader_election import LeaderElectionMetrics
from apiserver.metrics.work_queues import WorkQueueMetrics
from apiserver.serving import pki
from apiserver.serving.listening import trusted_ca
from apiserver.vocabulary import GroupResource

COLLECTOR: Final = "garbage-collector-controller"


def build_controllers(
    core: Core,
    lifecycle: NamespaceLifecycle,
    certificates: pki.Pki,
    queues: WorkQueueMetrics,
    others: OtherServers,
) -> Iterable[ControllerSpec]:
    """Returns the controllers that are to run, with their names in kube-controller-manager."""
    registry, served, runs = core.registry, core.served, core.config.runs_controller
    networking = core.brand.group("networking")

    def default_objects(queue: str, default: DefaultObject) -> Runnable:
        return NamespaceDefaultObjects(registry, served, lifecycle.check_create, [default], name=queue)

    def root_ca() -> DefaultObject:
        return root_ca_config_map(trusted_ca(core.config, certificates).decode())

    def events(component: str) -> EventRecorder:
        return EventRecorder(registry, served, lifecycle.check_create, core.clock, component=component)

    def garbage_collector() -> Runnable:
        return GarbageCollector(registry, served, events(COLLECTOR), queues, core.garbage_collector_metrics)

    every = (
        ControllerSpec(
            "namespace-controller",
            lambda: NamespaceController(registry, served, core.clock, others),
            leader_only=True,
        ),
        ControllerSpec(
            "serviceaccount-controller",
            lambda: default_objects("serviceaccount", default_service_account()),
        ),
        ControllerSpec(
            "root-ca-certificate-publisher-controller",
            lambda: default_objects("root_ca_cert_publisher", root_ca()),
        ),
        ControllerSpec(
            "resourcequota-controller",
            lambda: ResourceQuotaController(registry, served, core.brand, core.offload),
            leader_only=True,
        ),
        ControllerSpec(
            "disruption-controller",
            lambda: DisruptionController(registry, served, events("controllermanager"), core.clock),
            leader_only=True,
            needs=(GroupResource(disruption.GROUP, disruption.RESOURCE),),
        ),
        ControllerSpec(
            "disruption-controller",
            lambda: StaleDisruptionConditions(registry, served, core.clock),
            leader_only=True,
        ),
        ControllerSpec(
            "ttl-after-finished-controller",
            lambda: TtlAfterFinished(registry, served, core.clock),
            leader_only=True,
            needs=(GroupResource(ttl_after_finished.GROUP, ttl_after_finished.RESOURCE),),
        ),
        ControllerSpec(
            "service-cidr-controller",
            lambda: ServiceCidrController(registry, served, core.brand, core.clock),
            leader_only=True,
            needs=tuple(GroupResource(networking, each) for each in ("servicecidrs", "ipaddresses")),
        ),
        ControllerSpec(
            "persistentvolumeclaim-protection-controller",
            lambda: StorageProtection(registry, served, CLAIMS),
        ),
        ControllerSpec(
            "persistentvolume-protection-controller",
            lambda: StorageProtection(registry, served, VOLUMES),
        ),
        ControllerSpec(
            "clusterrole-aggregation-controller",
            lambda: ClusterRoleAggregation(registry, served, core.brand),
        ),
        ControllerSpec(
            "validatingadmissionpolicy-status-controller",
            lambda: PolicyTypeChecking(registry, served, core.brand, core.offload),
            leader_only=True,
            needs=(
                GroupResource(core.brand.group(policy_type_checking.GROUP), policy_type_checking.RESOURCE),
            ),
        ),
        ControllerSpec(COLLECTOR, garbage_collector, leader_only=True),
    )
    return [
        each
        for each in every
        if runs(each.name) and all(served.find(need.group, "v1", need.resource) for need in each.needs)
    ]


def build_controller_manager(
    core: Core,
    lifecycle: NamespaceLifecycle,
    certificates: pki.Pki,
    queues: WorkQueueMetrics,
    elections: LeaderElectionMetrics,
    others: OtherServers,
) -> ControllerManager:
    """Returns what runs them. A server with an embedded store has it for itself, and so is the leader."""
    config, elector = core.config, None
    controllers = list(build_controllers(core, lifecycle, certificates, queues, others))
    if config.elects_leader and any(each.leader_only for each in controllers):
        elector = LeaderElector(
            core.registry,
            core.served,
            core.brand,
            name=config.leader_elect_resource_name,
            identity=f"{socket.gethostname()}_{uuid.uuid4()}",
            times=ElectionTimes(
                config.leader_elect_lease_duration_s,
                config.leader_elect_renew_deadline_s,
                config.leader_elect_retry_period_s,
            ),
            clock=core.clock,
        )
        elections.add(elector.status)
    return ControllerManager(controllers, queues, elector)
