"""Warnings about configuration of admission that this server stores and does not heed.

Whoever creates it relies on its being enforced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.vocabulary import Document

_NOT_SPECS: Final = frozenset({"metadata", "status"})


def warn_that(text: str) -> Callable[[Document, Document | None], list[str]]:
    """Returns a rule that warns of an object that is new, or has changed in more than metadata and status."""

    def warn(new: Document, old: Document | None) -> list[str]:
        fields = (new.keys() | (old or {}).keys()) - _NOT_SPECS
        has_changed = old is None or any(new.get(field) != old.get(field) for field in fields)
        return [text] if has_changed else []

    return warn


warn_policies: Final = warn_that(
    "this server does not evaluate admission policies: the object is stored, and has no effect"
)
