"""Volumes: one source each, and the rules of each. Source: pkg/apis/core/validation, ValidateVolumes."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.schema.builtin import BuiltinSchemas
from tests.unit.catalogue.valid_pods import (
    RELEASE,
    Document,
    Expected,
    assert_agree,
    pod,
    validate_pod_create,
)

V: Final = "spec.volumes[0]"
CLAIM: Final = f"{V}.ephemeral.volumeClaimTemplate"


ISCSI: Final = {"targetPortal": "t", "iqn": "iqn.2001-04.com.example:x", "lun": 0}


def claim(**more: Any) -> Document:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **more}
    return {"ephemeral": {"volumeClaimTemplate": {"spec": spec}}}


def projected(*sources: Document) -> Document:
    return {"projected": {"sources": list(sources)}}


# The sources of the only volume.
SOURCES: Final[dict[str, tuple[Document, list[Expected]]]] = {
    "two": (
        {"emptyDir": {}, "hostPath": {"path": ""}, "downwardAPI": {}},
        [
            (f"{V}.hostPath", "Forbidden", "may not specify more than 1 volume type"),
            (f"{V}.downwarAPI", "Forbidden", "may not specify more than 1 volume type"),
        ],
    ),
    "a size below nothing": (
        {"emptyDir": {"sizeLimit": "-1"}},
        [(f"{V}.emptyDir.sizeLimit", "Forbidden", "must be a valid resource quantity")],
    ),
    "a way up, of some kind": (
        {"hostPath": {"path": "/a/../b", "type": "Pipe"}},
        [
            (f"{V}.hostPath.path", "Invalid", "must not contain '..'"),
            (f"{V}.hostPath.type", "NotSupported", '"", "BlockDevice", "CharDevice", "Directory"'),
        ],
    ),
    "a partition too many": (
        {"gcePersistentDisk": {"pdName": "", "partition": 256}},
        [
            (f"{V}.persistentDisk.pdName", "Required", ""),
            (f"{V}.persistentDisk.partition", "Invalid", "between 1 and 255"),
        ],
    ),
    "files of a secret": (
        {
            "secret": {
                "secretName": "",
                "defaultMode": 0o1000,
                "items": [{"key": "", "path": "..x", "mode": -1}, {"key": "k", "path": "/x"}],
            }
        },
        [
            (f"{V}.secret.secretName", "Required", ""),
            (f"{V}.secret.defaultMode", "Invalid", "between 0 and 0777 (octal)"),
            (f"{V}.secret.items[0].key", "Required", ""),
            (f"{V}.secret.items[0].path", "Invalid", "must not start with '..'"),
            (f"{V}.secret.items[0].mode", "Invalid", "between 0 and 0777 (octal)"),
            (f"{V}.secret.items[1].path", "Invalid", "must be a relative path"),
        ],
    ),
    "a relative export": (
        {"nfs": {"server": "", "path": "a"}},
        [(f"{V}.nfs.server", "Required", ""), (f"{V}.nfs.path", "Invalid", "must be an absolute path")],
    ),
    "an initiator": (
        {
            "iscsi": {
                "targetPortal": "t",
                "iqn": "iqn.2001-04.com.example:x",
                "lun": 256,
                "initiatorName": "x",
            }
        },
        [
            (f"{V}.iscsi.lun", "Invalid", "must be between 0 and 255, inclusive"),
            (f"{V}.iscsi.initiatorname", "Invalid", "starting with iqn, eui, or naa"),
        ],
    ),
    "an iSCSI name is no shorter than its form": (
        {"iscsi": {**ISCSI, "iqn": "eui." + "a" * 15, "initiatorName": "naa." + "a" * 33}},
        [
            (f"{V}.iscsi.iqn", "Invalid", "must be valid format"),
            (f"{V}.iscsi.initiatorname", "Invalid", "must be valid format"),
        ],
    ),
    "iSCSI names of other forms": (
        {"iscsi": {**ISCSI, "iqn": "eui." + "a" * 16, "initiatorName": "naa." + "a" * 32}},
        [],
    ),
    "fibre to nowhere": (
        {"fc": {"targetWWNs": ["a"], "wwids": ["b"]}},
        [
            (f"{V}.fc.targetWWNs", "Invalid", "can not be specified simultaneously"),
            (f"{V}.fc.lun", "Required", "lun is required if targetWWNs is specified"),
        ],
    ),
    "reserved options": (
        {"flexVolume": {"driver": "d", "options": {"x.kubernetes.io/a": "1", "k8s.io": "1", "mine": "1"}}},
        [
            (f"{V}.flexVolume.options[x.kubernetes.io/a]", "Invalid", "namespaces are reserved"),
            (f"{V}.flexVolume.options[k8s.io]", "Invalid", "namespaces are reserved"),
        ],
    ),
    "a disk of another kind": (
        {"azureDisk": {"diskName": "d", "diskURI": "https://x", "kind": "Managed", "cachingMode": "All"}},
        [
            (f"{V}.azureDisk.cachingMode", "NotSupported", '"None", "ReadOnly", "ReadWrite"'),
            (f"{V}.azureDisk.diskURI", "NotSupported", "/subscriptions/"),
        ],
    ),
    "a driver": (
        {"csi": {"driver": "-", "nodePublishSecretRef": {}}},
        [
            (f"{V}.csi.driver", "Invalid", "RFC 1123 subdomain"),
            (f"{V}.csi.nodePublishSecretRef.name", "Required", ""),
        ],
    ),
    "an image of nothing": (
        {"image": {"reference": "", "pullPolicy": "Maybe"}},
        [(f"{V}.image.reference", "Required", ""), (f"{V}.image.pullPolicy", "NotSupported", '"Maybe"')],
    ),
    "the pod itself": (
        {
            "downwardAPI": {
                "items": [
                    {"path": "a", "fieldRef": {"fieldPath": "spec.nodeName"}},
                    {"path": "b", "resourceFieldRef": {"resource": "limits.cpu"}},
                    {"path": "c"},
                ]
            }
        },
        [
            (f"{V}.downwardAPI.fieldRef.fieldPath", "NotSupported", '"metadata.annotations"'),
            (f"{V}.downwardAPI.resourceFieldRef.containerName", "Required", ""),
            (f"{V}.downwardAPI", "Required", "one of fieldRef and resourceFieldRef is required"),
        ],
    ),
    "several in one": (
        projected(
            {"secret": {"name": "s", "items": [{"key": "k", "path": "x"}]}},
            {"configMap": {"name": "m", "items": [{"key": "k", "path": "x"}]}, "secret": {"name": ""}},
            {"clusterTrustBundle": {"path": "y"}},
        ),
        [
            (f"{V}.projected.sources[1].secret.name", "Required", ""),
            (f"{V}.projected", "Invalid", '"m": conflicting duplicate paths'),
            (f"{V}.projected.sources[1]", "Forbidden", "more than 1 volume type per source"),
            (f"{V}.projected.sources[2].clusterTrustBundle", "Required", "either name or signerName"),
        ],
    ),
    "a token of a moment": (
        projected({"serviceAccountToken": {"path": "t", "expirationSeconds": 599}}),
        [
            (
                f"{V}.projected.sources[0].serviceAccountToken.expirationSeconds",
                "Invalid",
                "less than 10 minutes",
            )
        ],
    ),
    "a claim of its own": (claim(), []),
    "a claim for nothing": (
        claim(accessModes=[], resources={}, volumeMode="Tape"),
        [
            (f"{CLAIM}.spec.accessModes", "Required", "at least 1 access mode"),
            (f"{CLAIM}.spec.resources[storage]", "Required", ""),
            (f"{CLAIM}.spec.volumeMode", "NotSupported", '"Block", "Filesystem"'),
        ],
    ),
    "a claim whose data come from elsewhere": (
        claim(
            dataSource={"name": "", "kind": "Snapshot"},
            dataSourceRef={"name": "s", "kind": "Snapshot", "apiGroup": "A.b", "namespace": "N"},
        ),
        [
            (f"{CLAIM}.spec.dataSource.name", "Required", ""),
            (f"{CLAIM}.spec.dataSource", "Invalid", "must be 'PersistentVolumeClaim' when referencing the"),
            (f"{CLAIM}.spec.dataSourceRef.apiGroup", "Invalid", "a lowercase RFC 1123 subdomain"),
            (f"{CLAIM}.spec.dataSourceRef.namespace", "Invalid", "a lowercase RFC 1123 label"),
            (f"{CLAIM}.spec", "Invalid", "may not be specified when dataSourceRef.namespace is specified"),
        ],
    ),
    "a claim with two sources of data": (
        claim(
            dataSource={"name": "a", "kind": "PersistentVolumeClaim"},
            dataSourceRef={"name": "b", "kind": "PersistentVolumeClaim"},
        ),
        [(f"{CLAIM}.spec", "Invalid", "must match dataSourceRef")],
    ),
    "a template's metadata": (
        {
            "ephemeral": {
                "volumeClaimTemplate": {
                    **claim()["ephemeral"]["volumeClaimTemplate"],
                    "metadata": {
                        "annotations": {"a b": ""},
                        "labels": {"a": "-"},
                        "name": "n",
                        "deletionGracePeriodSeconds": 0,
                    },
                }
            }
        },
        [
            (f"{CLAIM}.metadata.annotations", "Invalid", '"a b"'),
            (f"{CLAIM}.metadata.labels", "Invalid", '"-"'),
            (f"{CLAIM}.metadata.name", "Forbidden", "cannot be set"),
            (f"{CLAIM}.metadata.deletionGracePeriodSeconds", "Forbidden", "cannot be set"),
        ],
    ),
    "no template": ({"ephemeral": {}}, [(CLAIM, "Required", "")]),
}


@pytest.mark.parametrize(("source", "expected"), SOURCES.values(), ids=SOURCES)
def test_sources(source: Document, expected: list[Expected]) -> None:
    assert_agree(
        validate_pod_create(pod(volumes=[{"name": "v", **source}], serviceAccountName="a")), expected
    )


LISTS: Final[dict[str, tuple[list[Document], list[Expected]]]] = {
    "one name twice": ([{"name": "v"}, {"name": "v"}], [("spec.volumes[1].name", "Duplicate", '"v"')]),
    "the name of one that is wrong is free": (
        [{"name": "v", "nfs": {"server": "s", "path": "a"}}, {"name": "v"}],
        [("spec.volumes[0].nfs.path", "Invalid", "must be an absolute path")],
    ),
    "no name": ([{"name": ""}], [("spec.volumes[0].name", "Required", "")]),
    "a claim that another volume makes": (
        [{"name": "v", **claim()}, {"name": "w", "persistentVolumeClaim": {"claimName": "p-v"}}],
        [("spec.volumes[1].persistentVolumeClaim.claimName", "Invalid", "must not reference a PVC")],
    ),
}


@pytest.mark.parametrize(("volumes", "expected"), LISTS.values(), ids=LISTS)
def test_lists(volumes: list[Document], expected: list[Expected]) -> None:
    assert_agree(validate_pod_create(pod(volumes=volumes)), expected)


def test_every_source_is_one() -> None:
    known = BuiltinSchemas(RELEASE).get("io.k8s.api.core.v1.Volume").fields.keys() - {"name"}
    without_source = f"{V}: must specify a volume type"
    for field in known:
        errors = validate_pod_create(pod(volumes=[{"name": "v", field: {}}]))
        assert without_source not in [str(error) for error in errors], field
