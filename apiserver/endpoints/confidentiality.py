"""Removes secret values from errors and audit events about objects that hold secrets.

Those objects are Secrets, and objects that are encrypted at rest. Errors may contain what the client sent,
but neither the object to which a patch cannot be applied nor values that a JSON patch copies between fields.
Audit events have other readers, so their statuses contain no values, at any level: they report the field and
the reason of each error. URL parameters that are credentials are redacted in them.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_plus

from apiserver.meta.errors import (
    REJECTED,
    ApiError,
    ApplyConflict,
    BadRequest,
    Invalid,
    NotFound,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
    UnmergeablePatch,
)
from apiserver.meta.field_errors import FieldError
from apiserver.meta.vocabulary import GroupKind

# The field of an error that quotes the whole patch, or the whole object that it has made.
_PATCH: Final = "patch"
# Fields about the request and the server, not about the object.
_HARMLESS: Final = (NotFound, TooManyRequests, ServiceUnavailable, Timeout)
_REDACTED: Final = "REDACTED"
# Names of parameters that are credentials, or signatures that are as good as these: parts, and whole names.
_PARTS: Final = "token|passw|secret|credential|signature|api[_-]?key|access[_-]?key|assertion|bearer"
_NAMES: Final = "auth|authorization|code|jwt|key|pwd|sig"
_CREDENTIALS: Final = re.compile(f"{_PARTS}|^(?:{_NAMES})$", re.IGNORECASE)
# What a query with one of them has. Names may be escaped.
_SUSPECT: Final = re.compile(rf"{_PARTS}|(?:^|&)(?:(?:{_NAMES})=|[^=&]*[%+])", re.IGNORECASE)


class RedactedError:
    """An error about an object that holds secrets. to_client, recorded: the error as the client and as the
    audit event see it.
    """

    def __init__(self, error: ApiError, kind: GroupKind, name: str, *, has_copied: bool) -> None:
        """kind, name: of the object in the request's path; the name is empty if there is none.

        has_copied: whether a JSON patch has copied values, which the object may be refused for.
        """
        if has_copied and not isinstance(error, _HARMLESS):
            self.to_client = self.recorded = _without_values(error, kind, name)
        elif isinstance(error, UnmergeablePatch):
            self.to_client = self.recorded = _rejected(error)
        elif isinstance(error, Invalid):
            self.to_client = error.with_errors(_without_patch)
            self.recorded = _without_values(error, kind, name)
        else:
            self.to_client = error
            # Fields in a conflict may be items of a set, whose paths are their values.
            has_values = isinstance(error, BadRequest | ApplyConflict)
            self.recorded = _rejected(error) if has_values else error.to_record()
        if self.to_client is not error:
            self.to_client.warnings = [] if has_copied else error.warnings


def _without_patch(error: FieldError) -> FieldError:
    return error.without_value() if error.field == _PATCH else error


def _without_values(error: ApiError, kind: GroupKind, name: str) -> ApiError:
    if not isinstance(error, Invalid):
        return _rejected(error)
    # What the error is about may be a value, too.
    return Invalid(kind, name or error.name, [each.without_text() for each in error.errors])


def _rejected(error: ApiError) -> ApiError:
    """Returns an error of the same type that does not reveal its cause."""
    details = {name: value for name, value in (error.details or {}).items() if name != "causes"}
    rejected = ApiError(REJECTED, details=details or None, retry_after_s=error.retry_after_s)
    rejected.code, rejected.reason, rejected.is_termination = error.code, error.reason, error.is_termination
    return rejected


def redacted_uri(uri: str) -> str:
    """Returns the path and query of a request, with credentials in the query redacted."""
    path, mark, query = uri.partition("?")
    if not mark or not _SUSPECT.search(query):
        return uri
    return path + mark + "&".join(map(_redacted_parameter, query.split("&")))


def _redacted_parameter(text: str) -> str:
    name, equals, _ = text.partition("=")
    is_credential = bool(equals) and _CREDENTIALS.search(unquote_plus(name)) is not None
    return f"{name}={_REDACTED}" if is_credential else text
