"""Custom resources as they are stored, and shown: pruned, complete, in any version, mostly copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.custom_resources.version_codec import CustomResourceCodec, Family
from apiserver.errors import Forbidden, NoSuchEndpoint
from apiserver.registry.stored_object import StoredObject, encode, head_of
from apiserver.schema.compile import TypeMismatch
from apiserver.vocabulary import Document
from storage.interface import Stored
from storage.watch_cache import KeyVersion

GROUP: Final = "example.com"
KEY: Final = "/registry/example.com/widgets/default/a"


def _schema(fields: set[str], defaults: dict[str, Any]) -> Callable[[Document], bool]:
    """What prunes and completes documents that have these fields in their spec."""

    def prune_and_default(document: Document) -> bool:
        spec = document.setdefault("spec", {})
        before = dict(spec)
        for name in spec.keys() - fields:
            del spec[name]
        for name, value in defaults.items():
            spec.setdefault(name, value)
        return bool(spec != before)

    return prune_and_default


class _ViewCache:
    """Has room for everything, or for nothing."""

    def __init__(self, *, is_full: bool = False) -> None:
        self.is_full = is_full

    def keep(self, found: StoredObject, key: object, form: Any, size: int) -> None:
        if not self.is_full:
            found.forms = {**(found.forms or {}), key: form}


class _Webhook:
    """Turns `spec.a` into `spec.b`. asked: about how many objects, each time."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def convert(self, objects: Sequence[Document], desired: str) -> list[Document]:
        self.asked.append(len(objects))
        return [
            {**each, "apiVersion": desired, "spec": {"b": each["spec"].get("a", each["spec"].get("b"))}}
            for each in objects
        ]


class _Cache:
    """Where the definition is looked for: what is cached, and what is stored."""

    def __init__(
        self, cached: KeyVersion[StoredObject] | None, stored: KeyVersion[StoredObject] | None
    ) -> None:
        self._cached, self._stored = cached, stored

    def get_cached(self, key: str) -> KeyVersion[StoredObject] | None:
        return self._cached

    async def get(self, key: str) -> KeyVersion[StoredObject] | None:
        return self._stored


def _family(
    *,
    stored: str = "v1",
    webhook: _Webhook | None = None,
    room: _ViewCache | None = None,
    cache: _Cache | None = None,
    v1: Callable[[Document], bool] | None = None,
) -> Family:
    return Family(
        GROUP,
        "Widget",
        "widgets",
        {"v1": v1 or _schema({"a", "both"}, {}), "v2": _schema({"b", "both"}, {"b": "late"})},
        stored=stored,
        webhook=webhook,
        key="/registry/definition",
        definitions=cache or _Cache(None, None),
        room=room or _ViewCache(),
    )


def _found(version: str, **spec: Any) -> StoredObject:
    head = head_of(f"{GROUP}/{version}", "Widget")
    document = {"metadata": {"name": "a", "uid": "u"}, "spec": spec}
    return StoredObject.of(Stored(KEY, encode(document, head), 7, 7))


def _now(keeping: CustomResourceCodec, found: StoredObject) -> StoredObject:
    shown = keeping.shown(found)
    assert shown is not None
    return shown


def test_an_object_that_conforms_is_its_own_view() -> None:
    """Issue 6: reads copy bytes, as of built-in types; it is looked at once."""
    examined = 0

    def counting(document: Document) -> bool:
        nonlocal examined
        examined += 1
        return False

    keeping = CustomResourceCodec(_family(v1=counting), "v1")
    found = _found("v1", a="x")
    assert _now(keeping, found) is found
    assert _now(keeping, found) is found
    assert examined == 1


