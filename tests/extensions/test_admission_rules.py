"""Which writes functions of extensions are called for, and in which version they get the objects."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest

from tests.extensions.modules import failing_conditions
from tests.support.api import Api
from tests.support.definitions import define, definition
from tests.support.fixtures import api_with
from tests.support.metrics import metric
from tests.support.objects import named, pod

api = api_with("--extension=tests.extensions.modules.rules")
ignoring = api_with(
    *(
        f"--extension=tests.extensions.modules.failing_conditions:{each}"
        for each in failing_conditions.extensions
    )
)

IN: Final = "namespaces/default"
SELECTOR: Final = {"matchLabels": {"a": "b"}}
TEMPLATE: Final = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
TARGET: Final = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
SCALED: Final = {"scaleTargetRef": TARGET, "maxReplicas": 3}

# The path and the body of a create, and what the function that refuses it has got.
REFUSED: Final[dict[str, tuple[str, dict[str, Any], dict[str, Any]]]] = {
    "a name without a group": (
        f"/apis/apps/v1/{IN}/deployments",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
        {"apiVersion": "apps/v1"},
    ),
    "an older version of the request": (
        f"/apis/autoscaling/v1/{IN}/horizontalpodautoscalers",
        {"spec": SCALED},
        {
            "apiVersion": "autoscaling/v1",
            "resource": {"group": "autoscaling", "version": "v1", "resource": "horizontalpodautoscalers"},
        },
    ),
    "a newer version of the request": (
        f"/apis/autoscaling/v2/{IN}/horizontalpodautoscalers",
        {"spec": SCALED},
        {
            "apiVersion": "autoscaling/v2",
            "resource": {"group": "autoscaling", "version": "v2", "resource": "horizontalpodautoscalers"},
        },
    ),
    "the labels of a new namespace": (
        "/api/v1/namespaces",
        {"metadata": {"name": "denied", "labels": {"a": "b"}}},
        {"labels": {"a": "b", "kubernetes.io/metadata.name": "denied"}},
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_function_gets(api: Api, case: str) -> None:
    path, body, expected = REFUSED[case]
    answer = api.post(path, {"metadata": {"name": "a"}, **body})
    assert answer.status == 403
    assert _seen(answer.message) == expected


def test_a_function_that_names_a_version_gets_and_changes_objects_in_it(api: Api) -> None:
    """An Event of the core group has a message, where events.k8s.io has a note."""
    body = {
        "metadata": {"name": "a"},
        "involvedObject": {"namespace": "default", "name": "a"},
        "message": "started",
    }
    created = api.post(f"/api/v1/{IN}/events", body).ok()
    assert created["message"] == "started, "
    seen = api.get(f"/apis/events.k8s.io/v1/{IN}/events/a").ok()
    assert seen["note"] == "started, "


def test_subresources_have_functions_of_their_own(api: Api) -> None:
    pods = f"/api/v1/{IN}/pods"
    created = api.post(pods, pod("a")).ok()
    answer = api.put(f"{pods}/a/status", {**created, "status": {"phase": "Running"}})
    assert _seen(answer.message) == {"name": "a", "subresource": "status"}


def test_a_function_can_change_a_subresource_of_another_kind(api: Api) -> None:
    sets = f"/apis/apps/v1/{IN}/replicasets"
    api.post(sets, {**named("a"), "spec": {"selector": SELECTOR, "template": TEMPLATE}}).ok()
    scale = api.get(f"{sets}/a/scale").ok()
    scale["spec"]["replicas"] = 2
    assert api.put(f"{sets}/a/scale", scale).ok()["spec"]["replicas"] == 7
    assert api.get(f"{sets}/a").ok()["spec"]["replicas"] == 7


def test_connections_can_be_refused(api: Api) -> None:
    api.post(f"/api/v1/{IN}/services", {**named("a"), "spec": {"ports": [{"port": 80}]}}).ok()
    answer = api.get(f"/api/v1/{IN}/services/a/proxy/")
    assert _seen(answer.message) == {"kind": "ServiceProxyOptions", "operation": "CONNECT"}


def test_a_function_gets_the_object_of_a_deletion_and_cannot_change_it(api: Api) -> None:
    secrets = f"/api/v1/{IN}/secrets"
    for name, keep in (("kept", "yes"), ("removed", "no")):
        api.post(secrets, {"metadata": {"name": name, "labels": {"keep": keep}}}).ok()
    assert _seen(api.delete(f"{secrets}/kept").message) == {"name": "kept", "old": "kept"}
    answer = api.delete(f"{secrets}/removed")
    assert answer.status == 200
    [warning] = answer.warnings
    assert "changes_a_deletion (rules.py:" in warning
    assert "has changed the object, which is not possible for this operation" in warning


def test_a_function_about_a_group_concerns_types_that_are_defined_later(api: Api) -> None:
    defined = define(api, definition("example.com"))
    answer = api.post(defined.objects(), defined.body("a"))
    assert _seen(answer.message) == {"kind": "Widget", "name": "a"}


def test_a_condition_that_fails_is_a_failure_of_its_function(api: Api) -> None:
    leases = f"/apis/coordination.k8s.io/v1/{IN}/leases"
    answer = api.post(leases, named("a"))
    assert answer.status == 403
    assert 'leases.coordination.k8s.io "a" is forbidden: extension "rules": ' in answer.message
    assert "with_a_condition_that_fails (rules.py:" in answer.message
    assert "no such key: annotations" in answer.message
    assert api.post(leases, named("a", annotations={"a": "z"})).status == 201


@pytest.mark.parametrize("mode", ["", "inline-"])
@pytest.mark.parametrize("on_error", failing_conditions.ON_ERROR)
def test_a_condition_that_fails_is_ignored_as_other_failures_are(
    ignoring: Api, on_error: str, mode: str
) -> None:
    extension = f"{mode}{on_error}"
    answer = ignoring.post(f"/api/v1/{IN}/configmaps", named(extension, labels={"in": extension}))
    assert "data" not in answer.ok()
    functions = ("mutates", "validates")
    shown = [
        re.findall(r"(\w+) \(failing_conditions.*cannot be selected by where: ", each)
        for each in answer.warnings
    ]
    assert shown == ([[each] for each in functions] if on_error == "warn" else [])
    for function in functions:
        labels = {"extension": extension, "hook": function}
        assert metric(ignoring, "apiserver_extension_ignored_failures_total", **labels) == 1


def test_a_refusal_has_the_warnings_about_conditions_before_it(ignoring: Api) -> None:
    labels = {"in": "warn", failing_conditions.REFUSED: "yes"}
    answer = ignoring.post(f"/api/v1/{IN}/configmaps", named("refused", labels=labels))
    assert answer.status == 403
    assert 'extension "failing": validates (failing_conditions.py:' in answer.message
    assert len(answer.warnings) == 2


def _seen(message: str) -> Any:
    """Returns what a function has shown in its refusal."""
    prefix, _, shown = message.partition(": ")
    assert prefix == 'extension "rules" denied the request'
    return json.loads(shown)
