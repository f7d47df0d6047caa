"""Lengths of texts are counted in bytes of UTF-8, as in Go, although messages say characters."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind

CONTAINER: Final = {"name": "c", "image": "i"}
POD: Final = ServedKind("pods", {"spec": {"containers": [CONTAINER]}})
VOLUME: Final = ServedKind(
    "persistentvolumes", {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"}}}
)
INGRESS: Final = ServedKind("ingresses.networking.k8s.io", {"spec": {}})
JOB: Final = ServedKind(
    "jobs.batch", {"spec": {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}}
)
ISCSI: Final = {"iqn": "iqn.2001-04.com.example:x", "initiatorName": "iqn.2001-04.com.example:y", "lun": 0}
PORTAL_TEXT: Final = "must be under 64 characters if iscsi.initiatorName is specified."
# The kind, a field, its value where a letter has as many bytes as are too many, and what is wrong with it.
LENGTHS: Final[dict[str, tuple[ServedKind, str, object, str]]] = {
    "the portal of an iSCSI volume of a pod": (
        POD,
        "spec.volumes",
        [{"name": "v", "iscsi": {**ISCSI, "targetPortal": "é" * 32}}],
        f"Total length of <volume name>:<iscsi.targetPortal> {PORTAL_TEXT}",
    ),
    "the portal of an iSCSI volume": (
        VOLUME,
        "spec.iscsi",
        {**ISCSI, "targetPortal": "é" * 32},
        f"Total length of <volume name>:<iscsi.targetPortal> {PORTAL_TEXT}",
    ),
    "a tenant": (
        POD,
        "spec.volumes",
        [{"name": "v", "quobyte": {"registry": "a:1", "volume": "v", "tenant": "é" * 33}}],
        "Required value: must be a UUID and may not exceed a length of 64 characters",
    ),
    "a CSI driver": (
        POD,
        "spec.volumes",
        [{"name": "v", "csi": {"driver": "é" * 32}}],
        "Too long: may not be more than 63 bytes",
    ),
    "all search domains": (
        POD,
        "spec.dnsConfig",
        {"searches": ["é" * 64] * 16},
        "must not have more than 2048 characters (including spaces) in the search list",
    ),
    "a search domain": (
        POD,
        "spec.dnsConfig",
        {"searches": ["é" * 127]},
        "must be no more than 253 characters",
    ),
    "the domain of a Windows user": (
        POD,
        "spec.securityContext.windowsOptions",
        {"runAsUserName": "é" * 128 + "\\u"},
        "runAsUserName's Domain length must be under 256 characters",
    ),
    "a Windows user": (
        POD,
        "spec.securityContext.windowsOptions",
        {"runAsUserName": "é" * 53},
        "runAsUserName's User length must not be longer than 104 characters",
    ),
    "a wildcard host": (
        INGRESS,
        "spec.rules",
        [{"host": "*." + "é" * 126}],
        "must be no more than 253 characters",
    ),
    "indexes": (
        JOB,
        "spec",
        {
            **JOB.valid["spec"],
            "completionMode": "Indexed",
            "completions": 1,
            "successPolicy": {"rules": [{"succeededIndexes": "é" * 32_769}]},
        },
        "Too long: may not be more than 65536 bytes",
    ),
}


@pytest.mark.parametrize(("kind", "field", "value", "message"), LENGTHS.values(), ids=LENGTHS)
def test_bytes_count(kind: ServedKind, field: str, value: object, message: str) -> None:
    changes: Changes = {field: value}
    assert [text for text in kind.create(changes).texts if text.endswith(message)]
