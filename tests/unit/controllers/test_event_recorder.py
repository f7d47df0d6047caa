"""Events of controllers: what is lost may be told again, what was written is not."""

from __future__ import annotations

import asyncio
from typing import Any

from apiserver.controllers.event_recorder import EventRecorder
from apiserver.meta.errors import NotFound
from apiserver.meta.vocabulary import GroupResource
from apiserver.registry.served_resource import ServedTable
from apiserver.storage.embedded import EmbeddedStore
from tests.support.eventually import eventually
from tests.support.in_process import TABLE, resource, running, server


async def test_an_event_that_could_not_be_written_is_told_again(store: EmbeddedStore) -> None:
    pods, events = resource("pods", ""), resource("events", "")
    refused: list[str] = []

    async def may_create(_: Any, namespace: str, __: str) -> None:
        if not refused:
            refused.append(namespace)
            raise NotFound(GroupResource("", "namespaces"), namespace)

    async with server(store) as registry:
        recorder = EventRecorder(registry, ServedTable(TABLE), may_create, lambda: 0.0, component="test")
        async with running(recorder.run()):

            def tell_again() -> bool:
                recorder.tell(pods, "default", "p", "uid", reason="R", message="m")
                return registry.count(events) > 0

            await eventually(tell_again)
            revision = await registry.cache.revision_at()
            for _ in range(3):
                recorder.tell(pods, "default", "p", "uid", reason="R", message="m")
                await asyncio.sleep(0)
            recorder.tell(pods, "default", "p", "uid", reason="R", message="another")
            await eventually(lambda: registry.count(events) == 2)
            assert await registry.cache.revision_at() == revision + 1
    assert refused == ["default"]
