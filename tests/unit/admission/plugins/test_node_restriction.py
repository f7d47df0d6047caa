"""What mirror pods may not refer to, and what follows from gates. Row O03."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.admission.plugins.mirror_pods import UnknownVolume, api_references
from apiserver.admission.plugins.node_restriction import driver_of, reported_fields
from apiserver.meta.releases.gates import FeatureGates
from apiserver.schema.builtin import BuiltinSchemas

NAMED: Final = {"secretRef": {"name": "s"}}


def volume(**kind: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **kind}]}


def projected(*sources: dict[str, Any]) -> dict[str, Any]:
    return volume(projected={"sources": [*sources]})


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", **fields}]}


def value_from(field: str, name: str = "s") -> dict[str, Any]:
    return container(env=[{"name": "E", "valueFrom": {field: {"name": name, "key": "k"}}}])


# A pod's spec, and the first object of the API to which it refers.
REFERENCES: Final[dict[str, tuple[dict[str, Any], str | None]]] = {
    "nothing": (container(env=[{"name": "E", "value": "v"}]), None),
    "an account": ({"serviceAccountName": "a"}, "serviceaccounts"),
    "a secret for images": ({"imagePullSecrets": [{"name": "s"}]}, "secrets"),
    "a secret for images without a name": ({"imagePullSecrets": [{"name": ""}, {}]}, None),
    "a value of a secret": (value_from("secretKeyRef"), "secrets"),
    "a value of a secret without a name": (value_from("secretKeyRef", ""), None),
    "a value of a ConfigMap": (value_from("configMapKeyRef"), "configmaps"),
    "a field of itself": (value_from("fieldRef"), None),
    "all values of a secret": ({"initContainers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}, "secrets"),
    "all values of a ConfigMap": (
        {"ephemeralContainers": [{"envFrom": [{"configMapRef": {"name": "m"}}]}]},
        "configmaps",
    ),
    "a claim of a device": ({"resourceClaims": [{"name": "d"}]}, "resourceclaims"),
    "a ConfigMap": (volume(configMap={"name": "m"}), "configmaps"),
    "a ConfigMap without a name": (volume(configMap={}), "configmaps (via configmap volumes)"),
    "a secret": (volume(secret={"secretName": "s"}), "secrets"),
    "a secret without a name": (volume(secret={}), "secrets (via secret volumes)"),
    "a CSI driver": (volume(csi={"driver": "d"}), "csidrivers (via CSI volumes)"),
    "the secret of a CSI driver": (volume(csi={"nodePublishSecretRef": {"name": "s"}}), "secrets"),
    "endpoints": (volume(glusterfs={"endpoints": "e"}), "endpoints (via glusterFS volumes)"),
    "a claim": (volume(persistentVolumeClaim={"claimName": "c"}), "persistentvolumeclaims"),
    "an ephemeral claim": (volume(ephemeral={}), "persistentvolumeclaims (via ephemeral volumes)"),
    "a share": (volume(azureFile={"secretName": "s"}), "secrets"),
    "a share without a secret": (volume(azureFile={}), "secrets (via azureFile volumes)"),
    **{
        f"the secret of {kind}": (volume(**{kind: NAMED}), "secrets")
        for kind in ("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
    },
    **{
        kind: (volume(**{kind: {}}), None)
        for kind in (
            *("awsElasticBlockStore", "azureDisk", "cephfs", "cinder", "downwardAPI", "emptyDir", "fc"),
            *("flexVolume", "flocker", "gcePersistentDisk", "gitRepo", "hostPath", "image", "iscsi", "nfs"),
            *("photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos"),
            "vsphereVolume",
        )
    },
    "no source": (projected(), None),
    "a ConfigMap among sources": (projected({"configMap": {"name": "m"}}), "configmaps"),
    "one without a name among sources": (projected({"configMap": {}}), "configmaps (via projected volumes)"),
    "a secret among sources": (projected({"secret": {"name": "s"}}), "secrets"),
    "a secret without a name among sources": (projected({"secret": {}}), "secrets (via projected volumes)"),
    "a token": (projected({"serviceAccountToken": {"path": "t"}}), "serviceaccounts (via projected volumes)"),
    "a trust bundle": (projected({"clusterTrustBundle": {"path": "p"}}), "clustertrustbundles"),
    "a certificate": (projected({"podCertificate": {}}), "podcertificates"),
    "fields of itself": (projected({"downwardAPI": {"items": []}}), None),
    "a token after fields of itself": (
        projected({"downwardAPI": {}}, {"serviceAccountToken": {}}),
        "serviceaccounts (via projected volumes)",
    ),
    "a device before a volume": ({"resourceClaims": [{"name": "d"}], **volume(csi={})}, "resourceclaims"),
    "a secret in the last volume": (
        {"volumes": [{"name": "a", "csi": {}}, {"name": "b", "secret": {"secretName": "s"}}]},
        "secrets",
    ),
    "the first of some volumes": (
        {
            "volumes": [
                {"name": "a", "emptyDir": {}},
                {"name": "b", "ephemeral": {}},
                {"name": "c", "csi": {}},
            ]
        },
        "persistentvolumeclaims (via ephemeral volumes)",
    ),
}


@pytest.mark.parametrize(("spec", "what"), REFERENCES.values(), ids=REFERENCES)
def test_what_a_mirror_pod_refers_to(spec: dict[str, Any], what: str | None) -> None:
    assert next(api_references(spec), None) == what


UNKNOWN: Final = {
    "a volume without a kind": (volume(), 'unknown volume type for volume  "v"'),
    "a volume of a new kind": (volume(later={}), 'unknown volume type for volume  "v"'),
    "a source without a kind": (projected({}), 'unknown source for projected volume "v"'),
    "a source of a new kind": (projected({"later": {}}), 'unknown source for projected volume "v"'),
}


@pytest.mark.parametrize(("spec", "why"), UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_volumes_may_refer_to_any_object(spec: dict[str, Any], why: str) -> None:
    with pytest.raises(UnknownVolume) as raised:
        next(api_references(spec), None)
    assert str(raised.value) == why


@pytest.mark.parametrize("minor", [15, 36])
def test_every_kind_of_volume_is_known(minor: int) -> None:
    schemas = BuiltinSchemas((1, minor))
    kinds = set(schemas.get("io.k8s.api.core.v1.Volume").fields) - {"name"}
    sources = set(schemas.get("io.k8s.api.core.v1.VolumeProjection").fields)
    assert {"emptyDir", "projected"} <= kinds
    assert {"downwardAPI", "serviceAccountToken"} <= sources
    for spec in (*(volume(**{kind: {}}) for kind in kinds), *(projected({each: {}}) for each in sources)):
        list(api_references(spec))


DRIVERS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "none": ({"nfs": {"server": "s"}}, ""),
    "its own": ({"csi": {"driver": "d"}}, "d"),
    "EBS": ({"awsElasticBlockStore": {"volumeID": "v"}}, "ebs.csi.aws.com"),
    "Azure disks": ({"azureDisk": {"diskName": "v"}}, "disk.csi.azure.com"),
    "Azure files": ({"azureFile": {"shareName": "v"}}, "file.csi.azure.com"),
    "Cinder": ({"cinder": {"volumeID": "v"}}, "cinder.csi.openstack.org"),
    "persistent disks": ({"gcePersistentDisk": {"pdName": "v"}}, "pd.csi.storage.gke.io"),
    "Portworx": ({"portworxVolume": {"volumeID": "v"}}, "pxd.portworx.com"),
    "vSphere": ({"vsphereVolume": {"volumePath": "v"}}, "csi.vsphere.vmware.com"),
}


@pytest.mark.parametrize(("source", "driver"), DRIVERS.values(), ids=DRIVERS)
def test_the_driver_of_a_volume(source: dict[str, Any], driver: str) -> None:
    assert driver_of(source) == driver


# By the gate RecoverVolumeExpansionFailure.
REPORTED: Final[dict[str, tuple[int, dict[str, bool], set[str]]]] = {
    "1.30": (30, {}, {"capacity", "conditions"}),
    "1.33, on": (33, {}, {"capacity", "conditions", "allocatedResources", "allocatedResourceStatuses"}),
    "1.33, off": (33, {"RecoverVolumeExpansionFailure": False}, {"capacity", "conditions"}),
}


@pytest.mark.parametrize(("minor", "gates", "fields"), REPORTED.values(), ids=REPORTED)
def test_what_nodes_report_about_claims(minor: int, gates: dict[str, bool], fields: set[str]) -> None:
    assert reported_fields(FeatureGates(minor, gates)) == fields
