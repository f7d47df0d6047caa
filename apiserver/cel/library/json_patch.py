"""The library of JSON Patch for mutating admission policies.

Source: k8s.io/apiserver pkg/cel/library/jsonpatch.go, pkg/cel/mutation/jsonpatch.go. It is not in the base
environment: only expressions that mutate have it.
"""

from __future__ import annotations

from typing import Final

from apiserver.cel import types
from apiserver.cel.declarations import Library
from apiserver.cel.functions import Overload
from apiserver.cel.library.shared_costs import check_size, estimate_text, of_text
from apiserver.cel.types import DYN, STRING, Field

# The type of `JSONPatch{op: "add", path: "/a", value: 1}`, a message of an environment.
JSON_PATCH_TYPE: Final = types.object_of(
    "JSONPatch",
    {
        "op": Field("op", STRING),
        "path": Field("path", STRING),
        "from": Field("from", STRING),
        "value": Field("value", DYN),
    },
)


def _escape_key(key: str) -> str:
    check_size(2 * len(key))
    return key.replace("~", "~0").replace("/", "~1")


JSON_PATCH: Final = Library(
    "kubernetes.jsonpatch",
    {
        "jsonpatch.escapeKey": (
            Overload(
                "string_jsonpatch_escapeKey_string",
                (STRING,),
                STRING,
                _escape_key,
                call_cost=of_text(),
                estimate=estimate_text,
            ),
        )
    },
)
