"""APIServices. Source: kube-aggregator, pkg/apis/apiregistration/validation (release 1.34); row T15."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.served_kinds import CREATED, Changes, ServedKind

API_SERVICE: Final = ServedKind(
    "apiservices.apiregistration.k8s.io",
    {
        "metadata": {"name": "v1.example.com"},
        "spec": {
            "group": "example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "service": {"name": "s", "namespace": "n"},
        },
    },
)

INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "and has no other prefix": (
        {"metadata.generateName": "g-", "metadata.name": "v1.g", "spec.group": "g"},
        ['metadata.generateName: Invalid value: "g-": must be `spec.version+"."+spec.group`: "v1.g"'],
    ),
    "an API service is called by its version": (
        {"metadata.name": "wrong", "spec": {"group": "g", "version": "v1"}},
        [
            'metadata.name: Invalid value: "wrong": must be `spec.version+"."+spec.group`: "v1.g"',
            "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
            "spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
        ],
    ),
    "what is local needs no certificate": (
        {"spec.service": None, "spec.caBundle": "eHg=", "spec.insecureSkipTLSVerify": True},
        [
            'spec.caBundle: Invalid value: "2 bytes": local APIServices may not have a caBundle',
            (
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have "
                "insecureSkipTLSVerify"
            ),
        ],
    ),
    "a service has a port": (
        {"spec.service.port": 0},
        ["spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive"],
    ),
    "a service is in a namespace": (
        {"spec.service.namespace": None},
        ["spec.service.namespace: Required value"],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_invalid(changes: Changes, texts: list[str]) -> None:
    assert API_SERVICE.create().errors == []
    assert API_SERVICE.create(changes).texts == texts


def test_what_this_server_serves_is_available_at_once() -> None:
    local = API_SERVICE.create({"spec.service": None, "status": {"conditions": []}}).document
    (condition,) = local["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Available", "True")
    assert condition["lastTransitionTime"] == CREATED


def test_what_another_server_serves_is_not_known_to_be_available() -> None:
    """Whoever writes what into the status: the server is checked first."""
    conditions = [{"type": "Available", "status": "True"}]
    foreign = API_SERVICE.create({"status": {"conditions": conditions}}).document
    assert (foreign["status"], foreign["spec"]["service"]["port"]) == ({}, 443)


def test_a_condition_is_true_or_not_or_unknown() -> None:
    conditions = [{"type": "Available", "status": "Maybe"}]
    assert API_SERVICE.update({"status.conditions": conditions}, "status").texts == [
        (
            'status.conditions[0].status: Unsupported value: "Maybe": supported values: "True", "False", '
            '"Unknown"'
        )
    ]


ROWS: Final[dict[str, tuple[Changes, dict[str, Any]]]] = {
    "another server": ({}, {"Service": "n/s", "Available": "Unknown"}),
    "a server that is away": (
        {"status.conditions": [{"type": "Available", "status": "False", "reason": "Gone"}]},
        {"Available": "False (Gone)"},
    ),
    "this server": ({"spec.service": None}, {"Service": "Local"}),
}


@pytest.mark.parametrize(("changes", "cells"), ROWS.values(), ids=ROWS)
def test_rows(changes: Changes, cells: dict[str, Any]) -> None:
    assert cells.items() <= API_SERVICE.cells(changes).items()
