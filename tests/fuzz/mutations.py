"""Makes inputs of others: changes bytes, or the values of a JSON document."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final

import orjson

from tests.fuzz.target import Target

# What decoders have trouble with.
_BYTES: Final = (
    *(
        b"\0",
        b"\n",
        b"\r\n",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xa8",
        b"%00",
        b"%zz",
        b"\\u0000",
    ),
    *(
        b"-1",
        b"0",
        b"1e999",
        b"9223372036854775808",
        b"18446744073709551616",
        b"NaN",
        b"\x80\x80\x80\x80\x10",
    ),
    *(b"'", b'"', b"`", b"\\", b"/", b"..", b"//", b"[", b"{", b"(", b"<<", b"&a", b"*a", b"!!", b",", b"="),
)
_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 1.5, 1e300, -0.0, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1),
    *(
        "",
        "a",
        "0",
        "-1",
        "\0",
        "\n",
        "é",
        "\u2028",
        "\U0001f600",
        "x" * 300,
        "/",
        "a/b",
        "~0",
        "~1",
        "-",
        "*",
        ".",
    ),
    *([], {}, [None], [[]], [{}], {"": None}, {"a": {"b": [1]}}, ["a", "a"], [{"name": "a"}, {"name": "a"}]),
)
_DEPTH_MAX: Final = 300
# An input grows by repetition to this, to find what takes longer than its length says.
AMPLIFIED_BYTES_MAX: Final = 64 * 1024


def mutated(target: Target, inputs: Sequence[bytes], random: Random) -> bytes:
    """Returns a new input for a target, made of one or two of `inputs`."""
    data = random.choice(inputs)
    for _ in range(random.choice((1, 1, 2, 4))):
        if target.is_json and random.random() < 0.8:
            data = changed_value(data, target.words, random)
        else:
            data = _changed_bytes(data, random.choice(inputs), target.words, random)
    return data


def _changed_bytes(data: bytes, other: bytes, words: Sequence[bytes], random: Random) -> bytes:
    at = random.randint(0, len(data))
    end = min(len(data), at + random.choice((0, 1, 1, 2, 8, 64)))
    match random.randrange(8):
        case 0:
            return data[:at] + data[end:]
        case 1:
            return data[:at] + bytes((random.randrange(256),)) + data[end:]
        case 2 if data:
            at = random.randrange(len(data))
            return data[:at] + bytes((data[at] ^ 1 << random.randrange(8),)) + data[at + 1 :]
        case 3:
            start = random.randint(0, len(other))
            return data[:at] + other[start : start + random.choice((1, 8, 64))] + data[end:]
        case 4:
            return data[:at] + data[at:end] * random.choice((2, 3, 17)) + data[end:]
        case 5:
            return amplified(data, random)
        case _:
            return data[:at] + random.choice((*words, *_BYTES)) + data[end:]


def amplified(data: bytes, random: Random) -> bytes:
    """Returns an input in which one part is repeated, so that it is long."""
    at = random.randint(0, len(data))
    part = data[at : at + random.choice((1, 2, 4, 16, 64))] or b"["
    times = random.choice((10, 100, 1000, 100_000))
    return (data[:at] + part * min(times, AMPLIFIED_BYTES_MAX // len(part)) + data[at:])[:AMPLIFIED_BYTES_MAX]


# ---- values of JSON


def changed_value(data: bytes, words: Sequence[bytes], random: Random) -> bytes:
    """Returns a JSON document with another value somewhere; other bytes as they are."""
    try:
        root = [orjson.loads(data)]
    except orjson.JSONDecodeError:
        return data
    places = list(_places(root))
    container, key = random.choice(places)
    value = container[key]
    match random.randrange(9):
        case 0 | 1:
            container[key] = copy.deepcopy(random.choice(_VALUES))
        case 2:
            other, other_key = random.choice(places)
            container[key] = copy.deepcopy(other[other_key])
        case 3 if container is not root:
            del container[key]
        case 4 if isinstance(container, dict):
            container[_name(places, words, random)] = copy.deepcopy(value)
        case 5 if isinstance(value, dict):
            value[_name(places, words, random)] = copy.deepcopy(random.choice(_VALUES))
        case 6 if isinstance(value, list):
            container[key] = value * random.choice((0, 2, 30))
        case 7 if isinstance(value, str):
            text = _changed_bytes(value.encode(), random.choice((*words, b"a")), words, random)
            container[key] = text.decode("utf-8", "replace")
        case 8 if random.random() < 0.1:
            for _ in range(random.choice((1, 50, 200))):
                value = random.choice(([value], {"a": value}))
            container[key] = value
        case _ if words:
            container[key] = random.choice(words).decode("utf-8", "replace")
    try:
        return orjson.dumps(root[0])
    except TypeError:  # nested too deeply, or an integer of more than 64 bits
        return data


def _name(places: Sequence[tuple[Any, Any]], words: Sequence[bytes], random: Random) -> str:
    known = [key for _, key in places if isinstance(key, str)]
    return random.choice((*known, *(word.decode("utf-8", "replace") for word in words), "", "a"))


def _places(container: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Each list and object in a document, with each index and name in it."""
    for key in container if isinstance(container, dict) else range(len(container)):
        yield container, key
        if isinstance(container[key], dict | list) and depth < _DEPTH_MAX:
            yield from _places(container[key], depth + 1)
