"""What webhooks and extensions answer about a write: a refusal, warnings and audit annotations. Pure.

They are checked, as the other side may be broken or hostile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from apiserver.meta.errors import ApiError
from apiserver.meta.vocabulary import Document
from apiserver.schema.compile import SchemaCompiler, TypeMismatch
from apiserver.schema.structural import Schema, ValueKind

# Of one answer. All warnings of a response share 4 KB.
WARNINGS_MAX: Final = 100
# How much of the Status in one response is passed on to the client, where more would not be read.
CAUSES_MAX: Final = 1_000

_STRING: Final = Schema(ValueKind.STRING, "string")
_INT32: Final = Schema(ValueKind.INTEGER, "int32", bits=32)
_LIST_META: Final = Schema(
    ValueKind.STRUCT,
    "v1.ListMeta",
    fields={
        **dict.fromkeys(("selfLink", "resourceVersion", "continue"), _STRING),
        "remainingItemCount": Schema(ValueKind.INTEGER, "int64"),
    },
)
_CAUSE: Final = Schema(
    ValueKind.STRUCT, "v1.StatusCause", fields=dict.fromkeys(("reason", "message", "field"), _STRING)
)
_DETAILS: Final = Schema(
    ValueKind.STRUCT,
    "v1.StatusDetails",
    fields={
        **dict.fromkeys(("name", "group", "kind", "uid"), _STRING),
        "causes": Schema(ValueKind.LIST, "[]v1.StatusCause", element=_CAUSE),
        "retryAfterSeconds": _INT32,
    },
)
# What counts of a Status. It is checked, as it may be sent in a form that has types.
_CHECK_STATUS: Final = SchemaCompiler().compile(
    Schema(
        ValueKind.STRUCT,
        "v1.Status",
        fields={
            "metadata": _LIST_META,
            **dict.fromkeys(("message", "reason"), _STRING),
            "details": _DETAILS,
            "code": _INT32,
        },
    )
)
_METADATA: Final = ("selfLink", "resourceVersion", "continue", "remainingItemCount")


class InvalidAnswer(Exception):
    """The answer of a webhook or an extension is invalid; the message is for the client."""


class AdmissionDenied(ApiError):
    """A webhook or an extension has refused a write.

    by: what has refused it, as in messages. result: its Status, of the right types.
    """

    def __init__(self, by: str, result: Document) -> None:
        reason = result.get("reason", "")
        explanation = result.get("message") or reason
        denied = f"{by} denied the request"
        code, details = result.get("code", 0), result.get("details")
        retry_after_s = (details or {}).get("retryAfterSeconds", 0)
        super().__init__(
            f"{denied}: {explanation}" if explanation else f"{denied} without explanation",
            details=details,
            retry_after_s=retry_after_s if retry_after_s > 0 else None,
        )
        meta = result.get("metadata") or {}
        self.list_meta = {field: meta[field] for field in _METADATA if meta.get(field) not in ("", None)}
        self.code = code if 400 <= code <= 599 else 400
        self.reason = reason


def text(response: Document, field: str) -> str:
    """Returns a text in a response; empty if it is missing. Raises InvalidAnswer, as all others here do."""
    found = response.get(field)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise InvalidAnswer(f"response.{field} is not a string")
    return found


def status(response: Document, field: str = "status") -> Document:
    """Returns the Status of a refusal in a response; empty if it is missing."""
    found = response.get(field)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InvalidAnswer(f"response.{field} is not an object")
    details = found.get("details")
    if isinstance(details, dict) and isinstance(causes := details.get("causes"), list):
        details["causes"] = causes[:CAUSES_MAX]
    try:
        _CHECK_STATUS(found)
    except TypeMismatch as mismatch:
        raise InvalidAnswer(f"response.{field}: {mismatch}") from None
    return found


def audit_annotations(response: Document) -> Mapping[str, str]:
    found = response.get("auditAnnotations")
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise InvalidAnswer("response.auditAnnotations is not an object whose values are strings")
    return found


def warnings(response: Document) -> Sequence[str]:
    found = response.get("warnings")
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InvalidAnswer("response.warnings is not a list of strings")
    return [each for each in found[:WARNINGS_MAX] if each]
