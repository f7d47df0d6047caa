"""The FlowSchemas and priority levels of every server are made, maintained, and removed when obsolete.

Source of the rules: kubernetes, pkg/registry/flowcontrol/ensurer/strategy.go.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from apiserver.catalogue.flowcontrol.defaults import FLOW_SCHEMAS, PRIORITY_LEVELS
from apiserver.controllers.flow_control_objects import AUTOUPDATE, FlowControlObjects, maintained, updated
from apiserver.meta.errors import NotFound
from apiserver.meta.options import DeleteOptions
from apiserver.meta.vocabulary import Document
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.store import Registry
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.interface import MOST_RECENT
from apiserver.storage.keys import prefix_range
from tests.support.in_process import resource, server

GROUP: Final = "flowcontrol.apiserver.k8s.io"
SCHEMAS: Final = resource("flowschemas", GROUP)
LEVELS: Final = resource("prioritylevelconfigurations", GROUP)
SPEC: Final = FLOW_SCHEMAS["global-default"]
CHANGED: Final = {**SPEC, "matchingPrecedence": 9_000}


def stored(spec: Document, generation: int, mark: str | None) -> Document:
    annotations = {"own": "x"} if mark is None else {"own": "x", AUTOUPDATE: mark}
    return {"metadata": {"name": "n", "generation": generation, "annotations": annotations}, "spec": spec}


# What is stored (spec, generation, annotation), whether it is mandatory, and what becomes of both.
RULES: Final[dict[str, tuple[tuple[Document, int, str | None], bool, tuple[Document, str]]]] = {
    "unchanged": ((SPEC, 1, "true"), False, (SPEC, "true")),
    "of an earlier release": ((CHANGED, 1, "true"), False, (SPEC, "true")),
    "changed while it is the server's": ((CHANGED, 2, "true"), False, (SPEC, "true")),
    "taken over": ((CHANGED, 2, "false"), False, (CHANGED, "false")),
    "taken over, and unchanged": ((CHANGED, 1, "F"), False, (CHANGED, "F")),
    "changed, unmarked": ((CHANGED, 2, None), False, (CHANGED, "false")),
    "never changed, unmarked": ((CHANGED, 1, None), False, (SPEC, "true")),
    "a mark that says nothing": ((CHANGED, 2, "perhaps"), False, (CHANGED, "false")),
    "another way to say so": ((CHANGED, 2, "T"), False, (SPEC, "T")),
    "mandatory": ((CHANGED, 2, "false"), True, (SPEC, "true")),
}


@pytest.mark.parametrize(("found", "is_mandatory", "wanted"), RULES.values(), ids=RULES)
def test_who_has_the_last_word(found: Any, is_mandatory: bool, wanted: Any) -> None:
    document = updated(stored(*found), SPEC, is_mandatory=is_mandatory)
    assert (document["spec"], document["metadata"]["annotations"]) == (
        wanted[0],
        {"own": "x", AUTOUPDATE: wanted[1]},
    )


def test_what_the_exempt_level_lends_is_for_users_to_say() -> None:
    exempt = PRIORITY_LEVELS["exempt"]
    lending = {**exempt, "exempt": {"nominalConcurrencyShares": 5, "lendablePercent": 50}}
    assert updated(stored(lending, 2, "true"), exempt, is_mandatory=True)["spec"] == lending


async def reconcile(registry: Registry) -> None:
    """With a watch cache that has seen all that was written before."""
    await registry.cache.list(prefix_range(registry.prefix_of(SCHEMAS)), MOST_RECENT)
    await FlowControlObjects(registry, tuple(maintained(SCHEMAS, LEVELS))).reconcile()


async def test_servers_make_them_once_and_then_write_nothing(store: EmbeddedStore) -> None:
    async with server(store) as one, server(store) as other:
        await asyncio.gather(*(reconcile(each) for each in (one, other)))
        revision = await store.current_revision()
        assert revision == len(FLOW_SCHEMAS) + len(PRIORITY_LEVELS) + 1
        await reconcile(one)
        assert await store.current_revision() == revision
        found = (await other.get(SCHEMAS, "", "probes")).document()
        assert found["metadata"]["generation"] == 1
        assert found["spec"] == FLOW_SCHEMAS["probes"]


async def test_what_is_deleted_is_made_again(store: EmbeddedStore) -> None:
    async with server(store) as registry:
        await reconcile(registry)
        await registry.delete(DeleteRequest(LEVELS, "", "system", DeleteOptions()))
        await reconcile(registry)
        assert (await registry.get(LEVELS, "", "system")).document()["spec"] == PRIORITY_LEVELS["system"]


OBSOLETE: Final = {"the server's": ("true", True), "taken over": ("false", False), "a user's": (None, False)}


@pytest.mark.parametrize(("mark", "is_removed"), OBSOLETE.values(), ids=OBSOLETE)
async def test_what_is_not_suggested_any_more(
    store: EmbeddedStore, mark: str | None, is_removed: bool
) -> None:
    async with server(store) as registry:
        document = stored(SPEC, 1, mark)
        document = {"apiVersion": SCHEMAS.api_version, "kind": SCHEMAS.kind, **document}
        document["metadata"]["name"] = "old"
        await registry.create(
            WriteRequest(resource=SCHEMAS, namespace="", name="old"), ProposedObject(document)
        )
        await reconcile(registry)
        if is_removed:
            with pytest.raises(NotFound):
                await registry.get(SCHEMAS, "", "old")
        else:
            await registry.get(SCHEMAS, "", "old")
