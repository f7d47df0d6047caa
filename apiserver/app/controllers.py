"""Builds the controllers that run in the server, as `--controllers` selects them."""

from __future__ import annotations

import logging
import socket
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.app.access import Access
from apiserver.app.aggregation import Aggregation
from apiserver.app.core import Core
from apiserver.app.serving.pki_files import Pki
from apiserver.app.serving.serving_tls import ServingTls, TlsContent
from apiserver.app.serving.watched_files import read_file
from apiserver.catalogue.certificates import cluster_trust_bundles
from apiserver.catalogue.storagemigration import storage_version_migrations
from apiserver.cli import flag_values
from apiserver.cli.flag_sections.api import ApiOptions
from apiserver.controller_runtime.controller import Runnable
from apiserver.controllers import ttl_after_finished
from apiserver.controllers.certificate_requests import requests as certificate_requests
from apiserver.controllers.certificate_requests.approving import CertificateApproving
from apiserver.controllers.certificate_requests.cleaning import CertificateCleaning
from apiserver.controllers.certificate_requests.requests import CertificateRequests
from apiserver.controllers.certificate_requests.signing import CertificateSigning
from apiserver.controllers.cluster_role_aggregation import ClusterRoleAggregation
from apiserver.controllers.cluster_trust_bundles import ClusterTrustBundlePublisher
from apiserver.controllers.controller_manager import ControllerManager, ControllerSpec
from apiserver.controllers.disruption import controller as disruption
from apiserver.controllers.disruption.controller import DisruptionController
from apiserver.controllers.disruption.stale_conditions import StaleDisruptionConditions
from apiserver.controllers.event_recorder import EventRecorder
from apiserver.controllers.garbage_collector.controller import GarbageCollector
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
from apiserver.controllers.service_account_tokens import ServiceAccountTokens
from apiserver.controllers.service_cidrs import ServiceCidrController
from apiserver.controllers.storage_protection import CLAIMS, VOLUMES, StorageProtection, attributes_classes
from apiserver.controllers.storage_version_migrator import StorageVersionMigrator
from apiserver.controllers.ttl_after_finished import TtlAfterFinished
from apiserver.custom_resources import definitions as definitions_of_custom_resources
from apiserver.endpoints.aggregation.namespaces import RemoteNamespaces
from apiserver.endpoints.aggregation.owners import RemoteOwners
from apiserver.meta.vocabulary import GroupResource
from apiserver.metrics.work_queues import MeasuredQueue

if TYPE_CHECKING:
    from apiserver.controllers.certificate_requests.issuing import Authority

log = logging.getLogger(__name__)

COLLECTOR: Final = "garbage-collector-controller"


class PublishedCa(NamedTuple):
    """The CA by which clients verify this server, and the CA that signs certificates."""

    tls: ServingTls
    certificates: Pki


class _PublishesCa(Runnable, Protocol):
    """A controller of objects that hold the CA by which clients verify this server."""

    def look_again(self) -> None:
        """Write the CA again: called when it has changed."""
        ...


class _FollowingCa:
    """Runs a controller that reconciles again when the CA changes. make: gets a function that returns the
    current CA.
    """

    def __init__(self, tls: ServingTls, make: Callable[[Callable[[], bytes]], _PublishesCa]) -> None:
        self._tls = tls
        self._current = tls.known.trusted
        self._controller = make(lambda: self._current)

    @property
    def queue(self) -> MeasuredQueue:
        return self._controller.queue

    async def run(self) -> None:
        """Run the controller until cancelled. A new one is made each time that the server becomes the
        leader.
        """
        unsubscribe = self._tls.subscribe(self._follow)
        try:
            await self._controller.run()
        finally:
            unsubscribe()

    def _follow(self, _: TlsContent) -> None:
        if (changed := self._tls.known.trusted) != self._current:
            self._current = changed
            self._controller.look_again()


class ControllerContext:
    """The collaborators that controllers are built from."""

    def __init__(
        self,
        core: Core,
        lifecycle: NamespaceLifecycle,
        access: Access,
        aggregation: Aggregation,
        ca: PublishedCa,
    ) -> None:
        self.core, self.lifecycle, self.access, self.aggregation = core, lifecycle, access, aggregation
        self.ca = ca
        self.registry, self.served, self.brand, self.clock = (
            core.registry,
            core.served,
            core.brand,
            core.clock,
        )
        self.requests = CertificateRequests(core.registry, core.served, core.brand.group(_CERTIFICATES))

    def events(self, component: str) -> EventRecorder:
        return EventRecorder(
            self.registry, self.served, self.lifecycle.check_create, self.clock, component=component
        )

    def default_objects(self, queue: str, default: DefaultObject) -> NamespaceDefaultObjects:
        check_create = self.lifecycle.check_create
        return NamespaceDefaultObjects(self.registry, self.served, check_create, [default], name=queue)

    def following_ca(self, make: Callable[[Callable[[], bytes]], _PublishesCa]) -> Runnable:
        """Returns a controller of objects that hold the CA. make: gets a function that returns the current
        CA.
        """
        return _FollowingCa(self.ca.tls, make)


