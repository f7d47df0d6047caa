"""Expressions of Kubernetes' environment, for tests of its libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from apiserver.cel import types
from apiserver.cel.compiler import Result
from apiserver.cel.environment import Environment
from apiserver.cel.library.json_patch import JSON_PATCH, JSON_PATCH_TYPE
from apiserver.cel.library.kubernetes import KUBERNETES
from apiserver.cel.types import Type
from apiserver.cel.values import EvaluationError

LIBRARIES = (*KUBERNETES, JSON_PATCH)


def evaluate(text: str, variables: Mapping[str, Any] | None = None, **declared: Type) -> Result:
    """declared: types of variables, of which nothing is known otherwise."""
    given = variables or {}
    types_ = {name: declared.get(name, types.DYN) for name in given}
    environment = Environment(types_, LIBRARIES, messages={"JSONPatch": JSON_PATCH_TYPE})
    return environment.program(environment.check(text))(given)


def assert_true(text: str) -> None:
    assert evaluate(text).value is True


def assert_fails(text: str, message: str) -> None:
    with pytest.raises(EvaluationError) as raised:
        evaluate(text)
    assert str(raised.value) == message
