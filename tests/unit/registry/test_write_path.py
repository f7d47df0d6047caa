"""The way of every write: its stages, their warnings, and what a lost race does. Rows J07, L01, L02."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

import orjson
import pytest

from apiserver.load.offload import Offload
from apiserver.load.size_class import SizeClass
from apiserver.meta.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ServiceUnavailable,
)
from apiserver.meta.field_errors import FieldError, forbidden
from apiserver.meta.options import DeleteOptions, WriteOptions
from apiserver.meta.vocabulary import Document
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.guard import TransactionGuard
from apiserver.registry.invalidating_changes import InvalidField, ObjectChange
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.version_codec import IdentityCodec
from apiserver.registry.write_request import ProposedObject, Resumption, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.watch_cache import KeyVersion, WatchCache
from tests.support.in_process import resource, server

CONFIG_MAPS: Final = resource("configmaps", "")
NAMESPACE: Final = "default"
REQUEST: Final = WriteRequest(resource=CONFIG_MAPS, namespace=NAMESPACE, name="a")
FINALIZER: Final = "example.com/hold"


def config_map(**data: str) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


def changed(found: StoredObject, **data: str) -> Document:
    return {**found.document(), "data": data}


class Plugins:
    """Admission that warns where it may, notes what it was asked, and may refuse."""

    may_mutate = has_mutated = True
    changes: Sequence[ObjectChange] = ()

    def __init__(self, refuses: str = "") -> None:
        self.refuses = refuses
        self.asked: list[tuple[str, bool]] = []

    async def mutate(
        self, new: Document | None, old: Document | None, resumption: Resumption | None = None
    ) -> Sequence[str]:
        self.asked.append(("mutate", old is None))
        if new is not None:
            new.setdefault("data", {})["mutated"] = "yes"
        return self._answer("mutate")

    def resumption(self, causes: Mapping[int, Sequence[InvalidField]]) -> Resumption:
        raise AssertionError("no change can be left out")

    async def check(self, new: Document, old: Document | None) -> Sequence[FieldError]:
        self.asked.append(("check", old is None))
        return [forbidden("data", "refused")] if self.refuses == "check" else ()

    async def validate(self, new: Document | None, old: Document | None) -> Sequence[str]:
        self.asked.append(("validate", old is None))
        return self._answer("validate")

    def _answer(self, stage: str) -> Sequence[str]:
        if self.refuses == stage:
            raise Forbidden("refused")
        return [f"from {stage}"]


class Invalidating(Plugins):
    """Admission in which a function has failed, as it adds an invalid key; and without it, another one.

    A function before them is in order.
    """

    # What the functions add in each round, and the warnings, without those of functions that have failed.
    rounds = (
        (("sound", "in valid"), ["by f"]),
        (("sound", "al so"), ["f failed", "by g"]),
        (("sound",), ["f failed", "g failed"]),
    )

    def __init__(self) -> None:
        super().__init__()
        self.resumed: list[Mapping[int, Sequence[InvalidField]]] = []

    async def mutate(
        self, new: Document | None, old: Document | None, resumption: Resumption | None = None
    ) -> Sequence[str]:
        assert new is not None
        self.asked.append(("mutate", old is None))
        states = [orjson.dumps(new)]
        keys, warnings = self.rounds[len(self.resumed)]
        for key in keys:
            new["data"][key] = "yes"
            states.append(orjson.dumps(new))
        self.changes = [Change(*pair) for pair in pairwise(states)]
        return warnings

    def resumption(self, causes: Mapping[int, Sequence[InvalidField]]) -> Resumption:
        self.resumed.append(causes)
        return Resumption()


class Change(NamedTuple):
    before: bytes
    after: bytes


@pytest.mark.parametrize("is_dry_run", [False, True], ids=["stored", "dry run"])
@pytest.mark.parametrize("verb", ["create", "create under a generated name", "update"])
async def test_a_write_is_stored_without_the_changes_that_make_the_object_invalid(
    registry: Registry, verb: str, is_dry_run: bool
) -> None:
    """And with the warnings of the last round."""
    plugins, offload = Invalidating(), Offload()
    options = WriteOptions(dry_run=is_dry_run)
    request = REQUEST._replace(admission=plugins, options=options, offload=offload)
    if verb == "update":
        await registry.create(REQUEST, ProposedObject(config_map(a="0")))
        written = await registry.update(request, lambda found: ProposedObject(changed(found, a="1")))
    else:
        document = config_map(a="1")
        if verb != "create":
            request, document["metadata"] = request._replace(name=""), {"generateName": "a-"}
        written = await registry.create(request, ProposedObject(document))
    assert written.found.document()["data"] == {"a": "1", "sound": "yes"}
    assert written.warnings == ["f failed", "g failed", "from validate"]
    assert [list(each) for each in plugins.resumed] == [[1], [1]]
    assert [stage for stage, _ in plugins.asked] == [*(["mutate", "check"] * 3), "validate"]
    assert offload.lanes[SizeClass.HUGE].done_total == 2, (
        "a search of several changes runs beside the event loop"
    )
    offload.close()


async def test_an_error_of_the_client_is_not_blamed_on_a_function(registry: Registry) -> None:
    plugins = Invalidating()
    request = REQUEST._replace(admission=plugins)
    with pytest.raises(Invalid) as refused:
        await registry.create(request, ProposedObject(config_map(**{"al so": "1"})))
    assert len(refused.value.errors) == 2
    assert refused.value.warnings == ["by f"]
    assert not plugins.resumed


# ---- create


async def test_a_create_goes_through_all_stages_and_tells_their_warnings_in_order(registry: Registry) -> None:
    plugins = Plugins()
    request = REQUEST._replace(admission=plugins)
    written = await registry.create(request, ProposedObject(config_map(a="1"), ["from the proposed object"]))
    assert written.warnings == ["from the proposed object", "from mutate", "from validate"]
    assert plugins.asked == [("mutate", True), ("check", True), ("validate", True)]
    assert written.found.document()["data"] == {"a": "1", "mutated": "yes"}
    stored = await registry.get(CONFIG_MAPS, NAMESPACE, "a")
    assert stored.json == written.found.json


@dataclass(frozen=True)
class NotedCodec(IdentityCodec):
    """Notes the threads in which documents are converted."""

    converts_hub: bool = True
    converted_in: list[threading.Thread] = field(default_factory=list)

    def to_hub(self, document: Document) -> Document:
        self.converted_in.append(threading.current_thread())
        return document


@pytest.mark.parametrize("size", SizeClass)
async def test_a_large_object_is_converted_beside_the_event_loop(registry: Registry, size: SizeClass) -> None:
    codec = NotedCodec(CONFIG_MAPS.head, CONFIG_MAPS.group_resource, CONFIG_MAPS.kind)
    request = REQUEST._replace(resource=replace(CONFIG_MAPS, version_codec=codec), size=size)
    await registry.create(request, ProposedObject(config_map(a="1")))
    on_loop = threading.current_thread() in codec.converted_in
    assert len(codec.converted_in) == 1
    assert on_loop is (size is SizeClass.SMALL)


REFUSALS = {
    "by a mutating plugin": ("mutate", ["from the proposed object"]),
    "by a validating plugin": ("validate", ["from the proposed object", "from mutate"]),
}


@pytest.mark.parametrize(("stage", "warnings"), REFUSALS.values(), ids=REFUSALS)
async def test_a_refusal_carries_the_warnings_of_the_stages_before_it(
    registry: Registry, stage: str, warnings: list[str]
) -> None:
    request = REQUEST._replace(admission=Plugins(stage))
    with pytest.raises(Forbidden) as refused:
        await registry.create(request, ProposedObject(config_map(), ["from the proposed object"]))
    assert refused.value.warnings == warnings
    with pytest.raises(NotFound):
        await registry.get(CONFIG_MAPS, NAMESPACE, "a")


# Which stage refuses, whether the object is invalid, and the fields that the answer names.
CHECKS = {
    "an invalid object": ("", True, ["data[not a key!]"]),
    "what a plugin checks": ("check", False, ["data"]),
    "both": ("check", True, ["data", "data[not a key!]"]),
}


@pytest.mark.parametrize(("stage", "is_invalid", "fields"), CHECKS.values(), ids=CHECKS)
async def test_checks_of_plugins_are_part_of_validation_which_validating_plugins_come_after(
    registry: Registry, stage: str, is_invalid: bool, fields: list[str]
) -> None:
    await registry.create(REQUEST, ProposedObject(config_map(a="1")))
    data = {"not a key!" if is_invalid else "key": "2"}
    for is_new in (True, False):
        plugins = Plugins(stage)
        request = REQUEST._replace(admission=plugins)
        if is_new:
            writing = registry.create(request, ProposedObject(config_map(**data)))
        else:
            writing = registry.update(request, lambda found: ProposedObject(changed(found, **data)))
        with pytest.raises(Invalid) as refused:
            await writing
        assert refused.value.details is not None
        assert [each["field"] for each in refused.value.details["causes"]] == fields
        assert [name for name, _ in plugins.asked[:2]] == ["mutate", "check"]
        assert "validate" not in dict(plugins.asked)


async def test_a_name_that_is_taken_is_told(registry: Registry) -> None:
    await registry.create(REQUEST, ProposedObject(config_map()))
    with pytest.raises(AlreadyExists):
        await registry.create(REQUEST, ProposedObject(config_map()))


@pytest.mark.parametrize("size", SizeClass)
async def test_a_write_is_the_same_wherever_its_stages_run(registry: Registry, size: SizeClass) -> None:
    request = REQUEST._replace(size=size)
    await registry.create(request, ProposedObject(config_map(a="1")))
    written = await registry.update(request, lambda found: ProposedObject(changed(found, a="2")))
    assert written.found.document()["data"] == {"a": "2"}


async def test_a_dry_run_stores_nothing(registry: Registry) -> None:
    """Row J07."""
    dry_run = REQUEST._replace(options=WriteOptions(dry_run=True))
    written = await registry.create(dry_run, ProposedObject(config_map(a="1")))
    assert "resourceVersion" not in written.found.document()["metadata"]
    with pytest.raises(NotFound):
        await registry.get(CONFIG_MAPS, NAMESPACE, "a")
    created = await registry.create(REQUEST, ProposedObject(config_map(a="1")))
    updated = await registry.update(dry_run, lambda found: ProposedObject(changed(found, a="2")))
    assert updated.found.document()["data"] == {"a": "2"}
    assert (await registry.get(CONFIG_MAPS, NAMESPACE, "a")).json == created.found.json


# ---- who owns what

OWNERS: Final = [{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}]


async def test_a_draft_that_knows_the_owners_of_its_fields_decides_them(registry: Registry) -> None:
    def others(new: Document, old: Document | None, sent: Any) -> Sequence[Document] | None:
        raise AssertionError("the proposed object has decided")

    request = REQUEST._replace(manage_fields=others)
    created = await registry.create(request, ProposedObject(config_map(), managed_fields=OWNERS))
    assert created.found.document()["metadata"]["managedFields"] == OWNERS
    emptied = await registry.update(
        request, lambda found: ProposedObject(found.document(), managed_fields=[])
    )
    assert "managedFields" not in emptied.found.document()["metadata"]


async def test_owners_are_told_what_the_client_has_sent_of_them(registry: Registry) -> None:
    asked: list[tuple[bool, Any]] = []

    def manage_fields(new: Document, old: Document | None, sent: Any) -> Sequence[Document] | None:
        asked.append((old is None, sent))
        return OWNERS

    request = REQUEST._replace(manage_fields=manage_fields)
    await registry.create(request, ProposedObject(config_map()))

    def transform(found: StoredObject) -> ProposedObject:
        document = changed(found, a="2")
        document["metadata"]["managedFields"] = []
        return ProposedObject(document)

    updated = await registry.update(request, transform)
    assert asked == [(True, None), (False, [])]
    assert updated.found.document()["metadata"]["managedFields"] == OWNERS


class Meddler(Plugins):
    """Admission that replaces the owners."""

    def __init__(self, owners: Any) -> None:
        super().__init__()
        self.owners = owners

    async def mutate(
        self, new: Document | None, old: Document | None, resumption: Resumption | None = None
    ) -> Sequence[str]:
        assert new is not None
        new["metadata"]["managedFields"] = self.owners
        return await super().mutate(new, old)


async def test_owners_are_told_before_admission_and_the_strategy(registry: Registry) -> None:
    """Source: k8s.io/apiserver, pkg/endpoints/handlers/{create,update}.go."""
    asked: list[Document] = []

    def manage_fields(new: Document, old: Document | None, sent: Any) -> Sequence[Document] | None:
        asked.append(copy.deepcopy(new))
        return OWNERS

    request = REQUEST._replace(manage_fields=manage_fields, admission=Plugins())
    await registry.create(request, ProposedObject(config_map(a="1")))
    await registry.update(request, lambda found: ProposedObject(config_map(a="2")))
    assert [new["data"] for new in asked] == [{"a": "1"}, {"a": "2"}]
    assert all(new["metadata"].keys() <= {"name", "namespace"} for new in asked)


INVALID = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated "
    "mutating admission controller; please fix your requests: the operation of a manager must be Apply or "
    "Update"
)
MEDDLERS: dict[str, tuple[Any, Any, list[str]]] = {
    "to others": ([{**OWNERS[0], "manager": "n"}], [{**OWNERS[0], "manager": "n"}], []),
    "to nobody": ([], None, []),
    "to what is invalid": ([{**OWNERS[0], "operation": "Steal"}], OWNERS, [INVALID]),
}


@pytest.mark.parametrize("is_new", [True, False], ids=["create", "update"])
@pytest.mark.parametrize(("owners", "expected", "warnings"), MEDDLERS.values(), ids=MEDDLERS)
async def test_admission_may_change_owners(
    registry: Registry, owners: Any, expected: Any, warnings: list[str], is_new: bool
) -> None:
    """Source: k8s.io/apiserver, fieldmanager/admission.go."""
    request = REQUEST._replace(manage_fields=lambda new, old, sent: OWNERS, admission=Meddler(owners))
    if is_new:
        written = await registry.create(request, ProposedObject(config_map()))
    else:
        await registry.create(REQUEST, ProposedObject(config_map(), managed_fields=OWNERS))
        written = await registry.update(request, lambda found: ProposedObject(changed(found, a="2")))
    assert written.found.document()["metadata"].get("managedFields") == expected
    assert written.warnings == ["from mutate", *warnings, "from validate"]


class Mover(Plugins):
    """Admission that says where an object is, or leaves that out."""

    def __init__(self, namespace: str | None) -> None:
        super().__init__()
        self.namespace = namespace

    async def mutate(
        self, new: Document | None, old: Document | None, resumption: Resumption | None = None
    ) -> Sequence[str]:
        assert new is not None
        new["metadata"].pop("namespace", None)
        if self.namespace is not None:
            new["metadata"]["namespace"] = self.namespace
        return ()


@pytest.mark.parametrize("namespace", [None, "", NAMESPACE])
async def test_an_object_is_in_the_namespace_of_its_request_whatever_admission_leaves_out(
    registry: Registry, namespace: str | None
) -> None:
    request = REQUEST._replace(admission=Mover(namespace))
    created = await registry.create(request, ProposedObject(config_map()))
    assert created.found.document()["metadata"]["namespace"] == NAMESPACE
    updated = await registry.update(request, lambda found: ProposedObject(changed(found, a="2")))
    assert updated.found.document()["metadata"]["namespace"] == NAMESPACE


async def test_admission_does_not_move_an_object(registry: Registry) -> None:
    request = REQUEST._replace(admission=Mover("elsewhere"))
    with pytest.raises(BadRequest, match="does not match the namespace sent on the request"):
        await registry.create(request, ProposedObject(config_map()))


async def test_an_object_outside_namespaces_stays_there(registry: Registry) -> None:
    request = WriteRequest(
        resource=resource("namespaces", ""), namespace="", name="a", admission=Mover("elsewhere")
    )
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
    created = await registry.create(request, ProposedObject(document))
    assert "namespace" not in created.found.document()["metadata"]


async def test_times_of_owners_alone_are_no_change(registry: Registry) -> None:
    """Source: k8s.io/apiserver, IgnoreManagedFieldsTimestampsTransformer."""
    first = [{**OWNERS[0], "time": "2026-01-01T00:00:00Z"}, {**OWNERS[0], "manager": "n"}]
    later = [first[1], {**first[0], "time": "2026-01-02T00:00:00Z"}]
    created = await registry.create(REQUEST, ProposedObject(config_map(a="1"), managed_fields=first))
    again = await registry.update(
        REQUEST, lambda found: ProposedObject(found.document(), managed_fields=later)
    )
    assert again.is_noop
    assert again.found.json == created.found.json
    written = await registry.update(
        REQUEST, lambda found: ProposedObject(changed(found, a="2"), managed_fields=later)
    )
    assert written.found.document()["metadata"]["managedFields"] == later


async def test_without_a_field_manager_owners_stay(registry: Registry) -> None:
    await registry.create(REQUEST, ProposedObject(config_map(), managed_fields=OWNERS))
    updated = await registry.update(REQUEST, lambda found: ProposedObject(changed(found, a="2")))
    assert updated.found.document()["metadata"]["managedFields"] == OWNERS


# ---- update


async def test_an_update_that_changes_nothing_is_not_written(registry: Registry) -> None:
    """Row L02. Also where it names no version, and whatever the order of its fields."""
    created = await registry.create(REQUEST, ProposedObject(config_map(a="1", b="2")))

    def same(found: StoredObject) -> ProposedObject:
        document = changed(found, b="2", a="1")
        del document["metadata"]["resourceVersion"]
        return ProposedObject(document, ["nothing new"])

    written = await registry.update(REQUEST, same)
    assert written.is_noop
    assert written.warnings == ["nothing new"]
    assert written.found.json == created.found.json


async def test_an_update_that_is_overtaken_begins_again_on_the_newer_object(store: EmbeddedStore) -> None:
    """Row L01. Warnings are those of the attempt that was written."""
    async with server(store) as one, server(store) as other:
        await one.create(REQUEST, ProposedObject(config_map(seen="0")))
        seen: list[str] = []

        class Overtake(Plugins):
            async def mutate(
                self, new: Document | None, old: Document | None, resumption: Resumption | None = None
            ) -> Sequence[str]:
                if len(seen) == 1:
                    await other.update(REQUEST, lambda found: ProposedObject(changed(found, seen="1")))
                return [f"attempt {len(seen)}"]

            async def validate(self, new: Document | None, old: Document | None) -> Sequence[str]:
                return ()

        def transform(found: StoredObject) -> ProposedObject:
            seen.append(found.document()["data"]["seen"])
            return ProposedObject(changed(found, seen=f"{seen[-1]} and mine"))

        written = await one.update(REQUEST._replace(admission=Overtake()), transform)
        assert seen == ["0", "1"]
        assert written.found.document()["data"] == {"seen": "1 and mine"}
        assert written.warnings == ["attempt 2"]


class LaggingCache(WatchCache[StoredObject]):
    """Answers with an old version, once, to whoever takes what is cached."""

    old: KeyVersion[StoredObject] | None = None

    def get_cached(self, key: str) -> KeyVersion[StoredObject] | None:
        old, self.old = self.old, None
        return old or super().get_cached(key)


async def test_a_failure_on_an_old_copy_is_not_told_before_the_stored_object_was_looked_at(
    store: EmbeddedStore,
) -> None:
    async with server(store, LaggingCache) as registry:
        cache = registry.cache
        assert isinstance(cache, LaggingCache)
        await registry.create(REQUEST, ProposedObject(config_map(state="locked")))
        key = registry.key(CONFIG_MAPS, NAMESPACE, "a")
        old = await cache.get(key)
        await registry.update(REQUEST, lambda found: ProposedObject(changed(found, state="open")))
        cache.old = old
        seen: list[str] = []

        def transform(found: StoredObject) -> ProposedObject:
            seen.append(found.document()["data"]["state"])
            if seen[-1] == "locked":
                raise Conflict(CONFIG_MAPS.group_resource, "a")
            return ProposedObject(changed(found, state="used"))

        written = await registry.update(REQUEST, transform)
        assert seen == ["locked", "open"]
        assert written.found.document()["data"] == {"state": "used"}


@dataclass(frozen=True)
class FailingCodec(IdentityCodec):
    """Fails to convert, as a webhook may.

    fails: the method that does. calls: those that have failed.
    """

    fails: str = ""
    calls: list[str] = field(default_factory=list)

    async def hub(self, stored: StoredObject) -> StoredObject:
        self._call("hub")
        return stored

    async def encode(self, document: Document) -> bytes:
        self._call("encode")
        return await super().encode(document)

    async def encode_new(self, document: Document) -> tuple[bytes, TransactionGuard | None]:
        return await self.encode(document), None

    def _call(self, method: str) -> None:
        if method == self.fails:
            self.calls.append(method)
            raise ServiceUnavailable("no answer")


def failing(method: str) -> tuple[FailingCodec, WriteRequest]:
    """Returns a codec that fails, and a request to write an object with it."""
    codec = FailingCodec(CONFIG_MAPS.head, CONFIG_MAPS.group_resource, CONFIG_MAPS.kind, fails=method)
    return codec, REQUEST._replace(resource=replace(CONFIG_MAPS, version_codec=codec))


async def test_an_object_that_cannot_be_converted_is_not_converted_again(registry: Registry) -> None:
    """To wait twice for a webhook would take longer than the client does."""
    await registry.create(REQUEST, ProposedObject(config_map()))
    codec, request = failing("hub")
    with pytest.raises(ServiceUnavailable):
        await registry.update(request, lambda found: ProposedObject(found.document()))
    assert codec.calls == ["hub"]


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_write_that_cannot_be_encoded_carries_all_warnings(registry: Registry, is_new: bool) -> None:
    _, request = failing("encode")
    request = request._replace(admission=Plugins())
    if is_new:
        write = registry.create(request, ProposedObject(config_map(a="1"), ["from the proposed object"]))
    else:
        await registry.create(REQUEST, ProposedObject(config_map()))
        write = registry.update(
            request, lambda found: ProposedObject(found.document(), ["from the proposed object"])
        )
    with pytest.raises(ServiceUnavailable) as refused:
        await write
    assert refused.value.warnings == ["from the proposed object", "from mutate", "from validate"]


async def test_an_object_that_is_deleted_goes_with_its_last_finalizer(registry: Registry) -> None:
    """Row G02."""
    document = config_map()
    document["metadata"]["finalizers"] = [FINALIZER]
    await registry.create(REQUEST, ProposedObject(document))
    marked = await registry.delete(DeleteRequest(CONFIG_MAPS, NAMESPACE, "a", DeleteOptions()))
    assert not marked.is_removed

    def without_finalizers(found: StoredObject) -> ProposedObject:
        document = found.document()
        del document["metadata"]["finalizers"]
        return ProposedObject(document)

    await registry.update(REQUEST, without_finalizers)
    with pytest.raises(NotFound):
        await registry.get(CONFIG_MAPS, NAMESPACE, "a")


async def test_a_uid_is_a_precondition_only_where_it_is_asked_for(registry: Registry) -> None:
    await registry.create(REQUEST, ProposedObject(config_map()))

    def with_other_uid(found: StoredObject) -> ProposedObject:
        document = changed(found, a="2")
        document["metadata"]["uid"] = "another"
        return ProposedObject(document)

    with pytest.raises(Conflict, match="UID in precondition: another"):
        await registry.update(REQUEST._replace(checks_uid=True), with_other_uid)
    with pytest.raises(Invalid, match=r"metadata\.uid"):
        await registry.update(REQUEST, with_other_uid)


async def test_plugins_may_refuse_a_deletion(registry: Registry) -> None:
    await registry.create(REQUEST, ProposedObject(config_map()))
    refusing = DeleteRequest(CONFIG_MAPS, NAMESPACE, "a", admission=Plugins("validate"))
    with pytest.raises(ApiError, match="refused") as refused:
        await registry.delete(refusing)
    assert refused.value.warnings == ["from mutate"]
    deleted = await registry.delete(refusing._replace(admission=Plugins()))
    assert deleted.is_removed
    assert deleted.warnings == ["from mutate", "from validate"]
