"""The writes of simulated components."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from apiserver.load.offload import Lane, Offload
from apiserver.load.size_class import SizeClass
from apiserver.meta.vocabulary import Document, UserInfo
from apiserver.storage.embedded import EmbeddedStore
from apiserver.testkit.simulation.component import ClusterAccess, Component, WriteTarget
from tests.support.in_process import resource, server
from tests.unit.testkit.simulation.access import access

_T = TypeVar("_T")


class RecordingLane(Lane):
    """Records whose work it runs."""

    def __init__(self) -> None:
        super().__init__("large", waiting_max=1, waiting_of_user_max=1)
        self.users: list[str] = []

    async def run(self, user: str, work: Callable[[], _T], *, may_refuse: bool) -> _T:
        self.users.append(user)
        return await super().run(user, work, may_refuse=may_refuse)


def add_data(document: Document) -> bool:
    document["data"] = {"a": "b"}
    return True


async def test_offloaded_work_is_charged_to_the_component(store: EmbeddedStore) -> None:
    config_maps = resource("configmaps", "")
    costly = replace(config_maps, strategy=config_maps.strategy._replace(is_costly=True))
    lane = RecordingLane()
    offload = Offload(lanes={SizeClass.LARGE: lane})
    async with server(store) as registry:
        cluster = replace(access(registry, ClusterAccess), offload=offload)
        component = Component(cluster, UserInfo("kubelet"), "kubelet")
        created = await component.create(costly, {"metadata": {"name": "a", "namespace": "default"}})
        assert set(lane.users) == {"kubelet"}
        lane.users.clear()
        await component.update(WriteTarget.of(costly, created), add_data)
        assert set(lane.users) == {"kubelet"}
    offload.close()
