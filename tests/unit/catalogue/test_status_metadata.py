"""What a write to the status changes of the metadata, kind by kind. Row I13.

Source: the status strategies of Kubernetes 1.36, PrepareForUpdate and GetResetFields.
"""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from apiserver.meta.vocabulary import Document
from apiserver.registry.patch.apply.endpoint_fields import EndpointFields
from apiserver.registry.patch.apply.field_set import FieldSet
from apiserver.registry.strategy import UpdateStrategy
from tests.unit.catalogue.served_kinds import table

OLD: Final[Document] = {
    "labels": {"a": "old"},
    "annotations": {"a": "old"},
    "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "old", "uid": "1"}],
    "finalizers": ["example.com/old"],
}
NEW: Final[Document] = {
    "labels": {"a": "new"},
    "annotations": {"a": "new"},
    "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "new", "uid": "2"}],
    "finalizers": ["example.com/new"],
}
ALL: Final = frozenset(NEW)
NONE: Final[frozenset[str]] = frozenset()
EVERYTHING: Final = (
    *("certificatesigningrequests", "cronjobs", "customresourcedefinitions", "daemonsets"),
    *("horizontalpodautoscalers", "ingresses", "jobs", "namespaces", "nodes", "persistentvolumeclaims"),
    *("persistentvolumes", "poddisruptionbudgets", "replicasets", "replicationcontrollers"),
    *("resourcequotas", "services", "statefulsets"),
)
NOTHING: Final = (
    *("apiservices", "csinodes", "devicetaintrules", "flowschemas", "podcertificaterequests"),
    *("prioritylevelconfigurations", "resourceclaims", "servicecidrs", "storageversionmigrations"),
    *("validatingadmissionpolicies", "volumeattachments"),
)
TAKEN: Final = {
    "deployments": ALL - {"labels"},
    "pods": ALL - {"ownerReferences"},
    **dict.fromkeys(EVERYTHING, ALL),
    **dict.fromkeys(NOTHING, NONE),
}


def updates_of(minor: int) -> dict[str, UpdateStrategy]:
    return {
        f"{resource.api_version}/{resource.resource}": status.update
        for resource in table(minor=minor).resources
        if (status := resource.subresources.get("status")) is not None and status.update is not None
    }


STATUSES: Final = {
    f"1.{minor} {kind}": update for minor in (24, 36, 37) for kind, update in updates_of(minor).items()
}


@pytest.mark.parametrize("case", STATUSES)
def test_a_write_to_the_status_changes_this_of_the_metadata(case: str) -> None:
    update, taken = STATUSES[case], TAKEN[case.rpartition("/")[2]]
    old: dict[str, Any] = {"metadata": {"name": "a", **OLD}, "spec": {}, "status": {}}
    new: dict[str, Any] = {"metadata": {"name": "a", **NEW}, "spec": {}, "status": {}}
    written = copy.deepcopy(new)
    update.prepare(written, copy.deepcopy(old))
    expected = {field: NEW[field] if field in taken else OLD[field] for field in ALL}
    annotations = written["metadata"].get("annotations") or {}
    annotations.pop("deprecated.daemonset.template.generation", None)
    assert {field: written["metadata"].get(field) for field in ALL} == expected

    removed = {"metadata": {"name": "a"}, "spec": {}, "status": {}}
    update.prepare(removed, copy.deepcopy(old))
    assert {field for field in ALL if removed["metadata"].get(field) != OLD[field]} == taken


# The kinds whose status strategies keep the metadata as a whole, and not field by field.
KEEPS_PREFIX: Final = frozenset({"flowschemas", "prioritylevelconfigurations"})


@pytest.mark.parametrize("case", STATUSES)
def test_a_write_to_the_status_changes_the_prefix_of_a_generated_name(case: str) -> None:
    keeps = case.rpartition("/")[2] in KEEPS_PREFIX
    managed = [{"manager": "m"}]
    for new_prefix, old_prefix in (("new-", "old-"), ("new-", None), (None, "old-")):
        old = _prefixed(old_prefix, resourceVersion="1")
        new = _prefixed(new_prefix, resourceVersion="2", managedFields=managed)
        STATUSES[case].prepare(new, old)
        assert new["metadata"].get("generateName") == (old_prefix if keeps else new_prefix)
        assert new["metadata"]["resourceVersion"] == "2"
        assert new["metadata"]["managedFields"] == managed


def _prefixed(prefix: str | None, **meta: Any) -> Document:
    return {
        "metadata": {"name": "a", **({"generateName": prefix} if prefix else {}), **meta},
        "spec": {},
        "status": {},
    }


@pytest.mark.parametrize("case", STATUSES)
def test_managers_own_what_a_write_to_the_status_changes(case: str) -> None:
    update, taken = STATUSES[case], TAKEN[case.rpartition("/")[2]]
    endpoint = EndpointFields(update.resets or (), update.writes)
    owned: FieldSet = {f"f:{field}": {".": {}} for field in ALL}
    written = endpoint.written({"f:metadata": owned, "f:spec": {"f:a": {}}, "f:status": {"f:a": {}}})
    assert written.get("f:metadata", {}) == {f"f:{field}": {".": {}} for field in taken}
    assert "f:status" in written
    assert "f:spec" not in written


def test_every_status_is_listed() -> None:
    assert {case.rpartition("/")[2] for case in STATUSES} == set(TAKEN)
