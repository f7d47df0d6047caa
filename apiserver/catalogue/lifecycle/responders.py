"""Validation of the responders of an Eviction: the active one, and the report of each.

Two lists of the status have the same responders in the same order. In `targetResponders`
kube-controller-manager activates them in turn: the first one, and after its end the next one, until one has
evicted the target. In `responders` the active one reports its progress.

Source: pkg/apis/lifecycle/validation, ValidateAllEvictionStatusResponderFields, and the declarative rules of
k8s.io/api/lifecycle/v1alpha1 (release 1.37).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from apiserver.catalogue.common.participants import participant_name
from apiserver.meta import timestamps
from apiserver.meta.field_errors import Errors, forbidden, invalid, quote, required, too_long_characters
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import (
    CLEARED,
    IMMUTABLE,
    MODIFIED,
    UNCHANGED,
    at_least,
    at_most,
    max_items,
    named,
    no_repeated_items,
    one_of,
    without_nulls,
)

_TARGETS: Final = "status.targetResponders"
_RESPONDERS: Final = "status.responders"
# Those of a pod, and one that Kubernetes adds.
_RESPONDERS_MAX: Final = 11
_PRIORITY_MAX: Final = 100_000
_MESSAGE_CHARACTERS_MAX: Final = 4_000
# How far a time that is said to be the present one may be from it.
_SKEW_S_MAX: Final = 30
# A responder that reports nothing for so long loses its turn.
_HEARTBEAT_S_MAX: Final = 20 * 60
_AHEAD_S_MAX: Final = 10 * 365 * 24 * 3_600
_INACTIVE: Final = "Inactive"
_ACTIVE: Final = "Active"
_ENDED: Final = ("Canceled", "Completed", "Interrupted")
# In the order of error messages.
_STATES: Final = (_ACTIVE, "Canceled", "Completed", _INACTIVE, "Interrupted")
_PRESENT: Final = "must be set to the present time"


class Progress(NamedTuple):
    """An update of a status. before: the old status. has_ended: whether the eviction has ended.

    now: seconds since 1970.
    """

    status: Document
    before: Document
    has_ended: bool
    now: float


def _names(responders: Sequence[Document]) -> list[str]:
    return [each.get("name") or "" for each in responders]


def _by_name(responders: Sequence[Document]) -> dict[str, Document]:
    """Returns responders by name; of several with the same name the first."""
    return {each.get("name") or "": each for each in reversed(responders)}


def _validate_list(path: str, responders: Sequence[Document]) -> Errors:
    """Checks a list, but not its items. A list with an error has no others."""
    return max_items(path, responders, _RESPONDERS_MAX) or no_repeated_items(path, _names(responders))


# ---- whose turn it is


def validate_turns(progress: Progress) -> Errors:
    """Checks the field `targetResponders`."""
    responders = progress.status.get("targetResponders") or []
    before = progress.before.get("targetResponders") or []
    if errors := _validate_list(_TARGETS, responders):
        return errors
    if before and _names(responders) != _names(before):
        length = "" if len(responders) == len(before) else "the same length and "
        return [invalid(_TARGETS, responders, f"must preserve {length}the same keys in the same order")]
    errors, known = [], _by_name(before)
    reports: Sequence[Document] = progress.status.get("responders") or []
    for index, (responder, turn) in enumerate(zip(responders, _turns(progress), strict=True)):
        path, name = f"{_TARGETS}[{index}]", responder.get("name") or ""
        errors += _validate_target(path, responder, known.get(name, {}))
        if index < len(reports) and (reports[index].get("name") or "") == name:
            errors += _validate_turn(f"{path}.state", responder, turn, reports[index], progress)
        else:
            text = f"{quote(name)} has to be tracked in {_RESPONDERS} first"
            errors.append(invalid(path, responder, text))
    return errors


class _Turn(NamedTuple):
    """The states that a responder may have, and the reason."""

    states: tuple[str, ...]
    why: str


def _turns(progress: Progress) -> Iterator[_Turn]:
    """Yields the allowed states of each responder."""
    states: list[Any] = [each.get("state") for each in progress.status.get("targetResponders") or ()]
    before: list[Any] = [each.get("state") for each in progress.before.get("targetResponders") or ()]
    active = before.index(_ACTIVE) if _ACTIVE in before else -1
    is_over = active >= 0 and states[active] != _ACTIVE
    next_one = 0 if not before else active + 1 if is_over else -1
    for index in range(len(states)):
        if index < active or (before and active < 0 and progress.has_ended):
            yield _Turn((before[index],), "final state is immutable")
        elif index == active and is_over:
            yield _Turn(_ENDED, "this responder must reach a final state")
        elif index == active and progress.has_ended:
            yield _Turn(_ENDED, "the eviction request has finished processing")
        elif index == active:
            yield _Turn((_ACTIVE,), "the eviction request stays active")
        elif index == next_one and progress.has_ended:
            yield _Turn((_INACTIVE,), "the eviction request has finished processing")
        elif index == next_one:
            yield _Turn((_ACTIVE,), "this responder is next in line")
        else:
            yield _Turn((_INACTIVE,), "the previously active has not finished processing")


def _validate_target(path: str, responder: Document, before: Document) -> Errors:
    priority, was = responder.get("priority"), before.get("priority")
    where = f"{path}.priority"
    errors = named(f"{path}.name", responder.get("name"), participant_name)
    if priority is None:
        errors.append(required(where))
    if was is not None and priority != was:
        errors.append(invalid(where, None, CLEARED if priority is None else MODIFIED))
    errors += at_least(where, priority, 0) + at_most(where, priority, _PRIORITY_MAX)
    return errors + one_of(f"{path}.state", responder.get("state"), _STATES, required_text="")


def _validate_turn(
    path: str, responder: Document, turn: _Turn, report: Document, progress: Progress
) -> Errors:
    """Checks a state. report: the report of the responder."""
    state, errors = responder.get("state") or "", Errors()
    if state not in turn.states:
        errors.append(invalid(path, state, f"must be one of: {', '.join(turn.states)}, because {turn.why}"))
    if _ACTIVE in turn.states or progress.has_ended or _time(report, "completionTime") is not None:
        return errors
    start, heartbeat = _time(report, "startTime"), _time(report, "heartbeatTime")
    seen = start if heartbeat is None else heartbeat
    if start is not None and seen is not None and progress.now < seen + _HEARTBEAT_S_MAX - _SKEW_S_MAX:
        text = (
            "must stay Active because the responder is in progress and it should report "
            f"{_RESPONDERS}.heartbeatTime or {_RESPONDERS}.completionTime"
        )
        errors.append(forbidden(path, text))
    return errors


# ---- what responders report


def validate_responders(progress: Progress) -> Errors:
    """Checks the field `responders`."""
    responders = progress.status.get("responders") or []
    targets = progress.status.get("targetResponders") or []
    if errors := _validate_list(_RESPONDERS, responders):
        return errors
    if len(responders) != len(targets):
        text = f"must be the same length as {_TARGETS} and contain the same keys in the same order"
        return [invalid(_RESPONDERS, responders, text)]
    if _names(responders) != _names(targets):
        text = f"must contain the same keys in the same order as {_TARGETS}"
        return [invalid(_RESPONDERS, responders, text)]
    errors, before = [], progress.before.get("responders") or []
    for index, (responder, target) in enumerate(zip(responders, targets, strict=True)):
        path = f"{_RESPONDERS}[{index}]"
        was = before[index] if index < len(before) else None
        is_active = target.get("state") == _ACTIVE
        if was is not None and not is_active and without_nulls(responder) != without_nulls(was):
            errors.append(invalid(path, responder, IMMUTABLE, origin=UNCHANGED))
        else:
            errors += named(f"{path}.name", responder.get("name"), participant_name)
            errors += _Times(path, responder, was or {}, progress.now).errors(is_active)
            if len(responder.get("message") or "") > _MESSAGE_CHARACTERS_MAX:
                errors.append(too_long_characters(f"{path}.message", _MESSAGE_CHARACTERS_MAX))
    return errors


def _time(responder: Document, field: str) -> float | None:
    text = responder.get(field)
    return timestamps.from_text(text) if text else None


class _Times:
    """The times that a responder reports. now: seconds since 1970."""

    def __init__(self, path: str, responder: Document, before: Document, now: float) -> None:
        self._path, self._responder, self._before, self._now = path, responder, before, now
        self._start = _time(responder, "startTime")

    def errors(self, is_active: bool) -> Errors:
        return [*self._started(is_active), *self._heartbeat(), *self._expected(), *self._completed()]

    def _of(self, field: str) -> tuple[str, float | None, float | None]:
        """Returns the path of a time, the time, and its old value."""
        return f"{self._path}.{field}", _time(self._responder, field), _time(self._before, field)

    def _is_present(self, time: float) -> bool:
        return abs(time - self._now) < _SKEW_S_MAX

    def _error(self, field: str, text: str) -> Errors:
        return [invalid(f"{self._path}.{field}", self._responder.get(field), text)]

    def _changed_once_set(self, field: str) -> Errors:
        path, time, was = self._of(field)
        if was is None or time == was:
            return []
        return [invalid(path, None, CLEARED if time is None else MODIFIED)]

    def _started(self, is_active: bool) -> Errors:
        path, time, was = self._of("startTime")
        if errors := self._changed_once_set("startTime"):
            return errors
        if time is None:
            return [required(path, "is required for an active responder")] if is_active else []
        return [] if time == was or self._is_present(time) else self._error("startTime", _PRESENT)

    def _heartbeat(self) -> Errors:
        field = "heartbeatTime"
        path, time, was = self._of(field)
        if time is None:
            return [] if was is None else [required(path, "is required once set")]
        if time == was:
            return []
        if self._start is None:
            return self._error(field, f"cannot be set before {self._path}.startTime is set")
        if was is not None and time < was:
            return self._error(field, "cannot be decreased")
        if time < self._start:
            return self._error(field, f"must occur after {self._path}.startTime")
        return [] if self._is_present(time) else self._error(field, _PRESENT)

    def _expected(self) -> Errors:
        field = "expectedCompletionTime"
        _, time, was = self._of(field)
        if time is None or time == was:
            return []
        if self._start is None:
            return self._error(field, f"cannot be set before {self._path}.startTime is set")
        if time < self._start:
            return self._error(field, f"must occur after {self._path}.startTime")
        if time < self._now - _SKEW_S_MAX:
            return self._error(field, "cannot be set to the past time")
        return self._error(field, "must complete within 10 years") if time > self._now + _AHEAD_S_MAX else []

    def _completed(self) -> Errors:
        field = "completionTime"
        _, time, was = self._of(field)
        if (errors := self._changed_once_set(field)) or time is None:
            return errors
        if self._start is None:
            return self._error(field, f"cannot be set before {self._path}.startTime is set")
        if time < self._start:
            return self._error(field, f"must occur after {self._path}.startTime")
        return [] if time == was or self._is_present(time) else self._error(field, _PRESENT)
