"""Takes back changes that have made an object invalid. Pure.

In Kubernetes, the changes of a webhook are as good as the client's: if the object is invalid then, the client
gets the errors. A function of an extension has failed instead, and its `on_error` decides. Only the rules of
the object's type can tell, and they are applied after all changes. So the write begins again without the
functions that have changed the fields in question: if the object is valid then, these have made it invalid.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import orjson

from apiserver.meta.errors import ApiError, Invalid

# Where admission must not change anything; errors about that name no field.
_METADATA: Final = "metadata"
# More errors would not be read.
_TOLD_MAX: Final = 3
_ABSENT: Final = object()


class ReversibleChange(NamedTuple):
    """A change of an object by a function.

    author: the function. before, after: the object as JSON. failed: called with the reason if the change has
    made the object invalid; returns warnings, or raises the error that refuses the write.
    """

    author: Hashable
    before: bytes
    after: bytes
    failed: Callable[[str], Sequence[str]]


class ReversibleChanges:
    """The changes of one write that may be taken back, until the object is known to be valid.

    made: the changes in their order. failures: the functions that are not called any more, each with what
    follows if the object is valid without them.
    """

    __slots__ = ("failures", "made")

    def __init__(self) -> None:
        self.made: list[ReversibleChange] = []
        self.failures: dict[Hashable, Callable[[], Sequence[str]]] = {}

    def take_back(self, refused: ApiError) -> bytes | None:
        """Leave out the functions that have changed the fields for which the object is refused.

        Returns the object before all changes, as JSON; None if no function has changed such fields.
        """
        made, self.made = self.made, []
        found = False
        for each in made:
            if each.author not in self.failures and (reason := _reason(each, refused)):
                self.failures[each.author] = partial(each.failed, reason)
                found = True
        return made[0].before if found else None

    def accept(self) -> Sequence[str]:
        """Note that the object is valid. Returns warnings.

        Raises the error of a function that has made the object invalid before.
        """
        self.made = []
        failures, self.failures = self.failures, {}
        return [warning for failed in failures.values() for warning in failed()]


def _reason(change: ReversibleChange, refused: ApiError) -> str:
    """Returns why an object is refused if that may be due to a change; otherwise ""."""
    changed = [*_changed(orjson.loads(change.before), orjson.loads(change.after), ())]
    if not isinstance(refused, Invalid):
        return refused.message if any(path[0] == _METADATA for path in changed) else ""
    told = [str(each.without_quoted()) for each in refused.errors if _concerns(each.field, changed)]
    return ", ".join(told[:_TOLD_MAX])


def _concerns(field: str, changed: Sequence[Sequence[str]]) -> bool:
    """Whether an error about a field may be due to changes: of the field, in it, or of what it is in."""
    steps = field.replace("[", ".").replace("]", "").split(".")
    return any(all(one == other for one, other in zip(steps, path, strict=False)) for path in changed)


def _changed(before: Any, after: Any, path: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yields the paths of changed fields. A list whose length has changed is one field."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            steps = key.split(".")  # As the paths of errors are taken apart.
            yield from _changed(before.get(key, _ABSENT), after.get(key, _ABSENT), (*path, *steps))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _changed(one, other, (*path, str(index)))
    elif before is not after and (type(before) is not type(after) or before != after):
        yield path
