"""What a kube-apiserver has stored becomes what this server reads: keys, protobuf, JSON, records."""

from __future__ import annotations

from typing import Any, Final

import orjson
import pytest

from apiserver.catalogue.builtins import Catalogue
from apiserver.catalogue.kube_apiserver_objects import KubeApiserverObjects
from apiserver.meta.brand import Brand
from apiserver.meta.releases.emulation import DEFAULT_RELEASE
from apiserver.registry.stored_object import DamagedObject
from apiserver.registry.stored_version_decoder import StoredVersionDecoder
from apiserver.registry.transactions import OwnWrites
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.storage.interface import Stored
from apiserver.storage.store_copy import CopyError, Translated
from apiserver.wire.protobuf import MessageEncoder, seal

SCHEMAS: Final = BuiltinSchemas(DEFAULT_RELEASE.version)
TRANSLATE: Final = KubeApiserverObjects("/registry", "/apiserver")
DECODE: Final = StoredVersionDecoder(OwnWrites(), Catalogue(Brand(), SCHEMAS), prefix="/apiserver")


def protobuf(api_version: str, kind: str, document: dict[str, Any]) -> bytes:
    """What a kube-apiserver stores: the magic, the envelope, and the message in it."""
    group = api_version.rpartition("/")[0].partition(".")[0]
    schema = SCHEMAS.get(f"io.k8s.api.{group or 'core'}.v1.{kind}")
    return seal(api_version, kind, MessageEncoder(schema)(document))


def translated(key: str, value: bytes, lease: int = 0) -> Translated:
    return TRANSLATE(Stored(f"/registry/{key}", value, 5, 7, lease))


META: Final = {"name": "x", "namespace": "ns", "uid": "1-2", "creationTimestamp": "2026-01-02T03:04:05Z"}
CLUSTER: Final = {key: value for key, value in META.items() if key != "namespace"}
# The folder of a kube-apiserver, the kind, some fields, and the folder of this server.
BUILTIN: Final = {
    "a Pod": ("pods/ns", "v1", "Pod", {"spec": {"nodeName": "n"}}, "core/pods/ns"),
    "a Service": (
        "services/specs/ns",
        "v1",
        "Service",
        {"spec": {"clusterIP": "10.0.0.9"}},
        "core/services/ns",
    ),
    "Endpoints": ("services/endpoints/ns", "v1", "Endpoints", {}, "core/endpoints/ns"),
    "a Node": ("minions", "v1", "Node", {"spec": {"podCIDR": "10.1.0.0/24"}}, "core/nodes"),
    "a Secret": ("secrets/ns", "v1", "Secret", {"data": {"k": "/wA="}, "type": "Opaque"}, "core/secrets/ns"),
    "a Namespace": ("namespaces", "v1", "Namespace", {"status": {"phase": "Active"}}, "core/namespaces"),
    "a Deployment": (
        "deployments/ns",
        "apps/v1",
        "Deployment",
        {"spec": {"replicas": 3}},
        "apps/deployments/ns",
    ),
    "a Job": ("jobs/ns", "batch/v1", "Job", {"spec": {"parallelism": 2}}, "batch/jobs/ns"),
    "an Ingress": (
        "ingress/ns",
        "networking.k8s.io/v1",
        "Ingress",
        {"spec": {"ingressClassName": "c"}},
        "networking.k8s.io/ingresses/ns",
    ),
    "a ClusterRole": (
        "clusterroles",
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        {},
        "rbac.authorization.k8s.io/clusterroles",
    ),
}


@pytest.mark.parametrize(("old", "api_version", "kind", "fields", "new"), BUILTIN.values(), ids=BUILTIN)
def test_builtin_types(old: str, api_version: str, kind: str, fields: dict[str, Any], new: str) -> None:
    metadata = META if old.endswith("/ns") else CLUSTER
    item = translated(f"{old}/x", protobuf(api_version, kind, {"metadata": metadata, **fields})).item
    assert item is not None
    assert item.key == f"/apiserver/{new}/x"
    found = DECODE(item._replace(mod_revision=9))
    assert not isinstance(found, DamagedObject), found.cause
    document = found.document()
    assert (document["apiVersion"], document["kind"]) == (api_version, kind)
    assert metadata.items() <= document["metadata"].items()
    assert document["metadata"]["resourceVersion"] == "9"
    for name, value in fields.items():
        if isinstance(value, dict):
            assert value.items() <= document[name].items()
        else:
            assert document[name] == value


