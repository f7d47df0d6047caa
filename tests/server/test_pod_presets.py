"""PodPresets on a server of release 1.18: they are kept and shown, and not put into pods. Rows H01, T31."""

from __future__ import annotations

from typing import Any, Final

from tests.support.api import Api
from tests.support.fixtures import server_with
from tests.support.server_process import ServerProcess

GROUP_VERSION: Final = "/apis/settings.k8s.io/v1alpha1"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
SPEC: Final[dict[str, Any]] = {
    "selector": {"matchLabels": {"role": "frontend"}},
    "env": [{"name": "DB_PORT", "value": "6379"}],
    "envFrom": [{"secretRef": {"name": "db"}}],
    "volumes": [{"name": "cache"}],
    "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
}


server = server_with(
    "--emulated-version=1.18",
    "--runtime-config=settings.k8s.io/v1alpha1",
    "--enable-admission-plugins=PodPreset,PodSecurityPolicy",
)


def test_presets_are_kept_and_shown(api: Api, namespace: str) -> None:
    """Row H01. Their specs stay as they are."""
    presets = f"{GROUP_VERSION}/namespaces/{namespace}/podpresets"
    created = api.post(presets, {"metadata": {"name": "db"}, "spec": SPEC}).ok()
    assert created["metadata"]["generation"] == 1
    path = f"{presets}/db"
    patched = api.patch(path, {"metadata": {"labels": {"a": "b"}}, "spec": {"env": []}}).ok()
    assert (patched["spec"], patched["metadata"]["generation"]) == (created["spec"], 1)
    shown = api.get(presets, headers={"Accept": TABLE}).ok()
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
    refused = api.post(presets, {"metadata": {"name": "none"}, "spec": {}})
    assert refused.causes == [("FieldValueRequired", "spec.volumes.env.envFrom.volumeMounts")]
    assert api.delete(path).status == 200


def test_the_plugins_that_are_named_change_and_refuse_no_pods(
    server: ServerProcess, api: Api, namespace: str
) -> None:
    """There is no PodSecurityPolicy that would allow the pod, and a PodPreset selects it."""
    api.post(
        f"{GROUP_VERSION}/namespaces/{namespace}/podpresets", {"metadata": {"name": "db"}, "spec": SPEC}
    ).ok()
    pod = {
        "metadata": {"name": "web", "labels": SPEC["selector"]["matchLabels"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    created = api.post(f"/api/v1/namespaces/{namespace}/pods", pod).ok()
    (container,) = created["spec"]["containers"]
    assert "env" not in container
    assert "annotations" not in created["metadata"]
    for plugin in ("PodPreset", "PodSecurityPolicy"):
        assert f"admission plugin {plugin} is not implemented by this server" in server.stderr
