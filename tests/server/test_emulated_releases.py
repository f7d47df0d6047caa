"""Servers that emulate releases of Kubernetes: what they serve, and what becomes of objects. Rows T01-T31.

What a release has removed is not there any more, and what was created through it is, in what has replaced it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from apiserver.meta.releases.emulation import NEWEST_MINOR, OLDEST_MINOR
from apiserver.meta.releases.lifecycles import known_lifecycles
from tests.support.api import Api
from tests.support.server_process import ServerProcess

# Kubernetes has served some beta versions by default that row H02 leaves out.
_BETA: Final = "--runtime-config=api/beta=true"
# Releases that are different enough for a short run of the tests.
_FEW: Final = (15, 21, 24, 31, 37)
# Row S05.
SIGNALS_SINCE: Final = 19


@contextmanager
def running(directory: Path, minor: int, *flags: str) -> Iterator[Api]:
    with ServerProcess(directory, f"--emulated-version=1.{minor}", *flags) as server, Api(server) as api:
        yield api


@pytest.mark.parametrize(
    "minor",
    [
        pytest.param(minor, marks=() if minor in _FEW else pytest.mark.slow)
        for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1)
    ],
)
def test_every_release_starts_and_tells_what_it_serves(tmp_path: Path, minor: int) -> None:
    """Rows H01-H03, S12, T31."""
    with running(tmp_path, minor) as api:
        assert api.get("/version").ok()["gitVersion"].startswith(f"v1.{minor}.")
        served = [
            each["groupVersion"] for group in api.get("/apis").ok()["groups"] for each in group["versions"]
        ]
        for version in ("v1", *served):
            where = f"/apis/{version}" if "/" in version else f"/api/{version}"
            for each in api.get(where).ok()["resources"]:
                resource = each["name"].partition("/")[0]
                life = known_lifecycles()[version, resource]
                assert life.is_in(minor), (version, resource)
                assert life.is_on_by_default, (version, resource)
        assert api.get("/openapi/v3").status == 200


class OldObject(NamedTuple):
    """An object that is created in an old version.

    minor: the last release that has the version. path: of its collection in the old version, and with the
    version that has replaced it. fields: some that it has there, by their paths.
    """

    minor: int
    path: str
    current: str
    fields: dict[str, Any]
    document: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.document["metadata"]["name"])

    @property
    def type_meta(self) -> tuple[str, str]:
        """The old version, and the kind."""
        api_version = "/".join(self.path.split("/")[2:4])
        return api_version, known_lifecycles()[api_version, self.path.rpartition("/")[2]].kind


def old(minor: int, paths: str, fields: dict[str, Any], name: str = "a", **document: Any) -> OldObject:
    """paths: that of the collection, with both versions, as `apps/{v1beta1,v1}/deployments`."""
    before, _, rest = paths.partition("{")
    versions, _, after = rest.partition("}")
    old_version, current = versions.split(",")
    path, new_path = (f"/apis/{before}{version}{after}" for version in (old_version, current))
    meta = {**document.pop("metadata", {}), "name": name}
    return OldObject(minor, path, new_path, fields, {**document, "metadata": meta})


def at(document: Any, path: str) -> Any:
    """Returns what stands at a path, as `spec.versions.0.name`."""
    for step in path.split("."):
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document


def certificate_request() -> str:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "me")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(name)
    pem = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.PEM)
    return base64.b64encode(pem).decode()


INGRESS: Final = {
    "backend": {"serviceName": "web", "servicePort": "http"},
    "rules": [
        {
            "host": "a.b",
            "http": {"paths": [{"path": "/", "backend": {"serviceName": "web", "servicePort": 80}}]},
        }
    ],
}
TEMPLATE: Final[dict[str, Any]] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "web", "image": "nginx:1"}]},
}
OLD_OBJECTS: Final = {
    "T14 CustomResourceDefinition": old(
        21,
        "apiextensions.k8s.io/{v1beta1,v1}/customresourcedefinitions",
        {
            "spec.scope": "Namespaced",
            "spec.preserveUnknownFields": True,
            "spec.versions.0.additionalPrinterColumns.0.jsonPath": ".spec.color",
            "spec.versions.0.schema.openAPIV3Schema.type": "object",
        },
        "widgets.example.com",
        spec={
            "group": "example.com",
            "version": "v1",
            "names": {"plural": "widgets", "kind": "Widget"},
            "validation": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
            "additionalPrinterColumns": [{"name": "Color", "type": "string", "JSONPath": ".spec.color"}],
        },
    ),
    "T03 CSIStorageCapacity": old(
        26,
        "storage.k8s.io/{v1beta1,v1}/namespaces/default/csistoragecapacities",
        {"storageClassName": "fast", "capacity": "1Gi"},
        storageClassName="fast",
        capacity="1Gi",
    ),
    "T08 Event": old(
        24,
        "events.k8s.io/{v1beta1,v1}/namespaces/default/events",
        {"note": "Old news.", "regarding.kind": "Pod", "deprecatedCount": 3, "type": "Strange"},
        note="Old news.",
        regarding={"kind": "Pod", "name": "a", "namespace": "default"},
        deprecatedCount=3,
        type="Strange",
    ),
    "T12 RuntimeClass": old(
        24, "node.k8s.io/{v1beta1,v1}/runtimeclasses", {"handler": "runc"}, handler="runc"
    ),
    "T15 APIService": old(
        21,
        "apiregistration.k8s.io/{v1beta1,v1}/apiservices",
        {"spec.group": "example.org", "spec.service.port": 443},
        "v1.example.org",
        spec={
            "group": "example.org",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": "default", "name": "a"},
        },
    ),
    "T19 Lease": old(
        21,
        "coordination.k8s.io/{v1beta1,v1}/namespaces/default/leases",
        {"spec.holderIdentity": "me"},
        spec={"holderIdentity": "me", "leaseDurationSeconds": 15},
    ),
    "T22 ClusterRole": old(
        21,
        "rbac.authorization.k8s.io/{v1beta1,v1}/clusterroles",
        {"rules.0.verbs": ["get"]},
        rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    ),
    "T22 ClusterRoleBinding": old(
        21,
        "rbac.authorization.k8s.io/{v1beta1,v1}/clusterrolebindings",
        {"subjects.0.apiGroup": "rbac.authorization.k8s.io"},
        roleRef={"kind": "ClusterRole", "name": "a"},
        subjects=[{"kind": "User", "name": "alice"}],
    ),
    "T22 Role": old(
        21,
        "rbac.authorization.k8s.io/{v1beta1,v1}/namespaces/default/roles",
        {"rules.0.verbs": ["get"]},
        rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    ),
    "T22 RoleBinding": old(
        21,
        "rbac.authorization.k8s.io/{v1beta1,v1}/namespaces/default/rolebindings",
        {"roleRef.apiGroup": "rbac.authorization.k8s.io"},
        roleRef={"kind": "Role", "name": "a"},
        subjects=[{"kind": "User", "name": "alice"}],
    ),
    "T23 PriorityClass": old(
        21,
        "scheduling.k8s.io/{v1beta1,v1}/priorityclasses",
        {"value": 5, "description": "Low.", "preemptionPolicy": "PreemptLowerPriority"},
        value=5,
        description="Low.",
    ),
    "T24 CSIDriver": old(
        21,
        "storage.k8s.io/{v1beta1,v1}/csidrivers",
        {"spec.attachRequired": True, "spec.volumeLifecycleModes": ["Persistent"]},
        "csi.example.com",
        spec={},
    ),
    "T24 CSINode": old(
        21,
        "storage.k8s.io/{v1beta1,v1}/csinodes",
        {"spec.drivers.0.name": "csi.example.com"},
        spec={"drivers": [{"name": "csi.example.com", "nodeID": "a"}]},
    ),
    "T24 StorageClass": old(
        21,
        "storage.k8s.io/{v1beta1,v1}/storageclasses",
        {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
        provisioner="example.com/disks",
    ),
    "T24 VolumeAttachment": old(
        21,
        "storage.k8s.io/{v1beta1,v1}/volumeattachments",
        {"spec.attacher": "csi.example.com", "status.attached": False},
        spec={"attacher": "csi.example.com", "nodeName": "a", "source": {"persistentVolumeName": "a"}},
    ),
    "T01 PriorityLevelConfiguration": old(
        31,
        "flowcontrol.apiserver.k8s.io/{v1beta3,v1}/prioritylevelconfigurations",
        {"spec.limited.nominalConcurrencyShares": 0},
        metadata={"annotations": {"flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares": ""}},
        spec={"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
    ),
    "T01 FlowSchema": old(
        31,
        "flowcontrol.apiserver.k8s.io/{v1beta3,v1}/flowschemas",
        {"spec.matchingPrecedence": 1000},
        spec={"priorityLevelConfiguration": {"name": "exempt"}},
    ),
    "T02 PriorityLevelConfiguration": old(
        28,
        "flowcontrol.apiserver.k8s.io/{v1beta2,v1beta3}/prioritylevelconfigurations",
        {"spec.limited.nominalConcurrencyShares": 7},
        spec={
            "type": "Limited",
            "limited": {"assuredConcurrencyShares": 7, "limitResponse": {"type": "Reject"}},
        },
    ),
    "T04 PriorityLevelConfiguration": old(
        25,
        "flowcontrol.apiserver.k8s.io/{v1beta1,v1beta2}/prioritylevelconfigurations",
        {"spec.limited.assuredConcurrencyShares": 30},
        spec={"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
    ),
    "T07 EndpointSlice": old(
        24,
        "discovery.k8s.io/{v1beta1,v1}/namespaces/default/endpointslices",
        {
            "endpoints.0.zone": "a",
            "endpoints.0.nodeName": "n",
            "endpoints.0.deprecatedTopology": {"rack": "r"},
        },
        addressType="IPv4",
        endpoints=[
            {
                "addresses": ["10.0.0.1"],
                "topology": {"topology.kubernetes.io/zone": "a", "kubernetes.io/hostname": "n", "rack": "r"},
            }
        ],
    ),
    "T13 MutatingWebhookConfiguration": old(
        21,
        "admissionregistration.k8s.io/{v1beta1,v1}/mutatingwebhookconfigurations",
        {"webhooks.0.reinvocationPolicy": "Never", "webhooks.0.failurePolicy": "Ignore"},
        webhooks=[{"name": "x.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"}}],
    ),
    "T13 ValidatingWebhookConfiguration": old(
        21,
        "admissionregistration.k8s.io/{v1beta1,v1}/validatingwebhookconfigurations",
        {
            "webhooks.0.failurePolicy": "Ignore",
            "webhooks.0.matchPolicy": "Exact",
            "webhooks.0.timeoutSeconds": 30,
            "webhooks.0.sideEffects": "Unknown",
            "webhooks.0.admissionReviewVersions": ["v1beta1"],
        },
        webhooks=[{"name": "x.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"}}],
    ),
    "T18 CertificateSigningRequest": old(
        21,
        "certificates.k8s.io/{v1beta1,v1}/certificatesigningrequests",
        {
            "spec.signerName": "kubernetes.io/legacy-unknown",
            "spec.usages": ["digital signature", "key encipherment"],
            "spec.username": "admin",
        },
        spec={"request": certificate_request()},
    ),
    "ValidatingAdmissionPolicy": old(
        33,
        "admissionregistration.k8s.io/{v1beta1,v1}/validatingadmissionpolicies",
        {"spec.failurePolicy": "Fail"},
        spec={
            "matchConstraints": {
                "resourceRules": [
                    {
                        "operations": ["*"],
                        "apiGroups": ["example.com"],
                        "apiVersions": ["*"],
                        "resources": ["*"],
                    }
                ]
            },
            "validations": [{"expression": "true"}],
        },
    ),
    "T20 Ingress, networking": old(
        21,
        "networking.k8s.io/{v1beta1,v1}/namespaces/default/ingresses",
        {
            "spec.defaultBackend.service": {"name": "web", "port": {"name": "http"}},
            "spec.rules.0.http.paths.0.backend.service": {"name": "web", "port": {"number": 80}},
            "spec.rules.0.http.paths.0.pathType": "ImplementationSpecific",
        },
        spec=INGRESS,
    ),
    "T20 Ingress, extensions": old(
        21,
        "{extensions/v1beta1,networking.k8s.io/v1}/namespaces/default/ingresses",
        {
            "spec.defaultBackend.service": {"name": "web", "port": {"name": "http"}},
            "spec.rules.0.http.paths.0.pathType": "ImplementationSpecific",
        },
        "b",
        spec=INGRESS,
    ),
    "T21 IngressClass": old(
        21,
        "networking.k8s.io/{v1beta1,v1}/ingressclasses",
        {"spec.controller": "example.com/a"},
        spec={"controller": "example.com/a"},
    ),
    "T25 NetworkPolicy": old(
        15,
        "{extensions/v1beta1,networking.k8s.io/v1}/namespaces/default/networkpolicies",
        {"spec.podSelector": {}, "spec.policyTypes": ["Ingress"], "spec.ingress.0.ports.0.protocol": "TCP"},
        spec={"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]},
    ),
    "T26 DaemonSet, extensions": old(
        15,
        "{extensions/v1beta1,apps/v1}/namespaces/default/daemonsets",
        {"spec.selector.matchLabels.app": "web", "spec.updateStrategy": {"type": "OnDelete"}},
        "extensions",
        spec={"template": TEMPLATE},
    ),
    "T26 DaemonSet, apps/v1beta2": old(
        15,
        "apps/{v1beta2,v1}/namespaces/default/daemonsets",
        {"spec.updateStrategy.type": "RollingUpdate"},
        "v1beta2",
        spec={"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
    ),
    "T27 Deployment, extensions": old(
        15,
        "{extensions/v1beta1,apps/v1}/namespaces/default/deployments",
        {"spec.selector.matchLabels.app": "web", "spec.strategy.rollingUpdate.maxSurge": 1},
        "extensions",
        spec={"template": TEMPLATE},
    ),
    "T27 Deployment, apps/v1beta1": old(
        15,
        "apps/{v1beta1,v1}/namespaces/default/deployments",
        {"spec.selector.matchLabels.app": "web", "spec.revisionHistoryLimit": 2},
        "v1beta1",
        spec={"template": TEMPLATE},
    ),
    "T27 Deployment, apps/v1beta2": old(
        15,
        "apps/{v1beta2,v1}/namespaces/default/deployments",
        {"spec.strategy.rollingUpdate.maxSurge": "25%"},
        "v1beta2",
        spec={"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
    ),
    "T28 StatefulSet, apps/v1beta1": old(
        15,
        "apps/{v1beta1,v1}/namespaces/default/statefulsets",
        {"spec.selector.matchLabels.app": "web", "spec.updateStrategy": {"type": "OnDelete"}},
        "v1beta1",
        spec={"template": TEMPLATE},
    ),
    "T28 StatefulSet, apps/v1beta2": old(
        15,
        "apps/{v1beta2,v1}/namespaces/default/statefulsets",
        {"spec.updateStrategy.type": "RollingUpdate"},
        "v1beta2",
        spec={"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
    ),
    "T29 ReplicaSet, extensions": old(
        15,
        "{extensions/v1beta1,apps/v1}/namespaces/default/replicasets",
        {"spec.selector.matchLabels.app": "web"},
        "extensions",
        spec={"template": TEMPLATE},
    ),
    "T29 ReplicaSet, apps/v1beta2": old(
        15,
        "apps/{v1beta2,v1}/namespaces/default/replicasets",
        {"spec.replicas": 1},
        "v1beta2",
        spec={"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
    ),
    "ControllerRevision, apps/v1beta1": old(
        15,
        "apps/{v1beta1,v1}/namespaces/default/controllerrevisions",
        {"revision": 2},
        data={"a": 1},
        revision=2,
    ),
    "T06 CronJob": old(
        24,
        "batch/{v1beta1,v1}/namespaces/default/cronjobs",
        {"spec.concurrencyPolicy": "Allow", "spec.schedule": "0 * * * *"},
        spec={
            "schedule": "0 * * * *",
            "jobTemplate": {"spec": {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}},
        },
    ),
    "T09 HorizontalPodAutoscaler": old(
        24,
        "autoscaling/{v2beta1,v2}/namespaces/default/horizontalpodautoscalers",
        {
            "spec.metrics.0.resource.target.averageUtilization": 50,
            "spec.behavior.scaleUp.selectPolicy": "Disabled",
        },
        metadata={
            "annotations": {
                "autoscaling.alpha.kubernetes.io/behavior": '{"ScaleUp":{"SelectPolicy":"Disabled"}}'
            }
        },
        spec={
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
            "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 50}}],
        },
    ),
    "T05 HorizontalPodAutoscaler": old(
        25,
        "autoscaling/{v2beta2,v2}/namespaces/default/horizontalpodautoscalers",
        {"spec.metrics.0.resource.target.averageUtilization": 80},
        spec={
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
            "maxReplicas": 3,
        },
    ),
    "T10 PodDisruptionBudget": old(
        24,
        "policy/{v1beta1,v1}/namespaces/default/poddisruptionbudgets",
        {
            "spec.selector.matchExpressions.0": {
                "key": "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match",
                "operator": "Exists",
            }
        },
        spec={"minAvailable": 1, "selector": {}},
    ),
    "T30 PodSecurityPolicy": old(
        15,
        "{extensions/v1beta1,policy/v1beta1}/podsecuritypolicies",
        {"spec.allowPrivilegeEscalation": True},
        spec={
            "seLinux": {"rule": "RunAsAny"},
            "runAsUser": {"rule": "RunAsAny"},
            "supplementalGroups": {"rule": "RunAsAny"},
            "fsGroup": {"rule": "RunAsAny"},
        },
    ),
}
_BY_RELEASE: Final = {
    minor: dict(found)
    for minor, found in groupby(
        sorted(OLD_OBJECTS.items(), key=lambda each: each[1].minor), key=lambda each: each[1].minor
    )
}


@pytest.mark.parametrize("minor", _BY_RELEASE)
def test_objects_of_a_version_outlive_it(tmp_path: Path, minor: int) -> None:
    """Row T31, and the rows of the objects."""
    objects = _BY_RELEASE[minor]
    created = {}
    with running(tmp_path, minor, _BETA) as api:
        for row, each in objects.items():
            answer = api.post(each.path, each.document)
            created[row] = answer.ok()
            assert bool(answer.warnings) is (minor >= SIGNALS_SINCE), row  # that it is deprecated
            assert_current(row, each, api)
    with running(tmp_path, minor + 1, _BETA) as api:
        for row, each in objects.items():
            assert api.get(each.path).status == 404, row
            assert api.post(each.path, each.document).status == 404, row
            found = assert_current(row, each, api)
            assert found["metadata"]["uid"] == created[row]["metadata"]["uid"], row
            labelled = api.patch(f"{each.current}/{each.name}", {"metadata": {"labels": {"a": "b"}}}).ok()
            assert labelled["metadata"]["labels"]["a"] == "b", row


def assert_current(row: str, each: OldObject, api: Api) -> Any:
    """Returns the object in the version that has replaced its own."""
    found = api.get(f"{each.current}/{each.name}").ok()
    assert {path: at(found, path) for path in each.fields} == each.fields, row
    return found


PROTOBUF: Final = "application/vnd.kubernetes.protobuf"


def test_clients_of_two_versions_share_an_object(tmp_path: Path) -> None:
    """Rows S01, T07: each reads, watches and applies it in its own version, and sees the other's fields."""
    path = "/apis/discovery.k8s.io/{}/namespaces/default/endpointslices"
    beta, stable = path.format("v1beta1"), path.format("v1")
    document = {
        "apiVersion": "discovery.k8s.io/v1beta1",
        "kind": "EndpointSlice",
        "metadata": {"name": "a"},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "topology": {"topology.kubernetes.io/zone": "a"}}],
    }
    endpoint = {**document["endpoints"][0], "conditions": {}}  # type: ignore[index]
    with running(tmp_path, 21) as api:
        apply = f"{beta}/a?fieldManager=old"
        assert api.apply(apply, document).ok()["endpoints"] == [endpoint]
        with api.watch(f"{beta}?watch=1&fieldSelector=metadata.name=a") as events:
            event = next(iter(events))
            assert (event["object"]["apiVersion"], event["object"]["endpoints"]) == (
                "discovery.k8s.io/v1beta1",
                [endpoint],
            )
        change = {"endpoints": [{"addresses": ["10.0.0.2"], "zone": "b"}]}
        api.patch(f"{stable}/a?fieldManager=new", change).ok()
        (topology,) = (each["topology"] for each in api.get(f"{beta}/a").ok()["endpoints"])
        assert topology == {"topology.kubernetes.io/zone": "b"}
        conflict = api.apply(apply, document)
        assert conflict.status == 409
        assert 'conflict with "new" using discovery.k8s.io/v1: .endpoints' in conflict.message
        api.apply(f"{apply}&force=true", document).ok()
        assert api.get(f"{stable}/a").ok()["endpoints"][0]["zone"] == "a"
        encoded = api.get(f"{beta}/a", headers={"Accept": PROTOBUF}).body
        assert api.put(f"{beta}/a", encoded, type=PROTOBUF).ok()["endpoints"] == [endpoint]


