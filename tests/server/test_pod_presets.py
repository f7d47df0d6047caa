"""Pods on a server of release 1.18 with the admission plugin PodPreset. Rows H01, T31."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.admission.plugins.pod_preset import ADDED_BYTES_MAX
from tests.hostile.support import longest_turn
from tests.support.api import Answer, Api
from tests.support.eventually import until
from tests.support.server_process import ServerProcess

GROUP_VERSION: Final = "/apis/settings.k8s.io/v1alpha1"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
ANNOTATION: Final = "podpreset.admission.kubernetes.io/podpreset-"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
SWITCHED_ON: Final = "--runtime-config=settings.k8s.io/v1alpha1"
PLUGIN: Final = "--enable-admission-plugins=PodPreset"
SPEC: Final[dict[str, Any]] = {
    "selector": {"matchLabels": {"role": "frontend"}},
    "env": [{"name": "DB_PORT", "value": "6379"}],
    "envFrom": [{"secretRef": {"name": "db"}}],
    "volumes": [{"name": "cache"}],
    "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
}


OWN_VOLUME: Final = {"name": "own", "emptyDir": {}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    flags = ("--emulated-version=1.18", SWITCHED_ON, PLUGIN, "--authorization-mode=RBAC")
    with ServerProcess(tmp_path_factory.mktemp("presets") / "data", *flags) as server:
        yield server


def presets(namespace: str) -> str:
    return f"{GROUP_VERSION}/namespaces/{namespace}/podpresets"


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def put_preset(api: Api, namespace: str, spec: dict[str, Any] = SPEC, name: str = "db") -> Any:
    """Returns it when the cache, which the plugin looks into, has it."""
    created = api.post(presets(namespace), {"metadata": {"name": name}, "spec": spec}).ok()
    assert api.get(f"{presets(namespace)}/{name}").ok() == created
    return created


def pod(name: str = "web", annotations: dict[str, str] | None = None, **container: Any) -> dict[str, Any]:
    """A pod of the frontend, with an init container, and a volume. container: what the other one has."""
    meta = {"name": name, "labels": {"role": "frontend"}, "annotations": annotations or {}}
    spec = {
        "containers": [{"name": "c", "image": "i", **container}],
        "initContainers": [{"name": "first", "image": "i"}],
        "volumes": [OWN_VOLUME],
        # Mirror pods need one.
        "nodeName": "node",
    }
    return {"metadata": meta, "spec": spec}


def added_to(answer: Answer) -> dict[str, str]:
    """The presets that a pod was merged with, with their resourceVersions."""
    annotations = answer.ok()["metadata"].get("annotations", {})
    return {
        key.removeprefix(ANNOTATION): text for key, text in annotations.items() if key.startswith(ANNOTATION)
    }


def test_a_preset_is_put_into_the_pods_that_it_selects(api: Api, namespace: str) -> None:
    preset = put_preset(api, namespace)
    put_preset(api, namespace, {**SPEC, "selector": {"matchLabels": {"role": "backend"}}}, "other")
    created = api.post(pods(namespace), pod(env=[{"name": "OWN", "value": "1"}]))
    assert added_to(created) == {"db": preset["metadata"]["resourceVersion"]}
    spec = created.json["spec"]
    assert spec["volumes"] == [OWN_VOLUME, {"name": "cache", "emptyDir": {}}]
    (container,), (first,) = spec["containers"], spec["initContainers"]
    assert container["env"] == [{"name": "OWN", "value": "1"}, *SPEC["env"]]
    assert first["env"] == SPEC["env"]
    for each in (container, first):
        assert (each["envFrom"], each["volumeMounts"]) == (SPEC["envFrom"], SPEC["volumeMounts"])
    assert api.get(f"{pods(namespace)}/web").ok() == created.json


def test_what_changes_a_pod_is_no_matter_of_presets(api: Api, namespace: str) -> None:
    api.post(pods(namespace), pod()).ok()
    put_preset(api, namespace)
    changed = api.patch(f"{pods(namespace)}/web", {"metadata": {"labels": {"a": "b"}}})
    assert added_to(changed) == {}


def test_presets_of_other_namespaces(api: Api, namespace: str) -> None:
    put_preset(api, namespace)
    assert added_to(api.post(pods("default"), pod(f"of-{namespace}"))) == {}


LEFT_ALONE: Final[dict[str, dict[str, Any]]] = {
    "who wants none": pod(annotations={"podpreset.admission.kubernetes.io/exclude": "true"}),
    "a mirror pod": pod(annotations={"kubernetes.io/config.mirror": "abc"}),
    "another value": pod(env=[{"name": "DB_PORT", "value": "1"}]),
    "something else at the same place": pod(volumeMounts=[{"name": "own", "mountPath": "/cache"}]),
}


@pytest.mark.parametrize("document", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_pods_that_are_left_alone(api: Api, namespace: str, document: dict[str, Any]) -> None:
    put_preset(api, namespace)
    created = api.post(pods(namespace), document)
    assert added_to(created) == {}
    spec = created.json["spec"]
    assert spec["volumes"] == [OWN_VOLUME]
    assert not any("envFrom" in container for container in (*spec["containers"], *spec["initContainers"]))


def test_conflicts_are_logged_without_what_is_in_them(
    server: ServerProcess, api: Api, namespace: str
) -> None:
    put_preset(api, namespace, {"env": [{"name": "TOKEN", "value": "confidential"}]})
    api.post(pods(namespace), pod(env=[{"name": "TOKEN", "value": "private"}])).ok()
    what = 'env[0] of PodPreset "db" has the name of another in spec.containers[0], and is not the same'
    logged = until(lambda: server.stderr, lambda text: f"pod {namespace}/web: {what}" in text)
    assert "confidential" not in logged
    assert "private" not in logged


def test_who_creates_pods_needs_no_right_to_presets(api: Api, namespace: str) -> None:
    put_preset(api, namespace)
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]
    roles = f"{RBAC}/namespaces/{namespace}"
    api.post(f"{roles}/roles", {"metadata": {"name": "r"}, "rules": rules}).ok()
    api.post(
        f"{roles}/rolebindings",
        {
            "metadata": {"name": "r"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
        },
    ).ok()
    with closing(Api(api.server, "alice-token")) as alice:
        assert alice.get(presets(namespace)).status == 403
        created = until(lambda: alice.post(pods(namespace), pod()), lambda answer: answer.status != 403)
        assert added_to(created).keys() == {"db"}


def test_what_presets_add_is_bounded(api: Api, namespace: str) -> None:
    variables = [{"name": "A", "value": "x" * (ADDED_BYTES_MAX // 3)}]
    for name in ("a", "b"):
        put_preset(api, namespace, {"env": variables}, name)
    refused = api.post(pods(namespace), pod())
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert refused.message.endswith("PodPresets may add 3145728 bytes to its containers, and would add more")


def test_what_presets_add_does_not_hold_the_loop(api: Api, namespace: str) -> None:
    """The pod that was sent is small."""
    count = 12_000
    put_preset(api, namespace, {"env": [{"name": f"V{number}", "value": "x"} for number in range(count)]})
    with longest_turn(api) as turn:
        created = api.post(pods(namespace), pod()).ok()
    for container in (*created["spec"]["containers"], *created["spec"]["initContainers"]):
        assert len(container["env"]) == count
    assert turn.thread_cpu_s <= 0.02


def test_the_metadata_of_presets_is_not_added(api: Api, namespace: str) -> None:
    body = {"metadata": {"name": "db", "annotations": {"a": "x" * 200_000}}, "spec": {"env": SPEC["env"]}}
    created = api.post(presets(namespace), body).ok()
    assert api.get(f"{presets(namespace)}/db").ok() == created
    sent = pod()
    sent["spec"]["containers"] = [{"name": f"c{number}", "image": "i"} for number in range(20)]
    assert added_to(api.post(pods(namespace), sent)).keys() == {"db"}


def test_presets_are_kept_and_shown(api: Api, namespace: str) -> None:
    """Row H01. Their specs stay as they are."""
    created = put_preset(api, namespace)
    assert created["metadata"]["generation"] == 1
    path = f"{presets(namespace)}/db"
    patched = api.patch(path, {"metadata": {"labels": {"a": "b"}}, "spec": {"env": []}}).ok()
    assert (patched["spec"], patched["metadata"]["generation"]) == (created["spec"], 1)
    shown = api.get(presets(namespace), headers={"Accept": TABLE}).ok()
    assert [each["name"] for each in shown["columnDefinitions"]] == ["Name", "Created At"]
    as_protobuf = api.get(path, headers={"Accept": "application/vnd.kubernetes.protobuf"})
    assert as_protobuf.body.startswith(b"k8s\0")
    (resource,) = api.get(GROUP_VERSION).ok()["resources"]
    assert (resource["name"], resource["kind"], resource["namespaced"]) == ("podpresets", "PodPreset", True)
    (schema,) = [
        each
        for name, each in api.get("/openapi/v2").ok()["definitions"].items()
        if name.endswith("settings.v1alpha1.PodPreset")
    ]
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "settings.k8s.io", "kind": "PodPreset", "version": "v1alpha1"}
    ]
    refused = api.post(presets(namespace), {"metadata": {"name": "none"}, "spec": {}})
    assert refused.causes == [("FieldValueRequired", "spec.volumes.env.envFrom.volumeMounts")]
    assert api.delete(path).status == 200


def test_with_the_plugin_alone_pods_are_created_all_the_same(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--emulated-version=1.19", PLUGIN) as server, closing(Api(server)) as api:
        assert api.get(GROUP_VERSION).status == 404
        assert added_to(api.post(pods("default"), pod())) == {}
