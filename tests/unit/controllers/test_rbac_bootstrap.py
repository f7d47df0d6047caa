"""The default roles and bindings are created and reconciled: by several servers at once, and despite damage.

Source: k8s.io/kubernetes, pkg/registry/rbac/rest/storage_rbac.go.
"""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from apiserver.auth.authz.rbac.default_roles import default_objects
from apiserver.controllers.rbac_bootstrap import RbacBootstrapHook, rbac_bootstrap_hooks
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document
from apiserver.registry.store import Registry
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.interface import VALUE_BYTES_MAX
from apiserver.storage.keys import prefix_range
from tests.support.eventually import WITHIN_S
from tests.support.in_process import PREFIX, TABLE, caught_up, resource, server

NAME: Final = "system:basic-user"


ROLES: Final = resource("clusterroles")


def hook() -> RbacBootstrapHook:
    (found,) = rbac_bootstrap_hooks(TABLE, Brand())
    return found


async def role(registry: Registry, name: str = NAME) -> Document:
    return (await registry.get(ROLES, "", name)).document()


async def test_what_they_need_is_made_with_them(store: EmbeddedStore) -> None:
    async with server(store) as registry:
        await hook().run(registry)
        await registry.get(resource("namespaces", ""), "", "kube-public")
        await registry.get(resource("roles"), "kube-public", "system:controller:bootstrap-signer")
        assert await store.count(prefix_range(f"{PREFIX}/")) == len(default_objects(Brand())) + 2


async def test_what_is_as_it_should_be_is_not_written(store: EmbeddedStore) -> None:
    async with server(store) as registry:
        await hook().run(registry)
        revision = await store.current_revision()
        await hook().run(registry)
        assert await store.current_revision() == revision


async def test_several_servers_make_them_at_once(store: EmbeddedStore) -> None:
    async with server(store) as one, server(store) as other, server(store) as third:
        await asyncio.gather(*(hook().run(each) for each in (one, other, third)))
        assert await store.current_revision() == len(default_objects(Brand())) + 2 + 1


async def test_several_servers_add_what_is_missing_once(store: EmbeddedStore) -> None:
    async with server(store) as one, server(store) as other:
        await hook().run(one)
        rules = (await role(one))["rules"]
        await one.update(
            WriteRequest(resource=ROLES, namespace="", name=NAME),
            lambda found: ProposedObject({**found.document(), "rules": []}),
        )
        await asyncio.gather(*(caught_up(each) for each in (one, other)))
        await asyncio.gather(*(hook().run(each) for each in (one, other)))
        found = (await role(other))["rules"]
        assert len(found) == sum(len(rule["resources"]) for rule in rules)


async def test_several_servers_remake_a_binding_at_once(store: EmbeddedStore) -> None:
    bindings = resource("clusterrolebindings")
    async with server(store) as one, server(store) as other:
        role_ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        await one.create(
            WriteRequest(resource=bindings, namespace=""),
            ProposedObject({"metadata": {"name": NAME}, "roleRef": role_ref}),
        )
        await asyncio.gather(*(caught_up(each) for each in (one, other)))
        await asyncio.gather(*(hook().run(each) for each in (one, other)))
        assert (await other.get(bindings, "", NAME)).document()["roleRef"]["name"] == NAME


DAMAGED: Final = {
    "no JSON": b"no JSON",
    "cut off": b'{"metadata":{"name":"system:basic-user"},"rules":[',
    "metadata that is none": b'{"metadata":{"annotations":7}}',
    "rules that are none": b'{"metadata":{"name":"system:basic-user"},"rules":[null]}',
}


@pytest.mark.parametrize("value", DAMAGED.values(), ids=DAMAGED)
async def test_a_damaged_one_keeps_nothing_else_from_being_made(
    store: EmbeddedStore, caplog: pytest.LogCaptureFixture, value: bytes
) -> None:
    await store.create(f"{PREFIX}/rbac.authorization.k8s.io/clusterroles/{NAME}", value)
    async with server(store) as registry:
        await hook().run(registry)
        assert (await role(registry, "system:discovery"))["rules"]
    assert f"cannot reconcile ClusterRole/{NAME}" in caplog.text


async def test_one_without_room_for_more_is_left(
    store: EmbeddedStore, caplog: pytest.LogCaptureFixture
) -> None:
    async with server(store) as registry:
        rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["x" * (VALUE_BYTES_MAX - 400)]}
        await registry.create(
            WriteRequest(resource=ROLES, namespace=""),
            ProposedObject({"metadata": {"name": NAME}, "rules": [rule]}),
        )
        await asyncio.wait_for(hook().run(registry), WITHIN_S)
        assert (await role(registry))["rules"] == [rule]
    assert f"cannot reconcile ClusterRole/{NAME}" in caplog.text
