"""Finds duplicate members of JSON objects; the last one counts, and clients are warned. Rows E04, E08.

No fast decoder reports them. But most clients send JSON without whitespace: then the decoded document, when
encoded again, is equal to the body. In other bodies the quotation marks are counted: a duplicate member adds
some. If there are more than expected, or if the count is inconclusive, the standard library decodes the body
again.

Strict decoding lists its problems in the order of the body. Source: sigs.k8s.io/json, decode.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import orjson

from apiserver.meta.field_errors import field_below, item_below
from apiserver.schema.structural import Schema, ValueKind

DUPLICATES_MAX: Final = 1_000
STRICT_PROBLEMS_MAX: Final = 1_000


def duplicate_fields(body: bytes, document: Any) -> list[str]:
    """Returns the paths of duplicate members, as `data.k` or `spec.containers[0].name`, each once, in order.

    document: the decoded `body`, which is valid JSON, unchanged.
    """
    try:
        if _has_no_duplicates(body, document):
            return []
        paths: dict[str, None] = {}
        for path in _duplicates(json.loads(body, object_pairs_hook=_Members), ""):
            paths[path] = None
            if len(paths) == DUPLICATES_MAX:
                break
        return list(paths)
    except (RecursionError, TypeError, ValueError):
        # The document is too deep to be stored, or has numbers that no schema accepts: it is refused, or
        # these are pruned.
        return []


def strict_problems(body: bytes, schema: Schema) -> list[str]:
    """Returns the unknown and duplicate fields of a body, each once, in Kubernetes' order.

    A field is a duplicate where it is repeated. Within unknown fields, and fields without a schema, nothing
    is reported.
    body: JSON that fits `schema`.
    """
    problems: dict[str, None] = {}
    try:
        for problem in _problems(json.loads(body, object_pairs_hook=_Members), schema, ""):
            problems[problem] = None
            if len(problems) == STRICT_PROBLEMS_MAX:
                break
    except (RecursionError, ValueError):
        pass  # The document is too deep to be stored, and is refused.
    return list(problems)


def _problems(value: Any, schema: Schema, path: str) -> Iterator[str]:
    if isinstance(value, _Members):
        is_struct = schema.kind is ValueKind.STRUCT
        if not is_struct and schema.kind is not ValueKind.MAP:
            return
        seen: set[str] = set()
        for name, member in value:
            member_path = field_below(path, name)
            below = schema.fields.get(name) if is_struct else schema.element
            if below is None:
                yield f'unknown field "{member_path}"'
                continue
            if name in seen:
                yield f'duplicate field "{member_path}"'
            seen.add(name)
            yield from _problems(member, below, member_path)
    elif isinstance(value, list) and schema.kind is ValueKind.LIST and schema.element is not None:
        for index, item in enumerate(value):
            yield from _problems(item, schema.element, item_below(path, index))


def _has_no_duplicates(body: bytes, document: Any) -> bool:
    """Returns whether there are certainly no duplicates; False if there are some or it is unknown."""
    encoded = orjson.dumps(document)
    if body.startswith(encoded):
        return True  # Only whitespace can follow.
    if b"\\" not in body:
        return body.count(b'"') == encoded.count(b'"')
    if b"\\\\" in body or b"\\\\" in encoded:
        return False  # A quotation mark after two backslashes ends a string, after three it does not.
    return _unescaped_quotes(body) == _unescaped_quotes(encoded)


def _unescaped_quotes(text: bytes) -> int:
    return text.count(b'"') - text.count(b'\\"')


class _Members(list[tuple[str, Any]]):
    """The members of an object in their order, distinguished from a list by this type."""


def _duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Members):
        seen: set[str] = set()
        for name, member in value:
            member_path = field_below(path, name)
            if name in seen:
                yield member_path
            seen.add(name)
            yield from _duplicates(member, member_path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _duplicates(item, item_below(path, index))
