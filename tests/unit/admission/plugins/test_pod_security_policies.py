"""What a PodSecurityPolicy fills in, and what it does not allow. Rows T11, T30.

Source: kubernetes, pkg/security/podsecuritypolicy/provider_test.go and the tests of the strategies, 1.24.
"""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.admission.plugins.pod_security_policies import PodSecurityPolicy, UnusablePolicy

SECCOMP: Final = "seccomp.security.alpha.kubernetes.io"
APP_ARMOR: Final = "apparmor.security.beta.kubernetes.io"
OPEN: Final[dict[str, Any]] = {
    "runAsUser": {"rule": "RunAsAny"},
    "seLinux": {"rule": "RunAsAny"},
    "fsGroup": {"rule": "RunAsAny"},
    "supplementalGroups": {"rule": "RunAsAny"},
    "allowPrivilegeEscalation": True,
}


def policy(
    spec: dict[str, Any] | None = None, annotations: dict[str, str] | None = None, minor: int = 24
) -> PodSecurityPolicy:
    """A policy that allows what it does not have to forbid, but for `spec`."""
    meta = {"name": "p", "annotations": annotations or {}}
    return PodSecurityPolicy({"metadata": meta, "spec": {**OPEN, **(spec or {})}}, minor)


def pod(
    container: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod with one container `c`. spec: of the pod."""
    meta: dict[str, Any] = {"name": "x", "namespace": "default"}
    if annotations is not None:
        meta["annotations"] = annotations
    return {"metadata": meta, "spec": {"containers": [{"name": "c", **(container or {})}], **spec}}


def secure(**context: Any) -> dict[str, Any]:
    """A container with a security context."""
    return {"securityContext": context}


def ids(rule: str, *ranges: tuple[int, int]) -> dict[str, Any]:
    return {"rule": rule, "ranges": [{"min": low, "max": high} for low, high in ranges]}


LABEL: Final = {"level": "s0:c1,c0", "role": "r", "type": "t", "user": "u"}

# The policy, the pod, and what the pod has after it.
FILLED: Final[dict[str, tuple[PodSecurityPolicy, dict[str, Any], dict[str, Any]]]] = {
    "nothing": (policy(), pod(), pod()),
    "the first user of the first range": (
        policy({"runAsUser": ids("MustRunAs", (5, 9), (1, 2))}),
        pod(),
        pod(secure(runAsUser=5)),
    ),
    "no user where the pod has one": (
        policy({"runAsUser": ids("MustRunAs", (5, 9))}),
        pod(securityContext={"runAsUser": 6}),
        pod(securityContext={"runAsUser": 6}),
    ),
    "a mark that it must not be root": (
        policy({"runAsUser": {"rule": "MustRunAsNonRoot"}}),
        pod(),
        pod(secure(runAsNonRoot=True)),
    ),
    "no mark where there is a user": (
        policy({"runAsUser": {"rule": "MustRunAsNonRoot"}}),
        pod(secure(runAsUser=1)),
        pod(secure(runAsUser=1)),
    ),
    "groups": (
        policy(
            {
                "runAsGroup": ids("MustRunAs", (1, 1)),
                "fsGroup": ids("MustRunAs", (2, 2)),
                "supplementalGroups": ids("MustRunAs", (3, 3)),
            }
        ),
        pod(),
        pod(secure(runAsGroup=1), securityContext={"fsGroup": 2, "supplementalGroups": [3]}),
    ),
    "no groups where they only may be": (
        policy({"fsGroup": ids("MayRunAs", (2, 2)), "supplementalGroups": ids("MayRunAs", (3, 3))}),
        pod(),
        pod(),
    ),
    "an SELinux label, of the pod": (
        policy({"seLinux": {"rule": "MustRunAs", "seLinuxOptions": LABEL}}),
        pod(),
        pod(securityContext={"seLinuxOptions": LABEL}),
    ),
    "capabilities, in order": (
        policy({"defaultAddCapabilities": ["C", "A"], "requiredDropCapabilities": ["B"]}),
        pod(secure(capabilities={"drop": ["C"]})),
        pod(secure(capabilities={"add": ["A"], "drop": ["B", "C"]})),
    ),
    "no capabilities where they are there": (
        policy({"defaultAddCapabilities": ["A"], "allowedCapabilities": ["Z"]}),
        pod(secure(capabilities={"add": ["Z", "A"]})),
        pod(secure(capabilities={"add": ["Z", "A"]})),
    ),
    "a file system that is read-only": (
        policy({"readOnlyRootFilesystem": True}),
        pod(),
        pod(secure(readOnlyRootFilesystem=True)),
    ),
    "no privilege escalation": (
        policy({"allowPrivilegeEscalation": False}),
        pod(),
        pod(secure(allowPrivilegeEscalation=False)),
    ),
    "the default for privilege escalation": (
        policy({"defaultAllowPrivilegeEscalation": False}),
        pod(),
        pod(secure(allowPrivilegeEscalation=False)),
    ),
    "a runtime class": (
        policy({"runtimeClass": {"allowedRuntimeClassNames": ["*"], "defaultRuntimeClassName": "gvisor"}}),
        pod(),
        pod(runtimeClassName="gvisor"),
    ),
    "profiles": (
        policy(
            annotations={
                f"{SECCOMP}/defaultProfileName": "runtime/default",
                f"{SECCOMP}/allowedProfileNames": "*",
                f"{APP_ARMOR}/defaultProfileName": "localhost/a",
            }
        ),
        pod(),
        pod(
            annotations={f"{SECCOMP}/pod": "runtime/default", f"container.{APP_ARMOR}/c": "localhost/a"},
        ),
    ),
    "the annotation of a field": (
        policy(annotations={f"{SECCOMP}/allowedProfileNames": "localhost/p"}),
        pod(securityContext={"seccompProfile": {"type": "Localhost", "localhostProfile": "p"}}),
        pod(
            annotations={f"{SECCOMP}/pod": "localhost/p"},
            securityContext={"seccompProfile": {"type": "Localhost", "localhostProfile": "p"}},
        ),
    ),
}


@pytest.mark.parametrize(("applied", "given_pod", "expected"), FILLED.values(), ids=FILLED)
def test_what_is_filled_in(
    applied: PodSecurityPolicy, given_pod: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = copy.deepcopy(given_pod)
    outcome = applied.applied_to(given_pod)
    assert outcome.errors == []
    assert outcome.pod == expected
    assert given_pod == before, "it is not changed itself"
    assert (outcome.pod is given_pod) is (expected == before)
    again = applied.applied_to(outcome.pod)
    assert again.pod is outcome.pod, "and nothing is left to fill in"


def volume(**source: Any) -> dict[str, Any]:
    return pod(volumes=[{"name": "v", **source}])


ON_POD: Final = "spec.securityContext"
ON_CONTAINER: Final = "spec.containers[0].securityContext"
PROFILE: Final = f"pod.metadata.annotations[{SECCOMP}/pod]"
OF_CONTAINER: Final = f"pod.metadata.annotations[container.{SECCOMP}/c]"
HOST: Final = {"hostPath": {"path": "/var/log/x"}}
MOUNTED: Final = pod(
    {"volumeMounts": [{"name": "v", "mountPath": "/a", "readOnly": True}, {"name": "v", "mountPath": "/b"}]},
    volumes=[{"name": "v", **HOST}],
)

# The policy, the pod, and what is told; nothing where it is allowed.
REFUSED: Final[dict[str, tuple[PodSecurityPolicy, dict[str, Any], list[str]]]] = {
    "a user outside": (
        policy({"runAsUser": ids("MustRunAs", (5, 9), (1, 2))}),
        pod(secure(runAsUser=3)),
        [f"{ON_CONTAINER}.runAsUser: Invalid value: 3: must be in the ranges: [{{5 9}} {{1 2}}]"],
    ),
    "the user root": (
        policy({"runAsUser": {"rule": "MustRunAsNonRoot"}}),
        pod(securityContext={"runAsUser": 0}),
        [f"{ON_CONTAINER}.runAsUser: Invalid value: 0: running with the root UID is forbidden"],
    ),
    "perhaps the user root": (
        policy({"runAsUser": {"rule": "MustRunAsNonRoot"}}),
        pod(secure(runAsNonRoot=False)),
        [f"{ON_CONTAINER}.runAsNonRoot: Invalid value: false: must be true"],
    ),
    "groups outside": (
        policy(
            {
                "runAsGroup": ids("MayRunAs", (1, 1)),
                "fsGroup": ids("MustRunAs", (2, 2)),
                "supplementalGroups": ids("MayRunAs", (3, 3), (7, 8)),
            }
        ),
        pod(secure(runAsGroup=9), securityContext={"fsGroup": 9, "supplementalGroups": [3, 9]}),
        [
            f"{ON_POD}.fsGroup: Invalid value: []int64{{9}}: group 9 must be in the ranges: [{{2 2}}]",
            (
                f"{ON_POD}.supplementalGroups: Invalid value: []int64{{3, 9}}: group 9 must be in the "
                "ranges: [{3 3} {7 8}]"
            ),
            f"{ON_CONTAINER}: Invalid value: []int64{{9}}: group 9 must be in the ranges: [{{1 1}}]",
        ],
    ),
    "no groups where there must be some": (
        policy({"supplementalGroups": ids("MustRunAs", (3, 3))}),
        pod(securityContext={"supplementalGroups": []}),
        [
            (
                f"{ON_POD}.supplementalGroups: Invalid value: []int64{{}}: unable to validate empty groups "
                "against required ranges"
            )
        ],
    ),
    "another SELinux label": (
        policy({"seLinux": {"rule": "MustRunAs", "seLinuxOptions": LABEL}}),
        pod(secure(seLinuxOptions={"level": "s0:c0,c1", "role": "x", "type": "t"})),
        [
            f'{ON_CONTAINER}.seLinuxOptions.role: Invalid value: "x": must be r',
            f'{ON_CONTAINER}.seLinuxOptions.user: Invalid value: "": must be u',
        ],
    ),
    "the host": (
        policy(),
        pod(hostNetwork=True, hostPID=True, hostIPC=True),
        [
            f"{ON_POD}.hostNetwork: Invalid value: true: Host network is not allowed to be used",
            f"{ON_POD}.hostPID: Invalid value: true: Host PID is not allowed to be used",
            f"{ON_POD}.hostIPC: Invalid value: true: Host IPC is not allowed to be used",
        ],
    ),
    "the host, where it is allowed": (
        policy({"hostNetwork": True, "hostPID": True, "hostIPC": True}),
        pod(hostNetwork=True, hostPID=True, hostIPC=True),
        [],
    ),
    "sysctls": (
        policy({"allowedUnsafeSysctls": ["kernel.*"], "forbiddenSysctls": ["kernel.shm_rmid_forced"]}),
        pod(
            securityContext={
                "sysctls": [
                    {"name": "kernel.msgmax", "value": "1"},
                    {"name": "kernel.shm_rmid_forced", "value": "1"},
                    {"name": "net.ipv4.ping_group_range", "value": "1"},
                    {"name": "net.core.somaxconn", "value": "1"},
                ]
            }
        ),
        [
            f'{ON_POD}.sysctls[1]: Forbidden: sysctl "kernel.shm_rmid_forced" is not allowed',
            f'{ON_POD}.sysctls[3]: Forbidden: unsafe sysctl "net.core.somaxconn" is not allowed',
        ],
    ),
    "a sysctl that was not safe yet": (
        policy(minor=21),
        pod(securityContext={"sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]}),
        [
            (
                f'{ON_POD}.sysctls[0]: Forbidden: unsafe sysctl "net.ipv4.ip_unprivileged_port_start" is not '
                "allowed"
            )
        ],
    ),
    "a volume": (
        policy({"volumes": ["configMap"]}),
        volume(cephfs={}),
        ['spec.volumes[0]: Invalid value: "cephFS": cephFS volumes are not allowed to be used'],
    ),
    "any volume": (policy({"volumes": ["*"]}), volume(csi={"driver": "d"}), []),
    "a volume of no type": (
        policy({"volumes": ["*"]}),
        volume(),
        ['spec.volumes[0]: Invalid value: "": unknown volume type for volume: v'],
    ),
    "a path of the host": (
        policy({"volumes": ["hostPath"], "allowedHostPaths": [{"pathPrefix": "/var/lo"}]}),
        volume(**HOST),
        ['spec.volumes[0].hostPath.pathPrefix: Invalid value: "/var/log/x": is not allowed to be used'],
    ),
    "a path below": (
        policy({"volumes": ["hostPath"], "allowedHostPaths": [{"pathPrefix": "/var/log/"}]}),
        volume(**HOST),
        [],
    ),
    "a path that must be read-only": (
        policy({"volumes": ["hostPath"], "allowedHostPaths": [{"pathPrefix": "/var/log", "readOnly": True}]}),
        MOUNTED,
        ["spec.containers[0].volumeMounts[1].readOnly: Invalid value: false: must be read-only"],
    ),
    "a path that may be written by another rule": (
        policy(
            {
                "volumes": ["hostPath"],
                "allowedHostPaths": [{"pathPrefix": "/var/log", "readOnly": True}, {"pathPrefix": "/var"}],
            }
        ),
        MOUNTED,
        [],
    ),
    "a Flexvolume": (
        policy({"volumes": ["flexVolume"], "allowedFlexVolumes": [{"driver": "a"}]}),
        volume(flexVolume={"driver": "b"}),
        ['spec.volumes[0].driver: Invalid value: "b": Flexvolume driver is not allowed to be used'],
    ),
    "a CSI driver": (
        policy({"volumes": ["csi"], "allowedCSIDrivers": [{"name": "a"}]}),
        volume(csi={"driver": "b"}),
        ['spec.volumes[0].csi.driver: Invalid value: "b": Inline CSI driver is not allowed to be used'],
    ),
    "a runtime class": (
        policy({"runtimeClass": {"allowedRuntimeClassNames": ["a"]}}),
        pod(runtimeClassName="b"),
        ['spec.runtimeClassName: Invalid value: "b"'],
    ),
    "privileges": (
        policy({"allowPrivilegeEscalation": False}),
        pod(secure(privileged=True, allowPrivilegeEscalation=True, procMount="Unmasked")),
        [
            f"{ON_CONTAINER}.privileged: Invalid value: true: Privileged containers are not allowed",
            f'{ON_CONTAINER}.procMount: Invalid value: "Unmasked": ProcMountType is not allowed',
            (
                f"{ON_CONTAINER}.allowPrivilegeEscalation: Invalid value: true: Allowing privilege "
                "escalation for containers is not allowed"
            ),
        ],
    ),
    "capabilities": (
        policy({"allowedCapabilities": ["A"]}),
        pod(secure(capabilities={"add": ["A", "B"]})),
        [f'{ON_CONTAINER}.capabilities.add: Invalid value: "B": capability may not be added'],
    ),
    "any capability": (
        policy({"allowedCapabilities": ["*"]}),
        pod(secure(capabilities={"add": ["B"]})),
        [],
    ),
    "a port of the host": (
        policy({"hostPorts": [{"min": 80, "max": 90}, {"min": 7, "max": 7}]}),
        pod({"ports": [{"containerPort": 1}, {"containerPort": 1, "hostPort": 91}]}),
        [
            (
                "spec.containers[0].hostPort: Invalid value: 91: Host port 91 is not allowed to be used. "
                "Allowed ports: [80-90,7]"
            )
        ],
    ),
    "a file system that is written": (
        policy({"readOnlyRootFilesystem": True}),
        pod(secure(readOnlyRootFilesystem=False)),
        [
            (
                f"{ON_CONTAINER}.readOnlyRootFilesystem: Invalid value: false: ReadOnlyRootFilesystem must "
                "be set to true"
            )
        ],
    ),
    "a seccomp profile where none is allowed": (
        policy(),
        pod(annotations={f"{SECCOMP}/pod": "unconfined"}),
        [
            f"{PROFILE}: Forbidden: seccomp may not be set",
            f"{OF_CONTAINER}: Forbidden: seccomp may not be set",
        ],
    ),
    "another seccomp profile": (
        policy(annotations={f"{SECCOMP}/allowedProfileNames": "a,b"}),
        pod(
            secure(seccompProfile={"type": "Unconfined"}),
            annotations={f"{SECCOMP}/pod": "a"},
        ),
        [
            f"{OF_CONTAINER}: Forbidden: unconfined is not an allowed seccomp profile. Valid values are a,b",
        ],
    ),
    "the other name of the default profile": (
        policy(annotations={f"{SECCOMP}/allowedProfileNames": "docker/default"}),
        pod(securityContext={"seccompProfile": {"type": "RuntimeDefault"}}),
        [],
    ),
    "fields of seccomp where there were none yet": (
        policy(minor=18),
        pod(securityContext={"seccompProfile": {"type": "RuntimeDefault"}}),
        [],
    ),
    "an AppArmor profile": (
        policy(annotations={f"{APP_ARMOR}/allowedProfileNames": "a,b"}),
        pod(annotations={f"container.{APP_ARMOR}/c": "x"}),
        [
            (
                f"pod.metadata.annotations[container.{APP_ARMOR}/c]: Forbidden: x is not an allowed profile. "
                'Allowed values: "a,b"'
            )
        ],
    ),
    "no AppArmor profile": (
        policy(annotations={f"{APP_ARMOR}/allowedProfileNames": "a"}),
        pod(),
        [f"pod.metadata.annotations[container.{APP_ARMOR}/c]: Forbidden: AppArmor profile must be set"],
    ),
    "all containers, init containers first": (
        policy(),
        pod(
            secure(privileged=True),
            initContainers=[{"name": "i", **secure(privileged=True)}],
            ephemeralContainers=[{"name": "e", **secure(privileged=True)}],
        ),
        [
            f"spec.{field}[0].securityContext.privileged: Invalid value: true: Privileged containers are not "
            "allowed"
            for field in ("initContainers", "containers", "ephemeralContainers")
        ],
    ),
}


@pytest.mark.parametrize(("applied", "given_pod", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_allowed(
    applied: PodSecurityPolicy, given_pod: dict[str, Any], expected: list[str]
) -> None:
    assert [str(each) for each in applied.applied_to(given_pod).errors] == expected


def test_a_pod_shares_nothing_with_the_policy() -> None:
    """Plugins that come later change the pod in place."""
    labels = policy({"seLinux": {"rule": "MustRunAs", "seLinuxOptions": LABEL}})
    labels.applied_to(pod()).pod["spec"]["securityContext"]["seLinuxOptions"]["user"] = "other"
    assert labels.applied_to(pod()).pod["spec"]["securityContext"]["seLinuxOptions"] == LABEL


UNUSABLE: Final[dict[str, dict[str, Any]]] = {
    "users without ranges": {"runAsUser": {"rule": "MustRunAs"}},
    "groups without ranges": {"fsGroup": {"rule": "MayRunAs"}},
    "a rule that users have not": {"runAsUser": ids("MayRunAs", (1, 1))},
    "no rule": {"supplementalGroups": {}},
    "no label": {"seLinux": {"rule": "MustRunAs"}},
}


@pytest.mark.parametrize("spec", UNUSABLE.values(), ids=UNUSABLE)
def test_policies_that_are_never_used(spec: dict[str, Any]) -> None:
    with pytest.raises(UnusablePolicy):
        policy(spec)


contexts = st.fixed_dictionaries(
    {},
    optional={
        "runAsUser": st.integers(0, 9),
        "runAsGroup": st.integers(0, 9),
        "runAsNonRoot": st.booleans(),
        "readOnlyRootFilesystem": st.booleans(),
        "allowPrivilegeEscalation": st.booleans(),
        "capabilities": st.fixed_dictionaries(
            {}, optional={"add": st.lists(st.sampled_from("ABC")), "drop": st.lists(st.sampled_from("ABC"))}
        ),
    },
)
STRICT: Final = policy(
    {
        "runAsUser": ids("MustRunAs", (1, 5)),
        "runAsGroup": ids("MustRunAs", (1, 5)),
        "fsGroup": ids("MustRunAs", (1, 5)),
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "requiredDropCapabilities": ["A"],
        "defaultAddCapabilities": ["B"],
    }
)


@given(context=contexts)
def test_what_is_filled_in_once_stays_as_it_is(context: dict[str, Any]) -> None:
    once = STRICT.applied_to(pod(secure(**context)))
    again = STRICT.applied_to(once.pod)
    assert again.pod is once.pod
    assert again.errors == once.errors
