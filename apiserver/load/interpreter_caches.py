"""The caches of orjson and of the interpreter that keep strings of documents which are gone.

What they keep is a few hundred kilobytes. But CPython gets memory for small objects in arenas of 1 MiB, and
gives one back when nothing in it is in use any more. A large document, parsed, fills many; whatever is made
while it is worked on lies between its values, and one string of 50 bytes that stays keeps a mebibyte. After
applies of 30,000 keys the strings in these caches, and in those of `text_caches`, held 50 of 110 arenas.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from typing import Final

import orjson

# orjson keeps the last keys of objects that it has parsed, to make one string of equal ones: 2,048 keys of at
# most 64 bytes, each in the place that its hash tells. So many new ones leave one in fifty of the old keys in
# its place; twice as many, of two calls, one in three thousand.
NEW_KEYS: Final = 8_192
# No call holds the interpreter's lock for longer than some 0.3 ms.
_KEYS_AT_ONCE: Final = 2_048
# As long as they may be: blocks of such a size have nothing to do with those of small values.
_NEW_KEY: Final = '"%064d":0'


class JsonKeys:
    """The keys that orjson keeps."""

    def __init__(self) -> None:
        self._numbers = count()

    def forget(self) -> None:
        """Have orjson forget the keys that it has seen, by showing it as many others."""
        for _ in range(NEW_KEYS // _KEYS_AT_ONCE):
            keys = (_NEW_KEY % next(self._numbers) for _ in range(_KEYS_AT_ONCE))
            orjson.loads(f"{{{','.join(keys)}}}")


def forget_attribute_names() -> None:
    """Have the interpreter forget which attributes it has looked up last.

    It keeps 4,096 of them, by the addresses of their names; functions written in C make a name for each
    look-up.
    """
    _clear_attribute_cache()


def _attribute_cache_clearing() -> Callable[[], None]:
    # Python 3.13 has given the function another name.
    name = "_clear_internal_caches" if sys.version_info >= (3, 13) else "_clear_type_cache"
    clear: Callable[[], None] = getattr(sys, name, lambda: None)
    return clear


_clear_attribute_cache: Final = _attribute_cache_clearing()
