"""Secrets whose tokens are used are marked with the day."""

from __future__ import annotations

from typing import Any, Final

from apiserver.controllers.legacy_token_uses import LAST_USED, LegacyTokenUses
from apiserver.meta.vocabulary import Document
from apiserver.metrics.authentication import AuthenticationMetrics
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from tests.support.eventually import eventually
from tests.support.in_process import TABLE, resource, running, server

SECRETS: Final = resource("secrets", "")
DAY_S: Final = 86_400.0


async def test_a_secret_is_marked_once_a_day(store: EmbeddedStore) -> None:
    now = 1_700_000_000.0
    async with server(store) as registry:
        uses = LegacyTokenUses(registry, ServedTable(TABLE), AuthenticationMetrics("a"), lambda: now)
        new = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "Opaque"}
        request = WriteRequest(resource=SECRETS, namespace="default", name="s")
        await registry.create(request, ProposedObject(new))

        async def found() -> Document:
            return (await registry.get(SECRETS, "default", "s")).document()

        async def mark() -> str:
            return str((await found())["metadata"].get("labels", {}).get(LAST_USED))

        async def until_marked(day: str) -> None:
            async def is_marked() -> Any:
                return await mark() == day

            await eventually(is_marked)

        async with running(uses.run()):
            uses.legacy("default", await found(), is_of_account=False)
            await until_marked("2023-11-14")
            uses.legacy("default", await found(), is_of_account=False)
            assert len(uses.queue) == 0
            now += DAY_S
            # One of another Secret that had the name is not this one's.
            document = await found()
            other = {**document, "metadata": {**document["metadata"], "uid": "x"}}
            uses.legacy("default", other, is_of_account=True)
            await eventually(lambda: len(uses.queue) == 0)
            uses.legacy("default", document, is_of_account=False)
            await until_marked("2023-11-15")
            # A server whose clock is behind does not mark it with the day before.
            now -= DAY_S
            uses.legacy("default", await found(), is_of_account=False)
            assert len(uses.queue) == 0
            # One that is refused, because the Secret is marked as invalid, is a use as well.
            now += 2 * DAY_S
            uses.invalidated("default", await found())
            await until_marked("2023-11-16")
            uses.legacy("default", {"metadata": {"name": "none", "uid": "x"}}, is_of_account=False)
            await eventually(lambda: len(uses.queue) == 0)


async def test_a_server_that_knows_an_older_secret_does_not_set_the_day_back(store: EmbeddedStore) -> None:
    """Another server, whose clock is ahead, has marked it with the next day meanwhile."""
    async with server(store) as registry:
        uses = LegacyTokenUses(
            registry, ServedTable(TABLE), AuthenticationMetrics("a"), lambda: 1_700_000_000.0
        )

        async def create(name: str, labels: dict[str, str]) -> Document:
            meta = {"name": name, "labels": labels}
            new = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque"}
            request = WriteRequest(resource=SECRETS, namespace="default", name=name)
            await registry.create(request, ProposedObject(new))
            return (await registry.get(SECRETS, "default", name)).document()

        async def marks() -> list[str]:
            found = [await registry.get(SECRETS, "default", name) for name in ("ahead", "other")]
            return [each.document()["metadata"]["labels"].get(LAST_USED) for each in found]

        ahead = await create("ahead", {LAST_USED: "2023-11-15"})
        older = {**ahead, "metadata": {**ahead["metadata"], "labels": {}}}
        uses.legacy("default", older, is_of_account=False)
        # One after the other.
        uses.legacy("default", await create("other", {"a": "b"}), is_of_account=False)
        async with running(uses.run()):

            async def has_marked_the_other() -> Any:
                return (await marks())[1] == "2023-11-14"

            await eventually(has_marked_the_other)
            assert await marks() == ["2023-11-15", "2023-11-14"]
