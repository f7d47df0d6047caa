"""The flags of Services: their addresses and ports, and the Service kubernetes."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from apiserver.cli import flag_values
from apiserver.cli.flag import Flag
from apiserver.meta.vocabulary import IPNetwork


@dataclass(frozen=True, slots=True, repr=False)
class ServiceOptions:
    """The options of Services."""

    endpoint_reconciler_type: str = "lease"
    kubernetes_service_node_port: int = 0
    # One or two networks, of different IP families; the family of the first is the default of Services.
    service_cluster_ip_range: tuple[IPNetwork, ...] = (ipaddress.ip_network("10.0.0.0/16"),)
    service_node_port_range: tuple[int, int] = (30_000, 32_767)

    @property
    def keeps_endpoints(self) -> bool:
        """Whether the endpoints of the Service `kubernetes` are this server's business."""
        return self.endpoint_reconciler_type != "none"


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
        default="-".join(map(str, ServiceOptions().service_node_port_range)),
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
