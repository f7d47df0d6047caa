"""Extensions that each have one function of `hostile`, with a worker of its own, for ConfigMaps.

Their names say what happens to the writes: `fail-loops`, `ignore-loops`. All functions change the
object before they do what they must not. Functions that validate have `validate-` before these names.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

from apiserver.extensions import Extension
from tests.extensions.modules import hostile

TIMEOUT_S: Final = 0.5


def _with(function: str, on_error: str, *, validates: bool = False) -> Extension:
    name = f"{'validate-' * validates}{on_error}-{function.replace('_', '-')}"
    extension = Extension(name, timeout_s=TIMEOUT_S, on_error=on_error)
    decorator = extension.validate if validates else extension.mutate
    changes = _after_a_change(getattr(hostile, function))
    decorator("configmaps", where=f"object.metadata.name == '{name}'")(changes)
    return extension


def _after_a_change(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def change(document: Any) -> None:
        document["data"] = {"changed": "yes"}
        document["metadata"]["labels"] = {"changed": "yes"}

    @functools.wraps(function)
    def run(document: Any) -> Any:
        change(document)
        return function(document)

    @functools.wraps(function)
    async def run_async(document: Any) -> Any:
        change(document)
        return await function(document)

    return run_async if inspect.iscoroutinefunction(function) else run


# What the server says about each of them: a regular expression.
SAYS: Final = {
    "loops": "has not returned within 0.5 s",
    "sleeps": "has not returned within 0.5 s",
    "explodes": "has not returned within 0.5 s",
    "catches_all": "has not returned within 0.5 s",
    "starts_threads": "has not returned within 0.5 s|can't start new thread",
    "waits": "has not returned within 0.5 s",
    "leaves": "has ended its worker: it has exited with status 3",
    "accesses_no_memory": "has ended its worker: it was ended by SIGSEGV",
    "wants_much_memory": "MemoryError",
    "exits": "SystemExit: bye",
    "returns_a_list": "must return None or an object, not list",
    "replaces": "has returned an invalid object: ",
    "makes_a_cycle": "Recursion limit",
    "makes_a_set": "is not JSON serializable: set",
    "returns_too_much": "has returned \\d+ bytes, more than 16777216",
}
# Those that keep their worker busy, or end it.
VALIDATING: Final = ("loops", "sleeps", "explodes", "catches_all", "leaves", "accesses_no_memory")
ON_ERROR: Final = ("fail", "ignore")
# By the names of attributes, as the flag takes them.
extensions: Final = {
    **{f"{each}_{function}": _with(function, each) for function in SAYS for each in ON_ERROR},
    **{
        f"validate_{each}_{function}": _with(function, each, validates=True)
        for function in VALIDATING
        for each in ON_ERROR
    },
}
globals().update(extensions)
