"""Values encoded as differences from the newer one, which are small and decode to the same bytes."""

from __future__ import annotations

import contextlib
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.storage.history import deltas

TEXTS = st.binary(max_size=200) | st.text('ab{}":,', max_size=2_000).map(str.encode)


@given(TEXTS, TEXTS)
def test_a_delta_decodes_to_its_value(value: bytes, newer: bytes) -> None:
    encoded = deltas.encode(value, newer)
    assert not deltas.is_whole(encoded)
    assert deltas.decode(encoded, newer) == value


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_values_around_the_size_of_a_dictionary_decode_to_themselves(more: int) -> None:
    source = random.Random(more)
    size = deltas.DICTIONARY_BYTES + more
    value = source.randbytes(size)
    for newer in (value, value[1_000:] + source.randbytes(1_000), source.randbytes(size), value + b"1", b""):
        assert deltas.decode(deltas.encode(value, newer), newer) == value


@given(TEXTS)
def test_a_whole_value_needs_no_other(value: bytes) -> None:
    encoded = deltas.encode_whole(value)
    assert deltas.is_whole(encoded)
    assert deltas.decode(encoded) == value


@given(TEXTS, TEXTS, TEXTS)
def test_another_newer_value_gives_an_error_and_no_wrong_value(
    value: bytes, newer: bytes, other: bytes
) -> None:
    encoded = deltas.encode(value, newer)
    try:
        assert deltas.decode(encoded, other) == value
    except deltas.InvalidDelta:
        assert other != newer


@given(st.binary(max_size=100), st.none() | TEXTS)
def test_any_bytes_are_a_value_or_an_error(data: bytes, newer: bytes | None) -> None:
    with contextlib.suppress(deltas.InvalidDelta):
        deltas.decode(data, newer)


def pod(transition: str, ready: str) -> bytes:
    """A Pod of about 3 KB with one condition that changes."""
    source = random.Random(1)
    env = [{"name": f"VARIABLE_{n}", "value": f"{source.getrandbits(200):x}"} for n in range(30)]
    conditions = [
        {"type": each, "status": "True", "lastTransitionTime": "2026-11-29T10:00:00Z"} for each in "abc"
    ]
    conditions.append({"type": "Ready", "status": ready, "lastTransitionTime": transition})
    status = {"phase": "Running", "conditions": conditions, "podIP": "10.0.0.7"}
    return json.dumps({"spec": {"containers": [{"name": "main", "env": env}]}, "status": status}).encode()


def test_a_changed_status_takes_few_bytes() -> None:
    before, after = pod("2026-11-29T10:00:05Z", "False"), pod("2026-11-29T10:02:17Z", "True")
    assert len(before) > 2_900
    assert len(deltas.encode(before, after)) < 80


def test_changes_at_both_ends_of_a_large_value_take_few_bytes() -> None:
    source = random.Random(2)
    lines = [f"{source.getrandbits(400):x}" for _ in range(10_000)]
    changed = ["first", *lines[:5_000], "inserted", *lines[5_000:], "last"]
    before, after = json.dumps(lines).encode(), json.dumps(changed).encode()
    encoded = deltas.encode(before, after)
    assert deltas.decode(encoded, after) == before
    assert len(encoded) < len(before) // 50


def test_a_bomb_is_refused() -> None:
    bomb = deltas.encode_whole(b"\0" * (deltas.WHOLE_BYTES_MAX + 1))
    with pytest.raises(deltas.InvalidDelta, match="too many"):
        deltas.decode(bomb)
