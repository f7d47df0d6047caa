"""Classes of work, by the size of its input. Pure."""

from __future__ import annotations

import enum
from typing import Final

import orjson

from apiserver.meta.vocabulary import Document

# Work on less is done sooner than handed over to a thread. Most objects are smaller.
LARGE_BYTES: Final = 16 * 1024
# Work on more takes tens of milliseconds to seconds: what is merely large must not wait for it.
HUGE_BYTES: Final = 128 * 1024
# So many bytes of defaults count as one that was sent: most are set already. If none is, and all are digits,
# 128 KiB of them are set and checked within ten milliseconds.
_DEFAULTS_PER_BYTE: Final = 8


class SizeClass(enum.IntEnum):
    """The size of work: SMALL work runs on the event loop, LARGE and HUGE work each in a thread.

    See `offload`.
    """

    SMALL = 0
    LARGE = 1
    HUGE = 2


class TakesLong(Exception):
    """Bounded work has exceeded its bound.

    The bound is how long other requests can wait for the event loop. The work has changed nothing, and is
    done again in a thread. See `offload.Offload.run_bounded`.
    """


def size_class(size_bytes: int) -> SizeClass:
    if size_bytes <= LARGE_BYTES:
        return SizeClass.SMALL
    return SizeClass.LARGE if size_bytes <= HUGE_BYTES else SizeClass.HUGE


def size_class_of_defaults(text: bytes, default_bytes: int) -> SizeClass:
    """Returns the size of the defaults that an encoded object, or a patch, may get.

    default_bytes: their maximum size for one object, or one null, in it. Other formats than JSON do not
        reveal how many there are.
    """
    size = size_class(len(text) * default_bytes // _DEFAULTS_PER_BYTE)
    if size is SizeClass.SMALL or text.lstrip()[:1] not in (b"{", b"["):
        return size
    # To count takes a microsecond or two for a kilobyte.
    return size_class((text.count(b"{") + text.count(b"null")) * default_bytes // _DEFAULTS_PER_BYTE)


def size_class_of_document(document: Document) -> SizeClass:
    """Returns the size of a document that is not encoded yet; HUGE if it is nested too deeply.

    It encodes the document: counting in Python would take ten times as long, even if it ended at HUGE_BYTES.
    """
    try:
        size_bytes = len(orjson.dumps(document))
    except orjson.JSONEncodeError:
        return SizeClass.HUGE
    return SizeClass.SMALL if size_bytes <= LARGE_BYTES else size_class(size_bytes)
