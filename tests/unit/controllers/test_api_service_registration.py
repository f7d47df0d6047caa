"""APIServices of what a server serves itself come, are mended, and go.

Source: k8s.io/kube-aggregator, pkg/controllers/autoregister/autoregister_controller_test.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.catalogue.apiregistration.local_api_services import builtin_priority
from apiserver.controllers.api_service_registration import ApiServiceRegistration
from apiserver.controllers.kept_objects import cached
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import GroupVersion
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.store import Registry
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.errors import StorageUnavailable
from apiserver.storage.interface import NO_LEASE
from tests.support.definitions import definition, version
from tests.support.eventually import eventually
from tests.support.in_process import TABLE, caught_up, resource, running, server

SERVICES: Final = resource("apiservices", "apiregistration.k8s.io")
DEFINITIONS: Final = resource("customresourcedefinitions", "apiextensions.k8s.io")
LABEL: Final = "kube-aggregator.kubernetes.io/automanaged"
FOREIGN: Final = {"name": "s", "namespace": "n", "port": 443}

# https://github.com/kubernetes/kubernetes/blob/release-1.34/cmd/kube-apiserver/app/aggregator.go
PRIORITIES: Final = {
    GroupVersion("", "v1"): (18_000, 1),
    GroupVersion("apps", "v1"): (17_800, 15),
    GroupVersion("autoscaling", "v1"): (17_500, 15),
    GroupVersion("autoscaling", "v2"): (17_500, 30),
    GroupVersion("rbac.authorization.k8s.io", "v1"): (17_000, 15),
    GroupVersion("admissionregistration.k8s.io", "v1"): (16_700, 15),
    GroupVersion("apiextensions.k8s.io", "v1"): (16_700, 15),
    GroupVersion("storage.k8s.io", "v1beta1"): (16_800, 9),
    GroupVersion("flowcontrol.apiserver.k8s.io", "v1"): (16_100, 15),
}


@pytest.mark.parametrize(("group_version", "priority"), PRIORITIES.items(), ids=map(str, PRIORITIES))
def test_priorities_of_what_is_built_in(group_version: GroupVersion, priority: tuple[int, int]) -> None:
    assert builtin_priority(Brand(), group_version) == priority


def test_groups_are_built_in_the_order_of_their_priorities() -> None:
    versions = list(TABLE.group_versions)
    assert [each.group for each in versions[1:]] == [
        each.group
        for each in sorted(
            versions[1:], key=lambda each: (-builtin_priority(Brand(), each).group, each.group)
        )
    ]


def spec(group: str, version_name: str = "v1", **fields: Any) -> dict[str, Any]:
    return {
        "group": group,
        "version": version_name,
        "groupPriorityMinimum": 7,
        "versionPriority": 7,
        **fields,
    }


async def create(registry: Registry, name: str, wanted: Mapping[str, Any], managed: str = "") -> None:
    labels = {"labels": {LABEL: managed}} if managed else {}
    document = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name, **labels},
        "spec": dict(wanted),
    }
    await registry.create(WriteRequest(resource=SERVICES, namespace="", name=name), ProposedObject(document))


async def define(registry: Registry, group: str, *versions: dict[str, Any]) -> None:
    names = {"listKind": "WidgetList"}  # what the schema gives by default
    document = definition(group, *versions, names=names, conversion={"strategy": "None"})
    request = WriteRequest(resource=DEFINITIONS, namespace="", name=document["metadata"]["name"])
    await registry.create(request, ProposedObject(document))


def without_finalizers(document: dict[str, Any]) -> dict[str, Any]:
    del document["metadata"]["finalizers"]
    return document


def priority(registry: Registry, name: str) -> int | None:
    """The group priority of an APIService; None if there is none."""
    found = cached(registry, SERVICES, "", name)
    return None if found is None else int(found["spec"]["groupPriorityMinimum"])


async def test_what_is_there_at_the_start_is_mended_or_deleted_unless_it_is_somebody_elses(
    store: EmbeddedStore,
) -> None:
    async with server(store) as registry:
        await create(registry, "v1.apps", spec("apps"), "onstart")
        await create(registry, "v1.batch", spec("batch"))
        await create(registry, "v1.gone.io", spec("gone.io"), "onstart")
        await create(registry, "v2.gone.io", spec("gone.io", "v2"), "true")
        await create(registry, "v1.foreign.io", spec("foreign.io", service=FOREIGN))
        await define(registry, "there.io")
        await create(registry, "v1.there.io", spec("there.io", service=FOREIGN), "true")
        await caught_up(registry)  # What an informer does not list was not there at the start.
        registration = ApiServiceRegistration(registry, SERVICES, DEFINITIONS, TABLE, Brand())
        async with running(registration.run()):

            def is_settled() -> bool:
                gone = priority(registry, "v1.gone.io") is None and priority(registry, "v2.gone.io") is None
                return (
                    gone
                    and priority(registry, "v1.apps") == 17_800
                    and priority(registry, "v1.there.io") == 1000
                )

            await eventually(is_settled)
            mended = cached(registry, SERVICES, "", "v1.there.io")
            assert mended is not None
            # As a client writes it: one that writes the object back as it is changes nothing.
            assert "service" not in mended["spec"]
            assert (priority(registry, "v1.batch"), priority(registry, "v1.foreign.io")) == (7, 7)
            # Those that are built in are looked at once; those that are defined, always.
            for name in ("v1.apps", "v1.there.io"):
                await registry.update(
                    WriteRequest(resource=SERVICES, namespace="", name=name),
                    lambda found: ProposedObject(
                        {**found.document(), "spec": {**found.document()["spec"], "groupPriorityMinimum": 9}}
                    ),
                )
            await caught_up(registry)
            await eventually(lambda: priority(registry, "v1.there.io") == 1000)
            assert priority(registry, "v1.apps") == 9


class FailsOnce(EmbeddedStore):
    """A store whose next write of each key in `failing` fails."""

    failing: set[str] = set()

    async def compare_and_put(self, key: str, value: bytes, *, expected: int, lease: int = NO_LEASE) -> int:
        self._fail(key)
        return await super().compare_and_put(key, value, expected=expected, lease=lease)

    async def compare_and_delete(self, key: str, *, expected: int) -> int:
        self._fail(key)
        return await super().compare_and_delete(key, expected=expected)

    def _fail(self, key: str) -> None:
        if key in self.failing:
            self.failing = self.failing - {key}
            raise StorageUnavailable("once")


async def test_what_is_looked_at_once_is_looked_at_again_if_that_failed(tmp_path: Path) -> None:
    store = await FailsOnce.open(tmp_path / "store", durable=False)
    async with server(store) as registry:
        await create(registry, "v1.apps", spec("apps"), "onstart")
        await create(registry, "v1.gone.io", spec("gone.io"), "onstart")
        await caught_up(registry)
        prefix = registry.prefix_of(SERVICES)
        store.failing = {prefix + "v1.apps", prefix + "v1.gone.io"}
        registration = ApiServiceRegistration(registry, SERVICES, DEFINITIONS, TABLE, Brand())
        async with running(registration.run()):
            await eventually(lambda: priority(registry, "v1.gone.io") is None)
            await eventually(lambda: priority(registry, "v1.apps") == 17_800)
            assert store.failing == set()
    await store.close()


async def test_definitions_bring_and_take_their_api_services(store: EmbeddedStore) -> None:
    async with server(store) as registry:
        registration = ApiServiceRegistration(registry, SERVICES, DEFINITIONS, TABLE, Brand())
        async with running(registration.run()):
            unserved = {**version("v2", storage=False), "served": False}
            await define(registry, "a.io", version(), unserved, version("v3", storage=False))
            await eventually(lambda: priority(registry, "v1.a.io") == priority(registry, "v3.a.io") == 1000)
            assert priority(registry, "v2.a.io") is None
            found = cached(registry, SERVICES, "", "v1.a.io")
            assert found is not None
            assert found["metadata"]["labels"] == {LABEL: "true"}
            assert found["spec"]["versionPriority"] == 100
            assert found["status"]["conditions"][0]["reason"] == "Local"
            # Deleted by somebody, it comes back.
            await registry.delete(DeleteRequest(SERVICES, "", "v3.a.io"))
            await eventually(lambda: priority(registry, "v3.a.io") == 1000)

            def without_v3(document: dict[str, Any]) -> dict[str, Any]:
                document["spec"]["versions"][2]["served"] = False
                return document

            await registry.update(
                WriteRequest(resource=DEFINITIONS, namespace="", name="widgets.a.io"),
                lambda found: ProposedObject(without_v3(found.document())),
            )
            await eventually(lambda: priority(registry, "v3.a.io") is None)
            assert priority(registry, "v1.a.io") == 1000
            await registry.delete(DeleteRequest(DEFINITIONS, "", "widgets.a.io"))
            await registry.update(
                WriteRequest(resource=DEFINITIONS, namespace="", name="widgets.a.io"),
                lambda found: ProposedObject(without_finalizers(found.document())),
            )
            await eventually(lambda: priority(registry, "v1.a.io") is None)
