"""What reconcile functions may return, the owners of an object, and objects that wait for a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, cast

import orjson
import pytest

from apiserver.controller_runtime.controller import ReconcileFailed, Requeue
from apiserver.controller_runtime.informer import Notification
from apiserver.controllers.extension_reconcilers import (
    ExtensionReconciler,
    ObjectKey,
    OwnerIndex,
    outcome_of,
)
from apiserver.extensions.hooks import Kind, Mode, OnError
from apiserver.extensions.host.hooks import ExtensionHook
from apiserver.extensions.host.runner import Failure, HookFailed, HookInfo
from apiserver.meta.vocabulary import GroupKind
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.interface import Stored
from tests.support.eventually import eventually
from tests.support.in_process import TABLE, resource, running, server

OPTIONS: Final = {"resource": "configmaps", "owns": ["secrets"], "workers": 1}
INFO: Final = HookInfo(
    number=0,
    kind=Kind.RECONCILE,
    name="place",
    place="shop.py:1",
    mode=Mode.TASK,
    wants=frozenset(),
    timeout_s=60.0,
    on_error=OnError.FAIL,
    inline=False,
    options=OPTIONS,
)
CONFIG_MAPS: Final = resource("configmaps", "")


class Hook:
    """A function whose calls fail as often as a list says, and are noted."""

    extension, info = "shop", INFO

    def __init__(self, *failures: Failure) -> None:
        self.failures, self.called = list(failures), 0

    async def call(self, call: Mapping[str, Any], *, is_logged: bool) -> Mapping[str, Any]:
        assert not is_logged
        if self.failures:
            raise HookFailed("place (shop.py:1) cannot be called", self.failures.pop())
        self.called += 1
        return {}


HOOK: Final = cast(ExtensionHook, Hook())


def test_nothing_is_left_to_do() -> None:
    assert outcome_of(HOOK, {}) is None


@pytest.mark.parametrize(("seconds", "after_s"), [(0, 0.1), (0.05, 0.1), (1.5, 1.5), (10**9, 1e9)])
def test_a_number_of_seconds_is_how_long_to_wait(seconds: float, after_s: float) -> None:
    assert outcome_of(HOOK, {"requeueAfterSeconds": seconds}) == Requeue(after_s=after_s)


@pytest.mark.parametrize("seconds", ["1", True, [1], {}, -1, 1e10, float("nan")], ids=str)
def test_other_results_are_failures(seconds: Any) -> None:
    with pytest.raises(ReconcileFailed, match=r'extension "shop": place .* has returned'):
        outcome_of(HOOK, {"requeueAfterSeconds": seconds})


# ---- owners


def change(owner: str | None, *, key: str = "/registry/secrets/default/s") -> Notification:
    """An object that has an owner as its controller; or, for None, that is gone and was not known."""
    new = None
    if owner is not None:
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": "u", "controller": True}
        document = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s", "ownerReferences": [reference]},
        }
        new = StoredObject.of(Stored(key, orjson.dumps(document), 1, 1))
    return Notification(key, "default", "s", 1, None, new)


@pytest.mark.parametrize(("is_namespaced", "namespace"), [(True, "default"), (False, "")])
def test_a_deletion_that_was_missed_concerns_the_owner(is_namespaced: bool, namespace: str) -> None:
    owners = OwnerIndex(GroupKind("", "ConfigMap"), is_namespaced=is_namespaced)
    assert owners.replaced(change("a")) == {ObjectKey(namespace, "a")}
    assert owners.replaced(change("b")) == {ObjectKey(namespace, "a"), ObjectKey(namespace, "b")}
    assert owners.replaced(change(None)) == {ObjectKey(namespace, "b")}
    assert owners.replaced(change(None)) == set()


# ---- workers that do not run


async def test_an_object_waits_for_a_worker_without_back_off(store: EmbeddedStore) -> None:
    hook = Hook(Failure.NOT_RUNNING)
    async with server(store) as registry:
        request = WriteRequest(resource=CONFIG_MAPS, namespace="default", name="a")
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        await registry.create(request, ProposedObject(document))
        reconciler = ExtensionReconciler(
            "extension-shop-place",
            cast(ExtensionHook, hook),
            registry,
            ServedTable(TABLE),
            lambda: asyncio.sleep(0),
        )
        async with running(reconciler.run()):
            await eventually(lambda: not hook.failures)
            assert reconciler.queue.processing == 1
            await eventually(lambda: hook.called)
            assert reconciler.queue.failures(ObjectKey("default", "a")) == 0
