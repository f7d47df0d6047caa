"""The objects that every namespace has."""

from __future__ import annotations

import time
from functools import partial

from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.controller_runtime.undone_writes import FREE_MAX
from apiserver.controllers.namespace_default_objects import (
    NamespaceDefaultObjects,
    default_service_account,
    root_ca_config_map,
)
from apiserver.controllers.namespaces import NamespaceController
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from tests.support.eventually import eventually
from tests.support.in_process import TABLE, resource, running, server

NAMESPACES, ACCOUNTS = resource("namespaces", ""), resource("serviceaccounts", "")


def default_accounts(registry: Registry) -> NamespaceDefaultObjects:
    may_create = NamespaceLifecycle(registry, NAMESPACES).check_create
    objects = [default_service_account()]
    return NamespaceDefaultObjects(registry, ServedTable(TABLE), may_create, objects, name="test")


def was_undone(controller: NamespaceDefaultObjects, times: int) -> bool:
    return controller.queue.counters.undone == times


async def create_namespace(registry: Registry, name: str) -> None:
    request = WriteRequest(resource=NAMESPACES, namespace="")
    await registry.create(request, ProposedObject({"metadata": {"name": name}}))


async def test_the_root_ca_of_all_namespaces_changes(store: EmbeddedStore) -> None:
    current = "one"
    config_maps = resource("configmaps", "")
    async with server(store) as registry:
        may_create = NamespaceLifecycle(registry, NAMESPACES).check_create
        objects = [root_ca_config_map(lambda: current)]
        publisher = NamespaceDefaultObjects(registry, ServedTable(TABLE), may_create, objects, name="root-ca")

        def published(namespace: str) -> str:
            found = registry.cache.get_cached(registry.key(config_maps, namespace, "kube-root-ca.crt"))
            return "" if found is None or found.value is None else found.value.document()["data"]["ca.crt"]

        async with running(publisher.run()):
            for name in ("a", "b"):
                await create_namespace(registry, name)
            await eventually(lambda: published("a") == published("b") == "one")
            current = "two"
            publisher.look_again()
            await eventually(lambda: published("a") == published("b") == "two")


async def test_a_namespace_that_is_made_anew_again_and_again_is_no_undone_write(store: EmbeddedStore) -> None:
    async with server(store) as registry:
        accounts = default_accounts(registry)
        account, namespace = registry.key(ACCOUNTS, "again", "default"), registry.key(NAMESPACES, "", "again")
        async with running(
            accounts.run(), NamespaceController(registry, ServedTable(TABLE), time.time).run()
        ):
            for _ in range(FREE_MAX + 3):
                await create_namespace(registry, "again")
                await eventually(lambda: registry.cache.get_cached(account))
                await registry.delete(DeleteRequest(NAMESPACES, "", "again"))
                await eventually(lambda: registry.cache.get_cached(namespace) is None)
        assert accounts.queue.counters.undone == 0


async def test_an_object_that_is_deleted_again_and_again_is_an_undone_write(store: EmbeddedStore) -> None:
    async with server(store) as registry:
        accounts = default_accounts(registry)
        account = registry.key(ACCOUNTS, "kept", "default")
        async with running(accounts.run()):
            await create_namespace(registry, "kept")
            await eventually(lambda: registry.cache.get_cached(account))
            for times in range(1, FREE_MAX + 1):
                await registry.delete(DeleteRequest(ACCOUNTS, "kept", "default"))
                await eventually(partial(was_undone, accounts, times))
