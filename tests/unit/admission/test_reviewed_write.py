"""Writes as webhooks see them: what becomes of a large object of which they see a small part."""

from __future__ import annotations

from typing import Any, Final

from apiserver.admission.chain import AdmissionAttributes, Operation, SubresourceView
from apiserver.admission.reviewed_write import EquivalentResources, ReviewedWrite
from apiserver.load.offload import Offload
from apiserver.meta.vocabulary import Document, UserInfo
from apiserver.registry.served_resource import ServedTable
from tests.support.in_process import TABLE, resource

CONFIG_MAPS: Final = resource("configmaps", "")


async def test_what_is_shown_of_a_large_object_is_put_back_beside_the_event_loop() -> None:
    def put(document: Document, shown: Document) -> None:
        document["data"] = shown

    view = SubresourceView(CONFIG_MAPS, lambda document: document["data"], put)
    for count, done in ((1, 0), (10_000, 1)):
        offload, jane = Offload(), UserInfo("jane")
        attributes = AdmissionAttributes(
            Operation.UPDATE, CONFIG_MAPS, "n", "a", jane, offload, subresource="part", view=view
        )
        members = {f"m{number}": "" for number in range(count)}
        new: dict[str, Any] = {"metadata": {"labels": members}, "data": {"a": "b"}}
        write = ReviewedWrite(attributes, EquivalentResources(ServedTable(TABLE)), new, None)
        changed = await write.changed({"a": "c"}, CONFIG_MAPS)
        assert changed == {"metadata": {"labels": members}, "data": {"a": "c"}}
        assert new["data"] == {"a": "b"}
        assert sum(lane.done_total for lane in offload.lanes.values()) == done
        offload.close()
