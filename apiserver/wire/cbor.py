"""CBOR as Kubernetes uses it: another way to write JSON. Rows D22-D24.

cbor2 reads and writes the encoding; here stands what Kubernetes makes of it. Text is written as byte
strings, which is how Kubernetes' own clients write it, and read from both kinds; whoever tags bytes as meant
for base64 gets base64, and of tags without such a meaning only the content counts. Only what JSON has is
taken: no bignums, no infinities, no repeated keys. Sources: RFC 8949; k8s.io/apimachinery,
pkg/runtime/serializer/cbor/internal/modes.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import cbor2

# "This is CBOR": every document begins so, as Kubernetes' do (RFC 8949, 3.4.6).
SELF_DESCRIBED: Final = b"\xd9\xd9\xf7"
_SELF_DESCRIBED_TAG: Final = 55799

# Kubernetes' bounds.
DEPTH_MAX: Final = 64
ELEMENTS_MAX: Final = 1024
# Of a document. The largest object that can be stored has fewer.
VALUES_MAX: Final = 100_000

# A value is read in three pieces at most: its head, its length, its content.
_READS_MAX: Final = 3 * VALUES_MAX
_ARRAY, _MAP = 4, 5
_UNDEFINED: Final = 23
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class InvalidCbor(ValueError):
    """The bytes are no document; the message is the client's."""


# ---- reading


def load(body: bytes) -> Any:
    """The one document of a body. Raises NotCbor."""
    # A body that is short has few values in any case.
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
        raise _told(error) from None
    if rest := len(body) - source.tell():
        raise InvalidCbor(f"cbor: {rest} bytes of extraneous data starting at index {source.tell()}")
    return _JsonValues().value(value)


def _told(error: cbor2.CBORDecodeError) -> InvalidCbor:
    match error.__cause__:
        case InvalidCbor() as ours:
            return ours
        case UnicodeDecodeError():
            return InvalidCbor("cbor: invalid UTF-8 string")
        case _:
            return InvalidCbor(f"cbor: {error}")


class _CountedReads(io.BytesIO):
    """A body from which cbor2 reads no more than it needs, as from anything that cannot go back.

    So a body of millions of values is refused before they fill the memory.
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
    """What each tag makes of its content; in place of all that cbor2 would make of it: references too."""

    def __missing__(self, tag: int) -> Callable[[Any, bool], Any]:
        return _content


def _content(content: Any, _: bool) -> Any:
    """Text at once: no other tag shall take it for bytes."""
    return _text(content) if type(content) is bytes else content


def _time_text(content: Any, _: bool) -> str:
    text = _content(content, _)
    if type(text) is not str:
        raise InvalidCbor("cbor: tag number 0 must be followed by text string")
    return text


def _time_number(seconds: Any, _: bool) -> str:
    if type(seconds) not in (int, float):
        raise InvalidCbor("cbor: tag number 1 must be followed by integer or floating-point number")
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except (OverflowError, ValueError):  # beyond all calendars, and NaN
        raise InvalidCbor(f"cbor: {seconds} s is no time") from None
    return moment.isoformat().replace("+00:00", "Z")


def _bignum(content: Any, _: bool) -> Any:
    raise InvalidCbor("cbor: bignum cannot be decoded")


def _meant_for(tag: int, encode: Callable[[bytes], str]) -> Callable[[Any, bool], str]:
    """Bytes as the text that their tag asks for."""

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
        21: _meant_for(21, lambda content: base64.urlsafe_b64encode(content).rstrip(b"=").decode()),
        22: _meant_for(22, lambda content: base64.b64encode(content).decode()),
        23: _meant_for(23, bytes.hex),
    }
)


class _JsonValues:
    """Makes JSON's values of cbor2's, counting them. What JSON has not is refused, whatever it is."""

    def __init__(self) -> None:
        self._left = VALUES_MAX

    def value(self, value: Any) -> Any:
        """No deeper than the document that was decoded, so within DEPTH_MAX."""
        kind = type(value)
        if kind is str or kind is bool or value is None:
            return value
        if kind is bytes:
            return _text(value)
        if kind is dict:
            return self._object(value)
        if kind is list:
            self._count(len(value), len(value), "elements for CBOR array")
            return [self.value(child) for child in value]
        return _number(value)

    def _object(self, found: dict[Any, Any]) -> dict[str, Any]:
        self._count(len(found), 2 * len(found), "key-value pairs for CBOR map")
        values: dict[str, Any] = {}
        for key, child in found.items():
            name = key if type(key) is str else _text(key)
            if name in values:  # once as text, once as bytes
                raise InvalidCbor(
                    f'cbor: found duplicate map key "{name}" at map element index {len(values)}'
                )
            values[name] = self.value(child)
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
    """Or what is none."""
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


# ---- writing


def dump(document: Any) -> bytes:
    """A document, self-described."""
    return cbor2.dumps(cbor2.CBORTag(_SELF_DESCRIBED_TAG, _deterministic(document)))


def item(value: Any) -> bytes:
    """A value as a part of a document."""
    return cbor2.dumps(_deterministic(value))


def array_head(length: int) -> bytes:
    return _head(_ARRAY, length)


def map_head(length: int) -> bytes:
    return _head(_MAP, length)


def _head(major_type: int, length: int) -> bytes:
    written = io.BytesIO()
    cbor2.CBOREncoder(written).encode_length(major_type, length)
    return written.getvalue()


def _deterministic(value: Any) -> Any:
    """Text as bytes, and keys in the order that RFC 8949 calls deterministic: shorter ones first.

    cbor2 does the like by itself (`canonical`, `encoders`), but shortens numbers, and is slower so.
    """
    kind = type(value)
    if kind is str:
        return value.encode()
    if kind is dict:
        encoded = sorted((len(key), key, name) for name in value for key in (name.encode(),))
        return {key: _deterministic(value[name]) for _, key, name in encoded}
    if kind is list:
        return [_deterministic(child) for child in value]
    return value
