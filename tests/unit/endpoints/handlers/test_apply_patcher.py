"""One apply: what it makes of an object, its warnings, known no-ops. Rows E07, E08, F10, F15, F25."""

from __future__ import annotations

from typing import Any, Final

import orjson
import pytest

from apiserver.endpoints.bodies import Body
from apiserver.endpoints.handlers.apply_patcher import NOOP_DIGESTS_MAX, ApplyPatcher, NoopApplies
from apiserver.load.size_class import SizeClass
from apiserver.meta.errors import ApiError, ApplyConflict, Conflict
from apiserver.meta.options import WriteOptions
from apiserver.meta.vocabulary import Document
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import ProposedObject
from apiserver.wire.media_types import APPLY_YAML
from tests.unit.endpoints.handlers.calls import CONFIG_MAPS, DEPLOYMENTS, FIELD_MANAGERS, call, stored

OPTIONS: Final = WriteOptions(field_manager="applier")
UNKNOWN: Final = 'unknown field "nonsense"'


def config_map(**more: Any) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **more}


def patcher(
    document: Document | bytes, noop_applies: NoopApplies | None = None, options: WriteOptions = OPTIONS
) -> ApplyPatcher:
    data = document if isinstance(document, bytes) else orjson.dumps(document)
    patch = call("PATCH", "/api/v1/namespaces/default/configmaps/a")
    body = Body(data, APPLY_YAML, SizeClass.SMALL, APPLY_YAML)
    return ApplyPatcher(patch, body, options, FIELD_MANAGERS, noop_applies or NoopApplies(), None)


def written(proposed: ProposedObject) -> StoredObject:
    """Returns the object that is stored for a proposed one."""
    metadata = {**proposed.document["metadata"], "managedFields": proposed.managed_fields}
    return stored(CONFIG_MAPS, {**proposed.document, "metadata": metadata})


def applied(document: Document, manager: str = "applier") -> StoredObject:
    """Returns the object that an apply has created."""
    return written(patcher(document, options=OPTIONS._replace(field_manager=manager)).create_new_object())


def is_parsed(apply: ApplyPatcher) -> bool:
    return "configuration" in vars(apply)


# ---- what is made


def test_a_new_object_has_what_is_applied_and_its_owner() -> None:
    proposed = patcher(config_map(data={"k": "1"})).create_new_object()
    assert proposed.document["data"] == {"k": "1"}
    (entry,) = proposed.managed_fields or ()
    assert (entry["manager"], entry["operation"]) == ("applier", "Apply")
    assert entry["fieldsV1"] == {"f:data": {"f:k": {}}}


def test_no_new_object_is_made_where_one_with_a_uid_is_meant() -> None:
    with pytest.raises(Conflict, match="uid mismatch"):
        patcher({**config_map(), "metadata": {"name": "a", "uid": "u"}}).create_new_object()


def test_the_current_object_gets_what_is_applied_and_loses_what_is_not_applied_any_more() -> None:
    current = applied(config_map(data={"k": "1", "gone": "1"}))
    proposed = patcher(config_map(data={"k": "2"})).apply_to_current(current)
    assert proposed.document["data"] == {"k": "2"}


# ---- warnings


def test_an_unknown_field_is_dropped_with_a_warning() -> None:
    apply = patcher(config_map(data={"k": "1"}, nonsense=1))
    assert apply.configuration.warnings == [UNKNOWN]
    proposed = apply.apply_to_current(applied(config_map()))
    assert not proposed.warnings, "they are told as soon as the body is parsed"
    assert "nonsense" not in proposed.document


def test_a_conflict_with_another_manager_is_refused() -> None:
    current = applied(config_map(data={"k": "1"}), manager="another")
    with pytest.raises(ApplyConflict):
        patcher(config_map(data={"k": "2"})).apply_to_current(current)


def test_in_strict_validation_an_unknown_field_is_an_error() -> None:
    strict = OPTIONS._replace(field_validation="Strict")
    with pytest.raises(ApiError, match=r"\.nonsense: field not declared in schema"):
        patcher(config_map(nonsense=1), options=strict).create_new_object()


