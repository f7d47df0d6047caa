"""What clients of removed versions of workloads and policies do with them over HTTP. Rows T06, T10, T27."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.server.test_emulated_releases import TEMPLATE, running

DEPLOYMENTS: Final = ("extensions/v1beta1", "apps/v1beta1", "apps/v1beta2")


def test_deployments_of_old_versions_are_scaled_and_rolled_back(tmp_path: Path) -> None:
    """Row T27."""
    with running(tmp_path, 15) as api:
        spec = {"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
        current = "/apis/apps/v1/namespaces/default/deployments/a"
        api.post(current.removesuffix("/a"), {"metadata": {"name": "a"}, "spec": spec}).ok()
        for replicas, version in enumerate(DEPLOYMENTS):
            answer = api.get(f"/apis/{version}/namespaces/default/deployments/a/scale")
            assert answer.warnings == []  # row S05: that came with 1.19
            scale = answer.ok()
            assert (scale["apiVersion"], scale["kind"]) == (version, "Scale")
            selected = {"replicas": 0, "selector": {"app": "web"}, "targetSelector": "app=web"}
            assert scale["status"] == selected
            path = f"/apis/{version}/namespaces/default/deployments/a"
            scale["spec"]["replicas"] = replicas
            assert api.put(f"{path}/scale", scale).ok()["spec"] == (
                {"replicas": replicas} if replicas else {}
            )
            assert api.get(current).ok()["spec"]["replicas"] == replicas
            generation = api.get(current).ok()["metadata"]["generation"]
            order = {"name": "a", "rollbackTo": {"revision": replicas}, "updatedAnnotations": {"by": version}}
            done = api.post(f"{path}/rollback", order)
            if version == "apps/v1beta2":
                assert done.status == 404
                continue
            assert done.ok()["message"] == 'rollback request for deployment "a" succeeded'
            found = api.get(current).ok()["metadata"]
            assert found["generation"] == generation
            assert found["annotations"] == {"deprecated.deployment.rollback.to": str(replicas), "by": version}
            rollback = api.get(path).ok()["spec"]["rollbackTo"]
            assert rollback == ({"revision": replicas} if replicas else {})
            assert api.post(f"{path}/rollback", {**order, "name": "b"}).status == 400
            assert api.post(f"{path}/rollback", {"name": ""}).status == 422
            missing = path.removesuffix("/a")
            assert api.post(f"{missing}/b/rollback", {**order, "name": "b"}).status == 404
        listed = {each["name"]: each for each in api.get("/apis/extensions/v1beta1").ok()["resources"]}
        assert (listed["deployments/scale"]["group"], listed["deployments/scale"]["version"]) == (
            "extensions",
            "v1beta1",
        )
        assert listed["deployments/rollback"]["kind"] == "DeploymentRollback"
        assert api.get("/openapi/v3/apis/extensions/v1beta1").status == 200
        assert api.get("/openapi/v2").status == 200


def test_t10_which_pods_a_budget_is_about(tmp_path: Path) -> None:
    """An empty selector of v1beta1 selects none, that of v1 all; evictions may come in both versions."""
    namespace = "/api/v1/namespaces/default/pods"
    pod = {"metadata": {"name": "a", "labels": {"app": "web"}}, "spec": TEMPLATE["spec"]}
    running_pod = {"status": {"phase": "Running"}}
    with running(tmp_path, 21) as api:
        for kind in api.get("/api/v1").ok()["resources"]:
            if kind["name"] == "pods/eviction":
                assert (kind["group"], kind["version"]) == ("policy", "v1beta1")
        budgets = {
            version: f"/apis/policy/{version}/namespaces/default/poddisruptionbudgets"
            for version in ("v1beta1", "v1")
        }
        for version, status in (("v1beta1", 201), ("v1", 429)):
            api.post(namespace, pod).ok()
            api.patch(f"{namespace}/a/status", running_pod).ok()
            budget = {"metadata": {"name": version}, "spec": {"minAvailable": 1, "selector": {}}}
            api.post(budgets[version], budget).ok()
            eviction = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "a"}}
            assert api.post(f"{namespace}/a/eviction", eviction).status == status
            if status == 201:
                api.delete(f"{namespace}/a?gracePeriodSeconds=0")
            assert api.get(f"{budgets[version]}/{version}").ok()["spec"]["selector"] == {}
    with running(tmp_path, 22) as api:
        for kind in api.get("/api/v1").ok()["resources"]:
            if kind["name"] == "pods/eviction":
                assert (kind["group"], kind["version"]) == ("policy", "v1")


def test_t06_dependents_of_old_versions_are_orphaned_by_default(tmp_path: Path) -> None:
    """Who deletes through an old version leaves what the object has made; through the new one it goes."""
    spec = {
        "schedule": "0 * * * *",
        "jobTemplate": {"spec": {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}},
    }
    with running(tmp_path, 21) as api:
        for version, finalizers in (("v1beta1", ["orphan", "example.com/a"]), ("v1", ["example.com/a"])):
            path = f"/apis/batch/{version}/namespaces/default/cronjobs"
            meta = {"name": version, "finalizers": ["example.com/a"]}
            api.post(path, {"metadata": meta, "spec": spec}).ok()
            deleted = api.delete(f"{path}/{version}").ok()
            assert sorted(deleted["metadata"]["finalizers"]) == sorted(finalizers)