@pytest.mark.parametrize("is_full", [False, True])
@given(
    spec=st.dictionaries(st.sampled_from(["a", "b", "both", "gone"]), st.text(max_size=3)),
    stored_in=st.sampled_from(["v1", "v2", "v0"]),
    version=st.sampled_from(["v1", "v2"]),
)
def test_a_view_conforms_to_the_schema_of_its_version(
    spec: dict[str, str], stored_in: str, version: str, is_full: bool
) -> None:
    """By the stored version's first, then by the version's own; v0 is one that is gone."""
    keeping = CustomResourceCodec(_family(room=_ViewCache(is_full=is_full)), version)
    found = _found(stored_in, **spec)
    shown = _now(keeping, found)
    document = shown.document()
    fields = {"v1": {"a", "both"}, "v2": {"b", "both"}}
    kept = set(spec) & fields[version] & fields.get(stored_in, set(spec))
    expected = {name: spec[name] for name in kept}
    if version == "v2":
        expected.setdefault("b", "late")
    assert document["spec"] == expected
    assert (document["apiVersion"], document["kind"]) == (f"{GROUP}/{version}", "Widget")
    assert document["metadata"] == {"resourceVersion": "7", "name": "a", "uid": "u"}
    assert _now(keeping, shown) is shown
    assert _now(keeping, found).json == shown.json
    assert (_now(keeping, found) is shown) or is_full


async def test_a_webhook_converts_all_objects_at_once_and_each_once() -> None:
    webhook = _Webhook()
    keeping = CustomResourceCodec(_family(webhook=webhook), "v2")
    objects = [_found("v1", a="1"), _found("v2", b="2"), _found("v1", a="3")]
    assert keeping.shown(objects[0]) is None
    shown = await keeping.show(objects)
    assert [each.document()["spec"] for each in shown] == [{"b": "1"}, {"b": "2"}, {"b": "3"}]
    assert webhook.asked == [2]
    assert [each.json for each in await keeping.show(objects)] == [each.json for each in shown]
    assert _now(keeping, objects[0]) is shown[0]
    assert webhook.asked == [2]


async def test_objects_are_encoded_in_the_storage_version() -> None:
    document = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"a": "x"}}
    before = orjson.dumps(document)
    assert await CustomResourceCodec(_family(), "v1").to_stored(document) is document
    renamed = await CustomResourceCodec(_family(stored="v2"), "v1").to_stored(document)
    assert (renamed["apiVersion"], renamed["spec"]) == (f"{GROUP}/v2", {"b": "late"})
    converted = await CustomResourceCodec(_family(stored="v2", webhook=_Webhook()), "v1").to_stored(document)
    assert (converted["apiVersion"], converted["spec"]) == (f"{GROUP}/v2", {"b": "x"})
    assert orjson.dumps(document) == before


def test_an_object_of_other_types_than_the_schema_has_is_its_own_view() -> None:
    """It was let in when less was checked: a read must not fail for it."""

    def refuse(document: Document) -> bool:
        raise TypeMismatch("no")

    found = _found("v1", a="x")
    assert _now(CustomResourceCodec(_family(v1=refuse), "v1"), found) is found


# ---- what must hold when an object is created


def _definition(revision: int, **meta: str) -> KeyVersion[StoredObject]:
    value = orjson.dumps({"apiVersion": "v1", "kind": "D", "metadata": {"name": "d", **meta}, "spec": {}})
    found = StoredObject.of(Stored("d", value, 1, revision))
    return KeyVersion("/registry/definition", found, revision=revision, create_revision=1)


async def test_a_create_depends_on_the_definition_as_it_was_seen() -> None:
    guard = await _family(cache=_Cache(_definition(5), _definition(6))).guard("a")
    assert (guard.condition.key, guard.condition.mod_revision) == ("/registry/definition", 5)
    assert (await guard.renew()).mod_revision == 6


async def test_a_create_is_refused_while_the_definition_goes_and_after() -> None:
    going = _definition(5, deletionTimestamp="2026-01-01T00:00:00Z")
    with pytest.raises(Forbidden, match="while custom resource definition is terminating"):
        await _family(cache=_Cache(going, going)).guard("a")
    with pytest.raises(NoSuchEndpoint):
        await _family(cache=_Cache(None, None)).guard("a")
    guard = await _family(cache=_Cache(_definition(4), going)).guard("a")
    with pytest.raises(Forbidden):
        await guard.renew()
