"""Builds the connections to other servers: behind Services, pods and nodes, and to kubelets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from apiserver.app.core import Core
from apiserver.app.serving.listening import CannotStart
from apiserver.app.serving.serving_tls import expires_at
from apiserver.app.serving.watched_files import WatchedFiles, read_file
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.cli.config import Config
from apiserver.endpoints.handlers.subresources.connect import Connector
from apiserver.endpoints.handlers.subresources.kubelets import Kubelets
from apiserver.endpoints.handlers.subresources.pod_streams import for_creators, pod_connectors
from apiserver.endpoints.handlers.subresources.proxy import insecure_context, proxy_connectors
from apiserver.endpoints.reverse_proxy.forwarder import Forwarder
from apiserver.webhooks.tls import load_certificate, unverified_context


class Connectors(NamedTuple):
    """The connectors by resource and subresource, and the watchers of the files that kubelets are shown.

    expirations: when the certificates in them expire, in seconds since 1970, by flag.
    """

    by_name: Mapping[str, Connector]
    watched: Sequence[WatchedFiles]
    expirations: Mapping[str, float]


def build_connectors(core: Core, forwarder: Forwarder, authorize: AuthorizationChain) -> Connectors:
    """Build the connectors to Services, pods, nodes and kubelets. Raises CannotStart."""
    config, registry, served, brand = core.config, core.registry, core.served, core.brand
    files = _KubeletFiles(config)
    try:
        contents = [read_file(path) for path in files.paths]
        types, in_process = config.proxy.kubelet_preferred_address_types, forwarder.backends.in_process
        kubelets = Kubelets(*files.contexts(contents), types, in_process)
        expirations = files.expirations(contents)
    except (OSError, ValueError) as error:
        raise CannotStart(f"the files in the --kubelet-* flags cannot be used: {error}") from None

    async def apply(contents: Sequence[bytes]) -> None:
        contexts = await asyncio.to_thread(files.contexts, contents)
        expirations.update(await asyncio.to_thread(files.expirations, contents))
        kubelets.use(*contexts)

    watched = []
    if files.paths:
        count = core.metrics.certificates.count_reload
        watched.append(WatchedFiles("certificates for kubelets", files.paths, contents, apply, observe=count))
    slices = partial(served.hub, brand.group("discovery"), "endpointslices")
    label = f"{brand.vendor}.io/service-name"
    streams = pod_connectors(
        registry,
        served,
        forwarder,
        kubelets,
        core.origins,
        splits_log_streams=config.gates.is_on("PodLogsQuerySplitStreams"),
    )
    if config.gates.is_on("AuthorizePodWebsocketUpgradeCreatePermission"):
        streams = for_creators(authorize, streams)
    endpoints = partial(served.hub, "", "endpoints")
    proxies = proxy_connectors(registry, forwarder, kubelets, slices, endpoints, label)
    return Connectors({**proxies, **streams}, watched, expirations)


class _KubeletFiles:
    """The files by which this server and kubelets know each other."""

    def __init__(self, config: Config) -> None:
        named = {
            "ca": config.proxy.kubelet_certificate_authority,
            "certificate": config.proxy.kubelet_client_certificate,
            "key": config.proxy.kubelet_client_key,
        }
        self._paths = {name: path for name, path in named.items() if path is not None}

    @property
    def paths(self) -> Sequence[Path]:
        return tuple(self._paths.values())

    def expirations(self, contents: Sequence[bytes]) -> dict[str, float]:
        """Returns when the certificates expire, in seconds since 1970, by flag. Raises ValueError."""
        flags = {"ca": "--kubelet-certificate-authority", "certificate": "--kubelet-client-certificate"}
        pem = dict(zip(self._paths, contents, strict=True))
        return {flag: expires_at(flag, pem[name]) for name, flag in flags.items() if name in pem}

    def contexts(self, contents: Sequence[bytes]) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """Returns the TLS context for kubelets, and the one that trusts any certificate of theirs.

        contents: of the files. Raises OSError, ValueError.
        """
        pem = dict(zip(self._paths, contents, strict=True))
        if not pem:
            return insecure_context(), insecure_context()
        trusting, context = unverified_context(), unverified_context()
        if "ca" in pem:
            context = ssl.create_default_context(cadata=pem["ca"].decode("ascii", "replace"))
        if "certificate" in pem:
            for each in (context, trusting):
                load_certificate(each, pem["certificate"], pem["key"])
        return context, trusting
