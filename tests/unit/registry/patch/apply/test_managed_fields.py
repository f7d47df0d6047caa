"""The entries of metadata.managedFields: decoding, encoding, names of managers. Rows F03, F05, F21, F31."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.registry.patch.apply.field_set import FieldSet, InvalidFieldSet
from apiserver.registry.patch.apply.managed_fields import (
    UPDATE,
    decode,
    encode,
    is_reset,
    manager_or_user_agent,
)


def data(*keys: str) -> FieldSet:
    return {"f:data": {f"f:{key}": {} for key in keys}}


def test_f31_entries_of_one_manager_become_one() -> None:
    entry = {"manager": "m", "operation": UPDATE, "apiVersion": "v1", "fieldsType": "FieldsV1"}
    managed = decode([{**entry, "fieldsV1": data("k")}, {**entry, "fieldsV1": data("l")}], is_own=False)
    assert [e["fieldsV1"] for e in encode(managed)] == [data("k", "l")]


def test_f03_the_older_field_name_is_decoded() -> None:
    entry = {"manager": "m", "operation": UPDATE, "apiVersion": "v1", "fields": data("k")}
    assert encode(decode([entry], is_own=True))[0]["fieldsV1"] == data("k")


TIMES: dict[str, dict[str, Any]] = {
    "no time": {},
    "the zero time": {"time": None},
    "a time": {"time": "2024-01-01T00:00:00Z"},
}


@pytest.mark.parametrize("time", TIMES.values(), ids=TIMES)
@pytest.mark.parametrize("is_own", [True, False])
def test_the_time_of_an_entry_is_kept(time: dict[str, Any], *, is_own: bool) -> None:
    entry = {"manager": "m", "operation": UPDATE, "apiVersion": "v1", "fieldsV1": data("k")}
    (encoded,) = encode(decode([entry | time], is_own=is_own))
    assert [encoded[field] for field in time] == [*time.values()]
    assert ("time" in encoded) == bool(time)


REFUSED: dict[str, dict[str, Any]] = {
    "another operation": {"operation": "Create"},
    "no operation": {"operation": ""},
    "another type of fields": {"fieldsType": "FieldsV2"},
    "no set": {"fieldsV1": {"x": {}}},
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED.keys())
def test_invalid_entries_are_refused(change: dict[str, Any]) -> None:
    entry = {"manager": "m", "operation": UPDATE, "apiVersion": "v1", "fieldsV1": data("k")}
    decode([entry], is_own=False)
    with pytest.raises(InvalidFieldSet):
        decode([entry | change], is_own=False)


RESETS: dict[str, tuple[Any, bool]] = {
    "one empty entry": ([{}], True),
    "no entry": ([], False),
    "null": (None, False),
    "two empty entries": ([{}, {}], False),
}


@pytest.mark.parametrize(("entries", "resets"), RESETS.values(), ids=RESETS)
def test_f21_f22_what_resets_managed_fields(entries: Any, resets: bool) -> None:
    assert is_reset(entries) is resets


NAMES: dict[str, tuple[str, str, str]] = {
    "what is asked for": ("m", "kubectl/1", "m"),
    "the User-Agent up to a slash": ("", "tool-x/1.2 (linux)", "tool-x"),
    "all of it without one": ("", "plain", "plain"),
    "nothing": ("", "", "unknown"),
    "what cannot be printed": ("", "a\tb\x7f/1", "ab"),
    "no more than 128 bytes": ("", "u" * 200, "u" * 128),
    "no half a character": ("", "u" * 127 + "é", "u" * 127),
}


@pytest.mark.parametrize(("field_manager", "agent", "expected"), NAMES.values(), ids=NAMES.keys())
def test_f05_the_name_of_a_manager(field_manager: str, agent: str, expected: str) -> None:
    assert manager_or_user_agent(field_manager, agent) == expected
