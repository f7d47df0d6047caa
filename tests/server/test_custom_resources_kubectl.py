"""kubectl works with custom resources as with all others: names, columns, explain, apply, delete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from tests.support.api import Api, until_status
from tests.support.definitions import define, definition, new_group, version
from tests.support.eventually import WITHIN_S, until
from tests.support.fixtures import server_with
from tests.support.kubectl import Kubectl, each_version, program
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.kubectl

SCHEMA: Final = {
    "type": "object",
    "description": "Something that can be had in sizes.",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "description": "How large it is.", "minimum": 1},
                "color": {"type": "string"},
            },
        }
    },
}
COLUMNS: Final = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


# Other tests look at all that is served.
server = server_with()


@pytest.fixture(params=each_version(-1))
def kubectl(request: pytest.FixtureRequest, server: ServerProcess, tmp_path: Path) -> Kubectl:
    return Kubectl(program(request.param), server.kubeconfig, "default", tmp_path)


def test_a_custom_resource_from_its_definition_to_its_end(api: Api, kubectl: Kubectl) -> None:
    group = new_group()
    document = definition(
        group,
        version(schema=SCHEMA, additionalPrinterColumns=COLUMNS),
        plural="gizmos",
        kind="Gizmo",
        names={"shortNames": ["gz"], "categories": ["toys"]},
    )
    assert kubectl.run("apply", "-f", "-", stdin=json.dumps(document)).returncode == 0
    # kubectl 1.30 takes conditions that are not there yet, which Kubernetes shows as null, for a fault.
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gizmos.{group}"
    until(lambda: api.get(path).json["status"]["conditions"], what="the definition has conditions")
    waited = kubectl.run(
        "wait", "--for=condition=Established", f"crd/gizmos.{group}", f"--timeout={WITHIN_S}s"
    )
    assert "condition met" in waited.stdout
    until_status(200, lambda: api.get(f"/apis/{group}/v1/gizmos"))
    gizmo = {"apiVersion": f"{group}/v1", "kind": "Gizmo", "metadata": {"name": "a"}, "spec": {"size": 3}}
    applied = kubectl.run("apply", "-f", "-", stdin=json.dumps(gizmo))
    assert applied.stdout == f"gizmo.{group}/a created\n"
    gizmo["spec"] = {"size": 4, "color": "red"}
    assert kubectl.run("apply", "-f", "-", stdin=json.dumps(gizmo)).stdout == f"gizmo.{group}/a configured\n"

    assert kubectl.run("get", "gz").stdout.splitlines()[0].split() == ["NAME", "SIZE", "AGE"]
    wide = kubectl.run("get", "toys", "-o", "wide").stdout.splitlines()
    assert wide[0].split() == ["NAME", "SIZE", "COLOR", "AGE"]
    assert wide[1].split()[:3] == ["a", "4", "red"]

    explained = kubectl.run("explain", "gizmos.spec").stdout
    assert "How large it is." in explained
    assert "Something that can be had in sizes." in kubectl.run("explain", "gizmo").stdout

    wrong = {**gizmo, "spec": {"size": 0, "colour": "red"}}
    refused = kubectl.run("apply", "-f", "-", stdin=json.dumps(wrong))
    assert 'unknown field "spec.colour"' in refused.stderr
    refused = kubectl.run("patch", "gizmo", "a", "--type=merge", "-p", '{"spec":{"size":0}}')
    assert "spec.size in body should be greater than or equal to 1" in refused.stderr
    shown = kubectl.run("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=json.dumps(gizmo))
    assert shown.stdout == f"gizmo.{group}/a serverside-applied\n"
    assert kubectl.run("delete", "crd", f"gizmos.{group}", f"--timeout={WITHIN_S}s").returncode == 0
    assert kubectl.run("get", "gizmos").returncode != 0


def test_a_scale_and_a_status(api: Api, kubectl: Kubectl) -> None:
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    defined = define(
        api,
        definition(
            new_group(), version(subresources={"scale": scale, "status": {}}), plural="sets", kind="Set"
        ),
    )
    defined.create("a", spec={"n": 1}).ok()
    scaled = kubectl.run("scale", f"sets.{defined.group}/a", "--replicas=3")
    assert scaled.stdout == f"set.{defined.group}/a scaled\n"
    assert api.get(f"{defined.objects()}/a").ok()["spec"] == {"n": 3}
    patch = '{"status":{"message":"fine"}}'
    kubectl.run("patch", f"sets.{defined.group}", "a", "--subresource=status", "--type=merge", "-p", patch)
    assert api.get(f"{defined.objects()}/a").ok()["status"] == {"message": "fine"}
