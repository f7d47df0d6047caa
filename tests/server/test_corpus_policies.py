"""Policies as public libraries have them, each with objects that pass and objects that do not.

`tests/corpus_policies` has them by subject. In a policy's file:

    resources          what it is about, by group; versions, operations: v1, CREATE and UPDATE if not given
    validating         its spec, or
    mutating           its spec; of a mutation, `apply` or `patch` is the expression
    params             the kind of parameters, objects, and the reference in the binding
    namespace-labels   of the namespace that the objects are in
    accepts, rejects   objects; `message` is in the answer that refuses one
    makes              objects; `result` is in what becomes of one

An object is merged into a least one of its kind. `old`: it is an update of such an object. `deleted`: what is
tried is to delete it.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.support.api import Answer, Api
from tests.support.fixtures import server_with
from tests.support.yaml_loader import YAML_LOADER

CORPUS: Final = Path(__file__).parents[1] / "corpus_policies"
CASES: Final = {
    f"{path.stem}/{case['name']}": case
    for path in sorted(CORPUS.glob("*.yaml"))
    for case in yaml.load(path.read_text(), YAML_LOADER)
}
GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
POD: Final = {"containers": [{"name": "c", "image": "i:1"}]}
TEMPLATE: Final = {"metadata": {"labels": {"app": "a"}}, "spec": POD}
WORKLOAD: Final = {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}
JOB: Final = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
RULE: Final = {
    "host": "a.apps.example.com",
    "http": {
        "paths": [
            {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}
        ]
    },
}
# By kind: the path of its resource, and the least that an object has.
LEAST: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "Pod": ("/api/v1/namespaces/{}/pods", {"spec": POD}),
    "ConfigMap": ("/api/v1/namespaces/{}/configmaps", {}),
    "Secret": ("/api/v1/namespaces/{}/secrets", {}),
    "Namespace": ("/api/v1/namespaces", {}),
    "Service": ("/api/v1/namespaces/{}/services", {"spec": {"ports": [{"port": 80}]}}),
    "PersistentVolumeClaim": (
        "/api/v1/namespaces/{}/persistentvolumeclaims",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    "Deployment": ("/apis/apps/v1/namespaces/{}/deployments", {"spec": WORKLOAD}),
    "StatefulSet": ("/apis/apps/v1/namespaces/{}/statefulsets", {"spec": {**WORKLOAD, "serviceName": "s"}}),
    "Job": ("/apis/batch/v1/namespaces/{}/jobs", {"spec": JOB}),
    "CronJob": (
        "/apis/batch/v1/namespaces/{}/cronjobs",
        {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": JOB}}},
    ),
    "HorizontalPodAutoscaler": (
        "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
        {"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"}}},
    ),
    "Ingress": ("/apis/networking.k8s.io/v1/namespaces/{}/ingresses", {"spec": {"rules": [RULE]}}),
    "NetworkPolicy": (
        "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
        {"spec": {"podSelector": {}}},
    ),
    "Role": ("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles", {}),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1/clusterroles", {}),
    "RoleBinding": (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
        {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}},
    ),
    "ValidatingWebhookConfiguration": (f"{GROUP}/validatingwebhookconfigurations", {}),
}


server = server_with()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_policy(api: Api, namespace: str, case: dict[str, Any]) -> None:
    api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": case.get("namespace-labels")}}).ok()
    for number, each in enumerate((*case.get("accepts", ()), *case.get("rejects", ()))):
        if "old" in each or "deleted" in each:
            path, body = placed(each, namespace, f"a{number}", each.get("old"))
            api.post(path, body).ok()
    kind = create_policy(api, namespace, case)
    try:
        outcomes = list(enumerate((*case.get("accepts", ()), *case.get("rejects", ()))))
        for number, each in outcomes:
            answer = tried(api, namespace, each, f"a{number}")
            if "message" in each:
                assert 400 <= answer.status < 500, f"{each}: {answer.body.decode()}"
                assert each["message"] in answer.message
            else:
                answer.ok()
        for each in case.get("makes", ()):
            found = tried(api, namespace, each, "a").ok()
            assert is_in(each["result"], found), f"{each['result']} in {found}"
    finally:
        api.delete(f"{GROUP}/{kind}admissionpolicybindings/{namespace}").ok()
        api.delete(f"{GROUP}/{kind}admissionpolicies/{namespace}").ok()


def test_the_corpus_is_large() -> None:
    assert len(CASES) >= 50
    mutating = [case for case in CASES.values() if "mutating" in case]
    assert len(mutating) >= 12
    assert all(case.get("accepts") or case.get("rejects") or case.get("makes") for case in CASES.values())


def create_policy(api: Api, namespace: str, case: dict[str, Any]) -> str:
    """Create the policy and its binding. Returns of which kind it is."""
    kind = "validating" if "validating" in case else "mutating"
    spec = deepcopy(case[kind])
    spec["matchConstraints"] = {
        "resourceRules": [
            {
                "apiGroups": [group],
                "apiVersions": case.get("versions", ["v1"]),
                "operations": case.get("operations", ["CREATE", "UPDATE"]),
                "resources": resources,
            }
            for group, resources in case["resources"].items()
        ]
    }
    binding: dict[str, Any] = {"policyName": namespace}
    if kind == "validating":
        binding["validationActions"] = ["Deny"]
    else:
        spec.setdefault("reinvocationPolicy", "Never")
        spec["mutations"] = [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": each["apply"]}}
            if "apply" in each
            else {"patchType": "JSONPatch", "jsonPatch": {"expression": each["patch"]}}
            for each in spec["mutations"]
        ]
    if params := case.get("params"):
        for each in params["objects"]:
            api.post(f"/api/v1/namespaces/{namespace}/configmaps", each).ok()
        spec["paramKind"], binding["paramRef"] = params["kind"], params["ref"]
    meta = {"metadata": {"name": namespace}}
    api.post(f"{GROUP}/{kind}admissionpolicies", {**meta, "spec": spec}).ok()
    api.post(f"{GROUP}/{kind}admissionpolicybindings", {**meta, "spec": binding}).ok()
    return kind


def tried(api: Api, namespace: str, each: dict[str, Any], name: str) -> Answer:
    path, body = placed(each, namespace, name, each)
    if "deleted" in each:
        return api.delete(f"{path}/{name}?dryRun=All")
    if "old" in each:
        return api.patch(f"{path}/{name}?dryRun=All", {key: body[key] for key in body if key != "kind"})
    return api.post(f"{path}?dryRun=All", body)


def placed(
    each: dict[str, Any], namespace: str, name: str, parts: dict[str, Any] | None
) -> tuple[str, dict[str, Any]]:
    """Returns the path of an object's collection, and the object."""
    path, least = LEAST[each["kind"]]
    own = {key: value for key, value in (parts or {}).items() if key not in NOT_OF_THE_OBJECT}
    body = merged({"metadata": {"name": name}, **deepcopy(least)}, own)
    if "deleted" in each:
        body = merged(body, {"metadata": each.get("metadata", {})})
    return path.format(namespace), body


NOT_OF_THE_OBJECT: Final = frozenset({"kind", "message", "result", "old", "deleted"})


def merged(document: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    for key, value in parts.items():
        is_below = isinstance(value, dict) and isinstance(document.get(key), dict)
        document[key] = merged(document[key], value) if is_below else value
    return document


def is_in(part: Any, whole: Any) -> bool:
    """Whether a document has all that another one has; of lists, the same number of items."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(is_in(value, whole.get(key)) for key, value in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and len(part) == len(whole) and all(map(is_in, part, whole))
    return bool(part == whole)
