"""Members of JSON objects that are there twice: the last counts, and clients want to hear of it (row E04).

No fast decoder tells. But what most clients send, without blanks, is just what is made again of the document
that was decoded from it. Of other texts the quotation marks are counted: an object with a member too many has
more of them. Only then, or where counting proves nothing, is the text read again by the standard library's
decoder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import orjson

DUPLICATES_MAX: Final = 1_000


def duplicate_fields(body: bytes, document: Any) -> list[str]:
    """The paths of repeated members, as `data.k` or `spec.containers[0].name`, each once, in order.

    document: what `body`, which is valid JSON, was decoded to; not changed since.
    """
    try:
        if _has_no_duplicates(body, document):
            return []
        found: dict[str, None] = {}
        for path in _duplicates(json.loads(body, object_pairs_hook=_Members), ""):
            found[path] = None
            if len(found) == DUPLICATES_MAX:
                break
        return list(found)
    except (RecursionError, TypeError, ValueError):
        # Deeper than anything that can be stored, or numbers that no schema takes: refused, or pruned.
        return []


def _has_no_duplicates(body: bytes, document: Any) -> bool:
    """True if no member can have been lost. False if one was, or it cannot be told."""
    encoded = orjson.dumps(document)
    if body.startswith(encoded):
        return True  # Nothing but blanks can follow.
    if b"\\" not in body:
        return body.count(b'"') == encoded.count(b'"')
    if b"\\\\" in body or b"\\\\" in encoded:
        return False  # A mark behind two backslashes ends a string, behind three it does not.
    return _unescaped_quotes(body) == _unescaped_quotes(encoded)


def _unescaped_quotes(text: bytes) -> int:
    return text.count(b'"') - text.count(b'\\"')


class _Members(list[tuple[str, Any]]):
    """An object as it is written, told from a list by its type."""


def _duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Members):
        seen: set[str] = set()
        for name, member in value:
            member_path = f"{path}.{name}" if path else name
            if name in seen:
                yield member_path
            seen.add(name)
            yield from _duplicates(member, member_path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _duplicates(item, f"{path}[{index}]")
