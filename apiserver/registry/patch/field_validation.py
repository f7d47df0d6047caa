"""Field validation of the text of a patch, before it is applied. Rows E07-E09, E12.

The messages are kube-apiserver's (recorded). A duplicate member in the value of a JSON patch operation is
reported again, with its path in the patched object, among the unknown fields of that object.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from apiserver.meta import field_errors
from apiserver.meta.vocabulary import Document
from apiserver.schema.duplicates import duplicate_fields

PROBLEMS_MAX: Final = 1_000
_MEMBERS: Final = frozenset({"op", "path", "from", "value"})


def merge_patch_problems(body: bytes, patch: Document | None) -> list[str]:
    """Returns the duplicate fields of a merge patch or strategic merge patch.

    patch: the decoded `body`, unchanged.
    """
    return [f'duplicate field "{path}"' for path in duplicate_fields(body, patch)]


class JsonPatchProblems(NamedTuple):
    """The problems in a JSON patch, and those of its values in the patched object."""

    in_patch: list[str]
    in_object: list[str]


def json_patch_problems(body: bytes, patch: Any) -> JsonPatchProblems:
    """Returns the duplicate and unknown members of a JSON patch.

    patch: the decoded `body`, a valid JSON patch, unchanged.
    """
    if not patch:
        return JsonPatchProblems([], [])
    repeated = duplicate_fields(body, patch)
    in_object = (path for each in repeated if (path := _in_object(each, patch)))
    return JsonPatchProblems(
        [
            *islice(_unknown_members(patch), PROBLEMS_MAX),
            *(f'json patch duplicate field "{path}"' for path in repeated),
        ],
        [f'duplicate field "{path}"' for path in in_object],
    )


def _unknown_members(patch: list[Document]) -> Iterator[str]:
    for index, operation in enumerate(patch):
        for member in operation:
            if member not in _MEMBERS:
                yield f'json patch unknown field "[{index}].{member}"'


def _in_object(path: str, patch: list[Document]) -> str:
    """Returns the path of a duplicate member in the patched object: `[1].value.k` -> `data.k`; empty if
    none.
    """
    index, _, rest = path[1:].partition("]")
    operation = patch[int(index)]
    below = rest.removeprefix(".value")
    if below == rest or not below or operation.get("op") not in ("add", "replace"):
        return ""
    from apiserver.registry.patch.json_patch import CannotApply, pointer_steps

    try:
        # The beginning of a path of a megabyte, not all of it for each duplicate.
        steps = pointer_steps(operation.get("path", "")[: field_errors.PATH_LENGTH_MAX])
    except CannotApply:
        return ""
    parent = "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in steps)
    return f"{parent}{below}".removeprefix(".")
