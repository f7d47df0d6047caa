"""RuntimeClasses. Source: pkg/apis/node/validation (release 1.36); row T12."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind, assert_texts_begin

RUNTIME_CLASS: Final = ServedKind("runtimeclasses.node.k8s.io", {"handler": "runc"})

EVICTED: Final = {"key": "k", "operator": "Exists", "effect": "NoExecute"}
INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a handler is a label": ({"handler": "a.b"}, ['handler: Invalid value: "a.b": must not contain dots']),
    "there is a handler": ({"handler": ""}, ["handler: Required value"]),
    "a toleration is there once, however long it lasts": (
        {"scheduling": {"tolerations": [{**EVICTED, "tolerationSeconds": 1}, EVICTED]}},
        ["scheduling.tolerations[1]: Duplicate value: {"],
    ),
    "a toleration is well-formed": (
        {"scheduling": {"tolerations": [{"key": "k", "operator": "Is"}]}},
        ['scheduling.tolerations[0].operator: Unsupported value: "Is": supported values: "Equal", "Exists"'],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_invalid(changes: Changes, texts: list[str]) -> None:
    assert RUNTIME_CLASS.create().errors == []
    assert_texts_begin(RUNTIME_CLASS.create(changes).texts, texts)


FIXED: Final[dict[str, tuple[Changes, list[str]]]] = {
    "tolerations, if they are right": (
        {"scheduling": {"tolerations": [EVICTED, EVICTED]}},
        [
            (
                'scheduling.tolerations[1]: Duplicate value: {"Key":"k","Operator":"Exists","Value":"",'
                '"Effect":"NoExecute","TolerationSeconds":null}'
            )
        ],
    ),
    "a handler": ({"handler": "kata"}, ['handler: Invalid value: "kata": field is immutable']),
}


@pytest.mark.parametrize(("changes", "texts"), FIXED.values(), ids=FIXED)
def test_what_stays(changes: Changes, texts: list[str]) -> None:
    assert RUNTIME_CLASS.update(changes).texts == texts


def test_deprecated_node_labels_cause_warnings() -> None:
    document = RUNTIME_CLASS.create({"scheduling": {"nodeSelector": {"beta.kubernetes.io/os": "a"}}}).document
    assert RUNTIME_CLASS.strategy.warn(document, None) == [
        'scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/os" instead'
    ]


ROWS: Final[dict[str, tuple[Changes, dict[str, Any]]]] = {"a runtime": ({}, {"Handler": "runc"})}


@pytest.mark.parametrize(("changes", "cells"), ROWS.values(), ids=ROWS)
def test_rows(changes: Changes, cells: dict[str, Any]) -> None:
    assert cells.items() <= RUNTIME_CLASS.cells(changes).items()