class _ControllerDescriptor(NamedTuple):
    """Describes a controller by its name in kube-controller-manager.

    needs: the resources that must be served in version v1, by the group without its domain. gate: that must
    be on; empty if there is none.
    """

    name: str
    build: Callable[[ControllerContext], Runnable]
    leader_only: bool = True
    needs: Sequence[GroupResource] = ()
    gate: str = ""

    def is_served(self, core: Core) -> bool:
        """Returns whether the resources that the controller needs are served."""
        hub, group = core.served.hub, core.brand.group
        return all(
            hub(each.group if each.group in _WITHOUT_DOMAIN else group(each.group), each.resource)
            for each in self.needs
        )


def _root_ca_publisher(of: ControllerContext) -> Runnable:
    return of.following_ca(
        lambda ca: of.default_objects("root_ca_cert_publisher", root_ca_config_map(lambda: ca().decode()))
    )


def _trust_bundle_publisher(of: ControllerContext) -> Runnable:
    group = of.brand.group(_CERTIFICATES)
    return of.following_ca(
        lambda ca: ClusterTrustBundlePublisher(of.registry, of.served, group, lambda: ca().decode())
    )


def _service_account_tokens(of: ControllerContext) -> Runnable:
    issue = of.access.accounts.issuer.issue_legacy
    return of.following_ca(lambda ca: ServiceAccountTokens(of.registry, of.served, issue, ca))


def _namespaces(of: ControllerContext) -> Runnable:
    others = RemoteNamespaces(of.aggregation.remote, of.aggregation.client, of.core.offload)
    return NamespaceController(of.registry, of.served, of.clock, others)


def _garbage_collector(of: ControllerContext) -> Runnable:
    metrics = of.core.metrics
    others = RemoteOwners(of.aggregation.remote, of.aggregation.client, of.core.offload, of.brand)
    events = of.events(COLLECTOR)
    builder = GraphBuilder(of.registry, of.served, events, metrics.garbage_collector, others)
    return GarbageCollector(of.registry, builder, metrics.work_queues)


def _certificate_signing(of: ControllerContext) -> Runnable:
    return CertificateSigning(
        of.requests,
        partial(_signing_authority, of.core.config.api, of.ca.certificates),
        timedelta(seconds=of.core.config.api.cluster_signing_duration_s),
        of.clock,
    )


def _storage_version_migrator(of: ControllerContext) -> Runnable:
    definitions = GroupResource(of.brand.group("apiextensions"), definitions_of_custom_resources.RESOURCE)
    return StorageVersionMigrator(
        of.registry,
        of.served,
        GroupResource(of.brand.group(_MIGRATIONS.group), _MIGRATIONS.resource),
        MigratedDefinitions(of.registry, of.served, definitions, of.core.offload, of.clock),
        of.clock,
        of.core.metrics.storage_migrations,
    )


