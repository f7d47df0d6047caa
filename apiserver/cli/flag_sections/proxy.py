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
        "Addresses to which the server never forwards a request, comma separated, even if they are those of"
        " a Service, pod, node or kubelet. The default is the addresses where clouds provide a machine's "
        "credentials. An IPv6 address that embeds an IPv4 address is treated as both, and an unspecified "
        "address as loopback. If empty, there are none.",
    )
    kubelet_certificate_authority: Path | None = option(
        None,
        PATH,
        "Path to a cert file for the certificate authority of kubelets. If not provided, the server does "
        "not verify their certificates.",
    )
    kubelet_client_certificate: Path | None = option(
        None, PATH, "Path to a client cert file for TLS, with which the server authenticates to kubelets."
    )
    kubelet_client_key: Path | None = option(None, PATH, "Path to a client key file for TLS.")
    kubelet_preferred_address_types: tuple[str, ...] = option(
        (
            "Hostname",
            "InternalDNS",
            "InternalIP",
            "ExternalDNS",
            "ExternalIP",
        ),
        TEXTS,
        "List of the preferred NodeAddressTypes to use for kubelet connections.",
    )


FLAGS: Final = flags_of(ProxyOptions)
