"""Warnings about pods and pod templates. Source: pkg/api/pod/warnings.go."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.catalogue.core.pods import validation
from apiserver.catalogue.core.pods.rules import pod_rules
from apiserver.catalogue.pod_specs.templates import with_template_warnings
from apiserver.meta import names
from apiserver.meta.releases.gates import gates_of
from tests.unit.catalogue.valid_pods import (
    RULES,
    Document,
    container,
    decoded,
    pod,
    prepare_pod_create,
    warn_pod,
)

# Source: pkg/api/pod, warnings.go. The metadata, the spec, and the warnings: the path, and what it says.
SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/pod"
SIDECAR: Final = "spec.initContainers[0].ports[0]"
BY_NAME: Final = "services and probes that select ports by name will use"
WEB: Final = {"name": "web", "containerPort": 80}
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
OUT_OF_ZONE: Final = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["-"]}]}
HALF: Final = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500m"}}}
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
    "half a byte, of memory first": (
        {},
        {
            "containers": [
                container(
                    resources={
                        "limits": {"ephemeral-storage": "1500m"},
                        "requests": {"ephemeral-storage": "500m", "memory": "500m"},
                    }
                )
            ]
        },
        [
            (
                f"spec.containers[0].resources.{amount}",
                f'fractional byte value "{value}" is invalid, must be an integer',
            )
            for amount, value in (
                ("requests[memory]", "500m"),
                ("limits[ephemeral-storage]", "1500m"),
                ("requests[ephemeral-storage]", "500m"),
            )
        ],
    ),
    "volumes of yore, a negative wait, a secret without a name": (
        {},
        {"volumes": [{"name": "v", "gitRepo": {"repository": "r"}}], "imagePullSecrets": [{}]},
        [
            ("spec.volumes[0].gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
            ("spec.imagePullSecrets[0].name", 'invalid empty name ""'),
        ],
    ),
    "the name of a port in two containers": (
        {},
        {
            "initContainers": [container(name="i", restartPolicy="Always", ports=[WEB])],
            "containers": [
                container(ports=[WEB | {"containerPort": 81}, WEB | {"containerPort": 82, "name": "x"}])
            ],
        },
        [("spec.containers[0].ports[0]", f'duplicate port name "web" with {SIDECAR}, {BY_NAME} {SIDECAR}')],
    ),
    "an address of the host without a port": (
        {},
        {"containers": [container(ports=[WEB | {"hostIP": "a"}])]},
        [
            (
                "spec.containers[0].ports[0]",
                "hostIP set without hostPort: {Name:web HostPort:0 ContainerPort:80 Protocol:TCP HostIP:a}",
            )
        ],
    ),
    "a value that no label of a node can have": (
        {},
        {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": OUT_OF_ZONE}]}}},
        [
            (
                f"spec.affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].values[0]",
                f"- is invalid, {names.label_value('-')[0]}",
            )
        ],
    ),
    "half a byte of a volume": (
        {},
        {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": HALF}}}]},
        [
            (
                "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]",
                'fractional byte value "1500m" is invalid, must be an integer',
            )
        ],
    ),
}


@pytest.mark.parametrize(("meta", "spec", "expected"), WARNINGS.values(), ids=WARNINGS)
def test_warnings(meta: Document, spec: Document, expected: list[tuple[str, str]]) -> None:
    document = pod(meta, **spec)
    assert warn_pod(document, None) == [f"{path}: {text}" for path, text in expected]
    assert warn_pod(document, document) == []


PROFILE: Final = "container.apparmor.security.beta.kubernetes.io/c"
OLD_PROFILE: Final = 'deprecated since v1.30; use the "appArmorProfile" field instead'
UNCONFINED: Final = {"appArmorProfile": {"type": "Unconfined"}}

# The annotation, the contexts of the pod and its container, and whether a pod or a template is warned of.
APP_ARMOR: Final[dict[str, tuple[str, Document, Document, bool, bool]]] = {
    "an annotation alone": ("unconfined", {}, {}, True, True),
    "with its field": ("unconfined", {}, UNCONFINED, False, False),
    "as the pod's": ("unconfined", UNCONFINED, {}, False, False),
    "otherwise than the pod's": ("runtime/default", UNCONFINED, {}, True, True),
    "one that stands for no field": ("localhost/", {}, {}, True, True),
}


@pytest.mark.parametrize(
    ("annotation", "of_pod", "of_container", "of_pods", "of_templates"), APP_ARMOR.values(), ids=APP_ARMOR
)
def test_app_armor_annotations(
    annotation: str, of_pod: Document, of_container: Document, of_pods: bool, of_templates: bool
) -> None:
    spec: Document = {"securityContext": of_pod, "containers": [container(securityContext=of_container)]}
    document = pod({"annotations": {PROFILE: annotation}}, **spec)
    expected = f"metadata.annotations[{PROFILE}]: {OLD_PROFILE}"
    template = {"metadata": document["metadata"], "spec": decoded({"spec": spec}, "PodTemplateSpec")["spec"]}
    assert warn_template(template) == ([f"template.{expected}"] if of_templates else [])
    assert prepare_pod_create(document) == ([expected] if of_pods else [])
    assert warn_pod(document, None) == [], "it is told once"


def warn_template(template: Document) -> list[str]:
    return with_template_warnings(RULES.specs, "template")({"template": template}, None)


def test_warnings_of_templates_have_paths_of_their_own() -> None:
    template = decoded(
        {
            "spec": {
                "containers": [container()],
                "nodeSelector": {"beta.kubernetes.io/arch": "a"},
                "terminationGracePeriodSeconds": -1,
            }
        },
        "PodTemplateSpec",
    )
    label, grace = warn_template(template)
    assert label.startswith("template.spec.nodeSelector[beta.kubernetes.io/arch]: deprecated")
    assert grace == (
        "template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be "
        "treated as 1"
    )


def test_warnings_about_templates_are_repeated_when_the_generation_changes() -> None:
    warn = with_template_warnings(RULES.specs, "template")
    template: Document = {"spec": {"containers": [], "imagePullSecrets": [{}]}}
    first, again, second = ({"metadata": {"generation": n}, "template": template} for n in (1, 1, 2))
    assert [len(warn(new, old)) for new, old in ((first, None), (again, first), (second, first))] == [1, 0, 1]


def test_the_warning_about_git_repos_depends_on_their_gate() -> None:
    document = pod(volumes=[{"name": "v", "gitRepo": {"repository": "r"}}])
    of_32 = pod_rules(gates_of(32, ()))
    assert validation.warn_pod(of_32, document, None) == ["spec.volumes[0].gitRepo: deprecated in v1.11"]


def test_a_name_that_makes_no_host_name() -> None:
    assert "a DNS label is recommended" in warn_pod(pod({"name": "a.b"}), None)[0]
