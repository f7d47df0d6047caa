"""The manifests are valid in the Kubernetes release that KUBERNETES_RELEASE names."""

import os

import pytest

RELEASE = os.environ.get("KUBERNETES_RELEASE", "1.36")


@pytest.mark.apiserver(flags=[f"--emulated-version={RELEASE}"], manifests="deploy")
def test_the_manifests_load(kube):
    """Unknown fields and invalid values fail the test, and the report names the file and the line."""
    _, version = kube.request("GET", "/version")
    assert f"{version['major']}.{version['minor']}" == RELEASE
    kube.wait_for("Deployment", "web", "default")
