"""Parts of encoded JSON are what decoding the whole gives."""

from __future__ import annotations

from typing import Any, Final

import orjson
from hypothesis import given
from hypothesis import strategies as st

from apiserver.registry import json_slices

# Few keys, so that they stand at many places.
KEYS: Final = st.sampled_from(["a", "b", "é", '"a":', "\\"])
TEXTS: Final = st.text(alphabet='ab":,{}[]\\é€😀!', max_size=6)
VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
OBJECTS: Final = st.dictionaries(KEYS, VALUES, max_size=5)


@given(OBJECTS, KEYS)
def test_the_value_of_a_key_is_found(document: dict[str, Any], key: str) -> None:
    assert json_slices.find(orjson.dumps(document), key) == document.get(key)


@given(VALUES, st.sampled_from([b",", b"}", b"]", b',"a":1}', b"!"]))
def test_the_end_of_a_value_is_found(value: Any, rest: bytes) -> None:
    text = orjson.dumps(value)
    assert json_slices.value_end(text + rest) == len(text)
    assert json_slices.value_end(text) is None


@given(VALUES, st.integers(min_value=1))
def test_what_is_cut_off_is_no_value(value: Any, cut: int) -> None:
    text = orjson.dumps(value)
    assert json_slices.is_value(text)
    cut_off = text[: -(cut % len(text) or 1)]
    try:
        orjson.loads(cut_off)
    except orjson.JSONDecodeError:
        assert not json_slices.is_value(cut_off)
        assert not json_slices.is_value(text + b"}")
