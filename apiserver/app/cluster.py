"""Builds the objects that a server publishes about itself, for other servers on its store and for programs in
the cluster.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.app.background import BackgroundTask
from apiserver.app.core import Core
from apiserver.app.serving.listening import advertised_address, authority, front_proxy_names
from apiserver.app.serving.pki_files import FRONT_PROXY_NAME
from apiserver.app.serving.server_keys import ServerKeys
from apiserver.app.serving.service_account_tokens import ServiceAccountTokens
from apiserver.app.serving.serving_tls import ServingTls, TlsContent
from apiserver.catalogue.core.services.allocation import ServiceAllocator
from apiserver.controllers.authentication_info import AuthenticationInfo, TrustedClients
from apiserver.controllers.event_recorder import EventRecorder
from apiserver.controllers.kubernetes_service import (
    Endpoint,
    KubernetesService,
    KubernetesServiceReconciler,
    usable_endpoint,
)
from apiserver.controllers.replicas import Replica, Replicas, Share
from apiserver.controllers.service_allocations import ServiceAllocationRepair
from apiserver.controllers.service_cidrs import DefaultServiceCidr, ServiceNetworks
from apiserver.endpoints.health import Health
from apiserver.endpoints.openid import JWKS_PATH, OpenId, can_be_discovered
from apiserver.registry.write_request import KUBE_APISERVER

log = logging.getLogger(__name__)


def build_replicas(
    core: Core, accounts: ServiceAccountTokens, tls: ServingTls, share: Share, joined: Callable[[], None]
) -> Replicas | None:
    """Returns the registry of servers on the store; None if it can have no others.

    share, joined: see `Replicas`.
    """
    config = core.config
    if not config.storage.etcd_servers:
        return None
    from apiserver.auth.authn.service_account_keys import key_id

    keys = tuple(map(key_id, accounts.keys.public()))
    own = Replica(
        address=advertised_address(config),
        port=core.serving.port,
        issuer=config.authentication.service_account_issuer[0],
        issuers=config.authentication.service_account_issuer,
        signing_key=keys[0],
        keys=keys,
        **_root_ca(tls),
        release=config.release,
        stores_for=config.release,
    )
    replicas = Replicas(core.store, config.storage.etcd_prefix, own, share, joined=joined)
    tls.subscribe(lambda _: replicas.tell(replace(replicas.own, **_root_ca(tls))))
    return replicas


def _root_ca(tls: ServingTls) -> dict[str, Any]:
    """Returns the fields of a `Replica` that identify the CA of this server."""
    trusted = tls.known.trusted
    return {"root_ca": hashlib.sha256(trusted).hexdigest(), "has_tls_files": trusted != tls.content.own_ca}


def build_kubernetes_service(core: Core, replicas: Replicas | None) -> KubernetesServiceReconciler:
    config = core.config
    network = config.services.service_cluster_ip_range[0]
    own = usable_endpoint(advertised_address(config), core.serving.port)
    if own is None and config.services.keeps_endpoints:
        log.info(
            "not adding an endpoint to the Service kubernetes: other hosts cannot reach the "
            "--advertise-address"
        )

    async def alive() -> Sequence[Endpoint]:
        if replicas is None:
            return [own] if own is not None else []
        records = await replicas.alive()
        found = (usable_endpoint(each.address, each.port) for each in records)
        return [each for each in found if each is not None]

    return KubernetesServiceReconciler(
        core.registry,
        core.served,
        KubernetesService(
            core.brand, network[1], core.serving.port, config.services.kubernetes_service_node_port
        ),
        alive if config.services.keeps_endpoints else None,
    )


def service_tasks(core: Core, health: Health, lifecycle: NamespaceLifecycle) -> Iterator[BackgroundTask]:
    """Yields the tasks that keep the networks of Services, and repair the allocations of Services."""
    cidrs = core.served.hub(core.brand.group("networking"), "servicecidrs")
    services = core.served.find("", "v1", "services")
    allocator = services.strategy.allocator if services is not None else None
    if cidrs is not None:
        if isinstance(allocator, ServiceAllocator):
            networks = ServiceNetworks(core.registry, cidrs, allocator.further)
            yield BackgroundTask("service-networks", networks.run)
        default = DefaultServiceCidr(
            core.registry, cidrs, core.config.services.service_cluster_ip_range, core.clock
        )
        hook = health.add_post_start_hook("start-kubernetes-service-cidr-controller")
        yield BackgroundTask.hooked(hook, default.run, is_upkeep=True)
    events = EventRecorder(
        core.registry,
        core.served,
        lifecycle.check_create,
        core.clock,
        component="ipallocator-repair-controller",
        writer=KUBE_APISERVER,
    )
    repair = ServiceAllocationRepair(
        core.registry,
        core.served,
        core.store,
        events,
        prefix=core.config.storage.etcd_prefix,
        clock=core.clock,
    )
    core.allocations.repair_failures = lambda: repair.failures
    hook = health.add_post_start_hook("start-service-ip-repair-controllers")
    yield BackgroundTask.hooked(hook, repair.run, (repair.queue,), is_upkeep=True)


def authentication_info_task(core: Core, health: Health, keys: ServerKeys, tls: ServingTls) -> BackgroundTask:
    """Returns the task that publishes the CAs and headers by which clients are authenticated here. Raises
    OSError.
    """
    options, names = core.config.authentication, front_proxy_names(core.config)
    own_authority = b""
    if options.proxy_client_cert_file is None and options.requestheader_client_ca_file is not None:
        # It is as this one that this server itself is a front proxy.
        own_authority = b"\n" + keys.certificates.front_proxy_ca_cert.read_bytes()
        names = tuple(dict.fromkeys((*names, FRONT_PROXY_NAME))) if names else ()

    def trusted(content: TlsContent) -> TrustedClients:
        return TrustedClients(
            content.all_client_cas.decode("utf-8", "replace"),
            (content.front_proxy_cas + own_authority).decode("utf-8", "replace"),
            names,
            options.request_header_names,
        )

    info = AuthenticationInfo(
        core.registry, core.served, trusted(tls.content), core.clock, partial(keys.expires_at, "a CA")
    )
    tls.subscribe(lambda content: info.trust(trusted(content)))
    hook = health.add_post_start_hook("start-cluster-authentication-info-controller")
    return BackgroundTask.hooked(hook, info.run, is_upkeep=True)


def build_openid(core: Core, accounts: ServiceAccountTokens) -> OpenId | None:
    """Returns the OpenID discovery documents; None if the issuer of tokens cannot be discovered."""
    config = core.config
    issuer = config.authentication.service_account_issuer[0]
    if not can_be_discovered(issuer):
        log.warning("OpenID discovery is not served: --service-account-issuer %r is not an https URL", issuer)
        return None
    jwks_uri = (
        config.authentication.service_account_jwks_uri
        or f"https://{authority(config, core.serving.port)}/{JWKS_PATH}"
    )
    return OpenId(issuer, jwks_uri, accounts.keys.public)
