"""Builds what connects requests to other servers: behind Services, pods and nodes, and to kubelets."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from functools import partial

from apiserver.app.core import Core
from apiserver.cli.config import Config
from apiserver.endpoints.cors import AllowedOrigins
from apiserver.handlers.subresources.connect import Connector
from apiserver.handlers.subresources.kubelets import Kubelets
from apiserver.handlers.subresources.pod_streams import pod_connectors
from apiserver.handlers.subresources.proxy import insecure_context, proxy_connectors
from apiserver.reverse_proxy.forwarder import Forwarder
from apiserver.serving.listening import CannotStart


def build_connectors(core: Core, forwarder: Forwarder, origins: AllowedOrigins) -> Mapping[str, Connector]:
    """Returns what connects, by resource and subresource. origins: of pages that may. Raises CannotStart."""
    config, registry, served, brand = core.config, core.registry, core.served, core.brand
    kubelets = Kubelets(
        _kubelet_context(config, trusts_any=config.kubelet_certificate_authority is None),
        _kubelet_context(config, trusts_any=True),
        config.kubelet_preferred_address_types,
    )
    slices = partial(served.find, brand.group("discovery"), "v1", "endpointslices")
    label = f"{brand.vendor}.io/service-name"
    return {
        **proxy_connectors(registry, forwarder, kubelets, slices, label),
        **pod_connectors(registry, served, forwarder, kubelets, origins),
    }


def _kubelet_context(config: Config, *, trusts_any: bool) -> ssl.SSLContext:
    """Raises CannotStart."""
    try:
        if trusts_any:
            context = insecure_context()
        else:
            context = ssl.create_default_context(cafile=config.kubelet_certificate_authority)
        if config.kubelet_client_certificate is not None:
            context.load_cert_chain(config.kubelet_client_certificate, config.kubelet_client_key)
    except (OSError, ssl.SSLError) as error:
        raise CannotStart(f"the files of --kubelet-… cannot be used: {error}") from None
    return context
