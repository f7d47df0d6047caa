"""The core group, `v1`."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any, Final

from apiserver.brand import Brand
from apiserver.catalogue.builtin_type import STATUS_SUBRESOURCE, BuiltinType, field, fields
from apiserver.field_errors import FieldError, invalid
from apiserver.meta import names, object_meta, table
from apiserver.meta.table import AGE, Column, Columns, columns, path
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import STATUS, Strategy, UpdateStrategy, keep_status
from apiserver.vocabulary import Document

_PACKAGE: Final = "io.k8s.api.core.v1."


def types(brand: Brand, *, event_ttl_s: int) -> tuple[BuiltinType, ...]:
    return (
        _core(
            "configmaps",
            "ConfigMap",
            short_names=("cm",),
            columns=columns(Column("Data", table.count("data", "binaryData"), description=_DATA_TEXT), AGE),
        ),
        _core(
            "endpoints",
            "Endpoints",
            short_names=("ep",),
            strategy=Strategy(creates_on_update=True),
            columns=columns(Column("Endpoints", _endpoints, description=_SUBSETS_TEXT), AGE),
        ),
        _core(
            "events",
            "Event",
            short_names=("ev",),
            strategy=Strategy(creates_on_update=True, ttl_s=event_ttl_s),
            columns=_EVENT_COLUMNS,
            selectable_fields={
                **fields(
                    "involvedObject.kind",
                    "involvedObject.namespace",
                    "involvedObject.name",
                    "involvedObject.uid",
                    "involvedObject.apiVersion",
                    "involvedObject.resourceVersion",
                    "involvedObject.fieldPath",
                    "reason",
                    "reportingComponent",
                    "type",
                ),
                "source": field("source", "component"),
            },
        ),
        _namespaces(brand),
        _core(
            "pods",
            "Pod",
            short_names=("po",),
            categories=("all",),
            subresources=(STATUS_SUBRESOURCE,),
            strategy=Strategy(
                prepare_create=_prepare_pod,
                update=UpdateStrategy(prepare=keep_status),
                has_generation=True,
                grace_period_s=_pod_grace_period_s,
                returns_deleted=True,
            ),
            columns=_POD_COLUMNS,
            selectable_fields={
                **fields(
                    "spec.nodeName",
                    "spec.restartPolicy",
                    "spec.schedulerName",
                    "spec.serviceAccountName",
                    "status.phase",
                    "status.podIP",
                    "status.nominatedNodeName",
                ),
                "spec.hostNetwork": field("spec", "hostNetwork", default="false"),
            },
        ),
        _core(
            "secrets",
            "Secret",
            strategy=Strategy(
                prepare_create=_prepare_secret, update=UpdateStrategy(prepare=_prepare_secret_update)
            ),
            columns=columns(
                Column("Type", path("type"), description=_TYPE_TEXT),
                Column("Data", table.count("data"), description=_DATA_TEXT),
                AGE,
            ),
            selectable_fields=fields("type"),
        ),
        _core(
            "serviceaccounts",
            "ServiceAccount",
            short_names=("sa",),
            strategy=Strategy(returns_deleted=True),
            columns=columns(AGE),
        ),
        _core(
            "services",
            "Service",
            short_names=("svc",),
            categories=("all",),
            subresources=(STATUS_SUBRESOURCE,),
            strategy=Strategy(
                name_rule=names.dns_label,
                prepare_create=_prepare_service,
                update=UpdateStrategy(prepare=keep_status),
                returns_deleted=True,
            ),
            columns=_SERVICE_COLUMNS,
            selectable_fields=fields("spec.clusterIP", "spec.type"),
        ),
    )


def _core(resource: str, kind: str, **more: Any) -> BuiltinType:
    return BuiltinType("", "v1", resource, kind, _PACKAGE + kind, **more)


# ---- Namespace


def _namespaces(brand: Brand) -> BuiltinType:
    label = brand.namespace_name_label

    def set_name_label(document: Document) -> None:
        meta = document["metadata"]
        if name := meta.get("name"):
            meta["labels"] = {**meta.get("labels", {}), label: name}

    def prepare_create(document: Document) -> None:
        finalizers = document.setdefault("spec", {}).setdefault("finalizers", [])
        if _NAMESPACE_FINALIZER not in finalizers:
            finalizers.append(_NAMESPACE_FINALIZER)
        document["status"] = {"phase": "Active"}
        set_name_label(document)

    def prepare_update(new: Document, old: Document) -> None:
        keep_status(new, old)
        new["spec"] = old.get("spec", {})
        set_name_label(new)

    def prepare_finalize(new: Document, old: Document) -> None:
        keep_status(new, old)
        set_name_label(new)

    return _core(
        "namespaces",
        "Namespace",
        is_namespaced=False,
        short_names=("ns",),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        subresources=(
            replace(STATUS_SUBRESOURCE, update=replace(STATUS, validate=_validate_phase)),
            Subresource("finalize", verbs=("update",), update=UpdateStrategy(prepare=prepare_finalize)),
        ),
        strategy=Strategy(
            name_rule=names.dns_label,
            prepare_create=prepare_create,
            validate=_validate_namespace,
            update=UpdateStrategy(prepare=prepare_update),
            mark_deleted=_mark_namespace_deleted,
            blockers=_namespace_blockers,
        ),
        columns=columns(Column("Status", path("status", "phase"), description=_PHASE_TEXT), AGE),
        selectable_fields=fields("status.phase"),
    )


_NAMESPACE_FINALIZER: Final = "kubernetes"


def _validate_namespace(document: Document) -> list[FieldError]:
    errors = []
    for index, name in enumerate(document.get("spec", {}).get("finalizers") or ()):
        where = f"spec.finalizers[{index}]"
        errors += [invalid(where, name, problem) for problem in names.qualified_name(name)]
        errors += object_meta.validate_finalizer_name(name, where)
    return errors


def _validate_phase(new: Document, old: Document) -> list[FieldError]:
    """A namespace terminates if it is being deleted, and only then."""
    phase = new.get("status", {}).get("phase", "")
    expected = "Terminating" if "deletionTimestamp" in new["metadata"] else "Active"
    if phase == expected:
        return []
    state = "not empty" if expected == "Active" else "empty"
    other = "Terminating" if expected == "Active" else "Active"
    return [invalid("status.Phase", phase, f"may only be '{other}' if `deletionTimestamp` is {state}")]


def _mark_namespace_deleted(document: Document, now: str) -> None:
    document["metadata"]["deletionTimestamp"] = now
    document["status"] = {**document.get("status", {}), "phase": "Terminating"}


def _namespace_blockers(document: Document) -> list[str]:
    return [*object_meta.finalizers(document), *(document.get("spec", {}).get("finalizers") or ())]


# ---- Pod


def _prepare_pod(document: Document) -> None:
    document["status"] = {"phase": "Pending"}


_DEFAULT_GRACE_PERIOD_S: Final = 30


def _pod_grace_period_s(document: Document, asked_s: int | None) -> int:
    """Nobody has to stop a pod that has no node, or has ended."""
    spec = document.get("spec", {})
    if not spec.get("nodeName") or document.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    grace_s = asked_s if asked_s is not None else spec.get("terminationGracePeriodSeconds")
    if grace_s is None:
        return _DEFAULT_GRACE_PERIOD_S
    return int(grace_s) if grace_s >= 0 else 1


def _pod_ready(document: Document, now: float) -> str:
    statuses = document.get("status", {}).get("containerStatuses") or ()
    ready = sum(1 for status in statuses if status.get("ready"))
    return f"{ready}/{len(document.get('spec', {}).get('containers') or ())}"


def _pod_status(document: Document, now: float) -> str:
    """What is the matter with the pod: the phase, unless a container or the deletion says more."""
    status = document.get("status", {})
    reason: str = status.get("reason") or status.get("phase") or "Unknown"
    for container in reversed(status.get("containerStatuses") or []):
        state = container.get("state", {})
        waiting, terminated = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated.get("reason"):
            reason = terminated["reason"]
        elif terminated.get("signal"):
            reason = f"Signal:{terminated['signal']}"
        elif "exitCode" in terminated:
            reason = f"ExitCode:{terminated['exitCode']}"
    if document["metadata"].get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason


def _pod_restarts(document: Document, now: float) -> str:
    statuses = document.get("status", {}).get("containerStatuses") or ()
    return str(sum(status.get("restartCount", 0) for status in statuses))


def _pod_readiness_gates(document: Document, now: float) -> str:
    gates = document.get("spec", {}).get("readinessGates") or ()
    if not gates:
        return "<none>"
    conditions = {
        condition.get("type"): condition.get("status")
        for condition in document.get("status", {}).get("conditions") or ()
    }
    passed = sum(1 for gate in gates if conditions.get(gate.get("conditionType")) == "True")
    return f"{passed}/{len(gates)}"


_POD_COLUMNS: Final = columns(
    Column("Ready", _pod_ready, description="How many of the pod's containers are ready, of how many."),
    Column("Status", _pod_status, description="The phase of the pod, or what keeps it from the next one."),
    Column(
        "Restarts",
        _pod_restarts,
        description="How often the containers in this pod have been started again, all together.",
    ),
    AGE,
    Column(
        "IP",
        path("status", "podIP", default="<none>"),
        priority=1,
        description="The address that was given to the pod; other pods can reach it there.",
    ),
    Column(
        "Node",
        path("spec", "nodeName", default="<none>"),
        priority=1,
        description="The node that runs the pod, or is asked to; empty until a scheduler has chosen one.",
    ),
    Column(
        "Nominated Node",
        path("status", "nominatedNodeName", default="<none>"),
        priority=1,
        description="The node on which lower-priority pods are being removed so that this one fits.",
    ),
    Column(
        "Readiness Gates",
        _pod_readiness_gates,
        priority=1,
        description="How many of the further conditions that the pod's readiness depends on hold.",
    ),
)


# ---- Secret


def _prepare_secret(document: Document) -> None:
    """`stringData` is a way to write `data`; it is never stored."""
    for key, text in (document.pop("stringData", None) or {}).items():
        document.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()
    document.setdefault("type", "Opaque")


def _prepare_secret_update(new: Document, old: Document) -> None:
    _prepare_secret(new)


# ---- Service, Endpoints


def _prepare_service(document: Document) -> None:
    document["status"] = {"loadBalancer": {}}


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
    return ",".join(addresses) or "<none>"


def _service_ports(document: Document, now: float) -> str:
    texts = []
    for port in document.get("spec", {}).get("ports") or ():
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node_port}/{port.get('protocol') or 'TCP'}")
    return ",".join(texts) or "<none>"


def _service_selector(document: Document, now: float) -> str:
    return table.selector_text({"matchLabels": document.get("spec", {}).get("selector") or {}})


_SERVICE_COLUMNS: Final = columns(
    Column(
        "Type",
        path("spec", "type", default="ClusterIP"),
        description="How the service is exposed: ClusterIP, NodePort, LoadBalancer or ExternalName.",
    ),
    Column(
        "Cluster-IP",
        path("spec", "clusterIP", default="<none>"),
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
        return "<none>"
    shown = ",".join(found[:_ENDPOINTS_SHOWN_MAX])
    hidden = len(found) - _ENDPOINTS_SHOWN_MAX
    return f"{shown} + {hidden} more..." if hidden > 0 else shown


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


_EVENT_COLUMNS: Final = Columns(
    (
        Column("Last Seen", _last_seen, description="When this happened the last time."),
        Column("Type", path("type"), description="Normal, or Warning if somebody should look."),
        Column("Reason", path("reason"), description="Why it happened, as one word for programs to test."),
        Column("Object", _event_object, description="What it happened to."),
        Column(
            "Subobject",
            path("involvedObject", "fieldPath"),
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

_DATA_TEXT: Final = (
    "How many entries the object holds. Their keys consist of letters, digits, '-', '_' and '.'; what they "
    "contain is shown only when it is asked for."
)
_TYPE_TEXT: Final = (
    "What the secret is for, which lets programs handle it and decides which keys it must have; Opaque if it "
    "is nothing special."
)
_PHASE_TEXT: Final = "The phase of the namespace: Active, or Terminating while its contents are removed."
_SUBSETS_TEXT: Final = (
    "The addresses and ports behind the service that are ready, the first few of them. Those that are not "
    "ready are left out."
)
