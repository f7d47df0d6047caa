"""The fields that pods have got in recent releases. Source: pkg/apis/core/validation.

Those of restart policies are in `test_restart_policies`, those of statuses in `core/pods/test_status`.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.core.pods.validation import validate_pod_create
from tests.unit.catalogue.valid_pods import Document, Expected, assert_agree, container, pod, rules

# Servers on which each field has its effect: its gate may be off by default.
RULES: Final = rules(
    ClusterTrustBundle=True,
    ClusterTrustBundleProjection=True,
    ContainerStopSignals=True,
    EnvFiles=True,
    GenericWorkload=True,
    HostnameOverride=True,
    PodCertificateRequest=True,
    SELinuxChangePolicy=True,
    SELinuxMount=True,
    SupplementalGroupsPolicy=True,
    TaintTolerationComparisonOperators=True,
)

KEY: Final = {"volumeName": "v", "path": "a", "key": "K"}
F: Final = "spec.containers[0].env[0].valueFrom.fileKeyRef"
CERTIFICATE: Final = {"signerName": "a.b/c", "keyType": "ED25519", "credentialBundlePath": "p"}
S: Final = "spec.volumes[0].projected.sources[0]"
SECONDS: Final = f"{S}.podCertificate.maxExpirationSeconds"
STOP: Final = "spec.containers[0].lifecycle.stopSignal"
T: Final = "spec.tolerations[0]"
CANONICAL: Final = "must be a valid decimal integer in canonical form"


def file_key(**changes: Any) -> Document:
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "w", "secret": {"secretName": "s"}}]
    env = [{"name": "E", "valueFrom": {"fileKeyRef": {**KEY, **changes}}}]
    return {"containers": [container(env=env)], "volumes": volumes}


def projected(**source: Document) -> Document:
    return {"serviceAccountName": "a", "volumes": [{"name": "v", "projected": {"sources": [source]}}]}


def certificate(**changes: Any) -> Document:
    return projected(podCertificate={**CERTIFICATE, **changes})


def bundle(**changes: Any) -> Document:
    return projected(clusterTrustBundle={"path": "p", **changes})


def stopped_by(signal: str, system: str | None = "linux") -> Document:
    spec: Document = {"containers": [container(lifecycle={"stopSignal": signal})]}
    return spec if system is None else {**spec, "os": {"name": system}}


def tolerating(**toleration: str) -> Document:
    return {"tolerations": [toleration]}


# hostnameOverride (1.34)
HOSTNAMES: Final[dict[str, tuple[Document, list[Expected]]]] = {
    "a name of domains": ({"hostnameOverride": "a.b"}, []),
    "no name": ({"hostnameOverride": ""}, [("spec.hostnameOverride", "Invalid", "RFC 1123 subdomain")]),
    "no domain": ({"hostnameOverride": "A_"}, [("spec.hostnameOverride", "Invalid", "RFC 1123 subdomain")]),
    "the longest name": ({"hostnameOverride": "a" * 64}, []),
    "too long a name": (
        {"hostnameOverride": "a" * 65},
        [("spec.hostnameOverride", "TooLong", "may not be more than 64 bytes")],
    ),
    "on the network of the host": (
        {"hostnameOverride": "a", "hostNetwork": True},
        [("spec.hostnameOverride", "Forbidden", "when hostNetwork is true")],
    ),
    "two ways to a name": (
        {"hostnameOverride": "a", "setHostnameAsFQDN": True},
        [("spec.hostnameOverride", "Forbidden", "when setHostnameAsFQDN is true")],
    ),
}

# env[].valueFrom.fileKeyRef (1.34)
FILE_KEYS: Final[dict[str, tuple[Document, list[Expected]]]] = {
    "a key of a file": (file_key(), []),
    "of no volume": (
        file_key(volumeName=""),
        [(f"{F}.volumeName", "Required", ""), (f"{F}.volumeName", "NotFound", '""')],
    ),
    "of an unknown volume": (file_key(volumeName="x"), [(f"{F}.volumeName", "NotFound", '"x"')]),
    "of a volume of another type": (
        file_key(volumeName="w"),
        [(f"{F}.volumeName", "Invalid", "must be of type emptyDir")],
    ),
    "of another directory": (file_key(path="../a"), [(f"{F}.path", "Invalid", "must not contain '..'")]),
    "no key": (file_key(key=""), [(f"{F}.key", "Required", "")]),
}

# volumes[].projected.sources[].podCertificate (1.34), with userAnnotations (1.35)
CERTIFICATES: Final[dict[str, tuple[Document, list[Expected]]]] = {
    "a certificate": (certificate(), []),
    "a certificate in no file": (
        certificate(credentialBundlePath=""),
        [(f"{S}.podCertificate", "Required", "specify at least one of credentialBundlePath")],
    ),
    "two parts in one file": (
        certificate(keyPath="p"),
        [("spec.volumes[0].projected", "Invalid", '"p": conflicting duplicate paths')],
    ),
    "in another directory": (
        certificate(keyPath="../x", certificateChainPath="/x"),
        [
            (f"{S}.podCertificate.keyPath", "Invalid", "must not contain '..'"),
            (f"{S}.podCertificate.certificateChainPath", "Invalid", "must be a relative path"),
        ],
    ),
    "another kind of key": (
        certificate(keyType="RSA"),
        [(f"{S}.podCertificate.keyType", "NotSupported", '"RSA3072", "RSA4096", "ECDSAP256"')],
    ),
    "a signer of no domain": (
        certificate(signerName="c"),
        [(f"{S}.podCertificate.signerName", "Invalid", "must be a fully qualified domain and path")],
    ),
    "the shortest life": (certificate(maxExpirationSeconds=3_600), []),
    "too short a life": (certificate(maxExpirationSeconds=3_599), [(SECONDS, "Invalid", "must be >= 3600")]),
    "the longest life": (certificate(maxExpirationSeconds=7_862_400), []),
    "too long a life": (
        certificate(maxExpirationSeconds=7_862_401),
        [(SECONDS, "Invalid", "must be <= 7862400")],
    ),
    "too long a life for a signer of Kubernetes": (
        certificate(signerName="kubernetes.io/kube-apiserver-client-pod", maxExpirationSeconds=86_401),
        [(SECONDS, "Invalid", "must be <= 86400")],
    ),
    "annotations of no domain": (
        certificate(userAnnotations={"a": "b", "": "c", "A.b/C": "d"}),
        [
            (f"{S}.podCertificate.userAnnotations", "Invalid", '"a": must be a domain-prefixed key'),
            (f"{S}.podCertificate.userAnnotations", "Required", ""),
        ],
    ),
}

# volumes[].projected.sources[].clusterTrustBundle
BUNDLES: Final[dict[str, tuple[Document, list[Expected]]]] = {
    "a bundle of a signer": (bundle(name="a.b:c:x"), []),
    "one by both names": (
        bundle(name="a", signerName="a.b/c"),
        [
            (
                f"{S}.clusterTrustBundle",
                "Invalid",
                '{"Name":"a","SignerName":"a.b/c","LabelSelector":null,"Optional":null,"Path":"p"}: only',
            )
        ],
    ),
    "a name that is none": (
        bundle(name="A"),
        [(f"{S}.clusterTrustBundle.name", "Invalid", "not a valid clustertrustbundlename: a lowercase")],
    ),
    "a name and a selector": (
        bundle(name="a", labelSelector={}),
        [(f"{S}.clusterTrustBundle.labelSelector", "Invalid", "must be unset if name is specified")],
    ),
    "a bad selector": (
        bundle(signerName="a.b/c", labelSelector={"matchLabels": {"a": "-"}}),
        [(f"{S}.clusterTrustBundle.labelSelector.matchLabels", "Invalid", "a valid label must be")],
    ),
    "no file": (bundle(name="a", path=""), [(f"{S}.clusterTrustBundle.path", "Required", "")]),
}

# containers[].lifecycle.stopSignal (1.33)
SIGNALS: Final[dict[str, tuple[Document, list[Expected]]]] = {
    "a signal of Linux": (stopped_by("SIGRTMIN+3"), []),
    "a signal of any system": (
        stopped_by("SIGTERM", system=None),
        [(STOP, "Forbidden", "may not be set for containers with empty `spec.os.name`")],
    ),
    "a signal of Windows": (stopped_by("SIGKILL", "windows"), []),
    "a signal that Windows does not have": (
        stopped_by("SIGUSR1", "windows"),
        [(STOP, "NotSupported", 'supported values: "SIGKILL", "SIGTERM"')],
    ),
    "no signal": (stopped_by("TERM"), [(STOP, "NotSupported", '"SIGABRT", "SIGALRM", "SIGBUS"')]),
}

# tolerations[].operator Gt and Lt (1.35), schedulingGroup (1.36), and policies of security contexts
OTHERS: Final[dict[str, tuple[Document, list[Expected]]]] = {
    "more than a number": (tolerating(key="k", operator="Gt", value="-5"), []),
    "more than no canonical number": (
        tolerating(key="k", operator="Gt", value="05"),
        [(f"{T}.value", "Invalid", CANONICAL)],
    ),
    "less than no number": (
        tolerating(key="k", operator="Lt", value="x"),
        [(f"{T}.value", "Invalid", CANONICAL), (f"{T}.value", "Invalid", "strconv.ParseInt")],
    ),
    "a group": ({"schedulingGroup": {"podGroupName": "g"}}, []),
    "no group": (
        {"schedulingGroup": {}},
        [("spec.schedulingGroup.podGroupName", "Invalid", "null: must specify one of: `podGroupName`")],
    ),
    "a group without a name": (
        {"schedulingGroup": {"podGroupName": "G"}},
        [("spec.schedulingGroup.podGroupName", "Invalid", "RFC 1123 subdomain")],
    ),
    "supplemental groups": (
        {"securityContext": {"supplementalGroupsPolicy": "All"}},
        [("spec.securityContext.supplementalGroupsPolicy", "NotSupported", '"Merge", "Strict"')],
    ),
    "labels of volumes": (
        {"securityContext": {"seLinuxChangePolicy": "All"}},
        [("spec.securityContext.seLinuxChangePolicy", "NotSupported", '"MountOption", "Recursive"')],
    ),
}

CASES: Final = {
    f"{group}: {name}": case
    for group, cases in {
        "hostname": HOSTNAMES,
        "file key": FILE_KEYS,
        "certificate": CERTIFICATES,
        "bundle": BUNDLES,
        "signal": SIGNALS,
        "other": OTHERS,
    }.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize(("spec", "expected"), CASES.values(), ids=CASES)
def test_newer_fields(spec: Document, expected: list[Expected]) -> None:
    assert_agree(validate_pod_create(RULES.specs, pod(**spec)), expected)
