"""The code of each type finds what its declared rules find, whatever is written. Row H05."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from apiserver.catalogue.builtins import Catalogue
from apiserver.meta.brand import Brand
from apiserver.meta.field_errors import FieldError
from apiserver.meta.vocabulary import Document
from apiserver.registry.declarative_validation import differences
from apiserver.registry.served_resource import ServedResource
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.validation.declarative.rules import migrated_types
from tests.unit.catalogue.valid_pods import container, decoded

TEMPLATE: Final = decoded({"spec": {"containers": [container()]}}, "PodTemplateSpec")
ABSENT: Final = object()
TEXTS: Final[tuple[Any, ...]] = (ABSENT, "", "a", "b", "No Name!")
NUMBERS: Final[tuple[Any, ...]] = (ABSENT, -1, 0, 1, 2)
BLOCKS: Final[tuple[Any, ...]] = (ABSENT, {}, {"cidr": ""}, {"cidr": "10.0.0.0/8"}, {"cidr": "x"})
ACTIONS: Final[tuple[Any, ...]] = (ABSENT, [], ["Deny"], ["Deny", "Warn"], ["X"])
CONDITIONS: Final[tuple[Any, ...]] = tuple(
    [{"type": kind, "status": "True"} for kind in kinds]
    for kinds in (
        (),
        ("Approved",),
        ("Denied", "Approved"),
        ("Approved", "Failed", "Denied", "Approved"),
        ("Denied", ""),
    )
)
RULE: Final = {"apiGroups": [""], "resources": ["pods"]}
SUBJECTS: Final[tuple[Any, ...]] = (
    ABSENT,
    [{"kind": "User", "name": ""}],
    [{"kind": "X"}, {"kind": "ServiceAccount"}],
)
VERBS: Final[tuple[Any, ...]] = (ABSENT, [], [RULE], [RULE | {"verbs": ["get"]}, RULE | {"verbs": []}])
ENDPOINTS: Final[tuple[Any, ...]] = (
    ABSENT,
    [],
    [{"addresses": ["10.0.0.1"]}, {"addresses": []}],
    [{"addresses": ["10.0.0.1"] * 101}],
    [{"addresses": []}] * 1_001,
)
LIMITED: Final[tuple[Any, ...]] = (
    ABSENT,
    {},
    {"limitResponse": {"type": "Reject"}},
    {"limitResponse": {"type": "Queue"}},
    {"limitResponse": {"type": "Reject", "queuing": {}}},
    {"limitResponse": {"type": "Queue", "queuing": {"queues": 1}}},
)
ROLE: Final = {"rules": VERBS}
BINDING: Final = {"roleRef.name": TEXTS, "roleRef.kind": ("Role", "ClusterRole", ""), "subjects": SUBJECTS}
# For each type, values of fields that its declared rules, or its code in the same places, are about.
VALUES: Final[dict[str, dict[str, tuple[Any, ...]]]] = {
    "core.v1.ReplicationController": {
        "spec.replicas": NUMBERS[1:],
        "spec.minReadySeconds": NUMBERS,
        "spec.template": (TEMPLATE,),
    },
    "autoscaling.v2.HorizontalPodAutoscaler": {
        "spec.minReplicas": NUMBERS,
        "spec.maxReplicas": NUMBERS,
        "spec.scaleTargetRef": ({"kind": "Deployment", "name": "a"}, {}),
    },
    "batch.v1.CronJob": {
        "spec.schedule": (ABSENT, "", "* * * * *", "TZ=x * * * * *", "no"),
        "spec.concurrencyPolicy": ("Allow", ""),
        "spec.jobTemplate": ({"spec": {"template": TEMPLATE}},),
    },
    "certificates.v1.CertificateSigningRequest": {"status.conditions": CONDITIONS},
    "discovery.v1.EndpointSlice": {
        "addressType": (ABSENT, "", "IPv4", "IPv6", "FQDN", "Other"),
        "endpoints": ENDPOINTS,
    },
    "flowcontrol.v1.PriorityLevelConfiguration": {
        "spec.type": (ABSENT, "", "Limited", "Exempt", "Other"),
        "spec.limited": LIMITED,
        "spec.exempt": (ABSENT, {}, {"lendablePercent": -1}),
    },
    "admissionregistration.v1.ValidatingAdmissionPolicyBinding": {
        "spec.policyName": TEXTS,
        "spec.validationActions": ACTIONS,
    },
    "networking.v1.IngressClass": {
        "spec.controller": ("example.com/a", ""),
        "spec.parameters": (ABSENT, {}, {"kind": "", "name": "a"}, {"kind": "A", "name": "", "scope": "X"}),
    },
    "networking.v1.IPAddress": {
        "spec.parentRef": (
            {},
            {"resource": "a", "name": ""},
            {"resource": "a", "name": "b"},
            {"resource": "a", "name": "b", "group": ""},
        )
    },
    "networking.v1.NetworkPolicy": {
        "spec.ingress": tuple([{"from": [{} if each is ABSENT else {"ipBlock": each}]}] for each in BLOCKS),
        "spec.egress": tuple([{"to": [{} if each is ABSENT else {"ipBlock": each}]}, {}] for each in BLOCKS),
    },
    "node.v1.RuntimeClass": {"handler": TEXTS},
    "rbac.v1.ClusterRole": ROLE,
    "rbac.v1.ClusterRoleBinding": BINDING,
    "rbac.v1.Role": ROLE,
    "rbac.v1.RoleBinding": BINDING,
    "storage.v1.StorageClass": {
        "provisioner": ("example.com/a", "", "b"),
        "parameters": (ABSENT, {"a": "b"}, {"a": "c"}),
        "reclaimPolicy": (ABSENT, "Delete", "Retain"),
        "volumeBindingMode": ("Immediate", "WaitForFirstConsumer", "Other"),
    },
    "storage.v1.VolumeAttachment": {
        "spec.attacher": TEXTS,
        "spec.nodeName": TEXTS[1:],
        "spec.source": ({}, {"persistentVolumeName": "a"}, {"persistentVolumeName": "B!"}),
    },
}


@cache
def resources() -> dict[str, ServedResource]:
    table = Catalogue(Brand(), BuiltinSchemas((1, 36))).resources()
    return {each.definition: each for some in table.group_versions.values() for each in some}


@st.composite
def documents(draw: st.DrawFn, name: str) -> Document:
    document: Document = {"metadata": {"name": "a"}}
    for path, values in VALUES[name].items():
        value = draw(st.sampled_from(values))
        *parents, field = path.split(".")
        owner = document
        for parent in parents:
            owner = owner.setdefault(parent, {})
        if value is not ABSENT:
            owner[field] = copy.deepcopy(value)
    return document


def coded(resource: ServedResource, new: Document, old: Document | None) -> Iterator[FieldError]:
    strategy = resource.strategy
    yield from strategy.validate(new)
    yield from strategy.validate_ratcheting(new, old)
    if old is None:
        yield from strategy.validate_create(new)
        return
    for update in (strategy.update, *(each.update for each in resource.subresources.values())):
        if update is not None:
            yield from update.validate(new, old)


def test_every_type_is_compared() -> None:
    assert migrated_types().keys() == {f"io.k8s.api.{name}" for name in VALUES}


@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
def test_creates(name: str, data: st.DataObject) -> None:
    rules, resource = migrated_types()[f"io.k8s.api.{name}"], resources()[f"io.k8s.api.{name}"]
    new = data.draw(documents(name))
    resource.strategy.prepare_create(new)
    found = list(coded(resource, copy.deepcopy(new), None))
    assert differences(found, rules.errors(new, None), rules.covers) == []


@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
def test_updates(name: str, data: st.DataObject) -> None:
    """What is stored was right when it was written."""
    rules, resource = migrated_types()[f"io.k8s.api.{name}"], resources()[f"io.k8s.api.{name}"]
    old = data.draw(documents(name))
    resource.strategy.prepare_create(old)
    assume(not rules.errors(old, None))
    new = data.draw(documents(name))
    found = list(coded(resource, copy.deepcopy(new), copy.deepcopy(old)))
    assert differences(found, rules.errors(new, old), rules.covers) == []
