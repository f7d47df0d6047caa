"""Writes what has changed in an instance into its document."""

from __future__ import annotations

from collections import deque
from typing import Any

from apiserver.types.json_values import canonical, same


def with_changes(document: Any, before: Any, after: Any) -> Any:
    """Returns a document with what differs between two encodings of its instance; all else is as it was.

    before, after: the encodings, which have defaults that the document may not have, and only the fields of
        the class.

    The items of lists are recognized by their values, by their names, or, in lists of the same length, by
    their places. Others are as in `after`.
    """
    if same(before, after):
        return document
    match document, before, after:
        case dict(), dict(), dict():
            kept = {name: value for name, value in document.items() if name in after or name not in before}
            changed = {
                name: with_changes(document.get(name), before.get(name), value)
                for name, value in after.items()
                if name not in before or not same(before[name], value)
            }
            return {**kept, **changed}
        case list(), list(), list() if len(document) == len(before):
            return _items_with_changes(document, before, after)
    return after


def _items_with_changes(document: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    sources = _sources(before, after)
    return [
        item if source is None else with_changes(document[source], before[source], item)
        for source, item in zip(sources, after, strict=True)
    ]


def _sources(before: list[Any], after: list[Any]) -> list[int | None]:
    """Returns the indexes that the items of a list had before; None for new items."""
    found: list[int | None] = [None] * len(after)
    left = set(range(len(before)))
    for text_of in (canonical, _name):
        by_text: dict[str, deque[int]] = {}
        for old in sorted(left):
            if (text := text_of(before[old])) is not None:
                by_text.setdefault(text, deque()).append(old)
        for new, item in enumerate(after):
            if found[new] is None and (same_text := by_text.get(text_of(item) or "")):
                found[new] = old = same_text.popleft()
                left.remove(old)
    if len(before) == len(after):
        for index in left:
            if found[index] is None and _name(before[index]) is None:
                found[index] = index
    return found


def _name(item: Any) -> str | None:
    name = item.get("name") if isinstance(item, dict) else None
    return None if name is None else canonical(name)
