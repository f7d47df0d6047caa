"""Builds the parts of a server that are made for one run, beside its core, and connects them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.admission.plugin_names import AUTO_PROVISION
from apiserver.app.access import Access, build_access
from apiserver.app.aggregation import Aggregation, build_registration
from apiserver.app.authentication import Authentication, ForeignTokens
from apiserver.app.authorization import (
    build_authorization_recheck,
    build_authorization_reload,
    build_authorizers,
)
from apiserver.app.cluster import (
    build_authentication_info,
    build_default_service_cidr,
    build_kubernetes_service,
    build_openid,
    build_replicas,
    build_service_allocations,
    build_service_networks,
)
from apiserver.app.connectors import build_connectors
from apiserver.app.controllers import PublishedCredentials, build_controller_manager
from apiserver.app.core import Core
from apiserver.app.custom_resources import build_definitions
from apiserver.app.encryption import EncryptionAtRest
from apiserver.app.exposition import build_exposition
from apiserver.app.flow_control import (
    build_fairness,
    build_flow_control_configuration,
    build_flow_control_objects,
)
from apiserver.app.handlers import build_admission, build_handlers
from apiserver.app.http_server import RequestLimits, build_endpoints, build_http_server, build_routes
from apiserver.app.outbound import Outbound
from apiserver.app.release_sharing import ReleaseSharing
from apiserver.app.serving import pki
from apiserver.app.serving.certificate_keeper import CertificateKeeper
from apiserver.app.serving.listening import AdminKubeconfig, renew_certificates
from apiserver.app.serving.serving_tls import ServingTls
from apiserver.app.serving.watched_files import WatchedFiles
from apiserver.catalogue.rbac.roles import GROUP as RBAC_GROUP
from apiserver.controllers import flow_control_configuration, flow_control_objects
from apiserver.controllers.api_service_registration import ApiServiceRegistration
from apiserver.controllers.authentication_info import AuthenticationInfo
from apiserver.controllers.bootstrap import BootstrapHook, bootstrap_hooks
from apiserver.controllers.controller_manager import ControllerManager
from apiserver.controllers.flow_control_configuration import FlowControlConfiguration
from apiserver.controllers.flow_control_objects import FlowControlObjects
from apiserver.controllers.kubernetes_service import KubernetesServiceReconciler
from apiserver.controllers.node_graph import NodeGraphInformer
from apiserver.controllers.rbac_bootstrap import RbacBootstrapHook, rbac_bootstrap_hooks
from apiserver.controllers.rbac_policy import RbacPolicyInformer
from apiserver.controllers.replicas import Replicas
from apiserver.controllers.service_allocations import ServiceAllocationRepair
from apiserver.controllers.service_cidrs import DefaultServiceCidr, ServiceNetworks
from apiserver.custom_resources.serving.definition_controller import DefinitionController
from apiserver.endpoints.authorization_recheck import AuthorizationRecheck
from apiserver.endpoints.body_limits import BodyLimits
from apiserver.endpoints.connection import Server
from apiserver.endpoints.handlers.extension_servers import forward_handler
from apiserver.endpoints.health import Health, PostStartHook
from apiserver.endpoints.middleware import Deadlines
from apiserver.endpoints.priority_and_fairness import Fairness
from apiserver.endpoints.reverse_proxy.forwarder import Forwarder
from apiserver.endpoints.routes import AggregatedVersions
from apiserver.metrics.storage_size import StorageSizeMetric

_FlowControl: TypeAlias = tuple[
    tuple[PostStartHook, FlowControlObjects] | None, tuple[PostStartHook, FlowControlConfiguration] | None
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Parts:
    """The parts of a server that are built for one run, beside its core.

    hooks: the post-start hooks that must be done before the server is ready, and what each runs.
    default_service_cidr, kubernetes_service, authentication_info: objects that are kept as they should be,
        each with its hook.
    service_allocations: repairs what Services have been given, with its hook.
    flow_control_objects: keeps the FlowSchemas and priority levels that every server has, with its hook, if
        they are served.
    flow_control_configuration: tells fairness of all there are, with its hook.
    service_networks: tells of the networks that Services get addresses from, if these are objects.
    rbac_informer, node_informer: keep up to date what the authorizers RBAC and Node know, if there are such.
    authorization_reload: replaces authorizers when their file changes, if they come from one.
    authorization_recheck: ends watches whose users have lost the right to them, unless that is switched off.
    replicas: the other servers on the store, if it can have others.
    registration: keeps the APIServices of what is served here, if they are served.
    definitions: serves what they define; its hook is done when all stored ones are served.
    encryption: None if nothing is encrypted.
    """

    core: Core
    health: Health
    hooks: Sequence[tuple[PostStartHook, BootstrapHook | RbacBootstrapHook]]
    default_service_cidr: tuple[PostStartHook, DefaultServiceCidr] | None
    kubernetes_service: tuple[PostStartHook, KubernetesServiceReconciler]
    authentication_info: tuple[PostStartHook, AuthenticationInfo]
    service_allocations: tuple[PostStartHook, ServiceAllocationRepair]
    flow_control_objects: tuple[PostStartHook, FlowControlObjects] | None
    flow_control_configuration: tuple[PostStartHook, FlowControlConfiguration] | None
    service_networks: ServiceNetworks | None
    rbac_informer: RbacPolicyInformer | None
    node_informer: NodeGraphInformer | None
    authorization_reload: WatchedFiles | None
    authentication: Authentication
    authorization_recheck: AuthorizationRecheck | None
    replicas: Replicas | None
    registration: ApiServiceRegistration | None
    aggregation: Aggregation
    informers: PostStartHook
    definitions: tuple[PostStartHook, DefinitionController]
    controllers: ControllerManager
    limits: RequestLimits
    storage_size: StorageSizeMetric
    http_server: Server
    forwarder: Forwarder
    watched_files: Sequence[WatchedFiles]
    certificate_keeper: CertificateKeeper
    kubeconfig: AdminKubeconfig
    encryption: EncryptionAtRest | None


def build_parts(
    core: Core,
    health: Health,
    outbound: Outbound,
    certificates: pki.Pki,
    tls: ServingTls,
    encryption: EncryptionAtRest | None,
) -> Parts:
    """Build all parts of a server around its core. Raises CannotStart."""
    config, brand, registry, metrics = core.config, core.brand, core.registry, core.metrics
    aggregation, audit, caller_with = outbound.aggregation, outbound.audit, outbound.caller_with
    informers_hook = health.add_post_start_hook("generic-apiserver-start-informers")
    definitions_hook = health.add_post_start_hook("crd-informer-synced")
    table = core.served.current
    bootstrap: list[BootstrapHook | RbacBootstrapHook] = [
        *bootstrap_hooks(table, brand),
        *rbac_bootstrap_hooks(table, brand, config.gates.is_on),
    ]
    hooks = [(health.add_post_start_hook(each.name), each) for each in bootstrap]
    fairness = build_fairness(core)
    kept_flow_control, followed_flow_control = _flow_control(core, health, fairness)
    service_cidr = None
    if (default_cidr := build_default_service_cidr(core)) is not None:
        cidr_hook = health.add_post_start_hook("start-kubernetes-service-cidr-controller")
        service_cidr = (cidr_hook, default_cidr)
    service_hook = health.add_post_start_hook("bootstrap-controller")
    authentication_hook = health.add_post_start_hook("start-cluster-authentication-info-controller")
    repair_hook = health.add_post_start_hook("start-service-ip-repair-controllers")

    rbac_hooks = [hook for hook, each in hooks if isinstance(each, RbacBootstrapHook)]
    authorizers = build_authorizers(
        core, lambda: all(hook.is_done for hook in rbac_hooks), caller_with, metrics.authorization
    )
    foreign = ForeignTokens(outbound.fetcher, caller_with, metrics.authentication)
    access = build_access(core, certificates, tls, foreign, authorizers)
    rbac_informer, node_informer = _authorization_informers(core, access)
    namespaces = table.find("", "v1", "namespaces")
    assert namespaces is not None
    lifecycle = NamespaceLifecycle(
        registry, namespaces, provisions=config.admission.runs_admission_plugin(AUTO_PROVISION)
    )
    admission = build_admission(core, access.authorizers, caller_with)
    definitions = build_definitions(core, outbound.webhooks)
    replicas = build_replicas(core, access.accounts, tls, ReleaseSharing(core, definitions).share)
    connectors = build_connectors(core, outbound.forwarder, access.authorizers.chain)
    storage_size = StorageSizeMetric(
        "etcd-0" if config.storage.etcd_servers else "embedded",
        core.store.size_bytes,
        config.storage.etcd_db_metric_poll_interval_s,
    )
    endpoints = build_endpoints(
        core,
        aggregation.remote,
        health,
        build_openid(core, access.accounts),
        build_exposition(core, storage_size, aggregation.metrics, fairness),
        fairness,
    )
    routes = build_routes(
        core,
        build_handlers(core, access, lifecycle, admission, connectors.by_name),
        endpoints,
        AggregatedVersions(
            aggregation.remote,
            forward_handler(aggregation.remote, aggregation.client, outbound.forwarder),
        ),
        lambda: definitions_hook.is_done and aggregation.is_complete,
    )
    limits = RequestLimits(
        Deadlines(config.serving.request_timeout_s, core.loop, core.metrics.calls),
        BodyLimits(core.loop),
        fairness,
    )
    kubeconfig = AdminKubeconfig(config, core.serving.port, certificates)
    metrics.certificates.expirations = lambda: {
        **tls.expirations,
        **aggregation.expirations,
        **connectors.expirations,
    }

    def keep_own_files() -> bool:
        has_renewed = renew_certificates(config)
        kubeconfig.write(tls.content)
        return has_renewed

    return Parts(
        core=core,
        health=health,
        hooks=hooks,
        default_service_cidr=service_cidr,
        kubernetes_service=(service_hook, build_kubernetes_service(core, replicas)),
        authentication_info=(authentication_hook, build_authentication_info(core, certificates, tls)),
        service_allocations=(repair_hook, build_service_allocations(core, lifecycle)),
        flow_control_objects=kept_flow_control,
        flow_control_configuration=followed_flow_control,
        service_networks=build_service_networks(core),
        rbac_informer=rbac_informer,
        node_informer=node_informer,
        authorization_reload=build_authorization_reload(
            core, authorizers, caller_with, metrics.authorization
        ),
        authentication=access.authentication,
        authorization_recheck=build_authorization_recheck(core, authorizers),
        replicas=replicas,
        registration=build_registration(core),
        aggregation=aggregation,
        informers=informers_hook,
        definitions=(definitions_hook, definitions),
        controllers=build_controller_manager(
            core,
            lifecycle,
            PublishedCredentials(tls, certificates, access.accounts.issuer.issue_legacy),
            access.authorizers.chain,
            aggregation,
            core.hooks.controllers(core, lifecycle, admission),
        ),
        limits=limits,
        storage_size=storage_size,
        http_server=build_http_server(
            core, access, routes, limits, None if audit is None else audit.auditor, encryption
        ),
        forwarder=outbound.forwarder,
        watched_files=(
            *tls.watched(metrics.certificates.count_reload),
            aggregation.watched,
            *connectors.watched,
        ),
        certificate_keeper=CertificateKeeper(keep_own_files, metrics.certificates.expirations),
        kubeconfig=kubeconfig,
        encryption=encryption,
    )


def _flow_control(core: Core, health: Health, fairness: Fairness | None) -> _FlowControl:
    """Returns what keeps the objects of flow control, and what tells fairness of them, with their hooks."""
    objects = build_flow_control_objects(core)
    if objects is None:
        return None, None
    producer_hook = health.add_post_start_hook(flow_control_objects.HOOK)
    kept = (producer_hook, objects)
    if fairness is None:
        return kept, None
    configuration = build_flow_control_configuration(core, fairness, lambda: producer_hook.is_done)
    if configuration is None:
        return kept, None
    return kept, (health.add_post_start_hook(flow_control_configuration.HOOK), configuration)


def _authorization_informers(
    core: Core, access: Access
) -> tuple[RbacPolicyInformer | None, NodeGraphInformer | None]:
    """Returns what the authorizers RBAC and Node need, if there are such."""
    table, brand, rbac, node = core.served.current, core.brand, None, None
    if (policy := access.authorizers.rbac_policy) is not None:
        rbac = RbacPolicyInformer(core.registry, table, brand.group(RBAC_GROUP), policy)
    if (graph := access.authorizers.node_graph) is not None:
        node = NodeGraphInformer(core.registry, table, brand, graph, core.metrics.node_graph)
    return rbac, node
