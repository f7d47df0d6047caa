"""Warnings about pods and pod templates. Source: pkg/api/pod/warnings.go."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.catalogue.core.pods.warnings import warn_pod
from apiserver.catalogue.pod_specs.templates import warn_template
from tests.unit.catalogue.valid_pods import Document, container, decoded, pod

# Source: pkg/api/pod, warnings.go. The metadata, the spec, and the warnings: the path, and what it says.
SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/pod"
WARNINGS: Final[dict[str, tuple[Document, Document, list[tuple[str, str]]]]] = {
    "nothing to say": ({}, {}, []),
    "an old label of nodes": (
        {},
        {"nodeSelector": {"beta.kubernetes.io/os": "linux"}},
        [
            (
                "spec.nodeSelector[beta.kubernetes.io/os]",
                'deprecated since v1.14; use "kubernetes.io/os" instead',
            )
        ],
    ),
    "a variable that hides another": (
        {},
        {"containers": [container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])]},
        [
            (
                "spec.containers[0].env[1]",
                'hides previous definition of "A", which may be dropped when using apply',
            )
        ],
    ),
    "a variable that takes up another": (
        {},
        {"containers": [container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}])]},
        [],
    ),
    "a port twice": (
        {},
        {"containers": [container(ports=[{"containerPort": 80}, {"containerPort": 80, "name": "b"}])]},
        [("spec.containers[0].ports[1]", "duplicate port definition with spec.containers[0].ports[0]")],
    ),
    "a profile in an annotation": (
        {"annotations": {SECCOMP: "runtime/default"}},
        {},
        [
            (
                f"metadata.annotations[{SECCOMP}]",
                'non-functional in v1.27+; use the "seccompProfile" field instead',
            )
        ],
    ),
    "half a byte": (
        {},
        {"containers": [container(resources={"requests": {"memory": "500m"}})]},
        [
            (
                "spec.containers[0].resources.requests[memory]",
                'fractional byte value "500m" is invalid, must be an integer',
            )
        ],
    ),
    "volumes of yore, a negative wait, a secret without a name": (
        {},
        {
            "volumes": [{"name": "v", "gitRepo": {"repository": "r"}}],
            "terminationGracePeriodSeconds": -1,
            "imagePullSecrets": [{}],
        },
        [
            ("spec.volumes[0].gitRepo", "deprecated in v1.11"),
            ("spec.imagePullSecrets[0].name", 'invalid empty name ""'),
            (
                "spec.terminationGracePeriodSeconds",
                "must be >= 0; negative values are invalid and will be treated as 1",
            ),
        ],
    ),
}


@pytest.mark.parametrize(("meta", "spec", "expected"), WARNINGS.values(), ids=WARNINGS)
def test_warnings(meta: Document, spec: Document, expected: list[tuple[str, str]]) -> None:
    document = pod(meta, **spec)
    assert warn_pod(document, None) == [f"{path}: {text}" for path, text in expected]
    assert warn_pod(document, document) == []


def test_warnings_of_templates_have_paths_of_their_own() -> None:
    annotation = "container.apparmor.security.beta.kubernetes.io/c"
    template = decoded(
        {
            "metadata": {"annotations": {annotation: "unconfined"}},
            "spec": {"containers": [container()], "nodeSelector": {"beta.kubernetes.io/arch": "a"}},
        },
        "PodTemplateSpec",
    )
    label, profile = warn_template("spec.template", template)
    assert label.startswith("spec.template.spec.nodeSelector[beta.kubernetes.io/arch]: deprecated")
    assert profile.startswith(f"spec.template.metadata.annotations[{annotation}]: deprecated since v1.30")


def test_a_name_that_makes_no_host_name() -> None:
    assert "a DNS label is recommended" in warn_pod(pod({"name": "a.b"}), None)[0]
