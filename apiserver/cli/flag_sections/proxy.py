"""The flags of requests that are forwarded to Services, pods, nodes and kubelets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from apiserver.cli import flag_values
from apiserver.cli.flag import Flag

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
