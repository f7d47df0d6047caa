"""PriorityLevelConfigurations. Source: pkg/apis/flowcontrol/{validation,v1} (release 1.34); row T02."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind

GROUP: Final = "flowcontrol.apiserver.k8s.io"


LEVEL: Final = ServedKind(
    f"prioritylevelconfigurations.{GROUP}",
    {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}},
)


def test_no_shares_are_not_the_default() -> None:
    """Row T01."""
    document = LEVEL.create({"spec.limited.nominalConcurrencyShares": 0}).document
    assert document["spec"]["limited"]["nominalConcurrencyShares"] == 0


_LIMITED: Final = "spec.limited"
_QUEUING: Final = f"{_LIMITED}.limitResponse.queuing"
INVALID_LEVELS: Final[dict[str, tuple[Changes, list[str]]]] = {
    "only one level is exempt": (
        {"spec": {"type": "Exempt"}},
        ["spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"],
    ),
    "a limited level says how": (
        {"spec.limited": None},
        ["spec.limited: Required value: must not be empty when type is Limited"],
    ),
    "a limited level is not exempt": (
        {"spec.exempt": {}},
        ["spec.exempt: Forbidden: must be nil if the type is Limited"],
    ),
    "requests wait or are refused": (
        {"spec.limited.limitResponse": {}},
        [f'{_LIMITED}.limitResponse.type: Unsupported value: "": supported values: "Queue", "Reject"'],
    ),
    "who is refused does not wait": (
        {"spec.limited.limitResponse.type": "Reject"},
        [f"{_QUEUING}: Forbidden: must be nil if limited.limitResponse.type is not Limited"],
    ),
    "no more is lent than there is": (
        {"spec.limited.lendablePercent": 101},
        [f"{_LIMITED}.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"],
    ),
    "a hand has as many cards as there are": (
        {f"{_QUEUING}.queues": 7, f"{_QUEUING}.handSize": 8},
        [f"{_QUEUING}.handSize: Invalid value: 8: should not be greater than queues (7)"],
    ),
    "a hand is dealt from one hash": (
        {f"{_QUEUING}.queues": 512},
        [
            (
                f"{_QUEUING}.handSize: Invalid value: 8: required entropy bits of deckSize 512 and "
                "handSize 8 "
                "should not be greater than 60"
            )
        ],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID_LEVELS.values(), ids=INVALID_LEVELS)
def test_levels_that_are_wrong(changes: Changes, texts: list[str]) -> None:
    assert LEVEL.create(changes).texts == texts


def test_but_the_exempt_level_may_lend() -> None:
    spec = {"type": "Exempt", "exempt": {"lendablePercent": 50}}
    assert LEVEL.create({"metadata.name": "exempt", "spec": spec}).errors == []
    wrong = {"type": "Exempt", "exempt": {"nominalConcurrencyShares": -1}}
    assert LEVEL.create({"metadata.name": "exempt", "spec": wrong}).texts == [
        "spec.exempt.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer"
    ]
