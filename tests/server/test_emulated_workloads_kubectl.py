"""kubectl with manifests of versions of workloads, ingresses and policies that were removed, at releases that
had them. Rows T05, T06, T09, T10, T20, T27, T31.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.kubectl import Kubectl, oldest_and_newest, program
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.kubectl


class Release(NamedTuple):
    """A release, a manifest of what it serves, and what kubectl says of each object."""

    minor: int
    manifest: str
    names: tuple[str, ...]


OF_1_22: Final = Release(
    22,
    """\
apiVersion: batch/v1beta1
kind: CronJob
metadata: {name: a}
spec:
  schedule: "0 * * * *"
  jobTemplate:
    spec:
      template:
        spec: {restartPolicy: Never, containers: [{name: a, image: "busybox:1"}]}
---
apiVersion: policy/v1beta1
kind: PodDisruptionBudget
metadata: {name: a}
spec: {minAvailable: 1, selector: {}}
---
apiVersion: autoscaling/v2beta1
kind: HorizontalPodAutoscaler
metadata: {name: a}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, targetAverageUtilization: 50}}]
""",
    ("cronjob.batch/a", "poddisruptionbudget.policy/a", "horizontalpodautoscaler.autoscaling/a"),
)
OF_1_15: Final = Release(
    15,
    """\
apiVersion: extensions/v1beta1
kind: Ingress
metadata: {name: a}
spec:
  rules:
  - http: {paths: [{path: /x, pathType: Prefix, backend: {serviceName: web, servicePort: 80}}]}
---
apiVersion: extensions/v1beta1
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "nginx:1"}]}
""",
    ("ingress.extensions/a", "deployment.extensions/web"),
)


@pytest.mark.parametrize("release", [OF_1_22, OF_1_15], ids=["1.22", "1.15"])
@pytest.mark.parametrize("version", oldest_and_newest())
def test_old_manifests_are_applied(tmp_path: Path, release: Release, version: str) -> None:
    with ServerProcess(tmp_path / "data", f"--emulated-version=1.{release.minor}") as server:
        kubectl = Kubectl(program(version), server.kubeconfig, "default", tmp_path)

        def applied(manifest: str) -> list[str]:
            ran = kubectl.run("apply", "-f", "-", stdin=manifest)
            assert ran.returncode == 0, ran.stderr
            assert ("is deprecated in v1." in ran.stderr) is (release is OF_1_22)  # row S05
            return ran.stdout.splitlines()

        assert applied(release.manifest) == [f"{name} created" for name in release.names]
        assert applied(release.manifest) == [f"{name} unchanged" for name in release.names]
        if release is OF_1_15:
            changed = applied(release.manifest.replace("servicePort: 80", "servicePort: web"))
            assert changed == ["ingress.extensions/a configured", "deployment.extensions/web unchanged"]
            path = "{.apiVersion} {.spec.rules[0].http.paths[0].backend.servicePort}"
            assert kubectl.run("get", "ingress.extensions/a", f"-o=jsonpath={path}").stdout == (
                "extensions/v1beta1 web"
            )
            scaled = kubectl.run("scale", "deployment.v1beta1.extensions/web", "--replicas=3")
            assert scaled.stdout == "deployment.extensions/web scaled\n", scaled.stderr
            shown = kubectl("get", "deployment.v1.apps/web", "-o=jsonpath={.apiVersion} {.spec.replicas}")
            assert shown == "apps/v1 3"
        else:
            shown = kubectl("get", "pdb/a", "-o=jsonpath={.apiVersion} {.spec.selector}")
            assert shown.startswith('policy/v1 {"matchExpressions":')
            assert kubectl("get", "cronjob/a", "-o=jsonpath={.apiVersion}") == "batch/v1"
            path = "{.spec.targetCPUUtilizationPercentage}"
            assert kubectl("get", "hpa.v1.autoscaling/a", f"-o=jsonpath={path}") == "50"
