"""Finds the changes of admission that have made an object invalid. Pure.

If webhooks make an object invalid, the client gets the validation errors, as in Kubernetes. If a function of
an extension does so, the function has failed, and its `on_error` decides. Validation runs after all
mutations, so it is repeated here on the object as it was before and after each change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

import orjson

from apiserver.meta.errors import ApiError, Conflict, Invalid
from apiserver.meta.field_errors import FieldError
from apiserver.meta.vocabulary import Document

# The field that is reported for errors without one, such as that of a changed namespace.
_METADATA: Final = "metadata"
# What may differ in an error though its reason is the same: an item's index, and values in texts. A truncated
# value has no closing quote. The pattern never backtracks, so it takes linear time.
_VARYING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|\d+', re.DOTALL)
# What a conflict may be about: the object that the client expects.
_IDENTITY: Final = ("uid", "resourceVersion")

# The field, the reason and the text of an error, without what may vary.
_Kind: TypeAlias = tuple[str, str, str]


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
    """Returns the errors that changes have caused, by the indices of the changes.

    A change has caused errors of a kind if there are more of them after it. Empty if the object would be
    refused anyway: it had such errors before all changes, or something other than a function caused some.

    refused: the error for which the object was refused. refusal_of: returns the error for which another
    object would be refused, and may change that object.
    """
    if isinstance(refused, Conflict) and _identity(changes[0].before) == _identity(changes[-1].after):
        return {}
    errors = _errors(refused)
    wanted = {kind for kind, _ in errors}

    def count(state: bytes) -> Counter[_Kind]:
        return Counter(kind for kind, _ in _errors(refusal_of(orjson.loads(state))) if kind in wanted)

    last = count(changes[-1].after)
    if last != Counter(kind for kind, _ in errors):
        return {}
    known, before = changes[0].before, count(changes[0].before)
    if before:
        return {}
    by_kind: dict[_Kind, list[int]] = {kind: [] for kind in wanted}
    for index, change in enumerate(changes):
        if change.before != known:
            found = count(change.before)
            if found - before:  # Caused by something other than a function, such as a webhook.
                return {}
            for kind, indices in by_kind.items():
                if not found[kind]:
                    indices.clear()
            before = found
        after = last if change is changes[-1] else count(change.after)
        for kind, indices in by_kind.items():
            if not after[kind]:
                indices.clear()
            elif after[kind] > before[kind]:
                indices.append(index)
        known, before = change.after, after
    return _by_change(by_kind, errors)


def _identity(state: bytes) -> Sequence[object]:
    meta = orjson.loads(state)["metadata"]
    return [meta.get(field) for field in _IDENTITY]


def _by_change(
    by_kind: Mapping[_Kind, Sequence[int]], errors: Iterable[tuple[_Kind, InvalidField]]
) -> Mapping[int, Sequence[InvalidField]]:
    found: dict[int, list[InvalidField]] = {}
    for kind, field in errors:
        for index in by_kind[kind]:
            found.setdefault(index, []).append(field)
    return found


def _errors(refused: ApiError | None) -> Sequence[tuple[_Kind, InvalidField]]:
    """Returns the errors in an object, with their kinds."""
    if refused is None:
        return ()
    if not isinstance(refused, Invalid):
        kind = _METADATA, refused.reason, _VARYING.sub("", refused.message)
        return [(kind, InvalidField(refused.message, _METADATA))]
    return [(_kind_of(each), _shown(each)) for each in refused.errors]


def _kind_of(error: FieldError) -> _Kind:
    text = error.without_quoted().message
    return _VARYING.sub("", error.field), error.reason, _VARYING.sub("", text)


def _shown(error: FieldError) -> InvalidField:
    return InvalidField(str(error.without_quoted()), f"{error.field} ({error.reason})")
