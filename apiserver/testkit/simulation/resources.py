"""The resources that the simulated components use. Pure."""

from __future__ import annotations

from typing import Final, TypeAlias

from apiserver.meta.vocabulary import GroupResource

# The namespace and the name of an object of one of them.
Key: TypeAlias = tuple[str, str]

PODS: Final = GroupResource("", "pods")
NODES: Final = GroupResource("", "nodes")
CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
SERVICES: Final = GroupResource("", "services")
REPLICA_SETS: Final = GroupResource("apps", "replicasets")
DEPLOYMENTS: Final = GroupResource("apps", "deployments")
STATEFUL_SETS: Final = GroupResource("apps", "statefulsets")
DAEMON_SETS: Final = GroupResource("apps", "daemonsets")
REVISIONS: Final = GroupResource("apps", "controllerrevisions")
JOBS: Final = GroupResource("batch", "jobs")
# The groups of these have the domain of this server's API groups (`component.ClusterAccess.resource`).
LEASES: Final = GroupResource("coordination", "leases")
ENDPOINT_SLICES: Final = GroupResource("discovery", "endpointslices")
WITH_DOMAIN: Final = frozenset({LEASES.group, ENDPOINT_SLICES.group})
