"""Tools that tests need: they are skipped without them, or fail where the tools are required.

On a developer's machine a missing kubectl or etcd skips the tests that need it, with the reason. In CI
`APISERVER_TESTS_REQUIRE_TOOLS=1` turns every such skip into a failure, so that none goes unnoticed.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, NoReturn

import pytest


def missing(what: str) -> NoReturn:
    if os.environ.get("APISERVER_TESTS_REQUIRE_TOOLS") == "1":
        pytest.fail(f"{what} is missing, and this run requires it")
    pytest.skip(f"{what} is missing")


def library(name: str) -> Any:
    """Import a library. Skips the test, or fails it, where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        missing(name)
