"""The objects of simulated nodes: Nodes, their Leases, and the addresses of pods on them. Pure."""

from __future__ import annotations

import ipaddress
import zlib
from typing import Final

from apiserver.meta import timestamps
from apiserver.meta.conditions import find_condition
from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.stages import NODE_ANNOTATION

NAME_PREFIX: Final = "simulated-"
# Beyond that, the scheduler would look at too many nodes for each pod.
NODES_MAX: Final = 1_000
LEASE_NAMESPACE: Final = "kube-node-lease"
# A kubelet's; it renews four times as often as it has to, this one twice.
LEASE_DURATION_S: Final = 40
HEARTBEAT_S: Final = 20.0
# A kubelet's --max-pods.
_PODS: Final = "110"
_CAPACITY: Final = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "1Ti", "pods": _PODS}
# Outside of the default network of Services. Each node has 254 addresses, more than pods.
_NODE_NETWORK: Final = ipaddress.IPv4Network("172.18.0.0/16")
_PLACES_OF_OTHERS: Final = 30_000
_POD_NETWORK: Final = ipaddress.IPv4Network("10.128.0.0/9")
_HEALTHY: Final = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def node_names(count: int) -> list[str]:
    return [f"{NAME_PREFIX}{number}" for number in range(count)]


def number_of(name: str) -> int | None:
    """Returns the number in the name of a node from `node_names`; None for other names."""
    digits = name.removeprefix(NAME_PREFIX)
    is_ours = name.startswith(NAME_PREFIX) and digits.isascii() and digits.isdigit() and len(digits) < 5
    return int(digits) if is_ours and str(int(digits)) == digits else None


def place_of(name: str) -> int:
    """Returns the number that determines the addresses of a node: its own, or one after all of those.

    Nodes with other names may share a number; their pods have different addresses nevertheless.
    """
    number = number_of(name)
    return number if number is not None else NODES_MAX + zlib.crc32(name.encode()) % _PLACES_OF_OTHERS


def is_simulated(node: Document) -> bool:
    return (node["metadata"].get("annotations") or {}).get(NODE_ANNOTATION) == "true"


def pod_network(place: int) -> ipaddress.IPv4Network:
    """Returns the network of the pods on the node with a number (`place_of`)."""
    return ipaddress.IPv4Network((int(_POD_NETWORK.network_address) + (place << 8), 24))


def new_node(name: str) -> Document:
    network = str(pod_network(place_of(name)))
    return {
        "metadata": {
            "name": name,
            "annotations": {NODE_ANNOTATION: "true", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "beta.kubernetes.io/arch": "amd64",
                "node.kubernetes.io/instance-type": "simulated",
            },
        },
        "spec": {"podCIDR": network, "podCIDRs": [network], "providerID": f"simulated://{name}"},
    }


def host_ip(place: int) -> str:
    """Returns the address of the node with a number."""
    return str(_NODE_NETWORK.network_address + place + 1)


def ready_status(node: Document, version: str, now: float) -> Document:
    """Returns the status that a node should have; its current status, if that is equal.

    version: that of the kubelet, as `v1.36.0`. now: seconds since 1970.
    """
    status = dict(node.get("status") or {})
    capacity = dict(status.get("capacity") or _CAPACITY)
    return {
        **status,
        "capacity": capacity,
        "allocatable": dict(status.get("allocatable") or capacity),
        "addresses": status.get("addresses")
        or [
            {"type": "InternalIP", "address": host_ip(place_of(node["metadata"]["name"]))},
            {"type": "Hostname", "address": node["metadata"]["name"]},
        ],
        "conditions": _conditions(node, timestamps.to_text(now)),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        "nodeInfo": status.get("nodeInfo")
        if (status.get("nodeInfo") or {}).get("kubeletVersion")
        else _node_info(node["metadata"]["name"], version),
    }


def _node_info(name: str, version: str) -> Document:
    return {
        "machineID": name,
        "systemUUID": name,
        "bootID": name,
        "kernelVersion": "simulated",
        "osImage": "simulated",
        "containerRuntimeVersion": "simulated://1.0.0",
        "kubeletVersion": version,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def _conditions(node: Document, now: str) -> list[Document]:
    """Returns the conditions of a healthy node, and those of other clients."""
    wanted = [(kind, "False", reason, message) for kind, reason, message in _HEALTHY]
    wanted.append(("Ready", "True", "KubeletReady", "kubelet is posting ready status"))
    known = {kind for kind, *_ in wanted}
    conditions = []
    for kind, value, reason, message in wanted:
        found = find_condition(node, kind)
        if found is not None and found.get("status") == value:
            conditions.append(found)
            continue
        conditions.append(
            {
                "type": kind,
                "status": value,
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
                "reason": reason,
                "message": message,
            }
        )
    others = (node.get("status") or {}).get("conditions") or ()
    return conditions + [each for each in others if each.get("type") not in known]


def new_lease(node: Document, now: str) -> Document:
    """Returns the Lease of a node. now: RFC 3339 with microseconds."""
    name = node["metadata"]["name"]
    return {
        "metadata": {
            "name": name,
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
            ],
        },
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_DURATION_S, "renewTime": now},
    }
