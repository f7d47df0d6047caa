"""PriorityLevelConfigurations. Source: pkg/apis/flowcontrol/{validation,v1}, rows T01, T02."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType, clear_status, status_without_metadata
from apiserver.catalogue.flowcontrol.flow_schemas import validate_conditions
from apiserver.meta.field_errors import Errors, forbidden, invalid, not_supported, required
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status, only_status_with_old_metadata
from apiserver.schema.compile import Default
from apiserver.schema.validation.checks import in_range


def _unless_zero(**values: int) -> Default:
    """Returns a default that sets numbers that are absent or 0."""

    def complete(value: Document) -> None:
        for field, number in values.items():
            value[field] = value.get(field) or number

    return complete


def _unless_set(**values: int) -> Default:
    def complete(value: Document) -> None:
        for field, number in values.items():
            if value.get(field) is None:
                value[field] = number

    return complete


_PACKAGE: Final = "io.k8s.api.flowcontrol.v1."


# The specs of the mandatory objects, by name.
MANDATORY_PRIORITY_LEVELS: Final[Mapping[str, Document]] = {
    "exempt": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    "catch-all": {
        "type": "Limited",
        "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}},
    },
}
_LEVEL_TYPES: Final = ("Exempt", "Limited")
_RESPONSES: Final = ("Queue", "Reject")
_QUEUES_MAX: Final = 10_000_000
_HASH_BITS: Final = 60


def validate_priority_level(document: Document) -> Errors:
    spec, name = document.get("spec", {}), document["metadata"].get("name", "")
    kind, limited, exempt = spec.get("type", ""), spec.get("limited"), spec.get("exempt")
    errors: Errors = []
    if (name == "exempt") != (kind == "Exempt"):
        text = "must be 'Exempt' if and only if `name` is 'exempt'"
        errors.append(invalid("spec.type", kind, text))
    if kind == "Exempt":
        if limited is not None:
            errors.append(forbidden("spec.limited", "must be nil if the type is not Limited"))
        errors += _shares("spec.exempt", exempt or {})
    elif kind == "Limited":
        if exempt is not None:
            errors.append(forbidden("spec.exempt", "must be nil if the type is Limited"))
        if limited is None:
            errors.append(required("spec.limited", "must not be empty when type is Limited"))
        else:
            errors += _limited("spec.limited", limited)
    else:
        errors.append(not_supported("spec.type", kind, _LEVEL_TYPES))
    return errors + _fixed(name, spec) + validate_conditions(document)


def _fixed(name: str, spec: Document) -> Errors:
    """Checks that a mandatory object keeps its spec. The exempt level may change its lending."""
    fixed = MANDATORY_PRIORITY_LEVELS.get(name)
    if fixed is None:
        return []
    changeable, exception = ("exempt", " except the 'spec.exempt' field") if name == "exempt" else ("", "")
    if _without(spec, changeable) == _without(fixed, changeable):
        return []
    return [invalid("spec", spec, f"spec of '{name}'{exception} must equal the fixed value")]


def _without(spec: Document, field: str) -> Document:
    return {name: value for name, value in spec.items() if name != field}


def _shares(path: str, value: Document) -> Errors:
    shares = value.get("nominalConcurrencyShares")
    errors: Errors = []
    if shares is not None and shares < 0:
        text = "must be a non-negative integer"
        errors.append(invalid(f"{path}.nominalConcurrencyShares", shares, text))
    return errors + in_range(f"{path}.lendablePercent", value.get("lendablePercent"), 0, 100)


def _limited(path: str, limited: Document) -> Errors:
    borrowing = limited.get("borrowingLimitPercent")
    errors = _shares(path, limited)
    if borrowing is not None and borrowing < 0:
        text = "if specified, must be a non-negative integer"
        errors.append(invalid(f"{path}.borrowingLimitPercent", borrowing, text))
    response = limited.get("limitResponse", {})
    where, kind, queuing = f"{path}.limitResponse", response.get("type", ""), response.get("queuing")
    if kind not in _RESPONSES:
        errors.append(not_supported(f"{where}.type", kind, _RESPONSES))
    elif kind == "Reject" and queuing is not None:
        text = "must be nil if limited.limitResponse.type is not Limited"
        errors.append(forbidden(f"{where}.queuing", text))
    elif kind == "Queue" and queuing is None:
        text = "must not be empty if limited.limitResponse.type is Limited"
        errors.append(required(f"{where}.queuing", text))
    elif queuing is not None:
        errors += _queuing(f"{where}.queuing", queuing)
    return errors


def _queuing(path: str, queuing: Document) -> Errors:
    queues, hand = queuing.get("queues", 0), queuing.get("handSize", 0)
    limit, hand_path = queuing.get("queueLengthLimit", 0), f"{path}.handSize"
    errors: Errors = []
    if limit <= 0:
        errors.append(invalid(f"{path}.queueLengthLimit", limit, "must be positive"))
    if queues <= 0:
        errors.append(invalid(f"{path}.queues", queues, "must be positive"))
    elif queues > _QUEUES_MAX:
        text = f"must not be greater than {_QUEUES_MAX}"
        errors.append(invalid(f"{path}.queues", queues, text))
    if hand <= 0:
        errors.append(invalid(hand_path, hand, "must be positive"))
    elif hand > queues:
        errors.append(invalid(hand_path, hand, f"should not be greater than queues ({queues})"))
    elif math.ceil(math.log2(queues) * hand) > _HASH_BITS:
        text = (
            f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than "
            f"{_HASH_BITS}"
        )
        errors.append(invalid(hand_path, hand, text))
    return errors


# ---- columns

_QUEUING = ("limitResponse", "queuing")


def _limit(name: str, *steps: str, text: str) -> Column:
    cell = field_cell("spec", "limited", *steps, default="<none>")
    return Column(name, cell, text)


BUILTIN_TYPE: Final = BuiltinType(
    "flowcontrol.apiserver.",
    "v1",
    "prioritylevelconfigurations",
    "PriorityLevelConfiguration",
    is_namespaced=False,
    subresources=(status_without_metadata(validate_conditions, only_status_with_old_metadata),),
    defaults={
        f"{_PACKAGE}QueuingConfiguration": _unless_zero(queues=64, handSize=8, queueLengthLimit=50),
        f"{_PACKAGE}LimitedPriorityLevelConfiguration": _unless_set(
            nominalConcurrencyShares=30, lendablePercent=0
        ),
        f"{_PACKAGE}ExemptPriorityLevelConfiguration": _unless_set(
            nominalConcurrencyShares=0, lendablePercent=0
        ),
    },
    strategy=Strategy(
        prepare_create=clear_status,
        validate=validate_priority_level,
        update=UpdateStrategy(prepare=keep_status),
        has_generation=True,
    ),
    columns=columns(
        Column("Type", field_cell("spec", "type"), "The type of the level: Limited or Exempt."),
        _limit("NominalConcurrencyShares", "nominalConcurrencyShares", text="Its part of all requests."),
        _limit("Queues", *_QUEUING, "queues", text="How many queues it has."),
        _limit("HandSize", *_QUEUING, "handSize", text="How many queues a flow is dealt."),
        _limit("QueueLengthLimit", *_QUEUING, "queueLengthLimit", text="How many requests fit in a queue."),
        AGE,
    ),
)
