"""CBOR as Kubernetes uses it: another encoding of JSON values. Rows D22-D24.

cbor2 decodes and encodes CBOR; this module adds the rules of Kubernetes. Strings are encoded as byte strings,
as Kubernetes' own clients do, and decoded from both types. Byte strings tagged for base64 become base64;
other tags are ignored. Only values that JSON has are accepted: no bignums, no infinities, no duplicate keys.
Sources: RFC 8949; k8s.io/apimachinery, pkg/runtime/serializer/cbor/internal/modes.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable
from typing import Any, Final

import cbor2

from apiserver.golang.times import YEAR_10000_S, YEAR_ZERO_S, ZERO_TIME, time_text

# The tag of self-described CBOR, with which every document begins, as in Kubernetes (RFC 8949, 3.4.6).
SELF_DESCRIBED: Final = b"\xd9\xd9\xf7"
_SELF_DESCRIBED_TAG: Final = 55799

# The bounds of Kubernetes.
DEPTH_MAX: Final = 64
ELEMENTS_MAX: Final = 1024
# In a document. The largest object that can be stored has fewer.
VALUES_MAX: Final = 100_000

# A value takes three reads at most: its head, its length, its content.
_READS_MAX: Final = 3 * VALUES_MAX
_ARRAY, _MAP = 4, 5
_UNDEFINED: Final = 23


class InvalidCbor(ValueError):
    """Bytes that are not a valid document. The message is for the client."""


# ---- decoding


def load(body: bytes) -> Any:
    """Decode the only document in a body. Raises InvalidCbor."""
    # A short body cannot have too many values.
    source = io.BytesIO(body) if len(body) <= VALUES_MAX else _CountedReads(body)
    decoder = cbor2.CBORDecoder(
        source,
        semantic_decoders=_TAGS,
        max_depth=DEPTH_MAX,
        allow_duplicate_keys=False,
        strict_hashable_types=True,
    )
    try:
        value = decoder.decode()
    except cbor2.CBORDecodeEOF:
        raise InvalidCbor("unexpected EOF" if body else "EOF") from None
    except cbor2.CBORDecodeError as error:
        raise _error(error) from None
    if rest := len(body) - source.tell():
        raise InvalidCbor(f"cbor: {rest} bytes of extraneous data starting at index {source.tell()}")
    return _JsonValues().convert(value)


def _error(error: cbor2.CBORDecodeError) -> InvalidCbor:
    match error.__cause__:
        case InvalidCbor() as own:
            return own
        case UnicodeDecodeError():
            return InvalidCbor("cbor: invalid UTF-8 string")
        case _:
            return InvalidCbor(f"cbor: {error}")


class _CountedReads(io.BytesIO):
    """A body from which cbor2 only reads as much as it needs at a time, since it is not seekable.

    So a body with millions of values is refused before they fill the memory.
    """

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._reads_left = _READS_MAX

    def seekable(self) -> bool:
        return False

    def read(self, size: int | None = -1) -> bytes:
        self._reads_left -= 1
        if self._reads_left < 0:
            raise _too_many_values()
        return super().read(size)


class _Tags(dict[int, Callable[[Any, bool], Any]]):
    """The decoders of tags, which replace those of cbor2, since these include references."""

    def __missing__(self, tag: int) -> Callable[[Any, bool], Any]:
        return _content


def _content(content: Any, _: bool) -> Any:
    """Decode byte strings at once, before another tag can decode them as bytes."""
    return _text(content) if type(content) is bytes else content


def _time_text(content: Any, _: bool) -> str:
    text = _content(content, _)
    if type(text) is not str:
        raise InvalidCbor("cbor: tag number 0 must be followed by text string")
    return text


def _time_number(seconds: Any, _: bool) -> str:
    if type(seconds) not in (int, float):
        raise InvalidCbor("cbor: tag number 1 must be followed by integer or floating-point number")
    if not math.isfinite(seconds):
        return ZERO_TIME  # as Go takes what RFC 8949, 3.4.2, leaves open
    whole = int(seconds)
    more, nanoseconds = divmod(int((seconds - whole) * 1e9), 1_000_000_000)
    if not YEAR_ZERO_S <= whole + more < YEAR_10000_S:
        raise InvalidCbor(f"cbor: {seconds} s is not a valid time")
    return time_text(whole + more, f"{nanoseconds:09}".rstrip("0") if nanoseconds else "")


def _bignum(content: Any, _: bool) -> Any:
    raise InvalidCbor("cbor: bignum cannot be decoded")


def _encoded_bytes(tag: int, encode: Callable[[bytes], str]) -> Callable[[Any, bool], str]:
    """Returns the decoder of a tag for byte strings that are expected in another encoding."""

    def text(content: Any, _: bool) -> str:
        if type(content) is not bytes:
            raise InvalidCbor(f"cbor: tag number {tag} must be followed by byte string")
        return encode(content)

    return text


_TAGS: Final = _Tags(
    {
        0: _time_text,
        1: _time_number,
        2: _bignum,
        3: _bignum,
        21: _encoded_bytes(21, lambda content: base64.urlsafe_b64encode(content).rstrip(b"=").decode()),
        22: _encoded_bytes(22, lambda content: base64.b64encode(content).decode()),
        23: _encoded_bytes(23, bytes.hex),
    }
)


class _JsonValues:
    """Converts the values of cbor2 to those of JSON and counts them; refuses all others."""

    def __init__(self) -> None:
        self._left = VALUES_MAX

    def convert(self, value: Any) -> Any:
        """Returns a value in JSON's types. It is recursive: the decoder has limited the depth to
        DEPTH_MAX.
        """
        kind = type(value)
        if kind is str or kind is bool or value is None:
            return value
        if kind is bytes:
            return _text(value)
        if kind is dict:
            return self._object(value)
        if kind is list:
            self._count(len(value), len(value), "elements for CBOR array")
            return [self.convert(child) for child in value]
        return _number(value)

    def _object(self, items: dict[Any, Any]) -> dict[str, Any]:
        self._count(len(items), 2 * len(items), "key-value pairs for CBOR map")
        values: dict[str, Any] = {}
        for key, child in items.items():
            name = key if type(key) is str else _text(key)
            if name in values:  # once as a text string, once as a byte string
                raise InvalidCbor(
                    f'cbor: found duplicate map key "{name}" at map element index {len(values)}'
                )
            values[name] = self.convert(child)
        return values

    def _count(self, elements: int, values: int, of: str) -> None:
        if elements > ELEMENTS_MAX:
            raise InvalidCbor(f"cbor: exceeded max number of {of} {ELEMENTS_MAX}")
        self._left -= values
        if self._left < 0:
            raise _too_many_values()


def _too_many_values() -> InvalidCbor:
    return InvalidCbor(f"cbor: exceeded max number of values {VALUES_MAX}")


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidCbor("cbor: invalid UTF-8 string") from None


def _number(value: Any) -> int | float:
    match value:
        case int() if -(1 << 63) <= value < 1 << 63:
            return value
        case int():
            raise InvalidCbor(f"cbor: cannot unmarshal {value} into Go value of type int64 (it overflows)")
        case float() if math.isfinite(value):
            return value
        case float():
            raise InvalidCbor("cbor: floating-point NaN and infinity cannot be decoded")
        case cbor2.CBORSimpleValue():
            raise InvalidCbor(f"cbor: simple value {value.value} is not recognized")
        case cbor2.undefined:
            raise InvalidCbor(f"cbor: simple value {_UNDEFINED} is not recognized")
        case _:
            raise InvalidCbor(f"cbor: {type(value).__name__} is not recognized")


# ---- encoding


def dump(document: Any) -> bytes:
    """Encode a document as self-described CBOR."""
    return cbor2.dumps(cbor2.CBORTag(_SELF_DESCRIBED_TAG, _deterministic(document)))


def item(value: Any) -> bytes:
    """Encode a value that is part of a document."""
    return cbor2.dumps(_deterministic(value))


def array_head(length: int) -> bytes:
    return _head(_ARRAY, length)


def map_head(length: int) -> bytes:
    return _head(_MAP, length)


def _head(major_type: int, length: int) -> bytes:
    head = io.BytesIO()
    cbor2.CBOREncoder(head).encode_length(major_type, length)
    return head.getvalue()


def _deterministic(value: Any) -> Any:
    """Returns a value with strings as bytes, and keys in RFC 8949's deterministic order: shorter ones first.

    The options `canonical` and `encoders` of cbor2 are similar, but shorten numbers and are slower.
    """
    kind = type(value)
    if kind is str:
        return value.encode()
    if kind is dict:
        if not value:  # managedFields has as many of these as owned fields.
            return value
        encoded = {
            name.encode(): child.encode() if type(child) is str else _deterministic(child)
            for name, child in value.items()
        }
        # Sorting is stable: first by their bytes, then by their lengths, is ten times as fast as by both.
        keys = sorted(encoded)
        keys.sort(key=len)
        return {key: encoded[key] for key in keys}
    if kind is list:
        return [_deterministic(child) for child in value]
    return value
