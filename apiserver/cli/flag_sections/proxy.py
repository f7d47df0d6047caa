"""The flags of requests that are forwarded to Services, pods, nodes and kubelets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apiserver.cli import flag_values
from apiserver.cli.flag import Kind, flags_of, option
from apiserver.cli.flag_values import PATH, TEXTS
from apiserver.meta.vocabulary import IPNetwork


@dataclass(frozen=True, slots=True, repr=False)
class ProxyOptions:
    """The options of connections to pods, nodes and kubelets."""

    proxy_deny_cidrs: tuple[IPNetwork, ...] = option(
        flag_values.CREDENTIALS_SERVICES,
        Kind("cidrs", flag_values.cidrs),
        "A comma-separated list of address ranges to which the server never forwards requests, even if an "
        "address in these ranges belongs to a Service, pod, node or kubelet. The default ranges contain the "
        "addresses of cloud metadata services, which return the machine's credentials. If an IPv6 address "
        "embeds an IPv4 address, the server checks both addresses. The server treats an unspecified address "
        "(0.0.0.0 or ::) as a loopback address. If the list is empty, the server can connect to any address.",
    )
    kubelet_certificate_authority: Path | None = option(
        None,
        PATH,
        "The path to the CA certificate file for verifying kubelet certificates. If the flag is not set, "
        "the server does not verify kubelet certificates.",
    )
    kubelet_client_certificate: Path | None = option(
        None,
        PATH,
        "The path to a client certificate file. The server uses the certificate to authenticate to kubelets.",
    )
    kubelet_client_key: Path | None = option(
        None, PATH, "The path to the private key file for the certificate in --kubelet-client-certificate."
    )
    kubelet_preferred_address_types: tuple[str, ...] = option(
        (
            "Hostname",
            "InternalDNS",
            "InternalIP",
            "ExternalDNS",
            "ExternalIP",
        ),
        TEXTS,
        "A comma-separated list of node address types for connections to kubelets, in order of preference.",
    )


FLAGS: Final = flags_of(ProxyOptions)
