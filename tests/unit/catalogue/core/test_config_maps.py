"""ConfigMaps: keys, sizes, and what `immutable` means. Source: pkg/apis/core/validation."""

from __future__ import annotations

import base64
from typing import Any, Final

import pytest

from apiserver.catalogue.core.config_maps import SIZE_MAX, decoded_size
from apiserver.meta import names
from tests.unit.catalogue.served_kinds import Changes, ServedKind, least

CONFIG_MAP: Final = ServedKind("configmaps")
_KEY: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)

INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a key is a file name": ({"data": {"a b": ""}}, [f'data[a b]: Invalid value: "a b": {_KEY}']),
    "also of bytes": ({"binaryData": {"/": ""}}, [f'binaryData[/]: Invalid value: "/": {_KEY}']),
    "a key is no directory": ({"data": {"..": ""}}, ["data[..]: Invalid value: \"..\": must not be '..'"]),
    "nor leads out of one": (
        {"data": {"..a": ""}},
        ["data[..a]: Invalid value: \"..a\": must not start with '..'"],
    ),
    "a key fits into a file system": (
        {"data": {"a" * 254: ""}},
        [f'data[{"a" * 254}]: Invalid value: "{"a" * 254}": must be no more than 253 characters'],
    ),
    "a key stands for one value": (
        {"data": {"k": "v"}, "binaryData": {"k": "aGk="}},
        ['data[k]: Invalid value: "k": duplicate of key present in binaryData'],
    ),
    "a mebibyte is too little for one byte more": (
        {"data": {"a": "é" * (SIZE_MAX // 2)}, "binaryData": {"b": "YQ=="}},
        ["[]: Too long: may not be more than 1048576 bytes"],
    ),
}


@pytest.mark.parametrize(("fields", "texts"), INVALID.values(), ids=INVALID)
def test_errors_in_config_maps(fields: Changes, texts: list[str]) -> None:
    assert CONFIG_MAP.created(least("ConfigMap", **fields)).texts == texts


def test_a_mebibyte_of_text_and_bytes_fits() -> None:
    data = {"a": "é" * (SIZE_MAX // 2 - 1)}
    assert CONFIG_MAP.created(least("ConfigMap", data=data, binaryData={"b": "YWI="})).errors == []


@pytest.mark.parametrize("size", range(8))
def test_the_size_of_bytes_is_that_of_what_is_encoded(size: int) -> None:
    assert decoded_size(base64.b64encode(b"x" * size).decode()) == size


_FROZEN: Final = "Forbidden: field is immutable when `immutable` is set"
# Changes of an object that says `immutable: true`.
CHANGES: Final[dict[str, tuple[Changes, list[str]]]] = {
    "labels": ({"metadata.labels": {"a": "b"}}, []),
    "text": ({"data.k": "w"}, [f"data: {_FROZEN}"]),
    "bytes": ({"binaryData": {"b": "YQ=="}}, [f"binaryData: {_FROZEN}"]),
    "back to mutable": ({"immutable": False}, [f"immutable: {_FROZEN}"]),
    "nothing said of it": ({"immutable": None, "data": None}, [f"immutable: {_FROZEN}", f"data: {_FROZEN}"]),
}


@pytest.mark.parametrize(("changes", "texts"), CHANGES.values(), ids=CHANGES)
def test_what_is_immutable_stays(changes: Changes, texts: list[str]) -> None:
    old = least("ConfigMap", data={"k": "v"}, immutable=True)
    assert CONFIG_MAP.updated(old, changes).texts == texts
    mutable: dict[str, Any] = {**old, "immutable": False}
    assert CONFIG_MAP.updated(mutable, changes).errors == []


def test_all_problems_of_a_key_are_reported() -> None:
    assert len(names.config_map_key("../" + "a" * 260)) == 3
