"""What the Node authorizer is told of what is stored, from when a node asks for the first time. Row O03."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import orjson
import pytest

from apiserver.auth.authz.node.graph import NodeGraph
from apiserver.catalogue.builtins import Catalogue
from apiserver.catalogue.runtime_config import RuntimeConfig
from apiserver.controllers.node_graph import NodeGraphInformer
from apiserver.load.size_class import LARGE_BYTES
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document
from apiserver.metrics.controllers import NodeGraphMetrics
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.storage.embedded import EmbeddedStore
from tests.support.eventually import WITHIN_S, eventually
from tests.support.in_process import PREFIX, running, server

PODS: Final = f"{PREFIX}/core/pods/ns"
TABLE: Final = Catalogue(Brand(), BuiltinSchemas((1, 36))).resources(
    RuntimeConfig({"certificates.k8s.io/v1beta1": True})
)


def pod(name: str, node: str = "n1", **spec: Any) -> Document:
    volumes = [{"name": "v", "secret": {"secretName": f"of-{name}"}}]
    bound = {"nodeName": node} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"volumes": volumes, **bound, **spec},
    }


@asynccontextmanager
async def informed(store: EmbeddedStore, metrics: NodeGraphMetrics | None = None) -> AsyncIterator[NodeGraph]:
    graph, metrics = NodeGraph(), metrics or NodeGraphMetrics()
    async with (
        server(store) as registry,
        running(NodeGraphInformer(registry, TABLE, Brand(), graph, metrics).run()),
    ):
        yield graph


async def completed(graph: NodeGraph) -> None:
    assert graph.complete is not None
    await graph.complete(asyncio.get_running_loop().time() + WITHIN_S)


async def test_nothing_is_looked_at_before_a_node_asks(store: EmbeddedStore) -> None:
    await store.create(f"{PODS}/a", orjson.dumps(pod("a")))
    async with informed(store) as graph:
        for _ in range(10):
            await asyncio.sleep(0)
        assert graph.is_empty
        assert not graph.is_complete
        await completed(graph)
        assert graph.is_complete
        assert graph.is_related("n1", "secrets", "ns", "of-a")


async def test_changes_of_pods(store: EmbeddedStore) -> None:
    async with informed(store) as graph:
        await completed(graph)

        def reads(secret: str, node: str = "n1") -> bool:
            return graph.is_related(node, "secrets", "ns", secret)

        revision = await store.create(f"{PODS}/a", orjson.dumps(pod("a", "")))
        await store.create(f"{PODS}/b", orjson.dumps(pod("b", "n2")))
        await eventually(lambda: reads("of-b", "n2"))
        assert not reads("of-a")
        written = await store.compare_and_put(f"{PODS}/a", orjson.dumps(pod("a")), expected=revision)
        await eventually(lambda: reads("of-a"))
        debugger = [{"name": "d", "envFrom": [{"secretRef": {"name": "of-debugger"}}]}]
        debugged = orjson.dumps(pod("a", ephemeralContainers=debugger))
        revision = await store.compare_and_put(f"{PODS}/a", debugged, expected=written)
        await eventually(lambda: reads("of-debugger"))
        await store.compare_and_delete(f"{PODS}/a", expected=revision)
        await eventually(lambda: not reads("of-a"))
        assert not reads("of-debugger")
        assert reads("of-b", "n2")


async def test_a_pod_that_is_damaged_gives_nothing_any_more(
    store: EmbeddedStore, caplog: pytest.LogCaptureFixture
) -> None:
    revision = await store.create(f"{PODS}/a", orjson.dumps(pod("a")))
    async with informed(store) as graph:
        await completed(graph)
        assert graph.is_related("n1", "secrets", "ns", "of-a")
        await store.compare_and_put(f"{PODS}/a", b"k8s\x00", expected=revision)
        await eventually(lambda: not graph.is_related("n1", "secrets", "ns", "of-a"))
        assert "damaged" in caplog.text


OBJECTS: Final[dict[str, tuple[str, Document, tuple[str, str, str]]]] = {
    "a volume": (
        "core/persistentvolumes/pv",
        {"kind": "PersistentVolume", "spec": {"claimRef": {"namespace": "ns", "name": "c"}}},
        ("persistentvolumes", "", "pv"),
    ),
    "an attachment": (
        "storage.k8s.io/volumeattachments/va",
        {"kind": "VolumeAttachment", "spec": {"nodeName": "n1"}},
        ("volumeattachments", "", "va"),
    ),
    "a slice of 1.30": (
        "resource.k8s.io/resourceslices/s",
        {"kind": "ResourceSlice", "nodeName": "n1"},
        ("resourceslices", "", "s"),
    ),
    "a slice": (
        "resource.k8s.io/resourceslices/s",
        {"kind": "ResourceSlice", "spec": {"nodeName": "n1"}},
        ("resourceslices", "", "s"),
    ),
    "a request for a certificate": (
        "certificates.k8s.io/podcertificaterequests/ns/r",
        {"kind": "PodCertificateRequest", "spec": {"nodeName": "n1"}},
        ("podcertificaterequests", "ns", "r"),
    ),
}


@pytest.mark.parametrize(("place", "document", "question"), OBJECTS.values(), ids=OBJECTS)
async def test_other_objects(
    store: EmbeddedStore, place: str, document: Document, question: tuple[str, str, str]
) -> None:
    claim = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    await store.create(f"{PODS}/a", orjson.dumps(pod("a") | {"spec": {"nodeName": "n1", "volumes": claim}}))
    name = place.rpartition("/")[2]
    head = {"apiVersion": "v1", "kind": document["kind"], "metadata": {"name": name}}
    whole = {**head, **document}
    async with informed(store) as graph:
        await completed(graph)
        assert not graph.is_related("n1", *question)
        revision = await store.create(f"{PREFIX}/{place}", orjson.dumps(whole))
        await eventually(lambda: graph.is_related("n1", *question))
        assert not graph.is_related("n2", *question)
        await store.compare_and_delete(f"{PREFIX}/{place}", expected=revision)
        await eventually(lambda: not graph.is_related("n1", *question))


# What happens to an object of OBJECTS, by its kind as kube-apiserver names it.
ACTIONS: Final = {
    "persistentvolumes": "PV",
    "volumeattachments": "VolumeAttachment",
    "resourceslices": "ResourceSlice",
    "podcertificaterequests": "PodCertificateRequest",
}


async def test_changes_of_the_graph_are_timed(store: EmbeddedStore) -> None:
    """Source of the names: kubernetes, plugin/pkg/auth/authorizer/node/graph.go."""
    metrics = NodeGraphMetrics()

    def counts() -> dict[str, int]:
        (family,) = metrics.families()
        found = (line for line in "".join(family.series).splitlines() if "_count{" in line)
        return {line.split('"')[1]: int(line.split()[-1]) for line in found}

    async with informed(store, metrics) as graph:
        await store.create(f"{PODS}/unbound", orjson.dumps(pod("unbound", node="")))
        revision = await store.create(f"{PODS}/a", orjson.dumps(pod("a")))
        await completed(graph)
        await eventually(lambda: counts() == {"AddPod": 1})
        # Nothing that it refers to changes: that costs the graph nothing.
        status = orjson.dumps(pod("a") | {"status": {"phase": "Running"}})
        revision = await store.compare_and_put(f"{PODS}/a", status, expected=revision)
        await store.compare_and_delete(f"{PODS}/a", expected=revision)
        await eventually(lambda: counts() == {"AddPod": 1, "DeletePod": 1})
        for place, document, _ in OBJECTS.values():
            key = f"{PREFIX}/{place}"
            revision = await store.create(key, orjson.dumps({"metadata": {"name": "o"}, **document}))
            await store.compare_and_delete(key, expected=revision)
        others = {f"{action}{kind}" for action in ("Add", "Delete") for kind in ACTIONS.values()}
        await eventually(lambda: counts().keys() == {"AddPod", "DeletePod", *others})


# So long that it is not decoded when it is read from the store.
LONG_LIST: Final = b'[{"metadata":{},"spec":"' + b"x" * LARGE_BYTES + b'"}]'
NO_OBJECTS: Final = {
    "no JSON": b"k8s\x00",
    "no object": b"[]",
    "no metadata": b"{}",
    "a key that ends as metadata do": b'{"\\"metadata":{}}',
    "a long list": LONG_LIST,
}


@pytest.mark.parametrize("damaged", NO_OBJECTS.values(), ids=NO_OBJECTS)
@pytest.mark.parametrize(("place", "document", "question"), OBJECTS.values(), ids=OBJECTS)
async def test_an_object_that_becomes_unreadable_gives_nothing_any_more(
    store: EmbeddedStore, place: str, document: Document, question: tuple[str, str, str], damaged: bytes
) -> None:
    claim = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    await store.create(f"{PODS}/a", orjson.dumps(pod("a") | {"spec": {"nodeName": "n1", "volumes": claim}}))
    key = f"{PREFIX}/{place}"
    revision = await store.create(key, orjson.dumps({"metadata": {"name": question[2]}, **document}))
    async with informed(store) as graph:
        await completed(graph)
        assert graph.is_related("n1", *question)
        await store.compare_and_put(key, damaged, expected=revision)
        await eventually(lambda: not graph.is_related("n1", *question))
