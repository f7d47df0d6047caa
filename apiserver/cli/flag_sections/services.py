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
        "The IP range, in CIDR notation, from which the server assigns cluster IPs to Services. For "
        "dual-stack networking, set two comma-separated ranges, one for each IP family.",
    )
    service_node_port_range: tuple[int, int] = option(
        _NODE_PORTS,
        Kind("portRange", flag_values.port_range),
        "The port range to reserve for Services of type NodePort. The range includes both ends.",
        default="-".join(map(str, _NODE_PORTS)),
    )
    endpoint_reconciler_type: str = option(
        "lease",
        TEXT,
        "The endpoint reconciler for the kubernetes Service. With 'lease', the endpoints are the addresses "
        "of all live servers. With 'none', the server does not maintain the endpoints. 'master-count' has "
        "the same effect as 'lease'.",
        choices=("lease", "master-count", "none"),
    )
    kubernetes_service_node_port: int = option(
        0,
        Kind("int", flag_values.port),
        "If the port is not 0, the kubernetes Service has the type NodePort and uses this port. If the port "
        "is 0, the kubernetes Service has the type ClusterIP.",
    )

    @property
    def keeps_endpoints(self) -> bool:
        """Whether the endpoints of the Service `kubernetes` are this server's business."""
        return self.endpoint_reconciler_type != "none"


FLAGS: Final = flags_of(ServiceOptions)
