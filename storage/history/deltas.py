"""Encodes a value as the difference from the newer value that has replaced it.

A value is compressed with the newer one as the dictionary. zlib uses at most 32 KiB of a dictionary, so of a
large value, what both have in common at their ends is left out, and each piece of the rest gets the part of
the newer value that it most likely resembles.
"""

from __future__ import annotations

import zlib
from typing import Final

# The first byte of an encoded value.
_RAW: Final = b"r"
_WHOLE: Final = b"w"
_SMALL_DELTA: Final = b"s"
_LARGE_DELTA: Final = b"d"

# zlib finds repetitions up to 32 KiB back: at the end of a piece, this much of the dictionary.
PIECE_BYTES: Final = 8 * 1024
# The largest value; no store has larger ones.
WHOLE_BYTES_MAX: Final = 16 * 1024 * 1024
DICTIONARY_BYTES: Final = 24 * 1024
# What has changed in a large value, and is shorter, is not compressed.
SHORT_BYTES: Final = 64
# zlib finds no repetitions that are farther back than its window without so many bytes.
_LOOKAHEAD_BYTES: Final = 262
# How much of the dictionary lies before the place where a piece is expected.
_BEFORE_BYTES: Final = 8 * 1024
# The sizes of windows. Raw deflate has no header and no checksum, which would be six bytes for each piece.
_BITS_MIN: Final = 9
_BITS_MAX: Final = 15
# With such dictionaries, the default level takes twice as long, and finds no more.
_LEVEL: Final = 3
_CHECKSUM_BYTES: Final = 4


class InvalidDelta(ValueError):
    """The bytes are not an encoded value, or not one that belongs to the given newer value."""


def encode_whole(value: bytes) -> bytes:
    """Returns an encoding that `decode` can read without the newer value."""
    compressed = zlib.compress(value, _LEVEL)
    return _WHOLE + compressed if len(compressed) < len(value) else _RAW + value


def encode(value: bytes, newer: bytes) -> bytes:
    """Returns an encoding that `decode` can read with the same newer value."""
    checksum = zlib.crc32(value).to_bytes(_CHECKSUM_BYTES)
    if max(len(value), len(newer)) <= DICTIONARY_BYTES:
        return _SMALL_DELTA + _compressed(value, newer) + checksum
    return _LARGE_DELTA + _large_delta(value, newer) + checksum


def _large_delta(value: bytes, newer: bytes) -> bytes:
    start = _common_prefix(value, newer)
    end = _common_suffix(value, newer, min(len(value), len(newer)) - start)
    middle, scale = value[start : len(value) - end], len(newer) - start - end
    encoded = [_number(start), _number(end), _number(len(middle))]
    if len(middle) <= SHORT_BYTES:
        return b"".join((*encoded, middle))
    for at in range(0, len(middle), PIECE_BYTES):
        dictionary = _dictionary(newer, start, at, len(middle), scale)
        compressed = _compressed(middle[at : at + PIECE_BYTES], dictionary)
        encoded += [_number(len(compressed)), compressed]
    return b"".join(encoded)


def _compressed(piece: bytes, dictionary: bytes) -> bytes:
    # zlib initializes all of its memory, a quarter of a megabyte for the largest window.
    size = len(piece) + len(dictionary) + _LOOKAHEAD_BYTES
    bits = min(max(size.bit_length(), _BITS_MIN), _BITS_MAX)
    deflate = zlib.compressobj(_LEVEL, wbits=-bits, memLevel=bits - _BITS_MIN + 1, zdict=dictionary)
    return deflate.compress(piece) + deflate.flush()


def is_whole(encoded: bytes) -> bool:
    """Whether `decode` can read the encoding without the newer value."""
    return encoded[:1] not in (_SMALL_DELTA, _LARGE_DELTA)


def decode(encoded: bytes, newer: bytes | None = None) -> bytes:
    """Returns the value. newer: needed unless the encoding `is_whole`. Raises InvalidDelta."""
    match encoded[:1]:
        case b"r":
            return encoded[1:]
        case b"w":
            return _decompressed(zlib.decompressobj(), encoded[1:], WHOLE_BYTES_MAX)
        case b"s" if newer is not None:
            inflate = zlib.decompressobj(-_BITS_MAX, zdict=newer)
            value = _decompressed(inflate, encoded[1:-_CHECKSUM_BYTES], DICTIONARY_BYTES)
        case b"d" if newer is not None:
            value = _decode_large(encoded[1:-_CHECKSUM_BYTES], newer)
        case _:
            raise InvalidDelta("the bytes are not an encoded value")
    # With another newer value, deflate finds nothing wrong.
    if zlib.crc32(value).to_bytes(_CHECKSUM_BYTES) != encoded[-_CHECKSUM_BYTES:]:
        raise InvalidDelta("the encoded value belongs to another newer value")
    return value


def _decode_large(encoded: bytes, newer: bytes) -> bytes:
    start, read = _read_number(encoded, 0)
    end, read = _read_number(encoded, read)
    length, read = _read_number(encoded, read)
    scale = len(newer) - start - end
    if scale < 0:
        raise InvalidDelta("the encoded value belongs to a longer newer value")
    if length <= SHORT_BYTES:
        return newer[:start] + encoded[read:] + newer[len(newer) - end :]
    parts = [newer[:start]]
    for at in range(0, length, PIECE_BYTES):
        size, read = _read_number(encoded, read)
        inflate = zlib.decompressobj(-_BITS_MAX, zdict=_dictionary(newer, start, at, length, scale))
        part = _decompressed(inflate, encoded[read : read + size], PIECE_BYTES)
        if len(part) != min(PIECE_BYTES, length - at):
            raise InvalidDelta("a piece has another length")
        parts.append(part)
        read += size
    parts.append(newer[len(newer) - end :])
    return b"".join(parts)


def _decompressed(decompressor: zlib._Decompress, data: bytes, bytes_max: int) -> bytes:
    try:
        found = decompressor.decompress(data, bytes_max)
    except zlib.error as error:
        raise InvalidDelta(str(error)) from None
    if not decompressor.eof:
        raise InvalidDelta("the compressed bytes are cut off, or too many")
    return found


def _dictionary(newer: bytes, start: int, at: int, length: int, scale: int) -> bytes:
    """Returns the part of the newer value that a piece resembles most.

    at: the begin of the piece in the changed part, which has `length` bytes, and `scale` in the newer value.
    """
    expected = start + at * scale // max(length, 1)
    begin = max(0, min(expected - _BEFORE_BYTES, len(newer) - DICTIONARY_BYTES))
    return newer[begin : begin + DICTIONARY_BYTES]


def _common_prefix(one: bytes, other: bytes) -> int:
    """Returns how many bytes two values have in common at their begin."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_suffix(one: bytes, other: bytes, length_max: int) -> int:
    """Returns how many bytes two values have in common at their end, at most `length_max`."""
    end, shift = len(one), len(other) - len(one)
    low, high = end - length_max, end
    while low < high:
        middle = (low + high) // 2
        if one[middle:high] == other[middle + shift : high + shift]:
            high = middle
        else:
            low = middle + 1
    return end - high


def _number(number: int) -> bytes:
    """Returns a number in as few bytes as it needs: seven bits in each, the lowest first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _read_number(encoded: bytes, at: int) -> tuple[int, int]:
    """Returns the number that begins at a place, and the place after it."""
    number = shift = 0
    try:
        while (byte := encoded[at]) > 0x7F:
            number |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
    except IndexError:
        raise InvalidDelta("a number is cut off") from None
    return number | byte << shift, at + 1
