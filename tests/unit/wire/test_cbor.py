"""Documents in CBOR: decoding, errors, and decoding of what was encoded. Rows D22, D24.

Sources: RFC 8949; k8s.io/apimachinery, pkg/runtime/serializer/cbor/internal/modes.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from typing import Any, Final

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.wire.cbor import DEPTH_MAX, ELEMENTS_MAX, SELF_DESCRIBED, VALUES_MAX, InvalidCbor, dump, load

BODY_MAX: Final = 3 << 20

# RFC 8949, appendix A, as far as JSON has such values, and what Kubernetes makes of the rest.
MEANINGS: Final[dict[str, Any]] = {
    "00": 0,
    "17": 23,
    "1818": 24,
    "1903e8": 1000,
    "1a000f4240": 1000000,
    "1b7fffffffffffffff": 2**63 - 1,
    "20": -1,
    "3903e7": -1000,
    "3b7fffffffffffffff": -(2**63),
    "f93e00": 1.5,
    "fa47c35000": 100000.0,
    "fb3ff199999999999a": 1.1,
    "f4": False,
    "f5": True,
    "f6": None,
    "60": "",
    "6161": "a",
    "62c3bc": "ü",
    "4161": "a",
    "7f657374726561646d696e67ff": "streaming",
    "5f41614162ff": "ab",
    "80": [],
    "83010203": [1, 2, 3],
    "9f01820203ff": [1, [2, 3]],
    "a0": {},
    "a26161016162820203": {"a": 1, "b": [2, 3]},
    "a1416101": {"a": 1},
    "bf61610161629f0203ffff": {"a": 1, "b": [2, 3]},
    "d9d9f700": 0,
    "d64401020304": "AQIDBA==",
    "d5420102": "AQI",
    "d7420102": "0102",
    "d6410f": "Dw==",
    "c074323031332d30332d32315432303a30343a30305a": "2013-03-21T20:04:00Z",
    "c11a514b67b0": "2013-03-21T20:04:00Z",
    "c13b0000000e79747bff": "0000-01-01T00:00:00Z",
    "c1f97e00": "0001-01-01T00:00:00Z",  # not a number
    "d81c81d81d00": [0],
    "c4820102": [1, 2],
    "d8236161": "a",
    "d9010082656161616161d81900": ["aaaaa", 0],
    "d82076687474703a2f2f7777772e6578616d706c652e636f6d": "http://www.example.com",
}


@pytest.mark.parametrize(("encoded", "value"), MEANINGS.items(), ids=MEANINGS)
def test_documents_are_decoded(encoded: str, value: Any) -> None:
    found = load(bytes.fromhex(encoded))
    assert found == value
    assert type(found) is type(value)


def deep(levels: int) -> bytes:
    return b"\x81" * levels + b"\x01"


BAD: Final = {
    "nothing": (b"", "EOF"),
    "cut off after a head": (b"\xa1", "unexpected EOF"),
    "cut off in a head": (b"\x19\x01", "unexpected EOF"),
    "a text beyond the end": (b"\x7b" + b"\x7f" + b"\xff" * 7 + b"a", "unexpected EOF"),
    "a list without an end": (b"\x9f\x01", "unexpected EOF"),
    "something after the end": (b"\xa0\x00", "extraneous data"),
    "a key twice": (bytes.fromhex("a2616101616102"), "Duplicate map key: 'a'"),
    "a key twice, in other clothes": (bytes.fromhex("a2616101416102"), 'duplicate map key "a"'),
    "a number as a key": (bytes.fromhex("a10102"), "map key must be a text string"),
    "a number that is none": (bytes.fromhex("f97e00"), "NaN"),
    "a number without an end": (bytes.fromhex("f97c00"), "infinity"),
    "a number that Go has not": (bytes.fromhex("1bffffffffffffffff"), "overflows"),
    "a large number of any length": (bytes.fromhex("c249010000000000000000"), "bignum"),
    "a negative one": (bytes.fromhex("c349010000000000000000"), "bignum"),
    "nothing defined": (b"\xf7", "simple value 23"),
    "a value of one's own": (b"\xf8\xff", "simple value 255"),
    "a reserved head": (b"\x1c", "subtype 0x1c"),
    "a number without a length": (b"\x1f", "indefinite length not allowed"),
    "a tag without a number": (b"\xdf\x01", "indefinite length not allowed"),
    "an end of nothing": (b"\xff", "break code"),
    "an end in a list with a length": (b"\x82\x01\xff", "break code"),
    "an end in place of a value": (bytes.fromhex("bf6161ff"), "missing value"),
    "a text of other things": (bytes.fromhex("7f01ff"), "non-text string"),
    "a text of texts without a length": (bytes.fromhex("7f7f6161ffff"), "indefinite length not allowed"),
    "a text that is no UTF-8": (b"\x61\xff", "invalid UTF-8"),
    "bytes that are none either": (b"\x41\xff", "invalid UTF-8"),
    "a number meant for base64": (b"\xd6\x01", "byte string"),
    "text meant for it": (b"\xd6\x61a", "byte string"),
    "bytes meant for something else before": (b"\xd6\xd8\x18\x41a", "byte string"),
    "bytes with a tag that are no UTF-8": (b"\xd8\x18\x41\xff", "invalid UTF-8"),
    "a time that is a map": (b"\xc0\xa0", "text string"),
    "a time before the year 0": (bytes.fromhex("c13b0000000e79747c00"), "is not a valid time"),
    "a time after all calendars": (bytes.fromhex("c11b7fffffffffffffff"), "is not a valid time"),
    "a time that is a list": (b"\xc1\x80", "number"),
    "too deep": (deep(DEPTH_MAX + 1), f"nesting depth ({DEPTH_MAX})"),
    "deeper than any stack": (deep(1_000_000), f"nesting depth ({DEPTH_MAX})"),
    "tags without an end to their depth": (b"\xc6" * 1_000_000 + b"\x01", f"nesting depth ({DEPTH_MAX})"),
    "a list too long": (
        b"\x99\x04\x01" + b"\x01" * (ELEMENTS_MAX + 1),
        f"elements for CBOR array {ELEMENTS_MAX}",
    ),
    "one beyond all memory": (b"\x9b" + b"\xff" * 8, "unexpected EOF"),
    "one beyond most": (b"\x9b\x10" + b"\x00" * 7 + b"\x01", "unexpected EOF"),
    "one that grows": (b"\x9f" + b"\x01" * (ELEMENTS_MAX + 1) + b"\xff", "max number of elements"),
    "an object beyond all memory": (b"\xbb" + b"\xff" * 8, "unexpected EOF"),
    "an object too large": (
        b"\xb9\x04\x01" + b"".join(b"\x42%c%c" % divmod(i, 100) + b"\x01" for i in range(ELEMENTS_MAX + 1)),
        f"key-value pairs for CBOR map {ELEMENTS_MAX}",
    ),
    "a text of so many pieces": (
        b"\x7f" + b"\x61a" * (3 * VALUES_MAX) + b"\xff",
        f"max number of values {VALUES_MAX}",
    ),
    "so many values": (
        b"\x99\x04\x00" + (b"\x99\x04\x00" + b"\x01" * 1024) * 1024,
        f"max number of values {VALUES_MAX}",
    ),
}


@pytest.mark.parametrize(("body", "told"), BAD.values(), ids=BAD)
def test_invalid_documents_are_refused(body: bytes, told: str) -> None:
    with pytest.raises(InvalidCbor) as raised:
        load(body)
    assert told in str(raised.value)


def test_what_a_head_promises_is_not_reserved() -> None:
    """Of a list, an object, text and bytes, of 2**60 elements each; and lists of such lists."""
    tracemalloc.start()
    try:
        for head in b"\x9b", b"\xbb", b"\x7b", b"\x5b", b"\x81" * 60 + b"\x9b":
            with pytest.raises(InvalidCbor, match="unexpected EOF"):
                load(head + (1 << 60).to_bytes(8, "big") + b"\x61a")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("piece", [b"\x80", b"\xa1\x60\xa0", b"\xc1\x00", b"\x61a"], ids=bytes.hex)
def test_a_body_of_small_things_does_not_fill_the_memory(piece: bytes) -> None:
    """Of empty lists, objects with one field, times and texts, as many as a request's body holds.

    That the list is too long would be known at its end only.
    """
    with pytest.raises(InvalidCbor, match=f"max number of values {VALUES_MAX}"):
        load(b"\x9f" + piece * (BODY_MAX // len(piece)) + b"\xff")


def test_documents_nest_to_a_bound() -> None:
    document, depth = load(deep(DEPTH_MAX)), 0
    while document != 1:
        (document,) = document
        depth += 1
    assert depth == DEPTH_MAX


_DOCUMENTS: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    lambda inner: (
        st.lists(inner, max_size=30)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=30)
    ),
    max_leaves=30,
)


def as_text(value: Any) -> Any:
    """Kubernetes writes text as byte strings, which other readers take for bytes."""
    match value:
        case bytes():
            return value.decode()
        case Mapping():
            return {as_text(name): as_text(child) for name, child in value.items()}
        case list() | tuple():
            return [as_text(child) for child in value]
        case _:
            return value


@settings(max_examples=200)
@given(_DOCUMENTS)
def test_encoded_documents_are_decoded_as_the_same(document: Any) -> None:
    """By us and by others; and what others write is read by us."""
    written = dump(document)
    assert written.startswith(SELF_DESCRIBED)
    assert load(written) == document
    assert as_text(cbor2.loads(written)) == document
    assert load(cbor2.dumps(document)) == document


def test_a_document_is_always_written_the_same() -> None:
    """RFC 8949, 4.2.1: keys in the order of their encoding, so shorter ones come first."""
    one, other = {"b": 1, "aa": 2, "a": 3}, {"a": 3, "aa": 2, "b": 1}
    assert dump(one) == dump(other) == SELF_DESCRIBED + bytes.fromhex("a3 4161 03 4162 01 426161 02")


@settings(max_examples=500)
@given(st.binary(max_size=40))
def test_anything_is_refused_or_a_document(body: bytes) -> None:
    try:
        document = load(body)
    except InvalidCbor:
        return
    assert load(dump(document)) == document
