"""What the history keeps of objects, and which of their differences are those of the status alone."""

from __future__ import annotations

from typing import Final

import orjson
import pytest

from apiserver.registry.history.forms import RecordedForms, is_status_only
from apiserver.registry.history.policy import HistoryPolicy
from apiserver.registry.stored_version_decoder import StoredVersionDecoder
from apiserver.registry.transactions import OwnWrites
from apiserver.storage.interface import Stored
from tests.unit.registry.history.test_recorder import PREFIX


def value(spec: object, status: object, **metadata: object) -> bytes:
    return orjson.dumps({"metadata": metadata, "spec": {"a": spec}, "status": status})


DIFFERENCES: Final = {
    "the status": (value(1, {"b": 1}), value(1, {"b": 2}), True),
    "the type of a value of the status": (value(1, {"b": 1}), value(1, {"b": True}), True),
    "the status and its manager": (value(1, 1), value(1, 2, managedFields=[{"manager": "a"}]), True),
    "nothing": (value(1, 1), value(1, 1), False),
    "only a manager": (value(1, 1), value(1, 1, managedFields=[{"manager": "a"}]), False),
    "the status and a label": (value(1, 1), value(1, 2, labels={"l": "1"}), False),
    "the status, and true is now 1": (value(True, 1), value(1, 2), False),
    "the status, and 1 is now 1.0": (value(1, 1), value(1.0, 2), False),
    "the status, and false below a list is now 0": (value([{"c": False}], 1), value([{"c": 0}], 2), False),
}


@pytest.mark.parametrize(("before", "after", "expected"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_which_differences_are_those_of_the_status(before: bytes, after: bytes, expected: bool) -> None:
    assert is_status_only(before, after) is expected


@pytest.mark.parametrize("depth", [300, 900])
def test_what_is_nested_too_deeply_to_be_compared_differs(depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    before, after = (b'{"metadata":{},"spec":%b,"status":%d}' % (deep, number) for number in (1, 2))
    assert not is_status_only(before, after)


def test_a_secret_that_is_nested_too_deeply_is_recorded_as_one_that_cannot_be_read() -> None:
    """It is no reason not to record others."""
    key, deep = f"{PREFIX}/core/secrets/default/a", b"[" * 900 + b"]" * 900
    decode = StoredVersionDecoder(OwnWrites(), prefix=PREFIX)
    forms = RecordedForms(PREFIX, b"k" * 32, HistoryPolicy((), PREFIX))
    head = b'{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},'
    for data, is_recorded in ((b'"data":{"a":"YQ=="}}', True), (b'"data":{"a":%b}}' % deep, False)):
        assert bool(forms.of(key, decode(Stored(key, head + data, 1, 1)))) is is_recorded