def test_a_definition_of_v1beta1_keeps_unknown_fields_of_its_objects(tmp_path: Path) -> None:
    """Row T14: wherever they are, until the definition says otherwise."""
    definition = OLD_OBJECTS["T14 CustomResourceDefinition"]
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    with running(tmp_path, 15) as api:
        api.post(definition.path, definition.document).ok()
        with api.watch(f"{definition.path}?watch=1&fieldSelector=metadata.name={definition.name}") as events:
            for event in events:
                conditions = event["object"]["status"]["conditions"] or ()
                if any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
                    break
        widget = {"metadata": {"name": "a"}, "spec": {"color": "red"}, "more": 1}
        created = api.post(widgets, {"apiVersion": "example.com/v1", "kind": "Widget", **widget}).ok()
        assert (created["spec"], created["more"]) == ({"color": "red"}, 1)
        change = {"spec": {"preserveUnknownFields": False}}
        assert api.patch(f"{definition.path}/{definition.name}", change).ok()["metadata"]["generation"] == 2


REVIEWS: Final[dict[str, tuple[str, dict[str, Any], dict[str, Any]]]] = {
    "T16 TokenReview": (
        "authentication.k8s.io/{}/tokenreviews",
        {"spec": {"token": "alice-token"}},
        {"authenticated": True},
    ),
    "T17 SubjectAccessReview": (
        "authorization.k8s.io/{}/subjectaccessreviews",
        {"spec": {"group": ["system:masters"], "resourceAttributes": {"verb": "get", "resource": "pods"}}},
        {"allowed": True},
    ),
    "T17 LocalSubjectAccessReview": (
        "authorization.k8s.io/{}/namespaces/default/localsubjectaccessreviews",
        {
            "metadata": {"namespace": "default"},
            "spec": {
                "group": ["system:masters"],
                "resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"},
            },
        },
        {"allowed": True},
    ),
    "T17 SelfSubjectAccessReview": (
        "authorization.k8s.io/{}/selfsubjectaccessreviews",
        {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}},
        {"allowed": True},
    ),
    "T17 SelfSubjectRulesReview": (
        "authorization.k8s.io/{}/selfsubjectrulesreviews",
        {"spec": {"namespace": "default"}},
        {"incomplete": False},
    ),
}


def test_reviews_in_old_versions(tmp_path: Path) -> None:
    with running(tmp_path, 21) as api:
        for row, (path, document, status) in REVIEWS.items():
            answer = api.post("/apis/" + path.format("v1beta1"), document)
            found = answer.ok()
            assert found["apiVersion"].endswith("/v1beta1"), row
            assert {name: found["status"][name] for name in status} == status, row
            assert answer.warnings, row
            if "group" in document["spec"]:
                assert found["spec"]["group"] == document["spec"]["group"], row
                # It is another field in v1, where this one names nobody.
                refused = api.post("/apis/" + path.format("v1"), document)
                assert ("FieldValueInvalid", "spec.user") in refused.causes, row
    with running(tmp_path, 22) as api:
        for path, document, _ in REVIEWS.values():
            assert api.post("/apis/" + path.format("v1beta1"), document).status == 404
