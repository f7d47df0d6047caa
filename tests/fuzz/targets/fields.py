"""Field ownership: the sets of fields in managedFields, and applies."""

from __future__ import annotations

from typing import Any, Final

import orjson

from apiserver.meta.releases.deviations import Deviations
from apiserver.registry.field_managers import FieldManagers
from apiserver.registry.patch.apply import field_set, managed_fields
from apiserver.registry.patch.apply.field_set import InvalidFieldSet, difference, intersection, union
from apiserver.registry.patch.apply.managed_fields import APPLY, UPDATE, FieldManager
from apiserver.registry.patch.apply.typed_value import DocumentTooDeep, SchemaMismatch
from apiserver.registry.patch.apply.updater import FieldConflicts, TypeVersion, Updater
from apiserver.registry.served_resource import ServedTable
from apiserver.schema.compile import TypeMismatch
from tests.fuzz.target import fuzzer
from tests.support.in_process import TABLE, resource

_DEPLOYMENTS: Final = resource("deployments", "apps")
_VERSION: Final[TypeVersion] = FieldManagers(ServedTable(TABLE), Deviations(), lambda: 0.0).version(
    _DEPLOYMENTS, ""
)
_ELEMENTS: Final = (
    b"f: k: v: i: . f:metadata f:labels f:spec f:containers f:a i:0 i:-1 "
    b'k:{"name":"c"} v:"a" v:1 v:1.5 v:null v:{"a":1}'
)


@fuzzer(
    b'[{"f:metadata":{"f:labels":{".":{},"f:a":{}}}},{"f:spec":{"f:a":{}}}]',
    b'[{"f:a":{"k:{\\"name\\":\\"c\\",\\"n\\":1}":{".":{},"f:b":{}},"v:\\"x\\"":{},"i:3":{}'
    b'}},{"f:a":{"v:1":{}}}]',
    words=_ELEMENTS,
    is_json=True,
)
def field_sets(data: bytes) -> None:
    """Two sets: each can be written and read again, and they have the laws of sets."""
    try:
        a, b = map(field_set.parse, orjson.loads(data))
    except (orjson.JSONDecodeError, InvalidFieldSet, TypeError, ValueError):
        return
    for each in (a, b):
        written = orjson.dumps(field_set.ordered(each))
        assert field_set.parse(orjson.loads(written)) == each
        assert orjson.dumps(field_set.ordered(field_set.parse(orjson.loads(written)))) == written
        assert all(isinstance(path, str) for path in field_set.paths(each))
    everything = union(a, b)
    assert everything == union(b, a)
    assert union(everything, a) == everything
    assert not difference(a, everything)
    assert intersection(a, everything) == union(a, {})
    assert union(difference(a, b), intersection(a, b)) == union(a, {})


@fuzzer(
    b'[{"manager":"m","operation":"Apply","apiVersion":"apps/v1","time":"2024-05-06T07:08:0'
    b'9Z","fieldsType":"FieldsV1",'
    b'"fieldsV1":{"f:spec":{"f:replicas":{}}}},{"manager":"n","operation":"Update","apiVers'
    b'ion":"v1","fieldsType":'
    b'"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:a":{}}}},"subresource":"status"}]',
    words=_ELEMENTS
    + b" manager operation apiVersion time fieldsType FieldsV1 fieldsV1 subresource Apply Update status",
    is_json=True,
)
def managed(data: bytes) -> None:
    """Entries of managedFields that fit the schema can be written and read again."""
    try:
        document = {"metadata": {"managedFields": orjson.loads(data)}}
        _DEPLOYMENTS.check(document)
        entries = managed_fields.decode(document["metadata"].get("managedFields"), is_own=False)
    except (orjson.JSONDecodeError, TypeMismatch, InvalidFieldSet):
        return
    written = orjson.dumps(managed_fields.encode(entries))
    again = managed_fields.decode(orjson.loads(written), is_own=True)
    assert orjson.dumps(managed_fields.encode(again)) == written
    capped = managed_fields.cap_update_managers(again)
    # Managers of different versions are not merged.
    updaters = [key for key in capped if key[1] == UPDATE]
    versions = {version for _, _, version, _ in updaters}
    assert len(updaters) <= max(managed_fields.UPDATE_MANAGERS_MAX, len(versions))


_META: Final = b'"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"'
_SPEC: Final = b'"spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}'


@fuzzer(
    b'{"live":{%b},%b},"first":{%b,"labels":{"a":"b"}},%b},"second":{%b},"spec":{"replicas":2}}}'
    % (_META, _SPEC, _META, _SPEC, _META),
    b'{"live":null,"first":{%b},"spec":{"paused":true}},"second":{%b,"finalizers":["x/y"]}}}'
    % (_META, _META),
    words=b"labels annotations finalizers spec replicas template containers name image ports "
    b"containerPort protocol env",
    is_json=True,
)
def applies(data: bytes) -> None:
    """One manager applies twice and another once: the same apply again changes nothing.

    What has a null or an empty list is only applied.
    """
    try:
        given = orjson.loads(data)
        live, first, second = given["live"], given["first"], given["second"]
        if live is not None and (not isinstance(live, dict) or _DEPLOYMENTS.check(live)):
            return
    except (orjson.JSONDecodeError, KeyError, TypeError, TypeMismatch):
        return
    entries: managed_fields.ManagedFields = {}
    for name, applied in (("m", first), ("n", second), ("m", second)):
        if not isinstance(applied, dict):
            return
        updater = Updater(_VERSION, FieldManager(name, APPLY, "apps/v1"), "2024-05-06T07:08:09Z")
        try:
            result = updater.apply(live, applied, entries, force=name == "m")
        except (FieldConflicts, SchemaMismatch, DocumentTooDeep):
            return
        live, entries = _stored(result.document), result.managed
        if not entries:
            return  # What nobody owns is owned by whoever was there before the next apply.
        again = updater.apply(live, applied, entries, force=name == "m")
        text = orjson.dumps(applied)
        if b"null" in text or b"[]" in text:
            continue  # A list that is emptied is gone, and comes back as an empty one. So it is with null.
        assert _stored(again.document) == live
        assert _stored(managed_fields.encode(again.managed)) == _stored(managed_fields.encode(entries))


def _stored(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))
