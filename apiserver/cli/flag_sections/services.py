"""The flags of Services: their addresses and ports, and the Service kubernetes."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

from apiserver.cli import flag_values
from apiserver.cli.flag import Kind, flags_of, option
from apiserver.cli.flag_values import TEXT
from apiserver.meta.vocabulary import IPNetwork

_NODE_PORTS: Final = (30_000, 32_767)


@dataclass(frozen=True, slots=True, repr=False)
class ServiceOptions:
    """The options of Services."""

    # One or two networks, of different IP families; the family of the first is the default of Services.
    service_cluster_ip_range: tuple[IPNetwork, ...] = option(
        (ipaddress.ip_network("10.0.0.0/16"),),
        Kind("cidrs", flag_values.networks),
        "A CIDR notation IP range from which to assign service cluster IPs. Max of two dual-stack CIDRs is "
        "allowed, comma separated.",
    )
    service_node_port_range: tuple[int, int] = option(
        _NODE_PORTS,
        Kind("portRange", flag_values.port_range),
        "A port range to reserve for services with NodePort visibility. Inclusive at both ends of the range.",
        default="-".join(map(str, _NODE_PORTS)),
    )
    endpoint_reconciler_type: str = option(
        "lease",
        TEXT,
        "How the endpoints of the Service kubernetes are maintained: as those of all live servers (lease), "
        "or not by the server (none). master-count means lease.",
        choices=("lease", "master-count", "none"),
    )
    kubernetes_service_node_port: int = option(
        0,
        Kind("int", flag_values.port),
        "If not zero, the Service kubernetes is of type NodePort, with this port. If zero, it is of type "
        "ClusterIP.",
    )

    @property
    def keeps_endpoints(self) -> bool:
        """Whether the endpoints of the Service `kubernetes` are this server's business."""
        return self.endpoint_reconciler_type != "none"


FLAGS: Final = flags_of(ServiceOptions)
