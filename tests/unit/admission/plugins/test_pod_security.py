"""The Pod Security Standards, check by check, and what labels of a namespace make of them.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/; the texts are kube-apiserver's.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.admission.configuration.pod_security import (
    BASELINE,
    LEVELS,
    PRIVILEGED,
    RESTRICTED,
    LevelVersion,
)
from apiserver.admission.plugins.pod_security import Policy, policy_of, violations
from apiserver.admission.plugins.pod_security_standards import findings

LATEST: Final = 34


def told(
    level: str, spec: dict[str, Any], minor: int = LATEST, annotations: dict[str, str] | None = None
) -> list[str]:
    return [str(each) for each in findings(level, minor, annotations or {}, spec)]


def contained(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"containers": [{"name": f"c{n}", **each} for n, each in enumerate(containers)], **spec}


def context(**fields: Any) -> dict[str, Any]:
    return {"securityContext": fields}


# ---- baseline

BAD: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "privileged": (
        contained(context(privileged=True)),
        'privileged (container "c0" must not set securityContext.privileged=true)',
    ),
    "several containers": (
        contained(context(privileged=True), context(privileged=False), context(privileged=True)),
        'privileged (containers "c0", "c2" must not set securityContext.privileged=true)',
    ),
    "the host's namespaces": (
        contained({}, hostNetwork=True, hostPID=True, hostIPC=False),
        "host namespaces (hostNetwork=true, hostPID=true)",
    ),
    "the host's files": (
        contained({}, volumes=[{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "emptyDir": {}}]),
        'hostPath volumes (volume "v")',
    ),
    "the host's ports": (
        contained({"ports": [{"hostPort": 80}, {"hostPort": 443}, {"containerPort": 1}]}),
        'hostPort (container "c0" uses hostPorts 443, 80)',
    ),
    "probes of other hosts": (
        contained(
            {
                "livenessProbe": {"httpGet": {"host": "h"}},
                "lifecycle": {"preStop": {"tcpSocket": {"host": "g"}}},
            }
        ),
        'probe or lifecycle host (container "c0" uses probe or lifecycle hosts "g", "h")',
    ),
    "capabilities": (
        contained(context(capabilities={"add": ["SYS_ADMIN", "CHOWN"]})),
        (
            'non-default capabilities (container "c0" must not include "SYS_ADMIN" in '
            "securityContext.capabilities.add)"
        ),
    ),
    "another /proc": (
        contained(context(procMount="Unmasked")),
        'procMount (container "c0" must not set securityContext.procMount to "Unmasked")',
    ),
    "a type of SELinux's": (
        contained(context(seLinuxOptions={"type": "spc_t", "user": "u"})),
        (
            'seLinuxOptions (container "c0" set forbidden securityContext.seLinuxOptions: type "spc_t"; '
            "user may not be set)"
        ),
    ),
    "a role of SELinux's": (
        contained({}, **context(seLinuxOptions={"role": "r"})),
        "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: role may not be set)",
    ),
    "no seccomp": (
        contained(
            context(seccompProfile={"type": "Unconfined"}), **context(seccompProfile={"type": "Unconfined"})
        ),
        (
            'seccompProfile (pod and container "c0" must not set securityContext.seccompProfile.type to '
            '"Unconfined")'
        ),
    ),
    "no AppArmor": (
        contained({}, **context(appArmorProfile={"type": "Unconfined"})),
        'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")',
    ),
    "settings of the kernel": (
        contained({}, **context(sysctls=[{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}])),
        "forbidden sysctls (kernel.msgmax)",
    ),
    "processes of a Windows host": (
        contained({}, **context(windowsOptions={"hostProcess": True})),
        "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
    ),
}


@pytest.mark.parametrize(("spec", "text"), BAD.values(), ids=BAD)
def test_what_baseline_forbids(spec: dict[str, Any], text: str) -> None:
    assert told(BASELINE, spec) == [text]
    assert told(PRIVILEGED, spec) == []
    assert told(RESTRICTED, spec), "what is stricter forbids it, too"


@pytest.mark.parametrize("field", ["initContainers", "ephemeralContainers"])
def test_every_container_is_looked_at(field: str) -> None:
    spec = contained({}, **{field: [{"name": "x", **context(privileged=True)}]})
    assert told(BASELINE, spec) == ['privileged (container "x" must not set securityContext.privileged=true)']


def test_an_ordinary_pod_is_fine_by_baseline() -> None:
    good = context(
        capabilities={"add": ["NET_BIND_SERVICE"]},
        procMount="Default",
        seLinuxOptions={"type": "container_t"},
        seccompProfile={"type": "RuntimeDefault"},
        appArmorProfile={"type": "Localhost"},
    )
    assert told(BASELINE, contained(good, {})) == []


def test_annotations_about_app_armor() -> None:
    key = "container.apparmor.security.beta.kubernetes.io/c0"
    assert told(BASELINE, contained({}), annotations={key: "runtime/default"}) == []
    (text,) = told(BASELINE, contained({}), annotations={key: "unconfined"})
    assert text.startswith("forbidden AppArmor profile (annotation must not set AppArmor profile type to")


# ---- restricted

GOOD: Final = context(
    allowPrivilegeEscalation=False,
    capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
    runAsNonRoot=True,
    seccompProfile={"type": "RuntimeDefault"},
)["securityContext"]
ORDINARY: Final = [
    (
        'allowPrivilegeEscalation != false (container "c0" must set '
        "securityContext.allowPrivilegeEscalation=false)"
    ),
    'unrestricted capabilities (container "c0" must set securityContext.capabilities.drop=["ALL"])',
    'runAsNonRoot != true (pod or container "c0" must set securityContext.runAsNonRoot=true)',
    (
        'seccompProfile (pod or container "c0" must set securityContext.seccompProfile.type to '
        '"RuntimeDefault" or "Localhost")'
    ),
]


def good(**fields: Any) -> dict[str, Any]:
    """A container that is fine but for some fields; None takes one away."""
    merged = {**GOOD, **fields}
    return context(**{name: value for name, value in merged.items() if value is not None})


RESTRICTIONS: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "a good pod": (contained(good()), []),
    "an ordinary pod": (contained({}), ORDINARY),
    "what the pod says counts for its containers": (
        contained(
            good(runAsNonRoot=None, seccompProfile=None),
            **context(runAsNonRoot=True, seccompProfile={"type": "Localhost"}),
        ),
        [],
    ),
    "unless they say otherwise": (
        contained(good(runAsNonRoot=False), **context(runAsNonRoot=True)),
        ['runAsNonRoot != true (container "c0" must not set securityContext.runAsNonRoot=false)'],
    ),
    "root": (
        contained(good(runAsUser=0), **context(runAsUser=0)),
        ['runAsUser=0 (pod and container "c0" must not set runAsUser=0)'],
    ),
    "more capabilities": (
        contained(good(capabilities={"add": ["CHOWN"]})),
        [
            (
                'unrestricted capabilities (container "c0" must set '
                'securityContext.capabilities.drop=["ALL"]; container "c0" must not include "CHOWN" in '
                "securityContext.capabilities.add)"
            )
        ],
    ),
    "volumes": (
        contained(
            good(),
            volumes=[
                {"name": "v", "hostPath": {"path": "/"}},
                {"name": "w", "nfs": {}},
                {"name": "x", "projected": {}},
                {"name": "y", "image": {}},
            ],
        ),
        ['restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs")'],
    ),
}


@pytest.mark.parametrize(("spec", "texts"), RESTRICTIONS.values(), ids=RESTRICTIONS)
def test_what_restricted_forbids(spec: dict[str, Any], texts: list[str]) -> None:
    assert told(RESTRICTED, spec) == texts


def test_versions() -> None:
    """A namespace may stay with the standards of an older version."""
    windows = contained({}, os={"name": "windows"}, **context(runAsNonRoot=True))
    assert told(RESTRICTED, windows, 25) == []
    assert len(told(RESTRICTED, windows, 24)) == 3
    probed = contained({"startupProbe": {"httpGet": {"host": "h"}}})
    assert told(BASELINE, probed, 33) == []
    assert told(BASELINE, probed, 99) == told(BASELINE, probed, LATEST)
    reserved = contained({}, **context(sysctls=[{"name": "net.ipv4.ip_local_reserved_ports"}]))
    assert told(BASELINE, reserved, 26) != told(BASELINE, reserved, 27) == []
    assert told(BASELINE, contained(context(seLinuxOptions={"type": "container_engine_t"})), 30) != []


def test_what_is_allowed_in_a_user_namespace_from_1_35_on() -> None:
    """KEP-127: root is nobody outside of it. An unmasked /proc is still no matter of the strictest level."""
    unmasked = contained(context(procMount="Unmasked"), hostUsers=False)
    assert told(BASELINE, unmasked, 34) != told(BASELINE, unmasked, 35) == []
    assert any(each.startswith("procMount ") for each in told(RESTRICTED, unmasked, 35))
    root = contained(good(runAsNonRoot=False, runAsUser=0), hostUsers=False)
    assert len(told(RESTRICTED, root, 34)) == 2
    assert told(RESTRICTED, root, 35) == []
    assert len(told(RESTRICTED, {**root, "hostUsers": True}, 35)) == 2


@given(st.sampled_from([spec for spec, _ in (*BAD.values(), *RESTRICTIONS.values())]), st.integers(0, 40))
def test_a_stricter_level_never_forbids_less(spec: dict[str, Any], minor: int) -> None:
    found = [bool(findings(level, minor, {}, spec)) for level in LEVELS]
    assert found == sorted(found)


# ---- labels

PREFIX: Final = "pod-security.kubernetes.io/"
LAX: Final = LevelVersion()
LABELS: Final[dict[str, tuple[dict[str, str], LevelVersion, LevelVersion]]] = {
    "none": ({}, LAX, LAX),
    "others": ({"other": "restricted"}, LAX, LAX),
    "enforced, and so warned about": (
        {"enforce": "baseline", "enforce-version": "v1.25"},
        LevelVersion(BASELINE, "v1.25"),
        LevelVersion(BASELINE, "v1.25"),
    ),
    "by another version": (
        {"enforce": "baseline", "warn-version": "v1.30"},
        LevelVersion(BASELINE),
        LevelVersion(BASELINE, "v1.30"),
    ),
    "warned about more": (
        {"enforce": "baseline", "warn": "restricted"},
        LevelVersion(BASELINE),
        LevelVersion(RESTRICTED),
    ),
    "warned about nothing": ({"enforce": "baseline", "warn": "privileged"}, LevelVersion(BASELINE), LAX),
    "only warned about": ({"warn": "baseline"}, LAX, LevelVersion(BASELINE)),
    "only audited": ({"audit": "baseline"}, LAX, LAX),
}


def labelled(labels: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"labels": {f"{PREFIX}{name}": value for name, value in labels.items()}}}


@pytest.mark.parametrize(("labels", "enforced", "warned"), LABELS.values(), ids=LABELS)
def test_what_labels_ask_for(labels: dict[str, str], enforced: LevelVersion, warned: LevelVersion) -> None:
    policy = policy_of(labelled(labels))
    assert (policy.enforced, policy.warned, policy.errors) == (enforced, warned, ())


DEFAULT: Final = Policy(LevelVersion(BASELINE, "v1.25"), LevelVersion(RESTRICTED), LevelVersion(BASELINE))
DEFAULTED: Final[dict[str, tuple[dict[str, str], Policy]]] = {
    "no labels": ({}, DEFAULT),
    "a level, whose version is the default's": (
        {"enforce": "privileged"},
        Policy(LevelVersion(PRIVILEGED, "v1.25"), DEFAULT.audited, DEFAULT.warned),
    ),
    "a stricter level, of which is warned": (
        {"enforce": "restricted"},
        Policy(LevelVersion(RESTRICTED, "v1.25"), DEFAULT.audited, LevelVersion(RESTRICTED, "v1.25")),
    ),
    "a level that is not stricter than what is warned about": (
        {"enforce": "baseline", "enforce-version": "v1.30"},
        Policy(LevelVersion(BASELINE, "v1.30"), DEFAULT.audited, DEFAULT.warned),
    ),
}


@pytest.mark.parametrize(("labels", "policy"), DEFAULTED.values(), ids=DEFAULTED)
def test_what_holds_where_labels_say_nothing(labels: dict[str, str], policy: Policy) -> None:
    assert policy_of(labelled(labels), DEFAULT) == policy


def test_a_policy_in_words() -> None:
    assert str(DEFAULT) == "enforce=baseline:v1.25, audit=restricted:latest, warn=baseline:latest"
    assert str(Policy()) == ""


def test_labels_that_cannot_be_understood() -> None:
    """They enforce the most, and warn of nothing."""
    wrong = {"enforce": "strict", "enforce-version": "1.25", "audit": "", "warn": "x", "warn-version": "v2.0"}
    policy = policy_of(labelled(wrong))
    assert (policy.enforced, policy.warned) == (LevelVersion(RESTRICTED), LAX)
    levels, version = "must be one of privileged, baseline, restricted", 'must be "latest" or "v1.x"'
    assert [
        (each.field.removeprefix(f"metadata.labels[{PREFIX}"), each.message) for each in policy.errors
    ] == [
        ("enforce]", f'Invalid value: "strict": {levels}'),
        ("enforce-version]", f'Invalid value: "1.25": {version}'),
        ("audit]", f'Invalid value: "": {levels}'),
        ("warn]", f'Invalid value: "x": {levels}'),
        ("warn-version]", f'Invalid value: "v2.0": {version}'),
    ]


def test_violations_in_one_line() -> None:
    pod = {"metadata": {}, "spec": contained({}, hostPID=True, hostNetwork=True)}
    assert violations(pod, LevelVersion(BASELINE)) == "host namespaces (hostNetwork=true, hostPID=true)"
    assert violations(pod, LevelVersion(RESTRICTED), in_detail=False) == (
        "host namespaces, allowPrivilegeEscalation != false, unrestricted capabilities, "
        "runAsNonRoot != true, seccompProfile"
    )
    assert violations(pod, LevelVersion(PRIVILEGED)) == ""