_CERTIFICATES: Final = "certificates"
_REQUESTS: Final = GroupResource(_CERTIFICATES, certificate_requests.RESOURCE)
_MIGRATIONS: Final = GroupResource(storage_version_migrations.GROUP, storage_version_migrations.RESOURCE)
# Groups whose name has no domain.
_WITHOUT_DOMAIN: Final = frozenset({disruption.GROUP, ttl_after_finished.GROUP})
_CONTROLLERS: Final = (
    _ControllerDescriptor("namespace-controller", _namespaces),
    _ControllerDescriptor(
        "serviceaccount-controller",
        lambda of: of.default_objects("serviceaccount", default_service_account()),
        leader_only=False,
    ),
    _ControllerDescriptor("serviceaccount-token-controller", _service_account_tokens, leader_only=False),
    _ControllerDescriptor("root-ca-certificate-publisher-controller", _root_ca_publisher, leader_only=False),
    _ControllerDescriptor(
        "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        _trust_bundle_publisher,
        needs=[GroupResource(_CERTIFICATES, cluster_trust_bundles.RESOURCE)],
    ),
    _ControllerDescriptor(
        "resourcequota-controller",
        lambda of: ResourceQuotaController(of.registry, of.served, of.brand, of.core.offload, clock=of.clock),
    ),
    _ControllerDescriptor(
        "disruption-controller",
        lambda of: DisruptionController(of.registry, of.served, of.events("controllermanager"), of.clock),
        needs=[GroupResource(disruption.GROUP, disruption.RESOURCE)],
    ),
    _ControllerDescriptor(
        "disruption-controller", lambda of: StaleDisruptionConditions(of.registry, of.served, of.clock)
    ),
    _ControllerDescriptor(
        "ttl-after-finished-controller",
        lambda of: TtlAfterFinished(of.registry, of.served, of.clock),
        needs=[GroupResource(ttl_after_finished.GROUP, ttl_after_finished.RESOURCE)],
    ),
    _ControllerDescriptor(
        "service-cidr-controller",
        lambda of: ServiceCidrController(of.registry, of.served, of.brand, of.clock),
        needs=[GroupResource("networking", each) for each in ("servicecidrs", "ipaddresses")],
    ),
    _ControllerDescriptor(
        "persistentvolumeclaim-protection-controller",
        lambda of: StorageProtection(of.registry, of.served, CLAIMS),
        leader_only=False,
    ),
    _ControllerDescriptor(
        "persistentvolume-protection-controller",
        lambda of: StorageProtection(of.registry, of.served, VOLUMES),
        leader_only=False,
    ),
    _ControllerDescriptor(
        "volumeattributesclass-protection-controller",
        lambda of: StorageProtection(of.registry, of.served, attributes_classes(of.brand.group("storage"))),
        leader_only=False,
        needs=[attributes_classes("storage").resource],
        gate="VolumeAttributesClass",
    ),
    _ControllerDescriptor(
        "clusterrole-aggregation-controller",
        lambda of: ClusterRoleAggregation(of.registry, of.served, of.brand),
        leader_only=False,
    ),
    _ControllerDescriptor(
        "validatingadmissionpolicy-status-controller",
        lambda of: PolicyTypeChecking(of.registry, of.served, of.brand, of.core.offload),
        needs=[GroupResource(policy_type_checking.GROUP, policy_type_checking.RESOURCE)],
    ),
    _ControllerDescriptor(COLLECTOR, _garbage_collector),
    _ControllerDescriptor(
        "certificatesigningrequest-signing-controller", _certificate_signing, needs=[_REQUESTS]
    ),
    _ControllerDescriptor(
        "certificatesigningrequest-approving-controller",
        lambda of: CertificateApproving(
            of.requests, of.access.authorizers.chain, of.brand.group(_CERTIFICATES)
        ),
        needs=[_REQUESTS],
    ),
    _ControllerDescriptor(
        "certificatesigningrequest-cleaner-controller",
        lambda of: CertificateCleaning(of.registry, of.requests, of.clock),
        needs=[_REQUESTS],
    ),
    _ControllerDescriptor(
        "storage-version-migrator-controller", _storage_version_migrator, needs=[_MIGRATIONS]
    ),
)


def build_controllers(context: ControllerContext) -> Iterator[ControllerSpec]:
    """Yields the controllers to run, with their names in kube-controller-manager."""
    core, config = context.core, context.core.config
    excluded = flag_values.OFF_WITH_ADOPT if config.shares_with_kube_apiserver else ()
    for each in _CONTROLLERS:
        is_on = (not each.gate or config.gates.is_on(each.gate)) and each.name not in excluded
        if config.api.runs_controller(each.name) and is_on and each.is_served(core):
            yield ControllerSpec(each.name, partial(each.build, context), each.leader_only)


def _signing_authority(options: ApiOptions, certificates: Pki) -> Authority:
    """Returns the CA that signs certificate requests, read from its files.

    Raises OSError, UnusableAuthority.
    """
    from apiserver.controllers.certificate_requests.issuing import Authority

    certificate = options.cluster_signing_cert_file or certificates.ca_cert
    key = options.cluster_signing_key_file or certificates.ca_key
    return Authority.of_pem(read_file(certificate), read_file(key))


def build_controller_manager(
    context: ControllerContext, others: Iterable[ControllerSpec] = ()
) -> ControllerManager:
    """Returns the manager that runs controllers, and `others`, which `--controllers` does not name.

    A server with an embedded store is its only user, and so always the leader.
    """
    core, config, elector = context.core, context.core.config, None
    controllers = [*build_controllers(context), *others]
    if config.shares_with_kube_apiserver:
        log.warning(
            "--adopt: the garbage collector, the namespace controller, and the registration and conditions "
            "of APIServices are disabled, because they would change or delete objects of the kube-apiserver"
        )
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
