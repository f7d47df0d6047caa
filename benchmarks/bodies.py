"""The objects that workloads create: a small one with few validation rules, and a large one with many."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

CONFIG_MAP_BYTES: Final = 1024
POD_BYTES: Final = 4096


def config_map(name: str, labels: Mapping[str, str] | None = None, *, marker: str = "") -> bytes:
    """A ConfigMap of 1 KB."""
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "data": {"marker": marker, "text": ""},
    }
    missing = CONFIG_MAP_BYTES - len(_compact(document))
    document["data"] = {"marker": marker, "text": "x" * max(0, missing)}
    return _compact(document)


def pod(name: str) -> bytes:
    """A Pod of 4 KB, like one of a web shop: three containers and an init container."""
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "example.com/note": ""}
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": _LABELS, "annotations": annotations},
        "spec": _POD_SPEC,
    }
    annotations["example.com/note"] = "x" * max(0, POD_BYTES - len(_compact(document)))
    return _compact(document)


def deployment(name: str, *, marker: str = "") -> bytes:
    """A Deployment of 4 KB, of such Pods."""
    document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "annotations": {"example.com/marker": marker}},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"tier": "frontend"}},
            "template": {"metadata": {"labels": _LABELS}, "spec": _POD_SPEC},
        },
    }
    missing = POD_BYTES - len(_compact(document))
    document["metadata"] = {
        "name": name,
        "annotations": {"example.com/marker": marker, "example.com/note": "x" * max(0, missing)},
    }
    return _compact(document)


def _compact(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _probe(path: str, **more: int) -> Mapping[str, Any]:
    return {"httpGet": {"path": path, "port": "http"}, **more}


def _resources(cpu: str, memory: str, most_memory: str) -> Mapping[str, Any]:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": most_memory}}


_LABELS: Final = {
    "app.kubernetes.io/name": "shop",
    "app.kubernetes.io/component": "web",
    "app.kubernetes.io/version": "2.14.3",
    "tier": "frontend",
}
_CONFINED: Final = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_TMP: Final = {"name": "tmp", "mountPath": "/tmp"}
_CONFIG: Final = {"name": "config", "mountPath": "/etc/shop", "readOnly": True}
_WEB: Final = {
    "name": "web",
    "image": "registry.example.com/shop/web:2.14.3",
    "args": ["--listen=:8080", "--config=/etc/shop/web.yaml"],
    "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
    "envFrom": [{"configMapRef": {"name": "shop-web"}}],
    "env": [
        {"name": "LOG_LEVEL", "value": "info"},
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "shop-database", "key": "password"}}},
        {
            "name": "MEMORY_LIMIT",
            "valueFrom": {"resourceFieldRef": {"containerName": "web", "resource": "limits.memory"}},
        },
    ],
    "resources": _resources("250m", "256Mi", "512Mi"),
    "startupProbe": _probe("/healthz", failureThreshold=30, periodSeconds=2),
    "readinessProbe": _probe("/readyz", periodSeconds=5, timeoutSeconds=2),
    "livenessProbe": _probe("/healthz", periodSeconds=10, failureThreshold=3),
    "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", "sleep 5"]}}},
    "securityContext": _CONFINED,
    "volumeMounts": [_CONFIG, _TMP, {"name": "cache", "mountPath": "/var/cache/shop"}],
}
_PROXY: Final = {
    "name": "proxy",
    "image": "registry.example.com/mesh/proxy:1.31",
    "ports": [{"name": "proxy", "containerPort": 15001}],
    "env": [{"name": "UPSTREAM", "value": "127.0.0.1:8080"}],
    "resources": _resources("100m", "64Mi", "128Mi"),
    "readinessProbe": {"tcpSocket": {"port": 15001}, "periodSeconds": 5},
    "securityContext": _CONFINED,
    "volumeMounts": [{"name": "certificates", "mountPath": "/etc/certs", "readOnly": True}],
}
_LOGS: Final = {
    "name": "logs",
    "image": "registry.example.com/ops/shipper:0.9",
    "env": [{"name": "SINK", "valueFrom": {"configMapKeyRef": {"name": "logging", "key": "sink"}}}],
    "resources": _resources("50m", "64Mi", "64Mi"),
    "livenessProbe": {"exec": {"command": ["/shipper", "check"]}, "periodSeconds": 30},
    "securityContext": _CONFINED,
    "volumeMounts": [_TMP],
}
_MIGRATE: Final = {
    "name": "migrate",
    "image": "registry.example.com/shop/web:2.14.3",
    "command": ["/shop", "migrate"],
    "env": [
        {"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "shop-database", "key": "password"}}}
    ],
    "resources": _resources("100m", "128Mi", "128Mi"),
    "volumeMounts": [_CONFIG],
}
_POD_SPEC: Final = {
    "serviceAccountName": "shop-web",
    "terminationGracePeriodSeconds": 45,
    "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "web", "effect": "NoSchedule"}],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "shop"}},
        }
    ],
    "initContainers": [_MIGRATE],
    "containers": [_WEB, _PROXY, _LOGS],
    "volumes": [
        {"name": "config", "configMap": {"name": "shop-web", "items": [{"key": "web", "path": "web.yaml"}]}},
        {"name": "certificates", "secret": {"secretName": "shop-web-tls", "defaultMode": 288}},
        {"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
    ],
}
