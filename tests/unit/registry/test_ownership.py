"""Managers write at random while admission meddles, and a slow, simple model knows who owns what.

The rule: owners are those of what was sent, compared with what is stored. What admission adds, changes or
removes is nobody's. Source: k8s.io/apiserver, pkg/endpoints/handlers/{create,update}.go.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.meta.field_errors import FieldError
from apiserver.meta.vocabulary import Document
from apiserver.registry.invalidating_changes import InvalidField, ObjectChange
from apiserver.registry.patch.apply.field_set import has_itself
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import ProposedObject, Resumption, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from tests.support.in_process import server
from tests.unit.endpoints.handlers.calls import CONFIG_MAPS, FIELD_MANAGERS

FieldPath = tuple[str, ...]
REQUEST: Final = WriteRequest(resource=CONFIG_MAPS, namespace="default", name="a")
MAPS: Final = (("metadata", "labels"), ("metadata", "annotations"), ("data",))

ENTRIES = st.dictionaries(st.sampled_from("klm"), st.sampled_from("12"), max_size=3)
SENT = st.tuples(ENTRIES, ENTRIES, ENTRIES)
# None stands for a key that admission removes.
MUTATION = st.tuples(
    *(st.dictionaries(st.sampled_from("klm"), st.sampled_from(["1", "3", None]), max_size=2) for _ in MAPS)
)
STEPS = st.lists(st.tuples(st.sampled_from("abc"), SENT, MUTATION), min_size=1, max_size=6)


def document_of(sent: Sequence[dict[str, str]]) -> Document:
    document: Document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    for path, entries in zip(MAPS, sent, strict=True):
        if entries:
            parent_of(document, path)[path[-1]] = dict(entries)
    return document


def parent_of(document: Document, path: FieldPath) -> Document:
    parent: Document = document["metadata"] if len(path) > 1 else document
    return parent


class Admission:
    """Puts keys into maps, and takes some out."""

    may_mutate = has_mutated = True
    changes: Sequence[ObjectChange] = ()

    def __init__(self, mutation: Sequence[dict[str, str | None]]) -> None:
        self.mutation = mutation

    async def mutate(
        self, new: Document | None, old: Document | None, resumption: Resumption | None = None
    ) -> Sequence[str]:
        assert new is not None
        for path, changes in zip(MAPS, self.mutation, strict=True):
            parent = parent_of(new, path)
            entries = {**parent.get(path[-1], {}), **changes}
            parent[path[-1]] = {key: value for key, value in entries.items() if value is not None}
            if not parent[path[-1]]:
                del parent[path[-1]]
        return ()

    def resumption(self, causes: Mapping[int, Sequence[InvalidField]]) -> Resumption:
        raise AssertionError("no change can be left out")

    async def check(self, new: Document, old: Document | None) -> Sequence[FieldError]:
        return ()

    async def validate(self, new: Document | None, old: Document | None) -> Sequence[str]:
        return ()


# ---- the model


def flat(document: Document) -> dict[FieldPath, Any]:
    """Every path that may be owned, with its value; maps have none."""
    values: dict[FieldPath, Any] = {}
    for path in MAPS:
        entries = parent_of(document, path).get(path[-1])
        if entries:
            values[path] = None
            values |= {(*path, key): value for key, value in entries.items()}
    return values


class Model:
    """owners: the paths of each manager."""

    def __init__(self) -> None:
        self.owners: dict[str, set[FieldPath]] = {}

    def write(self, manager: str, stored: Document | None, sent: Document) -> None:
        if stored is not None and not self.owners:
            return  # Nobody's fields are tracked any more, until somebody applies.
        before, after = flat(stored) if stored is not None else {}, flat(sent)
        absent = object()
        changed = {path for path, value in after.items() if before.get(path, absent) != value}
        removed = before.keys() - after.keys()
        owners = {name: paths - changed - removed for name, paths in self.owners.items()}
        owners[manager] = owners.get(manager, set()) | changed
        self.owners = {name: paths for name, paths in owners.items() if paths}


def owners_in(document: Document) -> dict[str, set[FieldPath]]:
    entries = document["metadata"].get("managedFields", [])
    return {entry["manager"]: set(paths_in(entry["fieldsV1"], ())) for entry in entries}


def paths_in(fields: Document, above: FieldPath) -> Sequence[FieldPath]:
    found: list[FieldPath] = []
    for element, below in fields.items():
        if element != ".":
            path = (*above, element.removeprefix("f:"))
            found += [path] * has_itself(below) + [*paths_in(below, path)]
    return found


@settings(max_examples=60)
@given(STEPS)
def test_owners_are_those_of_what_was_sent(steps: Any) -> None:
    asyncio.run(_check(steps))


def again(document: Document, current: StoredObject) -> ProposedObject:
    return ProposedObject(copy.deepcopy(document))


async def _check(steps: Any) -> None:
    model, stored = Model(), None
    with TemporaryDirectory() as directory:
        store = await EmbeddedStore.open(Path(directory) / "store", durable=False)
        async with server(store) as registry:
            for manager, sent, mutation in steps:
                proposed = ProposedObject(document_of(sent))
                request = REQUEST._replace(
                    admission=Admission(mutation),
                    manage_fields=FIELD_MANAGERS.updater(CONFIG_MAPS, "", manager),
                )
                model.write(manager, stored, copy.deepcopy(proposed.document))
                if stored is None:
                    written = await registry.create(request, proposed)
                else:
                    written = await registry.update(request, partial(again, document_of(sent)))
                stored = written.found.document()
                assert owners_in(stored) == model.owners
        await store.close()
