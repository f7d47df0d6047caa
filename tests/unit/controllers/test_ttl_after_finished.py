"""Finished Jobs are deleted when their time to live is over.

https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.controllers.ttl_after_finished import TtlAfterFinished, time_left_s
from apiserver.meta import timestamps
from apiserver.meta.vocabulary import Document
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.strategy import UpdateStrategy
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from tests.support.eventually import eventually
from tests.support.in_process import TABLE, resource, running, server

NOW_S: Final = 1_700_000_000.0
JOBS: Final = resource("jobs", "batch")
BY_SERVER: Final = UpdateStrategy()


def condition(kind: str = "Complete", status: str = "True", ago_s: float = 100.0) -> Document:
    return {"type": kind, "status": status, "lastTransitionTime": timestamps.to_text(NOW_S - ago_s)}


def job(ttl_s: int | None, *conditions: Document, **meta: Any) -> Document:
    spec = {} if ttl_s is None else {"ttlSecondsAfterFinished": ttl_s}
    return {"metadata": meta, "spec": spec, "status": {"conditions": list(conditions)}}


LEFT: Final[dict[str, tuple[Document, float | None]]] = {
    "complete": (job(150, condition()), 50.0),
    "failed": (job(150, condition("Failed")), 50.0),
    "its time is over": (job(60, condition()), -40.0),
    "at once": (job(0, condition(ago_s=0)), 0.0),
    "a clock that is ahead": (job(10, condition(ago_s=-5)), 15.0),
    "not finished": (job(0), None),
    "not finished yet": (job(0, condition(status="False"), condition("Suspended")), None),
    "for ever": (job(None, condition()), None),
    "deleted by somebody else": (job(0, condition(), deletionTimestamp="2020-01-01T00:00:00Z"), None),
    "finished at no time": (job(0, {**condition(), "lastTransitionTime": None}), None),
    "no status": ({"metadata": {}, "spec": {"ttlSecondsAfterFinished": 0}}, None),
}


@pytest.mark.parametrize(("found", "left_s"), LEFT.values(), ids=LEFT)
def test_how_much_time_is_left(found: Document, left_s: float | None) -> None:
    assert time_left_s(found, NOW_S) == left_s


class Jobs:
    """The Jobs of one server, written past all rules: only their times matter."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def add(self, name: str, document: Document) -> None:
        request = WriteRequest(resource=JOBS, namespace="default", name=name, update=BY_SERVER)
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        spec = {**document["spec"], "template": {"spec": pod}}
        new = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        JOBS.check(new)
        await self._registry.create(request, ProposedObject(new))
        await self._registry.update(
            request, lambda found: ProposedObject({**found.document(), "status": document["status"]})
        )

    async def change(self, name: str, **spec: Any) -> None:
        request = WriteRequest(resource=JOBS, namespace="default", name=name, update=BY_SERVER)

        def changed(found: Any) -> ProposedObject:
            document = found.document()
            return ProposedObject({**document, "spec": {**document["spec"], **spec}})

        await self._registry.update(request, changed)

    def deleted(self) -> set[str]:
        """The Jobs that are gone, or wait for what they own to go."""
        names = set()
        for name in ("old", "young", "running"):
            found = self._registry.cache.get_cached(self._registry.key(JOBS, "default", name))
            document = None if found is None or found.value is None else found.value.document()
            if document is None or "foregroundDeletion" in document["metadata"].get("finalizers", ()):
                names.add(name)
        return names


async def test_those_whose_time_is_over_are_deleted_with_what_they_own(store: EmbeddedStore) -> None:
    async with server(store) as registry:
        jobs = Jobs(registry)
        await jobs.add("old", job(60, condition()))
        await jobs.add("young", job(150, condition()))
        await jobs.add("running", job(0))
        controller = TtlAfterFinished(registry, ServedTable(TABLE), lambda: NOW_S)
        async with running(controller.run()):
            await eventually(lambda: jobs.deleted() == {"old"})
            await eventually(lambda: controller.queue.is_delayed(("default", "young")))
            await jobs.change("young", ttlSecondsAfterFinished=10)
            await eventually(lambda: jobs.deleted() == {"old", "young"})


async def test_one_whose_time_was_prolonged_is_kept(store: EmbeddedStore) -> None:
    """Also if the controller has not heard of it yet."""
    async with server(store) as registry:
        jobs = Jobs(registry)
        await jobs.add("old", job(100_000_000, condition()))
        await jobs.add("young", job(60, condition()))
        controller = TtlAfterFinished(registry, ServedTable(TABLE), lambda: NOW_S)
        async with running(controller.run()):
            controller.queue.add(("default", "old"))
            controller.queue.add(("default", "gone"))
            await eventually(lambda: jobs.deleted() >= {"young"})
            await eventually(lambda: controller.queue.is_delayed(("default", "old")))
        assert "old" not in jobs.deleted()


async def test_one_that_is_gone_or_has_no_time_to_live_any_more_is_forgotten(store: EmbeddedStore) -> None:
    """Else all that were deleted within a day would be remembered."""
    async with server(store) as registry:
        jobs = Jobs(registry)
        for name in ("old", "young"):
            await jobs.add(name, job(100_000, condition()))
        controller = TtlAfterFinished(registry, ServedTable(TABLE), lambda: NOW_S)
        async with running(controller.run()):
            await eventually(lambda: len(controller.queue) == 2)
            await registry.delete(DeleteRequest(JOBS, "default", "old"))
            await jobs.change("young", ttlSecondsAfterFinished=None)
            await eventually(lambda: not len(controller.queue))
