"""The default FlowSchemas and priority levels: the mandatory ones, and those that Kubernetes suggests.

Users may change the suggested ones. Source: k8s.io/apiserver, pkg/apis/flowcontrol/bootstrap/default.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from apiserver.catalogue.flowcontrol.flow_schemas import MANDATORY_FLOW_SCHEMAS, everything
from apiserver.catalogue.flowcontrol.priority_level_configurations import MANDATORY_PRIORITY_LEVELS
from apiserver.meta.vocabulary import AUTHENTICATED, UNAUTHENTICATED, Document

_BY_USER: Final = {"type": "ByUser"}
_BY_NAMESPACE: Final = {"type": "ByNamespace"}


def _group(name: str) -> Document:
    return {"kind": "Group", "group": {"name": name}}


def _user(name: str) -> Document:
    return {"kind": "User", "user": {"name": name}}


_SYSTEM_ACCOUNTS: Final[Document] = {
    "kind": "ServiceAccount",
    "serviceAccount": {"namespace": "kube-system", "name": "*"},
}
_EVERYBODY: Final = (_group(UNAUTHENTICATED), _group(AUTHENTICATED))
_CONTROLLER_MANAGER: Final = _user("system:kube-controller-manager")
_SCHEDULER: Final = _user("system:kube-scheduler")
_NODES: Final = _group("system:nodes")


def _schema(level: str, precedence: int, rule: Document, method: Document | None = None) -> Document:
    spec: Document = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
    return {**spec, **({"distinguisherMethod": method} if method else {}), "rules": [rule]}


def _resources(verbs: Sequence[str], group: str, resources: Sequence[str], **more: Any) -> Document:
    return {
        "verbs": list(verbs),
        "apiGroups": [group],
        "resources": list(resources),
        **more,
        "namespaces": ["*"],
    }


def _limited(shares: int, lendable_percent: int, queues: int, hand_size: int) -> Document:
    queuing = {"queues": queues, "handSize": hand_size, "queueLengthLimit": 50}
    return {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": shares,
            "limitResponse": {"type": "Queue", "queuing": queuing},
            "lendablePercent": lendable_percent,
        },
    }


FLOW_SCHEMAS: Final[Mapping[str, Document]] = MappingProxyType(
    {
        **MANDATORY_FLOW_SCHEMAS,
        "probes": _schema(
            "exempt",
            2,
            {
                "subjects": [*_EVERYBODY],
                "nonResourceRules": [
                    {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}
                ],
            },
        ),
        "system-leader-election": _schema(
            "leader-election",
            100,
            {
                "subjects": [_CONTROLLER_MANAGER, _SCHEDULER, _SYSTEM_ACCOUNTS],
                "resourceRules": [_resources(("get", "create", "update"), "coordination.k8s.io", ["leases"])],
            },
            _BY_USER,
        ),
        "system-node-high": _schema(
            "node-high",
            400,
            {
                "subjects": [_NODES],
                "resourceRules": [
                    _resources("*", "", ["nodes", "nodes/status"], clusterScope=True),
                    _resources("*", "coordination.k8s.io", ["leases"]),
                ],
            },
            _BY_USER,
        ),
        "system-nodes": _schema("system", 500, everything(_NODES), _BY_USER),
        "kube-controller-manager": _schema(
            "workload-high", 800, everything(_CONTROLLER_MANAGER), _BY_NAMESPACE
        ),
        "kube-scheduler": _schema("workload-high", 800, everything(_SCHEDULER), _BY_NAMESPACE),
        "kube-system-service-accounts": _schema(
            "workload-high", 900, everything(_SYSTEM_ACCOUNTS), _BY_NAMESPACE
        ),
        "service-accounts": _schema(
            "workload-low", 9000, everything(_group("system:serviceaccounts")), _BY_USER
        ),
        "global-default": _schema("global-default", 9900, everything(*_EVERYBODY), _BY_USER),
    }
)

PRIORITY_LEVELS: Final[Mapping[str, Document]] = MappingProxyType(
    {
        **MANDATORY_PRIORITY_LEVELS,
        "system": _limited(30, 33, 64, 6),
        "node-high": _limited(40, 25, 64, 6),
        "leader-election": _limited(10, 0, 16, 4),
        "workload-high": _limited(40, 50, 128, 6),
        "workload-low": _limited(100, 90, 128, 6),
        "global-default": _limited(20, 50, 128, 6),
    }
)
