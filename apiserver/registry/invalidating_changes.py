"""Finds the changes of admission that have made an object invalid. Pure.

If webhooks make an object invalid, the client gets the validation errors, as in Kubernetes. If a function of
an extension does so, the function has failed, and its `on_error` decides. Validation runs after all
mutations, so it is repeated here on the object as it was before and after each change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import orjson

from apiserver.meta.errors import ApiError, Invalid
from apiserver.meta.vocabulary import Document

# The field of errors that name none, such as that of a changed namespace.
_METADATA: Final = "metadata"


class ObjectChange(Protocol):
    """A change of an object by a function. before, after: the object of the hub version, as JSON."""

    @property
    def before(self) -> bytes: ...

    @property
    def after(self) -> bytes: ...


class InvalidField(NamedTuple):
    """An error in an object that a change has caused.

    text: for the client. without_values: for logs and audit events.
    """

    text: str
    without_values: str


def causes(
    changes: Sequence[ObjectChange],
    refused: ApiError,
    refusal_of: Callable[[Document], ApiError | None],
) -> Mapping[int, Sequence[InvalidField]]:
    """Returns the errors that each change has caused, by its index.

    refused: the error for which the object was refused. refusal_of: returns that of another object, which it
    may change. Empty if some of the errors have another cause: the object would be refused anyway.
    """
    errors = _errors(refused)
    caused_by: dict[str, int] = {}
    after_last: Collection[str] | None = None
    for index, change in enumerate(changes):
        states = change.before, change.after
        before, after = (_errors(refusal_of(orjson.loads(each))) for each in states)
        for error in errors:
            # Another one than the functions has caused it.
            if error in before and (after_last is None or error not in after_last):
                caused_by.pop(error, None)
            if error not in after:
                caused_by.pop(error, None)
            elif error not in before:
                caused_by[error] = index
        after_last = after
    if caused_by.keys() != errors.keys():
        return {}
    found: dict[int, list[InvalidField]] = {}
    for error, index in caused_by.items():
        found.setdefault(index, []).append(errors[error])
    return found


def _errors(refused: ApiError | None) -> Mapping[str, InvalidField]:
    """Returns the errors in an object by what tells them apart."""
    if refused is None:
        return {}
    if not isinstance(refused, Invalid):
        return {refused.message: InvalidField(refused.message, _METADATA)}
    return {
        str(each): InvalidField(str(each.without_quoted()), f"{each.field} ({each.reason})")
        for each in refused.errors
    }
