"""Versions that Kubernetes has removed are not served: rows T01 to T31.

https://kubernetes.io/docs/reference/using-api/deprecation-guide/
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.api import Api

# Row and kind -> versions and the resource.
REMOVED: Final = {
    "T01 FlowSchema, 1.32": ("flowcontrol.apiserver.k8s.io/v1beta3", "flowschemas"),
    "T02 FlowSchema, 1.29": ("flowcontrol.apiserver.k8s.io/v1beta2", "flowschemas"),
    "T03 CSIStorageCapacity": ("storage.k8s.io/v1beta1", "csistoragecapacities"),
    "T04 FlowSchema, 1.26": ("flowcontrol.apiserver.k8s.io/v1beta1", "flowschemas"),
    "T05 HorizontalPodAutoscaler, 1.26": ("autoscaling/v2beta2", "horizontalpodautoscalers"),
    "T06 CronJob": ("batch/v1beta1", "cronjobs"),
    "T07 EndpointSlice": ("discovery.k8s.io/v1beta1", "endpointslices"),
    "T08 Event": ("events.k8s.io/v1beta1", "events"),
    "T09 HorizontalPodAutoscaler, 1.25": ("autoscaling/v2beta1", "horizontalpodautoscalers"),
    "T10 PodDisruptionBudget": ("policy/v1beta1", "poddisruptionbudgets"),
    "T11 PodSecurityPolicy": ("policy/v1beta1", "podsecuritypolicies"),
    "T12 RuntimeClass": ("node.k8s.io/v1beta1", "runtimeclasses"),
    "T13 ValidatingWebhookConfiguration": (
        "admissionregistration.k8s.io/v1beta1",
        "validatingwebhookconfigurations",
    ),
    "T14 CustomResourceDefinition": ("apiextensions.k8s.io/v1beta1", "customresourcedefinitions"),
    "T15 APIService": ("apiregistration.k8s.io/v1beta1", "apiservices"),
    "T16 TokenReview": ("authentication.k8s.io/v1beta1", "tokenreviews"),
    "T17 SubjectAccessReview": ("authorization.k8s.io/v1beta1", "subjectaccessreviews"),
    "T18 CertificateSigningRequest": ("certificates.k8s.io/v1beta1", "certificatesigningrequests"),
    "T19 Lease": ("coordination.k8s.io/v1beta1", "leases"),
    "T20 Ingress, extensions": ("extensions/v1beta1", "ingresses"),
    "T20 Ingress, networking": ("networking.k8s.io/v1beta1", "ingresses"),
    "T21 IngressClass": ("networking.k8s.io/v1beta1", "ingressclasses"),
    "T22 ClusterRole": ("rbac.authorization.k8s.io/v1beta1", "clusterroles"),
    "T23 PriorityClass": ("scheduling.k8s.io/v1beta1", "priorityclasses"),
    "T24 CSIDriver": ("storage.k8s.io/v1beta1", "csidrivers"),
    "T24 StorageClass": ("storage.k8s.io/v1beta1", "storageclasses"),
    "T25 NetworkPolicy": ("extensions/v1beta1", "networkpolicies"),
    "T26 DaemonSet, extensions": ("extensions/v1beta1", "daemonsets"),
    "T26 DaemonSet, apps": ("apps/v1beta2", "daemonsets"),
    "T27 Deployment, extensions": ("extensions/v1beta1", "deployments"),
    "T27 Deployment, apps": ("apps/v1beta1", "deployments"),
    "T28 StatefulSet, 1": ("apps/v1beta1", "statefulsets"),
    "T28 StatefulSet, 2": ("apps/v1beta2", "statefulsets"),
    "T29 ReplicaSet": ("apps/v1beta2", "replicasets"),
    "T30 PodSecurityPolicy, extensions": ("extensions/v1beta1", "podsecuritypolicies"),
    "T31 PodPreset": ("settings.k8s.io/v1alpha1", "podpresets"),
}


@pytest.mark.parametrize(("version", "resource"), REMOVED.values(), ids=REMOVED)
def test_a_removed_version_is_not_there(api: Api, namespace: str, version: str, resource: str) -> None:
    """Row T31: neither to be read nor to be written, in any namespace or in none."""
    group, _, name = version.partition("/")
    for path in (f"/apis/{version}/{resource}", f"/apis/{version}/namespaces/{namespace}/{resource}"):
        assert [api.get(path).status, api.post(path, {"metadata": {"name": "a"}}).status] == [404, 404]
    shown = {each["name"]: each["versions"] for each in api.get("/apis").ok()["groups"]}
    assert name not in [each["version"] for each in shown.get(group, [])]
