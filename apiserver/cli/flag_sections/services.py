"""The flags of Services: their addresses and ports, and the Service kubernetes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.cli import flag_values
from apiserver.cli.config import Config
from apiserver.cli.flag import Flag

FLAGS: Final[Sequence[Flag]] = (
    Flag(
        "--service-cluster-ip-range",
        "cidrs",
        flag_values.networks,
        "A CIDR notation IP range from which to assign service cluster IPs. Max of two dual-stack CIDRs is "
        "allowed, comma separated.",
    ),
    Flag(
        "--service-node-port-range",
        "portRange",
        flag_values.port_range,
        "A port range to reserve for services with NodePort visibility. Inclusive at both ends of the range.",
        default="-".join(map(str, Config().service_node_port_range)),
    ),
    Flag(
        "--endpoint-reconciler-type",
        "string",
        str,
        "Which endpoints the Service kubernetes has: those of all servers that are alive (lease), or such as "
        "others give it (none). master-count means lease.",
        choices=("lease", "master-count", "none"),
    ),
    Flag(
        "--kubernetes-service-node-port",
        "int",
        flag_values.port,
        "If not zero, the Service kubernetes is of type NodePort, with this port. If zero, it is of type "
        "ClusterIP.",
    ),
)
