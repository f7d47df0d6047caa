"""Caches of results for texts: whether a name is valid, what a path means, how large a quantity is.

Clients send the same texts again and again, so the last results are cached, each cache within a bound. They
are small, and can be computed again. But they outlive the large documents whose texts they are for, and keep
the memory around them in use (`memory_keeper`): so all caches can be emptied.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

_CACHES: Final[list[_lru_cache_wrapper[Any]]] = []


def text_cache(maxsize: int) -> Callable[[Callable[..., _T]], _lru_cache_wrapper[_T]]:
    """Returns a decorator: `functools.lru_cache` for a function of texts."""

    def decorate(function: Callable[..., _T]) -> _lru_cache_wrapper[_T]:
        cached = lru_cache(maxsize=maxsize)(function)
        _CACHES.append(cached)
        return cached

    return decorate


def empty_text_caches() -> None:
    """Empty all caches. Takes some microseconds for each thousand results."""
    for cache in _CACHES:
        cache.cache_clear()
