"""The fuzzers, a module for each kind of input."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from tests.fuzz.target import Target

_MODULES: Final = (
    "bodies",
    "credentials",
    "definitions",
    "etcd",
    "expressions",
    "fields",
    "history",
    "http",
    "openid",
    "patches",
    "queries",
    "texts",
    "webhooks",
)


def names() -> list[str]:
    """Returns the names of all targets: of a module, and of a function in it."""
    return [name for module in _MODULES for name in _of(module)]


def load(name: str) -> Target:
    """Returns a target. Only the module that it is in is imported."""
    return _of(name.partition(".")[0])[name]


def _of(module: str) -> dict[str, Target]:
    values = vars(import_module(f"{__name__}.{module}")).values()
    return {each.name: each for each in values if isinstance(each, Target)}
