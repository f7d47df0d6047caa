"""Builds the controllers that run in the server, as `--controllers` selects them."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Final, NamedTuple, Protocol

from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.aggregation.namespaces import RemoteNamespaces
from apiserver.aggregation.owners import RemoteOwners
from apiserver.app.aggregation import Aggregation
from apiserver.app.core import Core
from apiserver.app.serving import pki
from apiserver.app.serving.listening import trusted_ca
from apiserver.app.serving.serving_tls import ServingTls, TlsContent
from apiserver.app.serving.watched_files import read_file
from apiserver.auth.authz.attributes import Authorizer
from apiserver.catalogue.certificates import cluster_trust_bundles
from apiserver.catalogue.storagemigration import storage_version_migrations
from apiserver.cli.config import Config
from apiserver.controller_runtime.controller import Runnable
from apiserver.controllers import ttl_after_finished
from apiserver.controllers.certificate_requests import requests as certificate_requests
from apiserver.controllers.certificate_requests.approving import CertificateApproving
from apiserver.controllers.certificate_requests.cleaning import CertificateCleaning
from apiserver.controllers.certificate_requests.issuing import Authority
from apiserver.controllers.certificate_requests.requests import CertificateRequests
from apiserver.controllers.certificate_requests.signing import CertificateSigning
from apiserver.controllers.cluster_role_aggregation import ClusterRoleAggregation
from apiserver.controllers.cluster_trust_bundles import ClusterTrustBundlePublisher
from apiserver.controllers.controller_manager import ControllerManager, ControllerSpec
from apiserver.controllers.disruption import controller as disruption
from apiserver.controllers.disruption.controller import DisruptionController
from apiserver.controllers.disruption.stale_conditions import StaleDisruptionConditions
from apiserver.controllers.event_recorder import EventRecorder
from apiserver.controllers.garbage_collector.garbage_collector import GarbageCollector
from apiserver.controllers.garbage_collector.graph_builder import GraphBuilder
from apiserver.controllers.leader_election import ElectionTimes, LeaderElector, LeaseLock
from apiserver.controllers.migrated_definitions import MigratedDefinitions
from apiserver.controllers.namespace_default_objects import (
    DefaultObject,
    NamespaceDefaultObjects,
    default_service_account,
    root_ca_config_map,
)
from apiserver.controllers.namespaces import NamespaceController
from apiserver.controllers.policy_type_checking import controller as policy_type_checking
from apiserver.controllers.policy_type_checking.controller import PolicyTypeChecking
from apiserver.controllers.resource_quotas import ResourceQuotaController
from apiserver.controllers.service_account_tokens import IssueToken, ServiceAccountTokens
from apiserver.controllers.service_cidrs import ServiceCidrController
from apiserver.controllers.storage_protection import (
    CLAIMS,
    VOLUMES,
    StorageProtection,
    attributes_classes,
)
from apiserver.controllers.storage_version_migrator import StorageVersionMigrator
from apiserver.controllers.ttl_after_finished import TtlAfterFinished
from apiserver.custom_resources import definitions as definitions_of_custom_resources
from apiserver.meta.vocabulary import GroupResource
from apiserver.metrics.work_queues import MeasuredQueue

COLLECTOR: Final = "garbage-collector-controller"


class PublishedCredentials(NamedTuple):
    """What controllers put into objects, so that programs in a cluster can call this server."""

    tls: ServingTls
    certificates: pki.Pki
    issue_token: IssueToken


class _PublishesCa(Runnable, Protocol):
    """A controller of objects that hold the CA by which clients know this server."""

    def look_again(self) -> None:
        """Write the CA anew: called when it has changed."""
        ...


class _FollowingCa:
    """Runs a controller that looks again when the CA changes. make: gets what returns the present one."""

    def __init__(self, tls: ServingTls, make: Callable[[Callable[[], bytes]], _PublishesCa]) -> None:
        self._tls = tls
        self._current = trusted_ca(tls.content)
        self._controller = make(lambda: self._current)

    @property
    def queue(self) -> MeasuredQueue:
        return self._controller.queue

    async def run(self) -> None:
        """Run it until cancelled. Another one is made each time that the server leads again."""
        unsubscribe = self._tls.subscribe(self._follow)
        try:
            await self._controller.run()
        finally:
            unsubscribe()

    def _follow(self, content: TlsContent) -> None:
        if (changed := trusted_ca(content)) != self._current:
            self._current = changed
            self._controller.look_again()


def build_controllers(
    core: Core,
    lifecycle: NamespaceLifecycle,
    published: PublishedCredentials,
    authorize: Authorizer,
    aggregation: Aggregation,
) -> Iterable[ControllerSpec]:
    """Returns the controllers that are to run, with their names in kube-controller-manager."""
    certificate_group = core.brand.group("certificates")
    requests = CertificateRequests(core.registry, core.served, certificate_group)
    of_requests = (GroupResource(certificate_group, certificate_requests.RESOURCE),)
    registry, served, runs = core.registry, core.served, core.config.api.runs_controller
    networking, metrics = core.brand.group("networking"), core.metrics
    of_classes = attributes_classes(core.brand.group("storage"))
    definitions = GroupResource(core.brand.group("apiextensions"), definitions_of_custom_resources.RESOURCE)
    migrations = GroupResource(
        core.brand.group(storage_version_migrations.GROUP), storage_version_migrations.RESOURCE
    )

    def default_objects(queue: str, default: DefaultObject) -> NamespaceDefaultObjects:
        return NamespaceDefaultObjects(registry, served, lifecycle.check_create, [default], name=queue)

    def root_ca_publisher() -> Runnable:
        return _FollowingCa(
            published.tls,
            lambda ca: default_objects("root_ca_cert_publisher", root_ca_config_map(lambda: ca().decode())),
        )

    def trust_bundle_publisher() -> Runnable:
        return _FollowingCa(
            published.tls,
            lambda ca: ClusterTrustBundlePublisher(
                registry, served, certificate_group, lambda: ca().decode()
            ),
        )

    def token_controller() -> Runnable:
        return _FollowingCa(
            published.tls,
            lambda ca: ServiceAccountTokens(registry, served, published.issue_token, ca),
        )

    def events(component: str) -> EventRecorder:
        return EventRecorder(registry, served, lifecycle.check_create, core.clock, component=component)

    def namespaces() -> Runnable:
        others = RemoteNamespaces(aggregation.remote, aggregation.client, core.offload)
        return NamespaceController(registry, served, core.clock, others)

    def garbage_collector() -> Runnable:
        others = RemoteOwners(aggregation.remote, aggregation.client, core.offload, core.brand)
        builder = GraphBuilder(registry, served, events(COLLECTOR), metrics.garbage_collector, others)
        return GarbageCollector(registry, builder, metrics.work_queues)

    every = (
        ControllerSpec(
            "namespace-controller",
            namespaces,
            leader_only=True,
        ),
        ControllerSpec(
            "serviceaccount-controller",
            lambda: default_objects("serviceaccount", default_service_account()),
        ),
        ControllerSpec(
            "serviceaccount-token-controller",
            token_controller,
        ),
        ControllerSpec(
            "root-ca-certificate-publisher-controller",
            root_ca_publisher,
        ),
        ControllerSpec(
            "kube-apiserver-serving-clustertrustbundle-publisher-controller",
            trust_bundle_publisher,
            leader_only=True,
            needs=(GroupResource(certificate_group, cluster_trust_bundles.RESOURCE),),
        ),
        ControllerSpec(
            "resourcequota-controller",
            lambda: ResourceQuotaController(registry, served, core.brand, core.offload, clock=core.clock),
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
            "volumeattributesclass-protection-controller",
            lambda: StorageProtection(registry, served, of_classes),
            needs=(of_classes.resource,),
            gate="VolumeAttributesClass",
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
        ControllerSpec(
            "certificatesigningrequest-signing-controller",
            lambda: CertificateSigning(
                requests,
                partial(_signing_authority, core.config, published.certificates),
                timedelta(seconds=core.config.api.cluster_signing_duration_s),
                core.clock,
            ),
            leader_only=True,
            needs=of_requests,
        ),
        ControllerSpec(
            "certificatesigningrequest-approving-controller",
            lambda: CertificateApproving(requests, authorize, certificate_group),
            leader_only=True,
            needs=of_requests,
        ),
        ControllerSpec(
            "certificatesigningrequest-cleaner-controller",
            lambda: CertificateCleaning(registry, requests, core.clock),
            leader_only=True,
            needs=of_requests,
        ),
        ControllerSpec(
            "storage-version-migrator-controller",
            lambda: StorageVersionMigrator(
                registry,
                served,
                migrations,
                MigratedDefinitions(registry, served, definitions, core.offload, core.clock),
                core.clock,
                metrics.storage_migrations,
            ),
            leader_only=True,
            needs=(migrations,),
        ),
    )
    return [
        each
        for each in every
        if runs(each.name)
        and (not each.gate or core.config.gates.is_on(each.gate))
        and all(served.hub(need.group, need.resource) for need in each.needs)
    ]


def _signing_authority(config: Config, certificates: pki.Pki) -> Authority:
    """Returns the CA that signs certificate requests, as its files have it now.

    Raises OSError, UnusableAuthority.
    """
    certificate = config.api.cluster_signing_cert_file or certificates.ca_cert
    key = config.api.cluster_signing_key_file or certificates.ca_key
    return Authority.of_pem(read_file(certificate), read_file(key))


def build_controller_manager(
    core: Core,
    lifecycle: NamespaceLifecycle,
    published: PublishedCredentials,
    authorize: Authorizer,
    aggregation: Aggregation,
    others: Iterable[ControllerSpec] = (),
) -> ControllerManager:
    """Returns what runs them, and `others`, which `--controllers` does not name.

    A server with an embedded store has it for itself, and so is the leader.
    """
    config, elector = core.config, None
    controllers = [*build_controllers(core, lifecycle, published, authorize, aggregation), *others]
    if config.elects_leader and any(each.leader_only for each in controllers):
        elector = LeaderElector(
            core.registry,
            core.served,
            core.brand,
            LeaseLock(
                config.leader_election.leader_elect_resource_name, f"{socket.gethostname()}_{uuid.uuid4()}"
            ),
            times=ElectionTimes(
                config.leader_election.leader_elect_lease_duration_s,
                config.leader_election.leader_elect_renew_deadline_s,
                config.leader_election.leader_elect_retry_period_s,
            ),
            clock=core.clock,
        )
        core.metrics.leader_election.add(elector.status)
    return ControllerManager(controllers, core.metrics.work_queues, elector)
