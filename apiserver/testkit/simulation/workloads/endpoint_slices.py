"""EndpointSlices of Services: the addresses of the selected pods. Pure.

Source of the rules: kubernetes, staging/src/k8s.io/endpointslice; names of ports: pkg/api/v1/pod, FindPort.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Final

from apiserver.meta.owners import controller_reference
from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.resources import ENDPOINT_SLICES
from apiserver.testkit.simulation.workloads.plans import (
    CreateObject,
    DeleteObject,
    UpdateObject,
    WorkloadPlan,
)
from apiserver.testkit.simulation.workloads.pods import ENDED, is_ready, is_terminating, phase_of, short_hash

SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
# kube-controller-manager: --max-endpoints-per-slice.
ENDPOINTS_MAX: Final = 100
_CONTROLLER: Final = "endpointslice-controller.k8s.io"
_NAME_LENGTH_MAX: Final = 200


def selects_pods(service: Document) -> bool:
    """Returns whether EndpointSlices are made for a Service."""
    spec = service["spec"]
    return bool(spec.get("selector")) and spec.get("type") != "ExternalName"


def is_selected(service: Document, pod: Document) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return selects_pods(service) and service["spec"]["selector"].items() <= labels.items()


def plan_slices(service: Document, pods: Sequence[Document], slices: Sequence[Document]) -> WorkloadPlan:
    """Returns the EndpointSlices of a Service to create, update and delete.

    pods: all of the namespace. slices: those of the Service.
    """
    plan = WorkloadPlan()
    if is_terminating(service):
        return plan
    wanted = {each["metadata"]["name"]: each for each in _slices(service, pods)}
    there = {each["metadata"]["name"]: each for each in slices if _is_ours(each)}
    for name, document in wanted.items():
        if name not in there:
            plan.creates.append(CreateObject(ENDPOINT_SLICES, document))
        elif not _is_same(there[name], document):
            plan.updates.append(UpdateObject(ENDPOINT_SLICES, there[name], partial(_replace, document)))
    plan.deletes = [DeleteObject(ENDPOINT_SLICES, each) for name, each in there.items() if name not in wanted]
    return plan


def _replace(wanted: Document, found: Document) -> bool:
    """Change a slice to the desired one; returns whether it differed."""
    if _is_same(found, wanted):
        return False
    found["endpoints"], found["ports"] = wanted["endpoints"], wanted["ports"]
    found["metadata"]["labels"] = wanted["metadata"]["labels"]
    return True


def _is_ours(found: Document) -> bool:
    return (found["metadata"].get("labels") or {}).get(MANAGED_BY) == _CONTROLLER


def _is_same(found: Document, wanted: Document) -> bool:
    return all((found.get(name) or []) == wanted[name] for name in ("endpoints", "ports")) and (
        found["metadata"].get("labels") == wanted["metadata"]["labels"]
    )


def _slices(service: Document, pods: Sequence[Document]) -> list[Document]:
    """Returns the desired slices, one for all pods with the same ports."""
    if not selects_pods(service):
        return []
    meta, publishes = service["metadata"], bool(service["spec"].get("publishNotReadyAddresses"))
    groups: defaultdict[str, list[Document]] = defaultdict(list)
    ports: dict[str, list[Document]] = {}
    for pod in pods:
        if not is_selected(service, pod) or not (pod.get("status") or {}).get("podIP"):
            continue
        if phase_of(pod) in ENDED:
            continue
        found = _ports(service, pod)
        key = short_hash(found)
        ports[key] = found
        groups[key].append(_endpoint(service, pod, publishes=publishes))
    if not groups:
        groups[""], ports[""] = [], []
    labels = {**(meta.get("labels") or {}), SERVICE_NAME: meta["name"], MANAGED_BY: _CONTROLLER}
    if service["spec"].get("clusterIP") == "None":
        labels["service.kubernetes.io/headless"] = ""
    slices = []
    for number, key in enumerate(sorted(groups)):
        endpoints = groups[key]
        endpoints.sort(key=lambda each: str(each["targetRef"]["name"]))
        for first in range(0, max(len(endpoints), 1), ENDPOINTS_MAX):
            # The first slice, most often the only one, keeps its name whatever its ports become.
            code = short_hash([meta["uid"], number, first])[:5]
            slices.append(
                {
                    "metadata": {
                        "name": f"{meta['name'][:_NAME_LENGTH_MAX]}-{code}",
                        "namespace": meta["namespace"],
                        "labels": labels,
                        "ownerReferences": [controller_reference(service)],
                    },
                    "addressType": "IPv4",
                    "endpoints": endpoints[first : first + ENDPOINTS_MAX],
                    "ports": ports[key],
                }
            )
    return slices


def _endpoint(service: Document, pod: Document, *, publishes: bool) -> Document:
    meta, serving, is_going = pod["metadata"], is_ready(pod), is_terminating(pod)
    found: Document = {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {
            "ready": publishes or (serving and not is_going),
            "serving": serving,
            "terminating": is_going,
        },
        "targetRef": {
            "kind": "Pod",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
        },
    }
    if pod["spec"].get("nodeName"):
        found["nodeName"] = pod["spec"]["nodeName"]
    hostname, subdomain = pod["spec"].get("hostname"), pod["spec"].get("subdomain")
    if hostname and subdomain == service["metadata"]["name"]:
        found["hostname"] = hostname
    return found


def _ports(service: Document, pod: Document) -> list[Document]:
    """Returns the ports of a Service that a pod has."""
    listed = []
    for port in service["spec"].get("ports") or ():
        number = _number(port, pod)
        if number is None:
            continue
        found = {"name": port.get("name", ""), "port": number, "protocol": port.get("protocol", "TCP")}
        if port.get("appProtocol"):
            found["appProtocol"] = port["appProtocol"]
        listed.append(found)
    return listed


def _number(port: Document, pod: Document) -> int | None:
    target = port.get("targetPort") or port["port"]
    if isinstance(target, int):
        return target
    sidecars = [each for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy")]
    for container in (*pod["spec"]["containers"], *sidecars):
        for each in container.get("ports") or ():
            if each.get("name") == target and each.get("protocol", "TCP") == port.get("protocol", "TCP"):
                number: int = each["containerPort"]
                return number
    return None
