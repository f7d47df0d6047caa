"""Large objects that controllers look at are decoded beside the event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple

import orjson
import pytest

from apiserver.auth.authz.node.graph import NodeGraph
from apiserver.auth.authz.rbac.policy import RbacPolicy
from apiserver.controllers.api_service_registration import ApiServiceRegistration
from apiserver.controllers.certificate_requests.requests import CertificateRequests
from apiserver.controllers.cluster_role_aggregation import ClusterRoleAggregation
from apiserver.controllers.disruption.controller import DisruptionController
from apiserver.controllers.disruption.stale_conditions import StaleDisruptionConditions
from apiserver.controllers.event_recorder import EventRecorder
from apiserver.controllers.namespace_default_objects import NamespaceDefaultObjects, default_service_account
from apiserver.controllers.namespaces import NamespaceController
from apiserver.controllers.node_graph import NodeGraphInformer
from apiserver.controllers.policy_type_checking.controller import PolicyTypeChecking
from apiserver.controllers.rbac_policy import RbacPolicyInformer
from apiserver.controllers.resource_quotas import ResourceQuotaController
from apiserver.controllers.service_account_tokens import ServiceAccountTokens
from apiserver.controllers.service_allocations import ServiceAllocationRepair
from apiserver.controllers.storage_protection import CLAIMS as CLAIM_PROTECTION
from apiserver.controllers.storage_protection import StorageProtection
from apiserver.controllers.ttl_after_finished import TtlAfterFinished
from apiserver.custom_resources.serving.definition_controller import DefinitionController
from apiserver.custom_resources.serving.definition_finalizer import DefinitionFinalizer
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document
from apiserver.metrics.controllers import NodeGraphMetrics
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.transactions import OwnWrites
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.interface import Stored
from tests.support.definitions import definition
from tests.support.eventually import WITHIN_S, eventually
from tests.support.in_process import PREFIX, TABLE, caught_up, resource, running, server
from tests.support.offloaded import LARGE, Recorded, RecordingDecoder, done_by
from tests.unit.custom_resources.serving.test_large_definitions import factory_of

AGO: Final = "2020-01-01T00:00:00Z"
UID: Final = "0c0b0a09-0000-4000-8000-000000000000"
APP: Final = {"app": "a"}
OWNER: Final = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": UID, "controller": True}
NAMESPACES: Final = resource("namespaces", "")
PODS: Final = resource("pods", "")
SERVICES: Final = resource("services", "")
SECRETS: Final = resource("secrets", "")
ACCOUNTS: Final = resource("serviceaccounts", "")
CLAIMS: Final = resource("persistentvolumeclaims", "")
VOLUMES: Final = resource("persistentvolumes", "")
QUOTAS: Final = resource("resourcequotas", "")
CONFIG_MAPS: Final = resource("configmaps", "")
JOBS: Final = resource("jobs", "batch")
REPLICA_SETS: Final = resource("replicasets", "apps")
BUDGETS: Final = resource("poddisruptionbudgets", "policy")
ATTACHMENTS: Final = resource("volumeattachments", "storage.k8s.io")
ADDRESSES: Final = resource("ipaddresses", "networking.k8s.io")
REQUESTS: Final = resource("certificatesigningrequests", "certificates.k8s.io")
POLICIES: Final = resource("validatingadmissionpolicies", "admissionregistration.k8s.io")
API_SERVICES: Final = resource("apiservices", "apiregistration.k8s.io")
DEFINITIONS: Final = resource("customresourcedefinitions", "apiextensions.k8s.io")
SERVED: Final = ServedTable(TABLE)


class Object(NamedTuple):
    """What is stored. fields: those besides the name and namespace; metadata are completed."""

    kind: ServedResource
    fields: Document
    is_large: bool = True

    @property
    def name(self) -> str:
        found: str = self.fields.get("metadata", {}).get("name", "a")
        return found

    @property
    def namespace(self) -> str:
        return "default" if self.kind.is_namespaced else ""

    @property
    def value(self) -> bytes:
        metadata = {
            "name": self.name,
            "uid": UID,
            "creationTimestamp": AGO,
            **self.fields.get("metadata", {}),
        }
        if self.namespace:
            metadata["namespace"] = self.namespace
        if self.is_large:
            metadata["annotations"] = {**metadata.get("annotations", {}), **LARGE}
        head = {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": metadata}
        return orjson.dumps({**head, **{key: self.fields[key] for key in self.fields.keys() - {"metadata"}}})


Run = Callable[[Registry, EmbeddedStore], Coroutine[Any, Any, object]]


async def may_create(*_: Any) -> None:
    return None


def events(registry: Registry) -> EventRecorder:
    return EventRecorder(registry, SERVED, may_create, time.time, component="test")


async def node_graph(registry: Registry, _: EmbeddedStore) -> None:
    graph = NodeGraph()
    informer = NodeGraphInformer(registry, TABLE, Brand(), graph, NodeGraphMetrics())
    assert graph.complete is not None
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(informer.run())
        await graph.complete(asyncio.get_running_loop().time() + WITHIN_S)
    raise AssertionError("it runs until it is cancelled")


async def allocations(registry: Registry, store: EmbeddedStore) -> None:
    await ServiceAllocationRepair(
        registry, SERVED, store, events(registry), prefix=PREFIX, clock=time.time
    ).compare()


async def finalizer(registry: Registry, _: EmbeddedStore) -> None:
    finishing = DefinitionFinalizer(registry, DEFINITIONS, Brand(), lambda _: None, time.time)
    finishing.queue.add("widgets.example.com")
    await finishing.run()


async def definition_controller(registry: Registry, _: EmbeddedStore) -> None:
    controller = DefinitionController(
        registry,
        TABLE,
        lambda *_: None,
        factory_of(registry.offload).create,
        brand=Brand(),
        clock=time.time,
    )
    await controller.run(lambda: None)


POD: Final = {"containers": [{"name": "c", "image": "i"}]}
VOLUME: Final = [{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}]
BOUND: Final = {**POD, "nodeName": "n", "volumes": VOLUME}
CRD: Final = definition("example.com")
CRD_NAME: Final = {"name": "widgets.example.com"}
FINISHED: Final = {"type": "Complete", "status": "True", "lastTransitionTime": AGO}
TARGET: Final = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": AGO}
DEFAULT: Final = {"name": "default"}
GROUP: Final = "rbac.authorization.k8s.io"
IP: Final = "10.0.0.7"
OURS: Final = {
    "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    "ipaddress.kubernetes.io/ip-family": "IPv4",
}
PARENT: Final = {"group": "", "resource": "services", "namespace": "default", "name": "a"}
TOKEN: Final = {"kubernetes.io/service-account.name": "a"}
# What is stored, what looks at it, and how often it decodes large objects for that at least.
LOOKED_AT: Final[dict[str, tuple[Sequence[Object], Run, int]]] = {
    "Secrets with tokens, and their accounts": (
        [
            Object(
                SECRETS, {"metadata": {"annotations": TOKEN}, "type": "kubernetes.io/service-account-token"}
            ),
            Object(ACCOUNTS, {}),
        ],
        lambda registry, _: ServiceAccountTokens(registry, SERVED, lambda *_: "token", lambda: b"root").run(),
        3,
    ),
    "Jobs that have ended": (
        [Object(JOBS, {"spec": {"ttlSecondsAfterFinished": 0}, "status": {"conditions": [FINISHED]}})],
        lambda registry, _: TtlAfterFinished(registry, SERVED, time.time).run(),
        2,
    ),
    "pods that were to be disrupted": (
        [Object(PODS, {"spec": POD, "status": {"conditions": [TARGET]}})],
        lambda registry, _: StaleDisruptionConditions(registry, SERVED, time.time).run(),
        1,
    ),
    "budgets, their pods and the owners of these": (
        [
            Object(BUDGETS, {"spec": {"selector": {"matchLabels": APP}, "maxUnavailable": 1}}),
            Object(PODS, {"metadata": {"labels": APP, "ownerReferences": [OWNER]}, "spec": POD}),
            Object(REPLICA_SETS, {"spec": {"replicas": 1}}),
        ],
        lambda registry, _: DisruptionController(registry, SERVED, events(registry), time.time).run(),
        3,
    ),
    "quotas": (
        [Object(QUOTAS, {"spec": {"hard": {"pods": "1"}}})],
        lambda registry, _: ResourceQuotaController(registry, SERVED, Brand(), registry.offload).run(),
        2,
    ),
    "pods that may use a claim": (
        [
            Object(PODS, {"spec": BOUND}),
            Object(
                CLAIMS,
                {"metadata": {"deletionTimestamp": AGO, "finalizers": [CLAIM_PROTECTION.finalizer]}},
                is_large=False,
            ),
        ],
        lambda registry, _: StorageProtection(registry, SERVED, CLAIM_PROTECTION).run(),
        1,
    ),
    "what pods of nodes need": (
        [
            Object(PODS, {"spec": BOUND}),
            Object(VOLUMES, {"spec": {"claimRef": {"namespace": "default", "name": "a"}}}),
            Object(ATTACHMENTS, {"spec": {"nodeName": "n"}}),
        ],
        node_graph,
        3,
    ),
    "Services and IPAddresses": (
        [
            Object(SERVICES, {"spec": {"type": "ClusterIP", "clusterIP": IP, "clusterIPs": [IP]}}),
            Object(ADDRESSES, {"metadata": {"name": IP, "labels": OURS}, "spec": {"parentRef": PARENT}}),
        ],
        allocations,
        3,
    ),
    "namespaces that are deleted, and what is left there": (
        [
            Object(
                NAMESPACES,
                {"metadata": {"name": "default", "deletionTimestamp": AGO}, "spec": {"finalizers": ["k"]}},
            ),
            Object(CONFIG_MAPS, {"metadata": {"deletionTimestamp": AGO, "finalizers": ["example.com/a"]}}),
        ],
        lambda registry, _: NamespaceController(registry, SERVED, time.time).run(),
        2,
    ),
    "what every namespace has": (
        [Object(NAMESPACES, {"metadata": DEFAULT}), Object(ACCOUNTS, {"metadata": DEFAULT})],
        lambda registry, _: NamespaceDefaultObjects(
            registry, SERVED, may_create, [default_service_account()], name="test"
        ).run(),
        1,
    ),
    "namespaces that lack it": (
        [Object(NAMESPACES, {"metadata": DEFAULT})],
        lambda registry, _: NamespaceDefaultObjects(
            registry, SERVED, may_create, [default_service_account()], name="test"
        ).run(),
        1,
    ),
    "certificate requests": (
        [Object(REQUESTS, {"spec": {}})],
        lambda registry, _: CertificateRequests(registry, SERVED, "certificates.k8s.io").get("a"),
        1,
    ),
    "policies that are checked": (
        [Object(POLICIES, {"metadata": {"generation": 1}, "spec": {}, "status": {"observedGeneration": 1}})],
        lambda registry, _: PolicyTypeChecking(registry, SERVED, Brand(), registry.offload).run(),
        1,
    ),
    "definitions, which have APIServices": (
        [Object(DEFINITIONS, {"metadata": CRD_NAME, "spec": CRD["spec"]})],
        lambda registry, _: ApiServiceRegistration(registry, API_SERVICES, DEFINITIONS, TABLE, Brand()).run(),
        1,
    ),
    "definitions, which are served": (
        [Object(DEFINITIONS, {"metadata": CRD_NAME, "spec": CRD["spec"]})],
        definition_controller,
        1,
    ),
    "definitions that are deleted": (
        [Object(DEFINITIONS, {"metadata": CRD_NAME, "spec": CRD["spec"]})],
        finalizer,
        1,
    ),
}


@pytest.mark.parametrize(("objects", "run", "times"), LOOKED_AT.values(), ids=LOOKED_AT)
async def test_large_objects_are_decoded_in_a_thread(
    store: EmbeddedStore, objects: Sequence[Object], run: Run, times: int
) -> None:
    threads: list[str] = []
    async with server(store, make_decoder=partial(RecordingDecoder, threads=threads)) as registry:
        for each in objects:
            await store.create(registry.key(each.kind, each.namespace, each.name), each.value)
        await caught_up(registry)
        async with running(run(registry, store)):
            await eventually(lambda: len(threads) >= times)
    assert threading.current_thread().name not in threads


class HeldDecoder(RecordingDecoder):
    """Large objects are not decoded before `may_go_on`."""

    def __init__(self, own_writes: OwnWrites, threads: list[str], may_go_on: threading.Event) -> None:
        super().__init__(own_writes, threads)
        self._may_go_on = may_go_on

    def __call__(self, stored: Stored) -> StoredObject:
        found = super().__call__(stored)
        return _Held(found, self._threads, self._may_go_on) if isinstance(found, Recorded) else found


class _Held(Recorded):
    __slots__ = ("_may_go_on",)

    def __init__(self, found: StoredObject, threads: list[str], may_go_on: threading.Event) -> None:
        super().__init__(found, threads)
        self._may_go_on = may_go_on

    def document(self) -> Document:
        document = super().document()
        self._may_go_on.wait(WITHIN_S)
        return document


def a_claim(name: str) -> Object:
    ending = {"deletionTimestamp": AGO, "finalizers": [CLAIM_PROTECTION.finalizer]}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return Object(CLAIMS, {"metadata": {"name": name, **ending}, "spec": spec}, is_large=False)


async def test_what_is_deleted_while_pods_are_read_is_not_released_by_what_they_were(
    store: EmbeddedStore,
) -> None:
    """The pod that uses it came before its deletion, but after the list of pods."""
    threads: list[str] = []
    may_go_on = threading.Event()
    decoder = partial(HeldDecoder, threads=threads, may_go_on=may_go_on)
    first, second = a_claim("first"), a_claim("second")
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "second"}}
    spec = {**BOUND, "volumes": [volume]}
    user = Object(PODS, {"metadata": {"name": "user"}, "spec": spec}, is_large=False)
    async with server(store, make_decoder=decoder) as registry:
        for each in (Object(PODS, {"spec": BOUND}), first):
            await store.create(registry.key(each.kind, each.namespace, each.name), each.value)
        await caught_up(registry)
        controller = StorageProtection(registry, SERVED, CLAIM_PROTECTION)
        async with running(controller.run()):
            await eventually(lambda: bool(threads))
            for each in (user, second):
                await store.create(registry.key(each.kind, each.namespace, each.name), each.value)
            await eventually(lambda: "second" in controller._namespaces["default"].names)
            may_go_on.set()
            keys = {each.name: registry.key(each.kind, each.namespace, each.name) for each in (first, second)}
            await eventually(lambda: registry.cache.get_cached(keys["first"]) is None)
            await caught_up(registry)
            assert registry.cache.get_cached(keys["second"]) is not None


ROLE: Final = {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}


class CountingExecutor(ThreadPoolExecutor):
    """submitted: how much work it was given."""

    submitted = 0

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submitted += 1
        return super().submit(*args, **kwargs)


@pytest.mark.parametrize("is_large", [False, True], ids=["small", "large"])
async def test_large_cluster_roles_are_aggregated_in_a_thread(store: EmbeddedStore, is_large: bool) -> None:
    """As below: permissions that a role has lost are lost to those it is aggregated to, too."""
    role = Object(resource("clusterroles"), ROLE, is_large=is_large)
    threads = CountingExecutor(1)
    asyncio.get_running_loop().set_default_executor(threads)
    async with server(store) as registry:
        await store.create(registry.key(role.kind, "", role.name), role.value)
        await caught_up(registry)
        before = threads.submitted
        controller = ClusterRoleAggregation(registry, SERVED, Brand())
        async with running(controller.run()):
            await eventually(lambda: controller.queue.counters.work_durations.count > 0)
            assert threads.submitted - before == is_large
            assert done_by(registry.offload) == 0


@pytest.mark.parametrize("is_large", [False, True], ids=["small", "large"])
async def test_large_roles_by_which_requests_are_authorized_are_read_in_a_thread(
    store: EmbeddedStore, is_large: bool
) -> None:
    """It is none of those in which what users have sent is worked on: nothing waits before it."""
    role = Object(resource("roles"), ROLE, is_large=is_large)
    threads = CountingExecutor(1)
    asyncio.get_running_loop().set_default_executor(threads)
    async with server(store) as registry:
        await store.create(registry.key(role.kind, role.namespace, role.name), role.value)
        await caught_up(registry)
        before = threads.submitted
        informer = RbacPolicyInformer(registry, TABLE, GROUP, RbacPolicy(GROUP))
        async with running(informer.run()):
            await asyncio.wait_for(informer.wait_until_complete(), WITHIN_S)
            assert threads.submitted - before == is_large
            assert done_by(registry.offload) == 0
