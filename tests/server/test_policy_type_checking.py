"""What the status of ValidatingAdmissionPolicies says about their expressions.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/validating/typechecking_test.go, and the recorded
conversation `policies/typechecking`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.api import Api
from tests.support.definitions import define, definition, new_group, version
from tests.support.fixtures import server_with
from tests.support.server_process import ServerProcess

POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
KIT: Final = Path(__file__).parents[1] / "conformance"


server = server_with("--controllers=validatingadmissionpolicy-status-controller")


def rule(*resources: str, group: str = "apps", api_version: str = "v1") -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": [api_version],
        "operations": ["*"],
        "resources": list(resources),
    }


def create(api: Api, name: str, rules: list[Any], *expressions: str, **spec: Any) -> str:
    """Create a policy that is bound to nothing. Returns its path."""
    validations = [{"expression": each} for each in expressions]
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": validations, **spec}
    api.post(POLICIES, {"metadata": {"name": name}, "spec": spec}).ok()
    return f"{POLICIES}/{name}"


def warnings(api: Api, path: str, generation: int = 1) -> list[tuple[str, str]]:
    """Returns where warnings are, and what they say, once a version of the policy has been checked."""

    name = path.rpartition("/")[2]
    with api.watch(f"{POLICIES}?watch=true&fieldSelector=metadata.name={name}") as events:
        status = next(
            status
            for event in events
            if (status := event["object"].get("status", {})).get("observedGeneration") == generation
        )
    found = status["typeChecking"].get("expressionWarnings", ())
    return [(each["fieldRef"], each["warning"]) for each in found]


DEPLOYMENTS: Final = [rule("deployments")]
WITHOUT_WARNINGS: Final[dict[str, tuple[list[Any], str]]] = {
    "fields of their types": (DEPLOYMENTS, "object.spec.replicas > 1"),
    "the object before": (DEPLOYMENTS, "oldObject == null || oldObject.spec.paused == object.spec.paused"),
    "lists and maps": (
        DEPLOYMENTS,
        "object.spec.template.spec.containers.all(c, c.env.size() < 5) && object.metadata.labels['a'] == 'b'",
    ),
    "times": (DEPLOYMENTS, "object.metadata.creationTimestamp.getFullYear() > 2000"),
    "numbers or texts": (DEPLOYMENTS, "object.spec.strategy.rollingUpdate.maxSurge == 1"),
    "quantities": (
        DEPLOYMENTS,
        "object.spec.template.spec.containers.all(c, quantity(c.resources.limits.cpu).sign() == 1)",
    ),
    "names that are words of the language": (
        [rule("configmaps", group="")],
        "object.metadata.namespace == 'a'",
    ),
    "the authorizer": (DEPLOYMENTS, "authorizer.group('').resource('pods').check('create').allowed()"),
    "the request": (DEPLOYMENTS, "request.operation == 'CREATE' && namespaceObject.metadata.name == 'a'"),
    "types that are not named": ([rule("*")], "object.none == 1"),
    "groups that are not": ([rule("deployments", group="*")], "object.none == 1"),
    "subresources": ([rule("deployments/scale")], "object.none == 1"),
    "types that do not exist": ([rule("nothings")], "object.none == 1"),
    "schemas that refer to themselves": (
        [rule("customresourcedefinitions", group="apiextensions.k8s.io")],
        "object.spec.versions.all(v, v.schema.openAPIV3Schema.properties.all(p, p != ''))",
    ),
}


@pytest.mark.parametrize(("rules", "text"), WITHOUT_WARNINGS.values(), ids=WITHOUT_WARNINGS)
def test_nothing_is_wrong(api: Api, namespace: str, rules: list[Any], text: str) -> None:
    assert warnings(api, create(api, namespace, rules, text)) == []


KIND: Final = "apps/v1, Kind=Deployment"
NO_OVERLOAD: Final = "found no matching overload for '_>_' applied to '(int, string)'"


def test_where_and_what(api: Api, namespace: str) -> None:
    path = create(api, namespace, DEPLOYMENTS, "true", "object.spec.x == 1", "object.spec.replicas > '5'")
    assert warnings(api, path) == [
        (
            "spec.validations[1].expression",
            f"{KIND}: ERROR: <input>:1:12: undefined field 'x'\n | object.spec.x == 1\n | {'.' * 11}^\n",
        ),
        (
            "spec.validations[2].expression",
            f"{KIND}: ERROR: <input>:1:22: {NO_OVERLOAD}\n | object.spec.replicas > '5'\n | {'.' * 21}^\n",
        ),
    ]


def test_messages_and_variables(api: Api, namespace: str) -> None:
    path = create(
        api,
        namespace,
        DEPLOYMENTS,
        validations=[
            {"expression": "variables.n > 0", "messageExpression": "string(object.spec.none)"},
            {"expression": "variables.n > '0'"},
        ],
        variables=[{"name": "n", "expression": "object.spec.replicas"}],
    )
    found = warnings(api, path)
    assert [where for where, _ in found] == [
        "spec.validations[0].messageExpression",
        "spec.validations[1].expression",
    ]
    assert "applied to '(int, string)'" in found[1][1]


def test_each_type_is_checked(api: Api, namespace: str) -> None:
    """One text has what is wrong for all of them, in the order of group, version and kind."""
    rules = [rule("statefulsets", "deployments", "daemonsets"), rule("pods", group="")]
    ((_, text),) = warnings(api, create(api, namespace, rules, "object.spec.replicas > 1"))
    beginnings = [line.split(": ERROR")[0] for line in text.splitlines() if "ERROR" in line]
    assert beginnings == ["/v1, Kind=Pod", "apps/v1, Kind=DaemonSet"]
    assert "\n\napps/v1" in text


def test_custom_resources_and_parameters(api: Api, namespace: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "n": {"type": "integer"},
                    "a-b": {"type": "string"},
                    "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        },
    }
    defined = define(api, definition(new_group(), version("v1", schema=schema)))
    path = create(
        api,
        namespace,
        [rule("widgets", group=defined.group)],
        "object.spec.n > params.spec.n && object.spec.a__dash__b == 'x' && object.metadata.name != ''",
        "object.spec.n == params.spec.a__dash__b",
        "object.spec.open.x == 1",
        paramKind={"apiVersion": f"{defined.group}/v1", "kind": defined.kind},
    )
    found = warnings(api, path)
    assert [where for where, _ in found] == [
        "spec.validations[1].expression",
        "spec.validations[2].expression",
    ]
    assert "found no matching overload for '_==_' applied to '(int, string)'" in found[0][1]
    assert "undefined field 'x'" in found[1][1]


def test_a_change_is_checked_again(api: Api, namespace: str) -> None:
    path = create(api, namespace, DEPLOYMENTS, "object.spec.none == 1")
    assert len(warnings(api, path)) == 1
    api.patch(path, {"spec": {"validations": [{"expression": "object.spec.replicas == 1"}]}}).ok()
    assert warnings(api, path, generation=2) == []
    assert api.get(path).ok()["metadata"]["generation"] == 2, "the status is not the policy's own"


def test_the_recorded_conversation(server: ServerProcess) -> None:
    replay = subprocess.run(
        [
            *(sys.executable, KIT / "replay.py", "--server", server.url, "--ca", server.ca_path),
            *("--token-admin", "admin-token", "--token-alice", "alice-token"),
            *("--only", "policies/typechecking", "--gates", "PolicyTypeChecking"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert replay.stdout.split()[:2] == ["ok", "policies/typechecking"], replay.stdout
