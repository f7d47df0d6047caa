"""The columns of the core group, as `kubectl get` shows them. Source: pkg/printers/internalversion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from apiserver.catalogue.pod_specs.templates import status_count
from apiserver.meta import table
from apiserver.meta.table import AGE, Column, Columns, columns, field_cell
from apiserver.vocabulary import Document

_NONE: Final = "<none>"
_UNSET: Final = "<unset>"
_UNKNOWN: Final = "<unknown>"


# ---- ConfigMap, Secret, Namespace, ComponentStatus

_DATA_TEXT: Final = (
    "How many entries the object holds. Their keys consist of letters, digits, '-', '_' and '.'; what they "
    "contain is shown only when it is asked for."
)
_TYPE_TEXT: Final = (
    "What the secret is for, which lets programs handle it and decides which keys it must have; Opaque if it "
    "is nothing special."
)
_PHASE_TEXT: Final = "The phase of the namespace: Active, or Terminating while its contents are removed."
CONFIG_MAPS: Final = columns(Column("Data", table.count("data", "binaryData"), description=_DATA_TEXT), AGE)
SECRETS: Final = columns(
    Column("Type", field_cell("type"), description=_TYPE_TEXT),
    Column("Data", table.count("data"), description=_DATA_TEXT),
    AGE,
)
NAMESPACES: Final = columns(Column("Status", field_cell("status", "phase"), description=_PHASE_TEXT), AGE)


def _health(field: str) -> Callable[[Document, float], str]:
    """Of the condition that says whether a component is well."""

    def cell(document: Document, now: float) -> str:
        for condition in document.get("conditions") or ():
            if condition.get("type") == "Healthy":
                return _HEALTH.get(value := str(condition.get(field, "")), value)
        return _HEALTH["Unknown"] if field == "status" else ""

    return cell


_HEALTH: Final = {"True": "Healthy", "False": "Unhealthy", "Unknown": "Unknown"}
COMPONENT_STATUSES: Final = columns(
    Column("Status", _health("status"), description="Whether the component is well."),
    Column("Message", _health("message"), description="What the component says of itself."),
    Column("Error", _health("error"), description="Why it could not be asked, if it could not."),
)


# ---- Service, Endpoints


def _service_external_ip(document: Document, now: float) -> str:
    spec = document.get("spec", {})
    kind = spec.get("type") or "ClusterIP"
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    addresses = list(spec.get("externalIPs") or ())
    if kind == "LoadBalancer":
        ingress = document.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
        addresses = [each.get("ip") or each.get("hostname") or "" for each in ingress] + addresses
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or _NONE


def _service_ports(document: Document, now: float) -> str:
    texts = []
    for port in document.get("spec", {}).get("ports") or ():
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node_port}/{port.get('protocol') or 'TCP'}")
    return ",".join(texts) or _NONE


def _service_selector(document: Document, now: float) -> str:
    return table.selector_text({"matchLabels": document.get("spec", {}).get("selector") or {}})


SERVICES: Final = columns(
    Column(
        "Type",
        field_cell("spec", "type", default="ClusterIP"),
        description="How the service is exposed: ClusterIP, NodePort, LoadBalancer or ExternalName.",
    ),
    Column(
        "Cluster-IP",
        field_cell("spec", "clusterIP", default=_NONE),
        description="The service's address inside the cluster, or None if it has no single one.",
    ),
    Column(
        "External-IP",
        _service_external_ip,
        description="Where the service can be reached from outside, if it can.",
    ),
    Column("Port(s)", _service_ports, description="The ports that the service offers, and their protocols."),
    AGE,
    Column(
        "Selector",
        _service_selector,
        priority=1,
        description="The labels by which the service finds the pods that it sends traffic to.",
    ),
)

_ENDPOINTS_SHOWN_MAX: Final = 3


def _endpoints(document: Document, now: float) -> str:
    found = []
    for subset in document.get("subsets") or ():
        addresses = subset.get("addresses") or ()
        ports = subset.get("ports") or ()
        found += [f"{a.get('ip')}:{p.get('port')}" for p in ports for a in addresses]
        if not ports:
            found += [str(a.get("ip")) for a in addresses]
    if not found:
        return _NONE
    shown = ",".join(found[:_ENDPOINTS_SHOWN_MAX])
    hidden = len(found) - _ENDPOINTS_SHOWN_MAX
    return f"{shown} + {hidden} more..." if hidden > 0 else shown


_SUBSETS_TEXT: Final = (
    "The addresses and ports behind the service that are ready, the first few of them. Those that are not "
    "ready are left out."
)
ENDPOINTS: Final = columns(Column("Endpoints", _endpoints, description=_SUBSETS_TEXT), AGE)


# ---- Event


def _last_seen(document: Document, now: float) -> str:
    series = document.get("series") or {}
    moment = (
        series.get("lastObservedTime")
        or document.get("lastTimestamp")
        or document.get("eventTime")
        or document.get("firstTimestamp")
    )
    return table.age_of(moment, now)


def _first_seen(document: Document, now: float) -> str:
    return table.age_of(document.get("firstTimestamp") or document.get("eventTime"), now)


def _event_object(document: Document, now: float) -> str:
    involved = document.get("involvedObject", {})
    kind, name = str(involved.get("kind", "")).lower(), str(involved.get("name", ""))
    return f"{kind}/{name}" if kind else name


def _event_source(document: Document, now: float) -> str:
    source = document.get("source") or {}
    component = source.get("component") or document.get("reportingComponent") or ""
    host = source.get("host") or document.get("reportingInstance") or ""
    return f"{component}, {host}" if component and host else component or host


def _event_count(document: Document, now: float) -> int:
    series = document.get("series") or {}
    return int(series.get("count") or document.get("count") or 1)


EVENTS: Final = Columns(
    (
        Column("Last Seen", _last_seen, description="When this happened the last time."),
        Column("Type", field_cell("type"), description="Normal, or Warning if somebody should look."),
        Column(
            "Reason", field_cell("reason"), description="Why it happened, as one word for programs to test."
        ),
        Column("Object", _event_object, description="What it happened to."),
        Column(
            "Subobject",
            field_cell("involvedObject", "fieldPath"),
            priority=1,
            description="Which part of the object it concerns, if not all of it.",
        ),
        Column("Source", _event_source, priority=1, description="Who reports it."),
        Column("Message", lambda d, now: str(d.get("message", "")).strip(), description="What happened."),
        Column("First Seen", _first_seen, priority=1, description="When this happened for the first time."),
        Column("Count", _event_count, priority=1, description="How often it has happened."),
        Column("Name", table.name_of, format="name", priority=1, description="The event's own name."),
    )
)


# ---- Node

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE: Final = "kubernetes.io/role"


def _node_status(document: Document, now: float) -> str:
    ready = {
        condition.get("type"): condition.get("status")
        for condition in document.get("status", {}).get("conditions") or ()
    }.get("Ready")
    status = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if document.get("spec", {}).get("unschedulable") else status


def _node_roles(document: Document, now: float) -> str:
    labels: Mapping[str, str] = document["metadata"].get("labels") or {}
    roles = {label.removeprefix(_ROLE_PREFIX) for label in labels if label.startswith(_ROLE_PREFIX)}
    roles.add(labels.get(_ROLE, ""))
    return ",".join(sorted(filter(None, roles))) or _NONE


def _node_address(kind: str) -> Callable[[Document, float], str]:
    def cell(document: Document, now: float) -> str:
        for address in document.get("status", {}).get("addresses") or ():
            if address.get("type") == kind:
                return str(address.get("address", ""))
        return _NONE

    return cell


def _node_info(field: str, default: str = _UNKNOWN) -> Callable[[Document, float], str]:
    return lambda document, now: _at(document, "status", "nodeInfo", field) or default


def _at(document: Document, *steps: str) -> Any:
    value: Any = document
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value


NODES: Final = columns(
    Column("Status", _node_status, description="Whether the node is ready for pods, and takes new ones."),
    Column("Roles", _node_roles, description="What the node is for, as its labels say."),
    AGE,
    Column("Version", _node_info("kubeletVersion", ""), description="The version of the node's kubelet."),
    Column(
        "Internal-IP",
        _node_address("InternalIP"),
        priority=1,
        description="The address under which the cluster knows the node.",
    ),
    Column(
        "External-IP",
        _node_address("ExternalIP"),
        priority=1,
        description="The address under which the node can be reached from outside, if it can.",
    ),
    Column(
        "OS-Image",
        _node_info("osImage"),
        priority=1,
        description="The operating system, as the node names it.",
    ),
    Column(
        "Kernel-Version",
        _node_info("kernelVersion"),
        priority=1,
        description="The version of the node's kernel.",
    ),
    Column(
        "Container-Runtime",
        _node_info("containerRuntimeVersion"),
        priority=1,
        description="What runs the containers, and in which version.",
    ),
)


# ---- PersistentVolume, PersistentVolumeClaim

_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(modes: Any) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _volume_phase(document: Document, now: float) -> str:
    if document["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return _at(document, "status", "phase") or ""


def _claim_of(document: Document, now: float) -> str:
    claim = _at(document, "spec", "claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _storage_class(document: Document, now: float) -> str:
    annotations = document["metadata"].get("annotations") or {}
    named = annotations.get("volume.beta.kubernetes.io/storage-class")
    return named if named is not None else _at(document, "spec", "storageClassName") or ""


def _if_bound(get: Callable[[Document], str]) -> Callable[[Document, float], str]:
    """Of a claim that has a volume."""
    return lambda document, now: get(document) if _at(document, "spec", "volumeName") else ""


_PHASE: Final = Column(
    "Status", _volume_phase, description="The phase: whether it is free, bound, or on its way out."
)
_STORAGE_CLASS: Final = Column(
    "StorageClass", _storage_class, description="The class of storage it belongs to."
)
_ATTRIBUTES_CLASS: Final = Column(
    "VolumeAttributesClass",
    field_cell("spec", "volumeAttributesClassName", default=_UNSET),
    description="The class from which the volume's attributes are taken.",
)
_VOLUME_MODE: Final = Column(
    "VolumeMode",
    field_cell("spec", "volumeMode", default=_UNSET),
    priority=1,
    description="Whether it is used as a file system or as a raw block device.",
)

PERSISTENT_VOLUMES: Final = columns(
    Column("Capacity", field_cell("spec", "capacity", "storage"), description="How much the volume holds."),
    Column(
        "Access Modes",
        lambda document, now: _modes(_at(document, "spec", "accessModes")),
        description="The ways in which nodes and pods can use the volume.",
    ),
    Column(
        "Reclaim Policy",
        field_cell("spec", "persistentVolumeReclaimPolicy"),
        description="What becomes of the volume when nobody claims it any more.",
    ),
    _PHASE,
    Column("Claim", _claim_of, description="The claim that has the volume, with its namespace."),
    _STORAGE_CLASS,
    _ATTRIBUTES_CLASS,
    Column("Reason", field_cell("status", "reason"), description="Why the volume has failed, if it has."),
    AGE,
    _VOLUME_MODE,
)

PERSISTENT_VOLUME_CLAIMS: Final = columns(
    _PHASE,
    Column("Volume", field_cell("spec", "volumeName"), description="The volume that the claim has."),
    Column(
        "Capacity",
        _if_bound(lambda document: _at(document, "status", "capacity", "storage") or "0"),
        description="How much the claim's volume holds.",
    ),
    Column(
        "Access Modes",
        _if_bound(lambda document: _modes(_at(document, "status", "accessModes"))),
        description="The ways in which the claim's volume can be used.",
    ),
    _STORAGE_CLASS,
    _ATTRIBUTES_CLASS,
    AGE,
    _VOLUME_MODE,
)


# ---- PodTemplate, ReplicationController


def _containers(template: tuple[str, ...], field: str) -> Callable[[Document, float], str]:
    return lambda document, now: table.joined(_at(document, *template, "spec", "containers") or (), field)


def _labels(*steps: str) -> Callable[[Document, float], str]:
    return lambda document, now: table.selector_text({"matchLabels": _at(document, *steps) or {}})


def _container_columns(template: tuple[str, ...], priority: int) -> tuple[Column, Column]:
    return (
        Column(
            "Containers",
            _containers(template, "name"),
            priority=priority,
            description="The containers of each pod, by name.",
        ),
        Column(
            "Images",
            _containers(template, "image"),
            priority=priority,
            description="The images that the containers run.",
        ),
    )


POD_TEMPLATES: Final = columns(
    *_container_columns(("template",), 0),
    Column(
        "Pod Labels",
        _labels("template", "metadata", "labels"),
        description="The labels that pods made from the template have.",
    ),
)

REPLICATION_CONTROLLERS: Final = columns(
    Column(
        "Desired",
        field_cell("spec", "replicas", default=1),
        type="integer",
        description="How many pods are wanted.",
    ),
    Column("Current", status_count("replicas"), type="integer", description="How many pods there are."),
    Column(
        "Ready", status_count("readyReplicas"), type="integer", description="How many of the pods are ready."
    ),
    AGE,
    *_container_columns(("spec", "template"), 1),
    Column(
        "Selector",
        _labels("spec", "selector"),
        priority=1,
        description="The labels by which the pods are found.",
    ),
)


# ---- ResourceQuota


def _quota(*, of_limits: bool) -> Callable[[Document, float], str]:
    """`pods: 3/10, requests.cpu: 1/4`: what is used of what there is."""

    def cell(document: Document, now: float) -> str:
        status = document.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        return ", ".join(
            f"{name}: {used.get(name, '0')}/{hard[name]}"
            for name in sorted(hard)
            if name.startswith("limits.") == of_limits
        )

    return cell


RESOURCE_QUOTAS: Final = columns(
    Column("Request", _quota(of_limits=False), description="How much is used of what may be asked for."),
    Column("Limit", _quota(of_limits=True), description="How much is used of what limits may add up to."),
    AGE,
)
