"""What objects use of quotas, which quotas they concern, and what is said when one is used up."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.admission.chain import Operation
from apiserver.admission.configuration.resource_quota import LimitedResource
from apiserver.admission.plugins.resource_quota import ObjectChange, handles, require_covered
from apiserver.catalogue.core.resource_quotas.usage import (
    QuotaEvaluator,
    QuotaViolation,
    may_change_usage,
    usage_after_write,
)
from apiserver.meta.brand import Brand
from apiserver.meta.quantity import Quantity
from apiserver.meta.vocabulary import GroupResource

PODS: Final = GroupResource("", "pods")
SERVICES: Final = GroupResource("", "services")
CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
CONFIG_MAPS: Final = GroupResource("", "configmaps")
DEPLOYMENTS: Final = GroupResource("apps", "deployments")
DEVICE_CLAIMS: Final = GroupResource("resource.k8s.io", "resourceclaims")
NOW: Final = 1_000_000.0


def evaluator(resource: GroupResource) -> QuotaEvaluator:
    return QuotaEvaluator(resource, Brand())


def pod(*resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    containers = [{"name": f"c{n}", "resources": each} for n, each in enumerate(resources or ({},))]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers, **spec}, "status": {}}


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "q"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": dict.fromkeys(hard, "0") if used is None else used},
    }


# ---- usage

SMALL: Final = {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "1"}}
COMPUTE: Final = {
    "cpu": "100m",
    "requests.cpu": "100m",
    "memory": "1Gi",
    "requests.memory": "1Gi",
    "limits.cpu": "1",
}
ONE_POD: Final = {"pods": "1", "count/pods": "1"}


def service(kind: str, **more: Any) -> dict[str, Any]:
    ports = [{"port": 1, "nodePort": 30_001}, {"port": 2}]
    return {"metadata": {"name": "s"}, "spec": {"type": kind, "ports": ports, **more}}


def claim(**spec: Any) -> dict[str, Any]:
    resources = {"requests": {"storage": "1Gi"}}
    return {"metadata": {"name": "c"}, "spec": {"resources": resources, **spec}}


def services(load_balancers: int, node_ports: int) -> dict[str, str]:
    counts = {"services": 1, "services.loadbalancers": load_balancers, "services.nodeports": node_ports}
    return {"count/services": "1", **{name: str(count) for name, count in counts.items()}}


ONE_CLAIM: Final = {
    "count/persistentvolumeclaims": "1",
    "persistentvolumeclaims": "1",
    "requests.storage": "1Gi",
}
FAST: Final = {
    **ONE_CLAIM,
    "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
    "fast.storageclass.storage.k8s.io/requests.storage": "1Gi",
}


def cpu(amount: str) -> dict[str, str]:
    return dict.fromkeys(("cpu", "requests.cpu", "limits.cpu"), amount)


def resized(
    wants: dict[str, str],
    has: dict[str, str],
    reason: str = "",
    *,
    allocated: dict[str, str] | None = None,
    field: str = "containers",
    **more: Any,
) -> dict[str, Any]:
    """A pod whose container wants other resources than it has. reason: why it does not get them."""
    container = {"name": "r", "resources": {"requests": wants, "limits": wants}, **more}
    status = {"name": "r", "resources": {"requests": has, "limits": has}}
    if allocated is not None:
        status["allocatedResources"] = allocated
    statuses = "containerStatuses" if field == "containers" else "initContainerStatuses"
    pending = [{"type": "Ready"}, {"type": "PodResizePending", "reason": reason}]
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [], field: [container]},
        "status": {statuses: [status], **({"conditions": pending} if reason else {})},
    }


def exactly(name: str, count: int) -> dict[str, Any]:
    asked = {"deviceClassName": name, "allocationMode": "ExactCount", "count": count}
    return {"name": "r", "exactly": asked}


def devices(*requests: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [*requests]}}}


def of_class(**counts: str) -> dict[str, str]:
    return {f"{name}.deviceclass.resource.k8s.io/devices": count for name, count in counts.items()}


# https://kubernetes.io/docs/concepts/policy/resource-quotas/
USAGES: Final[dict[str, tuple[GroupResource, dict[str, Any], dict[str, str]]]] = {
    "an object": (DEPLOYMENTS, {"metadata": {}}, {"count/deployments.apps": "1"}),
    "one that has a bare name, too": (
        CONFIG_MAPS,
        {"metadata": {}},
        {"count/configmaps": "1", "configmaps": "1"},
    ),
    "a pod that asks for nothing": (PODS, pod(), ONE_POD),
    "one that does": (PODS, pod(SMALL), {**ONE_POD, **COMPUTE}),
    "two containers": (
        PODS,
        pod({"requests": {"cpu": "100m"}}, {"requests": {"cpu": "0.3"}}),
        {**ONE_POD, "cpu": "400m", "requests.cpu": "400m"},
    ),
    "a greedy start": (
        PODS,
        pod(
            {"requests": {"cpu": "1"}},
            initContainers=[{"name": "i", "resources": {"requests": {"cpu": "3"}}}],
        ),
        {**ONE_POD, "cpu": "3", "requests.cpu": "3"},
    ),
    "what the runtime takes": (
        PODS,
        pod(SMALL, overhead={"cpu": "50m"}),
        {**ONE_POD, **COMPUTE, "cpu": "150m", "requests.cpu": "150m", "limits.cpu": "1050m"},
    ),
    "what the pod says as a whole": (
        PODS,
        pod(SMALL, resources={"requests": {"cpu": "2"}}),
        {**ONE_POD, **COMPUTE, "cpu": "2", "requests.cpu": "2"},
    ),
    "large pages and devices": (
        PODS,
        pod({"requests": {"hugepages-2Mi": "4Mi", "example.com/gpu": "2"}}),
        {**ONE_POD, "hugepages-2Mi": "4Mi", "requests.hugepages-2Mi": "4Mi", "requests.example.com/gpu": "2"},
    ),
    "a container that shrinks": (PODS, resized({"cpu": "1"}, {"cpu": "3"}), {**ONE_POD, **cpu("3")}),
    "a container that grows": (PODS, resized({"cpu": "3"}, {"cpu": "1"}), {**ONE_POD, **cpu("3")}),
    "a container that cannot grow": (
        PODS,
        resized({"cpu": "3"}, {"cpu": "1"}, "Infeasible"),
        {**ONE_POD, **cpu("1")},
    ),
    "a container that grows later": (
        PODS,
        resized({"cpu": "3"}, {"cpu": "1"}, "Deferred"),
        {**ONE_POD, **cpu("3")},
    ),
    "what has been allocated to a container": (
        PODS,
        resized({"cpu": "1"}, {}, allocated={"cpu": "2"}),
        {**ONE_POD, "cpu": "2", "requests.cpu": "2", "limits.cpu": "1"},
    ),
    "a sidecar that shrinks": (
        PODS,
        resized({"cpu": "1"}, {"cpu": "3"}, field="initContainers", restartPolicy="Always"),
        {**ONE_POD, **cpu("3")},
    ),
    "a first step that has been made": (
        PODS,
        resized({"cpu": "1"}, {"cpu": "3"}, field="initContainers"),
        {**ONE_POD, **cpu("1")},
    ),
    "a pod that has ended": (PODS, {**pod(SMALL), "status": {"phase": "Succeeded"}}, {"count/pods": "1"}),
    "a pod that should be gone": (
        PODS,
        {
            **pod(SMALL),
            "metadata": {"deletionTimestamp": "1970-01-12T13:00:00Z", "deletionGracePeriodSeconds": 30},
        },
        {"count/pods": "1"},
    ),
    "a service inside": (SERVICES, service("ClusterIP"), services(0, 0)),
    "a service on nodes": (SERVICES, service("NodePort"), services(0, 2)),
    "a service outside": (SERVICES, service("LoadBalancer"), services(1, 2)),
    "with the ports it names only": (
        SERVICES,
        service("LoadBalancer", allocateLoadBalancerNodePorts=False),
        services(1, 1),
    ),
    "a claim": (CLAIMS, claim(), ONE_CLAIM),
    "a claim of a class": (CLAIMS, claim(storageClassName="fast"), FAST),
    "a claim to a part of a byte": (
        CLAIMS,
        {**claim(), "spec": {"resources": {"requests": {"storage": "1500m"}}}},
        {**ONE_CLAIM, "requests.storage": "2"},
    ),
    "a claim that has been larger": (
        CLAIMS,
        {**claim(), "status": {"allocatedResources": {"storage": "3Gi"}}},
        {**ONE_CLAIM, "requests.storage": "3Gi"},
    ),
    "a claim that is to be larger": (
        CLAIMS,
        {**claim(), "status": {"allocatedResources": {"storage": "1Mi"}}},
        ONE_CLAIM,
    ),
    "devices": (
        DEVICE_CLAIMS,
        devices(exactly("gpu", 2), exactly("gpu", 3), exactly("nic", 1)),
        {"count/resourceclaims.resource.k8s.io": "1", **of_class(gpu="5", nic="1")},
    ),
    "all devices": (
        DEVICE_CLAIMS,
        devices({"exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}),
        {"count/resourceclaims.resource.k8s.io": "1", **of_class(gpu="32")},
    ),
    "the most of several choices": (
        DEVICE_CLAIMS,
        devices(
            {
                "firstAvailable": [
                    exactly(name, count)["exactly"] for name, count in (("gpu", 2), ("gpu", 4), ("nic", 1))
                ]
            },
            exactly("gpu", 1),
        ),
        {"count/resourceclaims.resource.k8s.io": "1", **of_class(gpu="5", nic="1")},
    ),
    "devices, as v1beta1 has them": (
        DEVICE_CLAIMS,
        devices(exactly("gpu", 2)["exactly"]),
        {"count/resourceclaims.resource.k8s.io": "1", **of_class(gpu="2")},
    ),
    "told in the old way": (
        CLAIMS,
        {**claim(), "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "fast"}}},
        FAST,
    ),
}


@pytest.mark.parametrize(("resource", "document", "expected"), USAGES.values(), ids=USAGES)
def test_what_an_object_uses(
    resource: GroupResource, document: dict[str, Any], expected: dict[str, str]
) -> None:
    used = evaluator(resource).usage(document, NOW)
    assert {name: str(value) for name, value in used.items()} == expected
    assert all(evaluator(resource).measures(name) for name in used), "what is used can be limited"


def test_a_deployment_has_a_domain_of_its_own() -> None:
    used = QuotaEvaluator(CLAIMS, Brand("example.com", "acme")).usage(claim(storageClassName="a"), NOW)
    assert "a.storageclass.storage.example.com/requests.storage" in used


def test_names_of_others_are_not_measured() -> None:
    for resource in (PODS, SERVICES, CLAIMS, CONFIG_MAPS, DEPLOYMENTS):
        for name in ("count/widgets", "secrets", "count/deployments", "limits.example.com/gpu"):
            assert not evaluator(resource).measures(name)


WRITES: Final = {
    "a new object": (DEPLOYMENTS, "", Operation.CREATE, True),
    "its change": (DEPLOYMENTS, "", Operation.UPDATE, False),
    "its end": (DEPLOYMENTS, "", Operation.DELETE, False),
    "another type of a service": (SERVICES, "", Operation.UPDATE, True),
    "a larger claim": (CLAIMS, "", Operation.UPDATE, True),
    "the end of a pod's life": (PODS, "", Operation.UPDATE, True),
    "the volume of a claim": (CLAIMS, "status", Operation.UPDATE, True),
    "a pod's debugger": (PODS, "ephemeralcontainers", Operation.UPDATE, False),
    "a larger pod": (PODS, "resize", Operation.UPDATE, True),
    "a status": (SERVICES, "status", Operation.UPDATE, False),
    "a binding": (PODS, "binding", Operation.CREATE, False),
}


@pytest.mark.parametrize(("resource", "subresource", "operation", "expected"), WRITES.values(), ids=WRITES)
def test_which_writes_count(
    resource: GroupResource, subresource: str, operation: Operation, expected: bool
) -> None:
    assert handles(resource, subresource, operation) is expected


# ---- scopes


def scope(name: str, operator: str = "Exists", *values: str) -> dict[str, Any]:
    each = {"scopeName": name, "operator": operator, **({"values": list(values)} if values else {})}
    return {"scopeSelector": {"matchExpressions": [each]}}


ABROAD: Final = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "t", "namespaceSelector": {}}}
        ]
    }
}
AT_HOME: Final = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "t"}]}}
HIGH, LOW = pod(priorityClassName="high"), pod(priorityClassName="low")
SCOPES: Final[dict[str, tuple[dict[str, Any], dict[str, Any], bool]]] = {
    "none": ({}, pod(), True),
    "ends": ({"scopes": ["Terminating"]}, pod(activeDeadlineSeconds=0), True),
    "does not end": ({"scopes": ["Terminating"]}, pod(), False),
    "ends before it begins": ({"scopes": ["Terminating"]}, pod(activeDeadlineSeconds=-1), False),
    "is not to end": ({"scopes": ["NotTerminating"]}, pod(activeDeadlineSeconds=5), False),
    "asks for nothing": ({"scopes": ["BestEffort"]}, pod(), True),
    "asks for zero": ({"scopes": ["BestEffort"]}, pod({"requests": {"cpu": "0"}}), True),
    "asks for something": ({"scopes": ["BestEffort"]}, pod(SMALL), False),
    "asks for something else": (
        {"scopes": ["BestEffort"]},
        pod({"limits": {"ephemeral-storage": "1"}}),
        True,
    ),
    "is to ask": ({"scopes": ["NotBestEffort"]}, pod(SMALL), True),
    "all of several": ({"scopes": ["BestEffort", "NotTerminating"]}, pod(), True),
    "one of several": ({"scopes": ["BestEffort", "Terminating"]}, pod(), False),
    "of a class": (scope("PriorityClass", "In", "high", "higher"), HIGH, True),
    "of another class": (scope("PriorityClass", "In", "high"), LOW, False),
    "of no class": (scope("PriorityClass", "In", "high"), pod(), False),
    "not of a class": (scope("PriorityClass", "NotIn", "high"), pod(), True),
    "of any class": (scope("PriorityClass"), LOW, True),
    "of none": (scope("PriorityClass", "DoesNotExist"), LOW, False),
    "looks abroad": (scope("CrossNamespacePodAffinity"), pod(affinity=ABROAD), True),
    "stays at home": (scope("CrossNamespacePodAffinity"), pod(affinity=AT_HOME), False),
    "a scope of other objects": (scope("VolumeAttributesClass"), pod(), False),
}


@pytest.mark.parametrize(("spec", "document", "expected"), SCOPES.values(), ids=SCOPES)
def test_scopes_of_pods(spec: dict[str, Any], document: dict[str, Any], expected: bool) -> None:
    assert evaluator(PODS).is_in_scope({"spec": spec}, document) is expected


def test_scopes_of_others() -> None:
    """A quota with a scope is about no object that cannot be in it."""
    assert not evaluator(CONFIG_MAPS).is_in_scope({"spec": {"scopes": ["NotTerminating"]}}, {"metadata": {}})


BECOMES: Final = {**claim(volumeAttributesClassName="gold"), "status": {}}
BECOMES["status"] = {
    "currentVolumeAttributesClassName": "silver",
    "modifyVolumeStatus": {"targetVolumeAttributesClassName": "tin"},
}
CLASSES: Final[dict[str, tuple[dict[str, Any], dict[str, Any], bool]]] = {
    "the class that is wanted": (scope("VolumeAttributesClass", "In", "gold"), BECOMES, True),
    "the class that there is": (scope("VolumeAttributesClass", "In", "silver"), BECOMES, True),
    "the class that is tried": (scope("VolumeAttributesClass", "In", "tin"), BECOMES, True),
    "another class": (scope("VolumeAttributesClass", "In", "lead"), BECOMES, False),
    "not the only class": (scope("VolumeAttributesClass", "NotIn", "gold"), BECOMES, True),
    "none of the classes": (scope("VolumeAttributesClass", "NotIn", "gold", "silver", "tin"), BECOMES, False),
    "any class": (scope("VolumeAttributesClass"), BECOMES, True),
    "no class": (scope("VolumeAttributesClass", "DoesNotExist"), BECOMES, False),
    "any class, of none": (scope("VolumeAttributesClass"), claim(), False),
    "no class, of none": (scope("VolumeAttributesClass", "DoesNotExist"), claim(), True),
    "not a class, of none": (scope("VolumeAttributesClass", "NotIn", "gold"), claim(), True),
    "an empty name is none": (scope("VolumeAttributesClass"), claim(volumeAttributesClassName=""), False),
    "a scope of other objects": (scope("PriorityClass", "DoesNotExist"), claim(), False),
}


@pytest.mark.parametrize(("spec", "document", "expected"), CLASSES.values(), ids=CLASSES)
def test_scopes_of_claims(spec: dict[str, Any], document: dict[str, Any], expected: bool) -> None:
    assert evaluator(CLAIMS).is_in_scope({"spec": spec}, document) is expected


# ---- updates

ENDLESS, ENDS, ENDS_SOONER = pod(SMALL), pod(SMALL, activeDeadlineSeconds=9), pod(activeDeadlineSeconds=5)
TERMINATING: Final = {"scopes": ["Terminating"]}
PLAIN, GOLDEN = claim(), claim(volumeAttributesClassName="gold")
LARGER: Final = {**claim(), "spec": {"resources": {"requests": {"storage": "3Gi"}}}}
GOLD: Final = scope("VolumeAttributesClass", "In", "gold")
# The quota's scope, what it counts, the object before and after, and what is charged.
MOVES: Final[dict[str, tuple[GroupResource, dict[str, Any], str, Any, Any, str]]] = {
    "a pod that comes into the scope": (PODS, TERMINATING, "pods", ENDLESS, ENDS, "1"),
    "what it asks for, too": (PODS, TERMINATING, "requests.cpu", ENDLESS, ENDS, "100m"),
    "a pod that stays in it": (PODS, TERMINATING, "pods", ENDS, ENDS_SOONER, ""),
    "a pod that leaves it": (PODS, TERMINATING, "pods", ENDS, ENDLESS, ""),
    "a pod that is in no scope any more": (PODS, {"scopes": ["NotTerminating"]}, "pods", ENDS, ENDLESS, "1"),
    "two scopes": (PODS, {"scopes": ["Terminating", "NotBestEffort"]}, "pods", ENDLESS, ENDS, "1"),
    "a selector": (PODS, scope("Terminating"), "pods", ENDLESS, ENDS, "1"),
    "no scope": (PODS, {}, "pods", ENDLESS, ENDS, ""),
    "a class of priority": (PODS, scope("PriorityClass", "In", "high"), "pods", LOW, HIGH, "1"),
    "no class of priority": (PODS, scope("PriorityClass", "DoesNotExist"), "pods", LOW, pod(), "1"),
    "a pod that asks for something": (PODS, {"scopes": ["NotBestEffort"]}, "pods", pod(), ENDLESS, "1"),
    "a pod that looks abroad": (
        *(PODS, scope("CrossNamespacePodAffinity"), "pods"),
        *(pod(), pod(affinity=ABROAD), "1"),
    ),
    "a claim that comes into the scope": (CLAIMS, GOLD, "persistentvolumeclaims", PLAIN, GOLDEN, "1"),
    "its size, too": (CLAIMS, GOLD, "requests.storage", PLAIN, GOLDEN, "1Gi"),
    "a claim that leaves the scope": (CLAIMS, GOLD, "requests.storage", GOLDEN, PLAIN, ""),
    "a claim that grows": (CLAIMS, {}, "requests.storage", PLAIN, LARGER, "2Gi"),
    "a claim whose volume gets the class": (
        *(CLAIMS, GOLD, "requests.storage", PLAIN),
        *({**claim(), "status": {"currentVolumeAttributesClassName": "gold"}}, "1Gi"),
    ),
}


@pytest.mark.parametrize(("resource", "spec", "name", "old", "new", "charged"), MOVES.values(), ids=MOVES)
def test_an_update_that_enters_the_scope_of_a_quota_is_charged_like_a_create(
    resource: GroupResource, spec: dict[str, Any], name: str, old: Any, new: Any, charged: str
) -> None:
    there = quota({name: "100Gi"}, **spec)
    used = usage_after_write(there, evaluator(resource), new, old, NOW)
    assert used == ({name: charged} if charged else None)
    full = quota({name: "0"}, **spec)
    if charged:
        limits = f"requested: {name}={charged}, used: {name}=0, limited: {name}=0"
        assert refusal(full, resource, new, old) == f"exceeded quota: q, {limits}"
        used = usage_after_write(full, evaluator(resource), new, old, NOW, is_limited=False)
        assert used == {name: charged}, "charged, but not refused"
    else:
        assert usage_after_write(full, evaluator(resource), new, old, NOW) is None


# Which updates of pods count.
UPDATES: Final[dict[str, tuple[GroupResource, str, Any, Any, bool]]] = {
    "an end": (PODS, "", ENDLESS, ENDS, True),
    "no end any more": (PODS, "", ENDS, ENDLESS, True),
    "an earlier end": (PODS, "", ENDS, ENDS_SOONER, False),
    "a label": (PODS, "", ENDLESS, {**ENDLESS, "metadata": {"labels": {"a": "b"}}}, False),
    "a new size": (PODS, "resize", ENDLESS, ENDLESS, True),
    "a claim": (CLAIMS, "", PLAIN, PLAIN, True),
    "a volume": (CLAIMS, "status", PLAIN, PLAIN, True),
    "a service": (SERVICES, "", service("ClusterIP"), service("NodePort"), True),
}


@pytest.mark.parametrize(("resource", "subresource", "old", "new", "expected"), UPDATES.values(), ids=UPDATES)
def test_which_updates_count(
    resource: GroupResource, subresource: str, old: Any, new: Any, expected: bool
) -> None:
    assert may_change_usage(resource, subresource, new, old) is expected


# ---- charging


def refusal(quota: dict[str, Any], resource: GroupResource, new: dict[str, Any], old: Any = None) -> str:
    with pytest.raises(QuotaViolation) as raised:
        usage_after_write(quota, evaluator(resource), new, old, NOW)
    return str(raised.value)


def test_usage_is_added() -> None:
    """Entries of others stay, and every sum in the form that it had."""
    hard = {"pods": "2", "memory": "4Gi", "services": "1"}
    there = quota(hard, {"pods": "1", "memory": "512Mi", "services": "1"})
    assert usage_after_write(there, evaluator(PODS), pod(SMALL), None, NOW) == {
        "pods": "2",
        "memory": "1536Mi",
        "services": "1",
    }
    assert there["status"]["used"]["pods"] == "1", "the quota itself is not changed"


def test_what_does_not_concern_a_quota() -> None:
    assert usage_after_write(quota({"services": "0"}), evaluator(PODS), pod(), None, NOW) is None
    assert (
        usage_after_write(quota({"pods": "0"}, scopes=["Terminating"]), evaluator(PODS), pod(), None, NOW)
        is None
    )
    unmeasured = {**quota({"pods": "0"}), "status": {}}
    assert usage_after_write(unmeasured, evaluator(PODS), pod(), None, NOW) is None, (
        "nobody has looked at it yet"
    )


def test_a_quota_that_is_used_up() -> None:
    there = quota(
        {"pods": "1", "requests.cpu": "1", "memory": "8Gi"},
        {"pods": "1", "requests.cpu": "950m", "memory": "0"},
    )
    assert refusal(there, PODS, pod(SMALL)) == (
        "exceeded quota: q, requested: pods=1,requests.cpu=100m, used: pods=1,requests.cpu=950m, "
        "limited: pods=1,requests.cpu=1"
    )


def test_pods_must_say_what_they_need() -> None:
    """Of processor time and memory only, and each container for itself, or the pod as a whole."""
    compute = quota({"requests.cpu": "1", "limits.memory": "1Gi", "requests.ephemeral-storage": "1"})
    assert refusal(compute, PODS, pod(SMALL, {})) == (
        "failed quota: q: must specify limits.memory for: c0,c1; requests.cpu for: c1"
    )
    whole = pod({}, resources={"requests": {"cpu": "1"}})
    assert usage_after_write(compute, evaluator(PODS), whole, None, NOW) is not None
    usage_after_write(compute, evaluator(PODS), pod({}, resources={"limits": {"cpu": "1"}}), None, NOW)
    with pytest.raises(QuotaViolation):
        usage_after_write(compute, evaluator(PODS), pod({}, resources={"requests": {}}), None, NOW)


def test_a_quota_that_is_measured_in_part() -> None:
    assert refusal(quota({"pods": "9", "count/pods": "9"}, {"pods": "0"}), PODS, pod()) == (
        "status unknown for quota: q, resources: count/pods,pods"
    )


def test_a_change_costs_the_difference() -> None:
    """What is given back is found when somebody measures anew."""
    there = quota({"services": "1", "services.nodeports": "3"}, {"services": "1", "services.nodeports": "1"})
    inside, on_nodes = service("ClusterIP"), service("NodePort")
    assert usage_after_write(there, evaluator(SERVICES), on_nodes, inside, NOW) == {
        "services": "1",
        "services.nodeports": "3",
    }
    assert usage_after_write(there, evaluator(SERVICES), inside, on_nodes, NOW) is None
    assert usage_after_write(there, evaluator(SERVICES), on_nodes, on_nodes, NOW) is None
    full = quota({"services.nodeports": "1"}, {"services.nodeports": "0"})
    assert refusal(full, SERVICES, on_nodes, inside).startswith(
        "exceeded quota: q, requested: services.nodeports=2"
    )


@given(st.lists(st.integers(1, 2_000), max_size=20), st.integers(0, 5_000))
def test_never_more_than_the_limit(requests: list[int], limit: int) -> None:
    """However pods come: those admitted never use more than there is, and only the others are refused."""
    there, used = quota({"cpu": f"{limit}m"}), 0
    for request in requests:
        try:
            after = usage_after_write(
                there, evaluator(PODS), pod({"requests": {"cpu": f"{request}m"}}), None, NOW
            )
        except QuotaViolation:
            assert used + request > limit
        else:
            assert after is not None
            used += request
            assert after["cpu"] == str(Quantity(Decimal(used) / 1000))
            there["status"]["used"] = after
    assert used <= limit


# ---- what is limited by default

# https://kubernetes.io/docs/concepts/policy/resource-quotas/#limit-priority-class-consumption-by-default
VIPS: Final = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
LIMITED: Final = (
    LimitedResource(PODS, scopes=(VIPS,)),
    LimitedResource(SERVICES, names=("loadbalancers",)),
    LimitedResource(PODS, names=("requests.cpu",)),
)
FOR_VIPS: Final = quota({"pods": "5"}, scopeSelector={"matchExpressions": [VIPS]})

COVERED: Final[dict[str, tuple[GroupResource, Any, list[Any], str]]] = {
    "what is not limited": (PODS, pod(), [], ""),
    "objects of another type": (CONFIG_MAPS, {"metadata": {}, "data": {}}, [], ""),
    "a scope": (
        PODS,
        pod(priorityClassName="high"),
        [],
        "insufficient quota to match these scopes: [{PriorityClass In [high]}]",
    ),
    "a scope that a quota has": (PODS, pod(priorityClassName="high"), [FOR_VIPS], ""),
    "a scope that only other quotas have": (
        PODS,
        pod(priorityClassName="high"),
        [quota({"pods": "5"})],
        "insufficient quota to match these scopes: [{PriorityClass In [high]}]",
    ),
    "a name": (PODS, pod(SMALL), [quota({"pods": "5"})], "insufficient quota to consume: requests.cpu"),
    "a name that a quota has": (PODS, pod(SMALL), [quota({"requests.cpu": "5"})], ""),
    "a name of which nothing is used": (SERVICES, service("ClusterIP"), [], ""),
    "a part of a name": (
        SERVICES,
        service("LoadBalancer"),
        [],
        "insufficient quota to consume: services.loadbalancers",
    ),
}


@pytest.mark.parametrize(("resource", "new", "quotas", "why"), COVERED.values(), ids=COVERED)
def test_what_is_limited_needs_a_quota(
    resource: GroupResource, new: Any, quotas: list[Any], why: str
) -> None:
    change = ObjectChange(new, None, NOW)
    if why:
        with pytest.raises(QuotaViolation, match=f"^{re.escape(why)}$"):
            require_covered(LIMITED, quotas, evaluator(resource), change)
    else:
        require_covered(LIMITED, quotas, evaluator(resource), change)


def test_an_update_that_enters_the_scope_of_a_quota_is_checked_like_a_create() -> None:
    """Where a quota covers it before and after, only what it uses more is."""
    limited = (LimitedResource(PODS, names=("requests.cpu",)),)
    into, around = quota({"pods": "5"}, scopes=["Terminating"]), quota({"pods": "5"})
    change = ObjectChange(ENDS, ENDLESS, NOW)
    require_covered(limited, [around], evaluator(PODS), change)
    with pytest.raises(QuotaViolation, match=r"insufficient quota to consume: requests\.cpu"):
        require_covered(limited, [around, into], evaluator(PODS), change)


def test_an_update_that_uses_no_more_needs_none() -> None:
    before = service("LoadBalancer")
    require_covered(LIMITED, [], evaluator(SERVICES), ObjectChange(service("LoadBalancer"), before, NOW))
    with pytest.raises(QuotaViolation):
        require_covered(LIMITED, [], evaluator(SERVICES), ObjectChange(before, service("ClusterIP"), NOW))
