"""How much work there is with something, by its size. Pure."""

from __future__ import annotations

import enum
from typing import Final

# Less is done sooner than handed over to a thread. Most objects are smaller.
LARGE_BYTES: Final = 16 * 1024


class SizeClass(enum.IntEnum):
    """What is SMALL is worked on in the event loop, what is LARGE in a thread. See `offload`."""

    SMALL = 0
    LARGE = 1


def size_class(size_bytes: int) -> SizeClass:
    return SizeClass.LARGE if size_bytes > LARGE_BYTES else SizeClass.SMALL
