"""Values that a server has written itself need not be looked at when they come back. Row G15."""

from __future__ import annotations

import pytest

from apiserver.registry.stored_object import DamagedObject, StoredObject
from apiserver.registry.stored_version_decoder import StoredVersionDecoder
from apiserver.registry.transactions import BYTES_MAX, VALUES_MAX, OwnWrites
from apiserver.storage.interface import Stored

KEY = "/registry/configmaps/ns/a"
VALUE = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}'
CUT_OFF = VALUE[:-3]


def test_a_value_is_known_once() -> None:
    writes = OwnWrites()
    writes.add(KEY, VALUE)
    assert not writes.take("/registry/configmaps/ns/b", VALUE)
    assert not writes.take(KEY, CUT_OFF)
    assert writes.take(KEY, bytes(bytearray(VALUE)))
    assert not writes.take(KEY, VALUE)


def test_the_last_value_of_a_key_counts() -> None:
    writes = OwnWrites()
    writes.add(KEY, CUT_OFF)
    writes.add(KEY, VALUE)
    assert not writes.take(KEY, CUT_OFF)
    assert writes.take(KEY, VALUE)


@pytest.mark.parametrize(
    ("value", "count_max"),
    [(b"x", VALUES_MAX), (b"x" * 100_000, BYTES_MAX // 100_000)],
    ids=["count", "bytes"],
)
def test_what_never_comes_back_is_bounded(value: bytes, count_max: int) -> None:
    writes = OwnWrites()
    for n in range(count_max + 10):
        writes.add(str(n), value)
    assert [writes.take(str(n), value) for n in range(9, 11)] == [False, True]
    assert sum(writes.take(str(n), value) for n in range(count_max + 10)) == count_max - 1


def test_what_a_server_wrote_is_decoded_as_what_others_wrote() -> None:
    writes = OwnWrites()
    decode = StoredVersionDecoder(writes)
    of_others = decode(Stored(KEY, VALUE, 1, 7))
    writes.add(KEY, VALUE)
    own = decode(Stored(KEY, VALUE, 1, 7))
    assert (own.key, own.json, own.document()) == (of_others.key, of_others.json, of_others.document())
    assert own.head is of_others.head
    assert type(own) is StoredObject


def test_what_was_damaged_on_its_way_is_noticed() -> None:
    writes = OwnWrites()
    writes.add(KEY, VALUE)
    assert isinstance(StoredVersionDecoder(writes)(Stored(KEY, CUT_OFF, 1, 7)), DamagedObject)
