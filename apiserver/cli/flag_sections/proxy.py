"""The flags of requests that are forwarded to Services, pods, nodes and kubelets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apiserver.cli import flag_values
from apiserver.cli.flag import Flag
from apiserver.meta.vocabulary import IPNetwork


@dataclass(frozen=True, slots=True, repr=False)
class ProxyOptions:
    """The options of connections to pods, nodes and kubelets."""

    proxy_deny_cidrs: tuple[IPNetwork, ...] = flag_values.CREDENTIALS_SERVICES
    kubelet_certificate_authority: Path | None = None
    kubelet_client_certificate: Path | None = None
    kubelet_client_key: Path | None = None
    kubelet_preferred_address_types: tuple[str, ...] = (
        "Hostname",
        "InternalDNS",
        "InternalIP",
        "ExternalDNS",
        "ExternalIP",
    )


FLAGS: Final[Sequence[Flag]] = (
    Flag(
        "--proxy-deny-cidrs",
        "cidrs",
        flag_values.cidrs,
        "Addresses to which no request is forwarded, comma separated, whatever Service, pod or node has "
        "them: those where clouds hand out a machine's credentials. Kubelets are no exception. An IPv6 "
        "address that embeds an IPv4 address is treated as both, and an unspecified address as loopback. "
        "Empty for none.",
    ),
    Flag(
        "--kubelet-certificate-authority",
        "string",
        Path,
        "Path to a cert file for the certificate authority of kubelets. If not provided, their certificates "
        "are not checked.",
    ),
    Flag(
        "--kubelet-client-certificate",
        "string",
        Path,
        "Path to a client cert file for TLS, by which kubelets know this server.",
    ),
    Flag("--kubelet-client-key", "string", Path, "Path to a client key file for TLS."),
    Flag(
        "--kubelet-preferred-address-types",
        "strings",
        flag_values.texts,
        "List of the preferred NodeAddressTypes to use for kubelet connections.",
    ),
)
