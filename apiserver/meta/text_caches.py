"""Caches of results for texts, such as validity of names, meaning of paths, and values of quantities.

Clients send the same texts again and again, so the last results are kept in bounded caches. The results are
small, and can be computed again. But they outlive the large documents of their texts, and keep the memory
around them in use (`memory_keeper`): so all caches can be emptied.
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
    """Empty all caches. It takes some microseconds for each thousand results."""
    for cache in _CACHES:
        cache.cache_clear()
