"""Fields whose feature gate is off, over HTTP: by every kind of write. Row H09.

The table of them has its tests in `tests/unit/catalogue/test_gated_fields.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.support.api import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Api
from tests.support.server_process import ServerProcess

TEMPLATE: Final = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


class Case(NamedTuple):
    """A field of a feature that is off by default. spec: of an object without it. path: of the field."""

    gate: str
    collection: str
    api_version: str
    kind: str
    spec: Any
    path: tuple[str, ...]
    value: Any
    changed: Any


CORE_PATH: Final = "/api/v1/namespaces/default"
APPS_PATH: Final = "/apis/apps/v1/namespaces/default"
CASES: Final = {
    "a stateful set's pods that may be missing": Case(
        "MaxUnavailableStatefulSet",
        f"{APPS_PATH}/statefulsets",
        "apps/v1",
        "StatefulSet",
        {
            "selector": {"matchLabels": {"a": "b"}},
            "template": TEMPLATE,
            "updateStrategy": {"rollingUpdate": {"partition": 0}},
        },
        ("updateStrategy", "rollingUpdate", "maxUnavailable"),
        2,
        3,
    ),
    "a lease's strategy": Case(
        "CoordinatedLeaderElection",
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        "coordination.k8s.io/v1",
        "Lease",
        {"leaseDurationSeconds": 5},
        ("strategy",),
        "OldestEmulationVersion",
        "example.com/Other",
    ),
    "whether pods wait for a driver": Case(
        "VolumeLimitScaling",
        "/apis/storage.k8s.io/v1/csidrivers",
        "storage.k8s.io/v1",
        "CSIDriver",
        {"attachRequired": True},
        ("preventPodSchedulingIfMissing",),
        True,
        True,
    ),
}
EACH: Final = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Objects that have the fields, written while the features were on."""
    where = tmp_path_factory.mktemp("gates")
    gates = ",".join(f"{case.gate}=true" for case in CASES.values())
    with ServerProcess(where, f"--feature-gates={gates}") as server, Api(server) as api:
        for case in CASES.values():
            written = api.post(case.collection, document(case, "old", value=case.value)).ok()
            assert field(case, written) == case.value
    return where


@pytest.fixture(scope="module")
def api(data_dir: Path) -> Iterator[Api]:
    with ServerProcess(data_dir) as server, Api(server) as api:
        yield api


def document(case: Case, name: str, **values: Any) -> dict[str, Any]:
    """An object of the case; value: of its field, which it does not have if none is given."""
    spec = dict(case.spec)
    if values:
        *way, last = case.path
        inner = spec
        for step in way:
            inner[step] = dict(inner[step])
            inner = inner[step]
        inner[last] = values["value"]
    return {"apiVersion": case.api_version, "kind": case.kind, "metadata": {"name": name}, "spec": spec}


def field(case: Case, found: Any) -> Any:
    value = found["spec"]
    for step in case.path:
        value = value.get(step) or {}
    return value or None


def merge(case: Case, value: Any) -> dict[str, Any]:
    for step in reversed(("spec", *case.path)):
        value = {step: value}
    return dict(value)


@EACH
def test_no_write_sets_it(api: Api, case: Case) -> None:
    name = "new"
    path = f"{case.collection}/{name}"
    assert field(case, api.post(case.collection, document(case, name, value=case.value)).ok()) is None
    live = api.get(path).ok()
    merged = document(case, name, value=case.value)
    merged["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
    assert field(case, api.put(path, merged).ok()) is None
    patches: dict[str, Any] = {
        MERGE_PATCH: merge(case, case.value),
        STRATEGIC_PATCH: merge(case, case.value),
        JSON_PATCH: [{"op": "add", "path": f"/spec/{'/'.join(case.path)}", "value": case.value}],
    }
    for content_type, body in patches.items():
        assert field(case, api.patch(path, body, content_type).ok()) is None, content_type
    applied = api.apply(f"{path}?fieldManager=m&force=true", document(case, name, value=case.value)).ok()
    assert field(case, applied) is None


@EACH
def test_what_has_it_keeps_it(api: Api, case: Case) -> None:
    path = f"{case.collection}/old"
    assert field(case, api.get(path).ok()) == case.value
    assert field(case, api.patch(path, {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH).ok()) == case.value
    if case.changed != case.value:
        assert field(case, api.patch(path, merge(case, case.changed), MERGE_PATCH).ok()) == case.changed
    if (
        case.kind != "CSIDriver"
    ):  # It defaults the field of a feature that is on, and may not change without it.
        assert field(case, api.patch(path, merge(case, None), MERGE_PATCH).ok()) is None
        assert field(case, api.patch(path, merge(case, case.value), MERGE_PATCH).ok()) is None, "not in use"


def test_a_container_added_to_a_running_pod_has_none_either(api: Api) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": TEMPLATE["spec"]}
    api.post(f"{CORE_PATH}/pods", pod).ok()
    container = {"name": "e", "image": "i", "lifecycle": {"stopSignal": "SIGTERM"}}
    body = {"spec": {"ephemeralContainers": [container]}}
    found = api.patch(f"{CORE_PATH}/pods/p/ephemeralcontainers", body, STRATEGIC_PATCH).ok()
    (added,) = found["spec"]["ephemeralContainers"]
    assert "lifecycle" not in added
