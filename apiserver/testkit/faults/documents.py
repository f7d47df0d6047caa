"""Faults as JSON documents, as they are sent to a server and returned by it.

    {"match": {"verb": "update", "resource": "pods"}, "effect": {"type": "Answer", "code": 409}, "times": 2}

Field names are those of `Match` and of the effects, in camel case, and `retryAfterSeconds`. A server also
returns `id` and `hits`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, NamedTuple, get_args

from apiserver.testkit.faults.effects import Effect
from apiserver.testkit.faults.errors import InvalidFault
from apiserver.testkit.faults.injector import Fault
from apiserver.testkit.faults.matches import Match

EFFECTS: Final[Mapping[str, type[Effect]]] = {
    kind.__name__.replace("Tls", "TLS"): kind for kind in get_args(Effect)
}
_NAMES: Final = {kind: name for name, kind in EFFECTS.items()}
# What the fields hold that are no texts.
_INTEGERS: Final = frozenset({"nth", "every", "code", "retry_after_s", "after_events"})
_NUMBERS: Final = frozenset({"seconds"})
_BOOLEANS: Final = frozenset({"after_write", "silently"})
_FIELDS: Final = ("match", "effect", "times")


class FaultRequest(NamedTuple):
    """A fault to inject."""

    effect: Effect
    match: Match
    times: int | None


def parse(document: Any) -> FaultRequest:
    """Returns the fault that a document describes. Raises InvalidFault, which names the field."""
    members = _members(document, "fault")
    for name in members:
        if name not in _FIELDS:
            raise InvalidFault(str(name), f"unknown field; the fields of a fault are {', '.join(_FIELDS)}")
    said = _members(members.get("effect", {}), "effect")
    kind = said.get("type", "")
    effect = EFFECTS.get(kind) if isinstance(kind, str) else None
    if effect is None:
        raise InvalidFault("effect.type", f"must be one of {', '.join(EFFECTS)}")
    times = members.get("times")
    if times is not None and type(times) is not int:
        raise InvalidFault("times", "must be an integer")
    return FaultRequest(
        _read(effect, {name: value for name, value in said.items() if name != "type"}, "effect"),
        _read(Match, _members(members.get("match", {}), "match"), "match"),
        times,
    )


def request_document(effect: Effect, match: Match, times: int | None) -> dict[str, Any]:
    """Returns the document of a fault to inject."""
    document: dict[str, Any] = {
        "match": _said(match),
        "effect": {"type": _NAMES[type(effect)], **_said(effect)},
    }
    if times is not None:
        document["times"] = times
    return document


def fault_document(fault: Fault) -> dict[str, Any]:
    """Returns the document of a fault as a server returns it."""
    return {
        "id": str(fault.id),
        **request_document(fault.effect, fault.match, fault.times),
        "hits": fault.hits,
    }


def key_of(name: str) -> str:
    """Returns the name of a field in documents."""
    name = f"{name.removesuffix('_s')}_seconds" if name.endswith("_s") else name
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _members(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidFault(where, "must be an object")
    return value


def _read(kind: type[Any], members: Mapping[str, Any], where: str) -> Any:
    names = {key_of(field.name): field for field in fields(kind)}
    values = {}
    for key, value in members.items():
        field = names.get(key)
        if field is None:
            known = f"the fields of {where} are {', '.join(names)}" if names else f"{where} has no fields"
            raise InvalidFault(f"{where}.{key}", f"unknown field; {known}")
        values[field.name] = _checked(field.name, value, f"{where}.{key}")
    try:
        return kind(**values)
    except InvalidFault as error:
        path, _, name = error.field.rpartition(".")
        raise InvalidFault(f"{path}.{key_of(name)}", error.why) from None
    except TypeError:
        raise InvalidFault(f"{where}.{key_of(fields(kind)[0].name)}", "is required") from None


def _checked(name: str, value: Any, where: str) -> Any:
    if name in _INTEGERS:
        fits, what = type(value) is int, "an integer"
    elif name in _NUMBERS:
        fits, what = type(value) in (int, float), "a number"
    elif name in _BOOLEANS:
        fits, what = type(value) is bool, "true or false"
    else:
        fits, what = isinstance(value, str), "a text"
    if not fits:
        raise InvalidFault(where, f"must be {what}")
    return value


def _said(value: Any) -> dict[str, Any]:
    """Returns the fields that differ from their defaults."""
    return {
        key_of(field.name): said
        for field in fields(value)
        if (said := getattr(value, field.name)) != field.default
    }