# ---- no-ops


def remembered(
    body: Document, memory: NoopApplies, current: StoredObject, *, may_be_mutated: bool = True
) -> None:
    """Apply a body to an object that is then found unchanged."""
    found = patcher(body, memory)
    found.apply_to_current(current)
    found.remember_noop(current, may_be_mutated=may_be_mutated)


def test_a_no_op_is_remembered_and_its_body_not_parsed_again() -> None:
    memory, body = NoopApplies(), config_map(data={"k": "1"})
    current = applied(body)
    first = patcher(body, memory)
    assert not first.is_noop(current)
    assert first.apply_to_current(current).document == current.document()
    first.remember_noop(current, may_be_mutated=True)
    again = patcher(body, memory)
    proposed = again.apply_to_current(current)
    assert not is_parsed(again)
    assert proposed.document == current.document()
    assert proposed.managed_fields == current.document()["metadata"]["managedFields"]
    assert not proposed.warnings


BODY: Final = config_map(data={"k": "1"})
OTHER_APPLIES = {
    "another body": (config_map(data={"k": "2"}), OPTIONS),
    "another manager": (BODY, OPTIONS._replace(field_manager="other")),
    "forced": (BODY, OPTIONS._replace(force=True)),
    "other field validation": (BODY, OPTIONS._replace(field_validation="Strict")),
}


@pytest.mark.parametrize(("body", "options"), OTHER_APPLIES.values(), ids=OTHER_APPLIES)
def test_another_apply_is_not_known_as_a_no_op(body: Document, options: WriteOptions) -> None:
    memory, current = NoopApplies(), applied(BODY)
    remembered(BODY, memory, current)
    assert patcher(BODY, memory).is_noop(current)
    assert not patcher(body, memory, options).is_noop(current)


def test_the_same_apply_is_not_known_as_a_no_op_of_a_newer_object() -> None:
    memory, current = NoopApplies(), applied(BODY)
    remembered(BODY, memory, current)
    assert not patcher(BODY, memory).is_noop(stored(CONFIG_MAPS, current.document(), revision=8))
    assert not patcher(BODY, memory).is_noop(None)


def test_a_no_op_with_warnings_is_parsed_each_time_since_each_client_is_to_be_warned() -> None:
    memory, body = NoopApplies(), config_map(data={"k": "1"}, nonsense=1)
    current = applied(BODY)
    remembered(body, memory, current)
    assert not patcher(body, memory).is_noop(current)
    assert patcher(body, memory).configuration.warnings == [UNKNOWN]


def test_an_apply_is_no_no_op_because_its_change_has_been_put_back() -> None:
    """By admission, which may let the same change pass the next time."""
    memory, current = NoopApplies(), applied(BODY)
    remembered(config_map(data={"k": "2"}), memory, current)
    assert not patcher(config_map(data={"k": "2"}), memory).is_noop(current)


def test_what_is_stored_in_other_words_than_it_was_sent_is_remembered() -> None:
    """An empty map that is not stored, a quantity in another form: but for admission it stays so."""
    memory, current = NoopApplies(), applied(BODY)
    body = {**BODY, "metadata": {**BODY["metadata"], "labels": {}}}
    remembered(body, memory, current, may_be_mutated=False)
    assert patcher(body, memory).is_noop(current)


def test_the_memory_of_one_object_is_bounded() -> None:
    memory, current = NoopApplies(), applied(BODY)
    for number in range(NOOP_DIGESTS_MAX + 1):
        memory.add(current, CONFIG_MAPS, b"%d" % number)
    assert (CONFIG_MAPS.cache_key, b"%d" % NOOP_DIGESTS_MAX) in memory.of(current)
    assert (CONFIG_MAPS.cache_key, b"0") not in memory.of(current)


def test_the_memory_is_of_one_schema() -> None:
    memory, current = NoopApplies(), applied(BODY)
    memory.add(current, CONFIG_MAPS, b"digest")
    assert (DEPLOYMENTS.cache_key, b"digest") not in memory.of(current)