def test_a_former_version_is_kept_for_the_server_to_convert() -> None:
    value = protobuf(
        "autoscaling/v1", "HorizontalPodAutoscaler", {"metadata": META, "spec": {"maxReplicas": 4}}
    )
    item = translated("horizontalpodautoscalers/ns/x", value).item
    assert item is not None
    assert item.key == "/apiserver/autoscaling/horizontalpodautoscalers/ns/x"
    assert orjson.loads(item.value)["apiVersion"] == "autoscaling/v1"
    document = DECODE(item).document()
    assert (document["apiVersion"], document["spec"]["maxReplicas"]) == ("autoscaling/v2", 4)


def test_json_of_builtin_types_moves_too() -> None:
    """With --storage-media-type=application/json, and of definitions and APIServices in any case."""
    config_map = {"kind": "ConfigMap", "data": {"k": "v"}, "apiVersion": "v1", "metadata": META}
    item = translated("configmaps/ns/x", orjson.dumps(config_map)).item
    assert item is not None
    assert item.key == "/apiserver/core/configmaps/ns/x"
    assert DECODE(item).document()["data"] == {"k": "v"}
    service = {
        "kind": "APIService",
        "apiVersion": "apiregistration.k8s.io/v1",
        "metadata": {"name": "v1.x.y"},
    }
    item = translated("apiregistration.k8s.io/apiservices/v1.x.y", orjson.dumps(service)).item
    assert item is not None
    assert item.key == "/apiserver/apiregistration.k8s.io/apiservices/v1.x.y"


def test_custom_resources_stay_as_they_are() -> None:
    value = (
        b'{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"x","namespace":"ns"},"spec":1.0}'
    )
    item = translated("example.com/widgets/ns/x", value, lease=3).item
    assert item == Stored("/apiserver/example.com/widgets/ns/x", value, 5, 7, 3)


def test_events_keep_their_lease() -> None:
    value = protobuf("v1", "Event", {"metadata": META, "involvedObject": {}})
    item = translated("events/ns/x", value, lease=3).item
    assert item is not None
    assert (item.key, item.lease) == ("/apiserver/core/events/ns/x", 3)


IDENTITY: Final = {"metadata": {**META, "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver"}}}
LEFT_OUT: Final = {
    "an endpoint record": ("masterleases/10.0.0.1", protobuf("v1", "Endpoints", {"metadata": CLUSTER}), ""),
    "an allocation": ("ranges/serviceips", seal("v1", "RangeAllocation", b""), ""),
    "an identity": (
        "leases/kube-system/apiserver-x", protobuf("coordination.k8s.io/v1", "Lease", IDENTITY), "",
    ),
    "an unknown type": ("gizmos/x", seal("gizmo.k8s.io/v1", "Gizmo", b""), "gizmo.k8s.io/v1 Gizmo"),
    "no object": ("compact_rev_key", b"1234", "compact_rev_key"),
}  # fmt: skip


@pytest.mark.parametrize(("key", "value", "skipped"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_is_left_out(key: str, value: bytes, skipped: str) -> None:
    assert translated(key, value) == Translated(None, skipped)


DAMAGED: Final = {
    "a cut-off envelope": (b"k8s\x00\x12\xff", "cannot be read"),
    "a cut-off message": (seal("v1", "Pod", b"\x0a\xff"), "cannot be read"),
    "invalid JSON": (b'{"kind":', "cannot be read"),
    "encrypted": (b"k8s:enc:secretbox:v1:key1:\xff", "is encrypted"),
}


@pytest.mark.parametrize(("value", "text"), DAMAGED.values(), ids=DAMAGED)
def test_a_value_that_cannot_be_read_is_named(value: bytes, text: str) -> None:
    with pytest.raises(CopyError, match=f"^/registry/pods/ns/x {text}"):
        translated("pods/ns/x", value)
