"""Tests the manifests with the Kubernetes release that KUBERNETES_RELEASE names."""

import os

import pytest

RELEASE = os.environ.get("KUBERNETES_RELEASE", "1.36")


@pytest.mark.apiserver(flags=[f"--emulated-version={RELEASE}"], manifests="deploy")
def test_the_manifests_load(kube):
    """If a manifest has an unknown field or an invalid value, the report names the file and the line."""
    _, version = kube.request("GET", "/version")
    assert f"{version['major']}.{version['minor']}" == RELEASE
    kube.wait_for("Deployment", "web", "default")
