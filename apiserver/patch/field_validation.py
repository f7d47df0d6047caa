"""What field validation has to say about the text of a patch, before it is applied. Rows E07-E09, E12.

The texts are kube-apiserver's (recorded). A member that a value has twice is told with the path that it gets
in the object, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import jsonpointer

from apiserver.schema.duplicates import duplicate_fields
from apiserver.vocabulary import Document

PROBLEMS_MAX: Final = 1_000
_MEMBERS: Final = frozenset({"op", "path", "from", "value"})


def merge_patch_problems(body: bytes, patch: Document | None) -> list[str]:
    """Of a merge patch, be it strategic or not. patch: what `body` was decoded to, as it was."""
    return [f'duplicate field "{path}"' for path in duplicate_fields(body, patch)]


def json_patch_problems(body: bytes, patch: Any) -> list[str]:
    """patch: what `body` was decoded to, and has been found to be a JSON patch."""
    if not patch:
        return []
    repeated = duplicate_fields(body, patch)
    return [
        *islice(_unknown_members(patch), PROBLEMS_MAX),
        *(f'json patch duplicate field "{path}"' for path in repeated),
        *(f'duplicate field "{path}"' for each in repeated if (path := _in_object(each, patch))),
    ]


def _unknown_members(patch: list[Document]) -> Iterator[str]:
    for index, operation in enumerate(patch):
        for member in operation:
            if member not in _MEMBERS:
                yield f'json patch unknown field "[{index}].{member}"'


def _in_object(path: str, patch: list[Document]) -> str:
    """Where a repeated member of a value comes to stand: `[1].value.k` -> `data.k`; empty if nowhere."""
    index, _, rest = path[1:].partition("]")
    operation = patch[int(index)]
    below = rest.removeprefix(".value")
    if below == rest or not below or operation.get("op") not in ("add", "replace"):
        return ""
    try:
        steps = jsonpointer.JsonPointer(operation.get("path", "")).parts
    except jsonpointer.JsonPointerException:
        return ""
    where = "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in steps)
    return f"{where}{below}".removeprefix(".")
