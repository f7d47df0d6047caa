"""Strategic merge patches through the server, and kubectl, whose commands send them. Rows L06, E07-E09.

How they merge is told in `tests/unit/registry/patch/test_strategic_merge.py`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from tests.support import objects
from tests.support.api import STRATEGIC_PATCH, Answer, Api
from tests.support.kubectl import DEPLOYMENT, Kubectl, oldest_and_newest, program
from tests.support.objects import template
from tests.support.server_process import ServerProcess

CONFIGMAPS: Final = "/api/v1/namespaces/{}/configmaps"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/{}/deployments"
# A body may have 3 MiB, and other processes use the machine.
LARGE_CPU_S_MAX: Final = 5.0


@pytest.fixture
def configmap(api: Api, namespace: str) -> str:
    """The path of one that has `data.k`."""
    api.post(CONFIGMAPS.format(namespace), {"metadata": {"name": "a"}, "data": {"k": "v"}}).ok()
    return f"{CONFIGMAPS.format(namespace)}/a"


@pytest.fixture
def deployment(api: Api, namespace: str) -> str:
    """The path of one with the container `c`, which has the variables A and B."""
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    containers = [{"name": "c", "image": "i", "env": env}]
    api.post(DEPLOYMENTS.format(namespace), objects.deployment(template=template(containers=containers))).ok()
    return f"{DEPLOYMENTS.format(namespace)}/d"


def of_container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", **fields}]}}}}


def container(document: Any) -> Any:
    return document["spec"]["template"]["spec"]["containers"][0]


def test_lists_are_merged_by_their_keys(api: Api, deployment: str) -> None:
    patch = of_container(env=[{"name": "B", "value": "3"}, {"name": "A", "$patch": "delete"}])
    patched = container(api.patch(deployment, patch, STRATEGIC_PATCH).ok())
    assert (patched["image"], patched["env"]) == ("i", [{"name": "B", "value": "3"}])


def test_an_item_without_its_merge_key_is_invalid(api: Api, deployment: str) -> None:
    """docs/reference/differences.md: kube-apiserver answers 500."""
    refused = api.patch(deployment, of_container(env=[{"value": "3"}]), STRATEGIC_PATCH)
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert "map: map[value:3] does not contain declared merge key: name" in refused.message


def test_a_patch_that_changes_nothing_writes_nothing(api: Api, deployment: str) -> None:
    before = api.get(deployment).ok()
    for patch in ({}, None, of_container(), before):
        assert api.patch(deployment, orjson.dumps(patch), STRATEGIC_PATCH).ok() == before


def test_values_are_checked_and_made_canonical(api: Api, deployment: str) -> None:
    limited = api.patch(deployment, of_container(resources={"limits": {"cpu": "0.5"}}), STRATEGIC_PATCH).ok()
    assert container(limited)["resources"] == {"limits": {"cpu": "500m"}}
    again = api.patch(deployment, of_container(resources={"limits": {"cpu": "0.500"}}), STRATEGIC_PATCH).ok()
    assert again == limited
    refused = api.patch(deployment, of_container(tty="yes"), STRATEGIC_PATCH)
    assert (refused.status, refused.reason) == (422, "Invalid")
    # recorded: fieldvalidation/patch-strategic-strict shows patches in this form
    shown = "map[spec:map[template:map[spec:map[containers:[map[name:c tty:yes]]]]]]"
    assert f'patch: Invalid value: "{shown}": unrecognized type: bool' in refused.message
    assert refused.causes == [("FieldValueInvalid", "patch")]


def test_what_it_says_of_its_kind_is_not_looked_at(api: Api, configmap: str) -> None:
    before = api.get(configmap).ok()
    assert api.patch(configmap, {"kind": "Secret", "apiVersion": "v2"}, STRATEGIC_PATCH).ok() == before


# Rows E07-E09. The body, the warnings.
REMARKS: Final[dict[str, tuple[bytes, list[str]]]] = {
    # recorded: fieldvalidation/patch-strategic-warn
    "twice, and unknown": (
        b'{"data":{"k":"1"},"data":{"k":"2"},"bogus":1}',
        ['duplicate field "data"', 'unknown field "bogus"'],
    ),
    "directives that had nothing to work on": (
        b'{"metadata":{"ownerReferences":[{"$retainKeys":[],"apiVersion":"v1","kind":"A","name":"a","uid":"u"}]}}',
        ['unknown field "metadata.ownerReferences[0].$retainKeys"'],
    ),
    "directives that did their work": (b'{"data":{"$retainKeys":["z"],"z":"1"}}', []),
}


@pytest.mark.parametrize(("body", "said"), REMARKS.values(), ids=REMARKS)
def test_field_validation(api: Api, configmap: str, body: bytes, said: list[str]) -> None:
    before = api.get(configmap).ok()
    refused = api.patch(f"{configmap}?fieldValidation=Strict&dryRun=All", body, STRATEGIC_PATCH)
    assert refused.status == (400 if said else 200)
    for text in said:
        assert text in refused.message
    assert api.get(configmap).ok() == before
    warned = api.patch(f"{configmap}?fieldValidation=Warn", body, STRATEGIC_PATCH)
    assert (warned.status, warned.warnings) == (200, [text.replace('"', '\\"') for text in said])
    assert api.patch(f"{configmap}?fieldValidation=Ignore", body, STRATEGIC_PATCH).warnings == []


# The body; code, reason and message of the answer.
REFUSED: Final[dict[str, tuple[bytes, int, str, str]]] = {
    "no JSON": (b'{"a":', 400, "BadRequest", "unexpected end of JSON input"),
    # recorded: verbs/bad-json-patch-bodies
    "a list": (
        b"[]",
        400,
        "BadRequest",
        "json: cannot unmarshal array into Go value of type map[string]interface {}",
    ),
    "a malformed directive": (
        b'{"data":{"$retainKeys":1}}',
        400,
        "BadRequest",
        "invalid patch format of retainKeys",
    ),
    # kube-apiserver answers 500 here, without a reason (recorded: patch/strategic-set-element-order)
    "an unknown directive": (
        b'{"data":{"$patch":"x"}}',
        422,
        "Invalid",
        "unknown patch type: x in map: map[$patch:x]",
    ),
    "too deep": (
        b'{"data":' + b"[" * 1_000 + b"]" * 1_000 + b"}",
        400,
        "BadRequest",
        "the patch is nested too deeply",
    ),
    "another name": (
        b'{"metadata":{"name":"b"}}',
        400,
        "BadRequest",
        "the name of the object (b) does not match the name on the URL (a)",
    ),
    "everything away": (b'{"$patch":"delete"}', 400, "BadRequest", "name must be provided"),
}


@pytest.mark.parametrize(("body", "code", "reason", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(api: Api, configmap: str, body: bytes, code: int, reason: str, message: str) -> None:
    api.patch(configmap, {"metadata": {"finalizers": ["e.com/a"]}}).ok()
    before = api.get(configmap).ok()
    answer = api.patch(configmap, body, STRATEGIC_PATCH)
    assert (answer.status, answer.json.get("reason", "")) == (code, reason), answer.body
    assert message in answer.message
    assert api.get(configmap).ok() == before


def test_a_stale_version_is_a_conflict(api: Api, configmap: str) -> None:
    """Row L01 holds for patches that name a version."""
    version = api.get(configmap).ok()["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "data": {"k": "w"}}
    api.patch(configmap, patch, STRATEGIC_PATCH).ok()
    assert api.patch(configmap, {**patch, "data": {"k": "x"}}, STRATEGIC_PATCH).status == 409


def test_a_type_of_patch_that_there_is_none_of(api: Api, configmap: str) -> None:
    answer = api.patch(configmap, {}, "application/spam-patch+json")
    assert answer.status == 415
    assert answer.message == "415: Unsupported Media Type"


def test_subresources(api: Api, deployment: str) -> None:
    status = {"conditions": [{"type": "Available", "status": "True"}]}
    api.patch(f"{deployment}/status", {"status": status, "spec": {"replicas": 9}}, STRATEGIC_PATCH).ok()
    more = {"conditions": [{"type": "Progressing", "status": "True"}]}
    patched = api.patch(f"{deployment}/status", {"status": more}, STRATEGIC_PATCH).ok()
    assert [each["type"] for each in patched["status"]["conditions"]] == ["Progressing", "Available"]
    assert patched["spec"]["replicas"] == 1
    scale = api.patch(f"{deployment}/scale", {"spec": {"replicas": 4}}, STRATEGIC_PATCH).ok()
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 4})


def test_large_patches(api: Api, deployment: str) -> None:
    """A list of 10,000 items, forwards and backwards. With who owns them it is twice as long as it looks."""
    env = [{"name": f"V{number:05}", "value": "x" * 20} for number in range(10_000)]
    api.patch(deployment, of_container(env=env), STRATEGIC_PATCH).ok()
    body = of_container(
        **{"$setElementOrder/env": [{"name": each["name"]} for each in reversed(env)]}, env=env[::-1]
    )
    began = api.server.cpu_s
    answer: Answer = api.patch(f"{deployment}?dryRun=All", body, STRATEGIC_PATCH)
    assert api.server.cpu_s - began < LARGE_CPU_S_MAX
    assert [each["name"] for each in container(answer.ok())["env"][:2]] == ["V09999", "V09998"]


# ---- kubectl

EDITED: Final = DEPLOYMENT.replace("replicas: 2", "replicas: 3").replace(
    '{name: web, image: "nginx:1"}', '{name: web, image: "nginx:2"}, {name: side, image: "busybox:1"}'
)


@pytest.fixture(params=oldest_and_newest())
def kubectl(request: pytest.FixtureRequest, server: ServerProcess, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(program(request.param), server.kubeconfig, namespace, tmp_path)


def images(kubectl: Kubectl) -> list[str]:
    return kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.template.spec.containers[*].image}").split()


@pytest.mark.kubectl
def test_kubectl_apply(kubectl: Kubectl) -> None:
    """Client-side apply: what is no longer in the file goes, what others have set stays."""
    assert kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web created\n"
    assert kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web unchanged\n"
    kubectl("set", "env", "deployment/web", "BY=others")
    assert kubectl("apply", "-f", "-", stdin=EDITED) == "deployment.apps/web configured\n"
    assert images(kubectl) == ["nginx:2", "busybox:1"]
    assert kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web configured\n"
    live = kubectl.json("get", "deploy", "web")
    assert images(kubectl) == ["nginx:1"]
    assert container(live)["env"] == [{"name": "BY", "value": "others"}]
    assert live["spec"]["replicas"] == 2
    assert kubectl.run("diff", "-f", "-", stdin=DEPLOYMENT).returncode == 0
    assert kubectl.run("diff", "-f", "-", stdin=EDITED).returncode == 1


@pytest.mark.kubectl
def test_kubectl_changes_objects(kubectl: Kubectl) -> None:
    """Commands that send strategic merge patches unless they are told otherwise."""
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    patch = '{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"nginx:3"}]}}}}'
    assert kubectl("patch", "deploy", "web", "-p", patch) == "deployment.apps/web patched\n"
    assert images(kubectl) == ["nginx:3"]
    assert kubectl("set", "image", "deploy/web", "web=nginx:4") == "deployment.apps/web image updated\n"
    assert kubectl("label", "deploy", "web", "tier=x") == "deployment.apps/web labeled\n"
    assert kubectl("label", "deploy", "web", "app-") == "deployment.apps/web unlabeled\n"
    assert kubectl("annotate", "deploy", "web", "note=text") == "deployment.apps/web annotated\n"
    assert kubectl("set", "env", "deploy/web", "A=1", "B=2") == "deployment.apps/web env updated\n"
    assert kubectl("set", "env", "deploy/web", "A-") == "deployment.apps/web env updated\n"
    assert kubectl("rollout", "restart", "deploy/web") == "deployment.apps/web restarted\n"
    live = kubectl.json("get", "deploy", "web")
    assert live["metadata"]["labels"] == {"tier": "x"}
    assert live["metadata"]["annotations"]["note"] == "text"
    assert (images(kubectl), container(live)["env"]) == (["nginx:4"], [{"name": "B", "value": "2"}])


@pytest.mark.kubectl
def test_kubectl_edit(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    # The editor of those who have not chosen one.
    editor = tmp_path / "bin" / "vi"
    editor.parent.mkdir()
    editor.write_text('#!/bin/sh\nsed s/nginx:1/nginx:5/ "$1" > "$1.new" && mv "$1.new" "$1"\n')
    editor.chmod(0o755)
    editing = replace(kubectl, path=f"{editor.parent}:{kubectl.path}")
    assert editing("edit", "deploy", "web") == "deployment.apps/web edited\n"
    assert images(kubectl) == ["nginx:5"]
