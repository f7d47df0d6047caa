"""Large objects that admission reads are decoded beside the event loop. Small ones are not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from copy import deepcopy
from typing import Any, Final

import pytest

from apiserver.admission.chain import AdmissionAttributes, Operation
from apiserver.admission.listers import Lister, default_class
from apiserver.admission.plugin_context import PluginContext
from apiserver.admission.plugins.limit_ranger import LimitRanger
from apiserver.admission.plugins.priority import Priority
from apiserver.admission.plugins.privilege_escalation import PrivilegeEscalationCheck
from apiserver.admission.plugins.resource_quota import ResourceQuota
from apiserver.app.serving.service_account_tokens import object_getter
from apiserver.auth.authz.authorizer_modes import Authorizers
from apiserver.auth.authz.configuration import RBAC, of_modes
from apiserver.extensions.host.hooks import ExtensionHooks
from apiserver.meta.brand import Brand
from apiserver.meta.errors import Forbidden
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.vocabulary import Document, UserInfo
from apiserver.metrics.extensions import ExtensionMetrics
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from apiserver.webhooks.cached_services import CachedServices
from tests.support.in_process import TABLE, caught_up, resource, server
from tests.support.offloaded import LARGE, done_by

ALICE: Final = UserInfo("alice", ())
RBAC_GROUP: Final = "rbac.authorization.k8s.io"
RULE: Final = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
CLASS: Final = {"storageclass.kubernetes.io/is-default-class": "true"}


@pytest.fixture
async def registry(store: EmbeddedStore) -> AsyncIterator[Registry]:
    async with server(store) as registry:
        yield registry


async def create(registry: Registry, kind: ServedResource, *, is_large: bool, **document: Any) -> None:
    namespace = "default" if kind.is_namespaced else ""
    metadata = {
        **document.pop("metadata", {}),
        "name": "a",
        **({"namespace": namespace} if namespace else {}),
    }
    if is_large:
        metadata["annotations"] = {**metadata.get("annotations", {}), **LARGE}
    draft = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **document}
    kind.check(draft)
    await registry.create(WriteRequest(resource=kind, namespace=namespace, name="a"), ProposedObject(draft))
    await caught_up(registry)


def context_of(registry: Registry) -> PluginContext:
    authorizers = Authorizers(of_modes([RBAC]), Brand(), lambda: True)
    extensions = ExtensionHooks(ExtensionMetrics())
    return PluginContext(registry, ServedTable(TABLE), Brand(), authorizers, registry.offload, extensions)


def creating(kind: ServedResource, registry: Registry) -> AdmissionAttributes:
    namespace = "default" if kind.is_namespaced else ""
    return AdmissionAttributes(Operation.CREATE, kind, namespace, "a", ALICE, registry.offload)


def pod(**spec: Any) -> Document:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def quota(kind: str = "pods") -> Document:
    return {"spec": {"hard": {kind: "1"}}, "status": {"hard": {kind: "1"}, "used": {kind: "0"}}}


Ask = Callable[[Registry], Awaitable[object]]


def lister_of(registry: Registry, kind: ServedResource) -> Lister:
    return context_of(registry).lister(*kind.stored_group_resource)


async def limits_of_pods(registry: Registry) -> None:
    plugin, new = LimitRanger(lister_of(registry, LIMITS)), pod()
    await plugin.mutate(creating(PODS, registry), new, None)
    await plugin.validate(creating(PODS, registry), new, None)


async def quotas(registry: Registry) -> None:
    await ResourceQuota(context_of(registry)).validate(
        creating(CONFIG_MAPS, registry), {"metadata": {"name": "c"}}, None
    )


async def priority(registry: Registry) -> None:
    new = pod()
    await Priority(lister_of(registry, CLASSES), FeatureGates(36)).mutate(creating(PODS, registry), new, None)
    assert new["spec"]["priorityClassName"] == "a"


async def escalates(registry: Registry, kind: ServedResource, new: Document) -> None:
    """Who binds a role, or writes one, must hold what it grants."""
    context = context_of(registry)
    policy = context.authorizers.rbac_policy
    assert policy is not None
    with pytest.raises(Forbidden, match="permissions not currently held"):
        await PrivilegeEscalationCheck(context, policy).mutate(creating(kind, registry), new, None)


async def binding(registry: Registry) -> None:
    reference = {"apiGroup": RBAC_GROUP, "kind": "Role", "name": "a"}
    new = {"metadata": {"name": "b"}, "roleRef": reference, "subjects": []}
    await escalates(registry, resource("rolebindings"), new)


def reading(name: str, kind: str) -> Ask:
    async def read(registry: Registry) -> None:
        get = object_getter(registry, ServedTable(TABLE))
        for is_fresh in (False, True):
            found = await get(kind, "default", name, is_fresh)
            assert found is not None

    return read


async def service(registry: Registry) -> None:
    services = CachedServices(registry, ServedTable(TABLE), Brand())
    assert await services.service("default", "a") is not None


async def slices(registry: Registry) -> None:
    services = CachedServices(registry, ServedTable(TABLE), Brand())
    assert [each["metadata"]["name"] for each in await services.slices("default", "s")] == ["a"]


async def cached_and_live(registry: Registry) -> None:
    accounts = lister_of(registry, ACCOUNTS)
    for found in (
        await accounts.get_document("a", "default"),
        await accounts.get_live_document("a", "default"),
    ):
        assert found is not None
        assert found["metadata"]["name"] == "a"


async def class_by_default(registry: Registry) -> None:
    assert await default_class(lister_of(registry, STORAGE), *CLASS) == "a"


PODS: Final = resource("pods", "")
CONFIG_MAPS: Final = resource("configmaps", "")
ACCOUNTS: Final = resource("serviceaccounts", "")
LIMITS: Final = resource("limitranges", "")
QUOTAS: Final = resource("resourcequotas", "")
SERVICES: Final = resource("services", "")
SLICES: Final = resource("endpointslices", "discovery.k8s.io")
CLASSES: Final = resource("priorityclasses", "scheduling.k8s.io")
STORAGE: Final = resource("storageclasses", "storage.k8s.io")
SLICE: Final = {
    "metadata": {"labels": {"kubernetes.io/service-name": "s"}},
    "addressType": "IPv4",
    "endpoints": [],
}
MANY: Final = [{"name": f"v{number}", "emptyDir": {}} for number in range(5_000)]
# What is stored, who reads it, and how often it is decoded for that.
READ: Final[dict[str, tuple[ServedResource, Document, Ask, int]]] = {
    "what plugins look up": (ACCOUNTS, {}, cached_and_live, 2),
    "default classes": (
        STORAGE,
        {"metadata": {"annotations": CLASS}, "provisioner": "p"},
        class_by_default,
        1,
    ),
    "the default priority": (CLASSES, {"value": 1, "globalDefault": True}, priority, 1),
    "limits": (LIMITS, {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}, limits_of_pods, 2),
    "quotas": (QUOTAS, quota(), quotas, 1),
    "a role that is bound": (resource("roles"), {"rules": [RULE]}, binding, 1),
    "the account of a token": (ACCOUNTS, {}, reading("a", "serviceaccounts"), 2),
    "the pod of a token": (PODS, pod(), reading("a", "pods"), 2),
    "the Service of a webhook": (SERVICES, {"spec": {"ports": [{"port": 1}]}}, service, 1),
    "the EndpointSlices of a webhook": (SLICES, SLICE, slices, 1),
}


@pytest.mark.parametrize("is_large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize(("kind", "document", "ask", "expected"), READ.values(), ids=READ)
async def test_where_objects_are_decoded(
    registry: Registry, kind: ServedResource, document: Document, ask: Ask, expected: int, is_large: bool
) -> None:
    await create(registry, kind, is_large=is_large, **deepcopy(document))
    before = done_by(registry.offload)
    await ask(registry)
    assert done_by(registry.offload) - before == (expected if is_large else 0)


async def test_of_the_pod_of_a_token_the_metadata_alone_are_decoded(registry: Registry) -> None:
    """They are asked for by each request with that token."""
    await create(registry, PODS, is_large=False, **pod(volumes=MANY))
    before = done_by(registry.offload)
    found = await object_getter(registry, ServedTable(TABLE))("pods", "default", "a", False)
    assert found is not None
    assert [*found] == ["metadata"]
    assert found["metadata"]["name"] == "a"
    assert done_by(registry.offload) == before


@pytest.mark.parametrize(("annotations", "expected"), [({}, 0), (LARGE, 1)], ids=["small", "large"])
async def test_where_the_rules_of_a_new_role_are_read(
    registry: Registry, annotations: dict[str, str], expected: int
) -> None:
    new = {"metadata": {"name": "a", "annotations": annotations}, "rules": [RULE]}
    await escalates(registry, resource("roles"), new)
    assert done_by(registry.offload) == expected
