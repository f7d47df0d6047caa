"""RuntimeClasses. Source: pkg/apis/node/validation (release 1.34); row T12."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind

RUNTIME_CLASS: Final = ServedKind("runtimeclasses.node.k8s.io", {"handler": "runc"})

INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a handler is a label": ({"handler": "a.b"}, ['handler: Invalid value: "a.b": must not contain dots']),
    "a toleration is well-formed": (
        {"scheduling": {"tolerations": [{"key": "k", "operator": "Is"}]}},
        ['scheduling.tolerations[0].operator: Unsupported value: "Is": supported values: "Equal", "Exists"'],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_invalid(changes: Changes, texts: list[str]) -> None:
    assert RUNTIME_CLASS.create().errors == []
    assert RUNTIME_CLASS.create(changes).texts == texts


FIXED: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a handler": ({"handler": "kata"}, ['handler: Invalid value: "kata": field is immutable']),
}


@pytest.mark.parametrize(("changes", "texts"), FIXED.values(), ids=FIXED)
def test_what_stays(changes: Changes, texts: list[str]) -> None:
    assert RUNTIME_CLASS.update(changes).texts == texts


ROWS: Final[dict[str, tuple[Changes, dict[str, Any]]]] = {
    "a runtime": ({}, {"Handler": "runc"}),
}


@pytest.mark.parametrize(("changes", "cells"), ROWS.values(), ids=ROWS)
def test_rows(changes: Changes, cells: dict[str, Any]) -> None:
    assert cells.items() <= RUNTIME_CLASS.cells(changes).items()
