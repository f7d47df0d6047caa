"""Finds the kubelet of a node, and how to connect to it.

Source: k8s.io/kubernetes, pkg/kubelet/client/kubelet_client.go and pkg/util/node.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Final

from apiserver.endpoints.reverse_proxy.in_process import InProcessKubelets
from apiserver.endpoints.reverse_proxy.target import ProxyBackend
from apiserver.meta.errors import ApiError
from apiserver.meta.vocabulary import Document

# Where its node does not say another.
DEFAULT_PORT: Final = 10_250


class NoNodeAddress(ApiError):
    """A node has no address of the configured types; as in kube-apiserver the Status has no reason."""

    code, reason = 500, ""

    def __init__(self, node: Document) -> None:
        known = (node.get("status") or {}).get("addresses") or ()
        told = " ".join(f"{{{each.get('type', '')} {each.get('address', '')}}}" for each in known)
        super().__init__(f"no preferred addresses found; known addresses: [{told}]")


class Kubelets:
    """Connects to kubelets over TLS.

    context: has this server's client certificate, and the CAs of kubelets.
    trusting: the same, but it trusts any certificate.
    address_types: those of node addresses that are used, the preferred first.
    in_process: the simulated kubelets in this process; None if there are none.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        trusting: ssl.SSLContext,
        address_types: Sequence[str],
        in_process: InProcessKubelets | None = None,
    ) -> None:
        self._context, self._trusting = context, trusting
        self._address_types = tuple(address_types)
        self._in_process = in_process

    def use(self, context: ssl.SSLContext, trusting: ssl.SSLContext) -> None:
        """Use new TLS contexts for connections that are made from now on."""
        self._context, self._trusting = context, trusting

    def backend_of(self, node: Document, *, trusts_any: bool = False) -> ProxyBackend:
        """Returns the backend of a node's kubelet. Raises NoNodeAddress."""
        if self._in_process is not None and self._in_process.serves(node):
            return ProxyBackend(node["metadata"]["name"], DEFAULT_PORT, is_in_process=True)
        status = node.get("status") or {}
        endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
        context = self._trusting if trusts_any else self._context
        return ProxyBackend(
            self._host(node), endpoint.get("Port") or DEFAULT_PORT, context, keeps_connections=True
        )

    def _host(self, node: Document) -> str:
        addresses = (node.get("status") or {}).get("addresses") or ()
        labels = node["metadata"].get("labels") or {}
        for wanted in self._address_types:
            for each in addresses:
                if each.get("type") == wanted and each.get("address"):
                    return str(each["address"])
            # Nodes that have no address of this type may have the label.
            if wanted == "Hostname" and (label := labels.get("kubernetes.io/hostname")):
                return str(label)
        raise NoNodeAddress(node)
