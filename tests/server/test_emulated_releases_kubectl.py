"""kubectl with manifests of versions that were removed, at a release that had them. Rows T14, T31.

kubectl checks them by the server's OpenAPI, finds their types in discovery, and merges changes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.support.kubectl import Kubectl, oldest_and_newest, program
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.kubectl

MANIFEST: Final = """\
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  version: v1
  names: {plural: widgets, kind: Widget}
  additionalPrinterColumns: [{name: Color, type: string, JSONPath: .spec.color}]
---
apiVersion: admissionregistration.k8s.io/v1beta1
kind: ValidatingWebhookConfiguration
metadata: {name: a}
webhooks:
- name: x.example.com
  clientConfig: {url: "https://127.0.0.1:1/"}
---
apiVersion: rbac.authorization.k8s.io/v1beta1
kind: ClusterRole
metadata: {name: a}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: discovery.k8s.io/v1beta1
kind: EndpointSlice
metadata: {name: a, namespace: default}
addressType: IPv4
endpoints: [{addresses: [10.0.0.1], conditions: {}, topology: {topology.kubernetes.io/zone: a}}]
"""
CREATED: Final = [
    "customresourcedefinition.apiextensions.k8s.io/widgets.example.com created",
    "validatingwebhookconfiguration.admissionregistration.k8s.io/a created",
    "clusterrole.rbac.authorization.k8s.io/a created",
    "endpointslice.discovery.k8s.io/a created",
]


@pytest.mark.parametrize("version", oldest_and_newest())
def test_old_manifests_are_applied(tmp_path: Path, version: str) -> None:
    with ServerProcess(tmp_path / "data", "--emulated-version=1.21") as server:
        kubectl = Kubectl(program(version), server.kubeconfig, "", tmp_path)

        def applied(manifest: str) -> list[str]:
            ran = kubectl.run("apply", "-f", "-", stdin=manifest)
            assert ran.returncode == 0, ran.stderr
            assert "is deprecated in v1.16+, unavailable in v1.22+" in ran.stderr
            return ran.stdout.splitlines()

        assert applied(MANIFEST) == CREATED
        again = [line.replace(" created", " unchanged") for line in CREATED]
        assert applied(MANIFEST) == again
        changed = [
            line.replace("unchanged", "configured") if line.startswith("clusterrole") else line
            for line in again
        ]
        assert applied(MANIFEST.replace("verbs: [get]", "verbs: [get, list]")) == changed
        shown = kubectl("get", "crd/widgets.example.com", "-o=jsonpath={.apiVersion} {.spec.scope}")
        assert shown == "apiextensions.k8s.io/v1 Namespaced"
        field = "customresourcedefinitions.spec.additionalPrinterColumns"
        assert "JSONPath" in kubectl("explain", field, "--api-version=apiextensions.k8s.io/v1beta1")
