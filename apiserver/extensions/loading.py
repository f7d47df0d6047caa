"""Finds an extension by its name: a module, an object in a module, or an entry point.

No package adds its functions to a server by being installed: a flag names each extension, or has `*`, which
stands for all entry points.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

from apiserver.extensions.errors import InvalidExtension
from apiserver.extensions.extension import Extension

ENTRY_POINTS: Final = "apiserver.extensions"
ALL: Final = "*"
FILES_MAX: Final = 200
_SPEC: Final = re.compile(r"(?P<module>\w+(\.\w+)*)(:(?P<object>\w+(\.\w+)*))?")


def expanded(specs: Sequence[str]) -> Sequence[str]:
    """Returns the names of extensions, with those of all entry points, in their alphabetical order, for `*`.

    Imports nothing.
    """
    found: list[str] = []
    for spec in specs:
        names = sorted(importlib.metadata.entry_points(group=ENTRY_POINTS).names) if spec == ALL else [spec]
        found += [each for each in names if spec != ALL or each not in specs]
    return found


def load(spec: str) -> Extension:
    """Import and return an extension.

    spec: `module`, which has one extension, or `module:object`, or the name of an entry point in the group
    `apiserver.extensions`. Raises InvalidExtension, and all that the module raises when it is imported.
    """
    points = importlib.metadata.entry_points(group=ENTRY_POINTS, name=spec)
    if points:
        value: Any = next(iter(points)).load()
        return _only_one_in(spec, value) if isinstance(value, ModuleType) else _require_extension(spec, value)
    found = _SPEC.fullmatch(spec)
    if found is None:
        raise InvalidExtension(f"{spec!r} must be a module, or module:object, or the name of an entry point")
    module = importlib.import_module(found["module"])
    if found["object"] is None:
        return _only_one_in(spec, module)
    value = module
    for name in found["object"].split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            raise InvalidExtension(f"{spec}: {found['module']} has no {found['object']}") from None
    return _require_extension(spec, value)


def files_of(extension: Extension) -> Sequence[str]:
    """Returns the files of the modules that were imported from the directory of an extension's module and
    those below; at most `FILES_MAX`.
    """
    own = getattr(sys.modules.get(extension.module), "__file__", None)
    if own is None:
        return ()
    directory = os.path.dirname(os.path.realpath(own)) + os.sep
    loaded = (getattr(each, "__file__", None) for each in list(sys.modules.values()))
    found = {os.path.realpath(each) for each in loaded if each is not None}
    others = sorted(each for each in found if each.startswith(directory) and each.endswith(".py"))
    return list(dict.fromkeys([os.path.realpath(own), *others]))[:FILES_MAX]


def _only_one_in(spec: str, module: Any) -> Extension:
    found = {name: each for name, each in vars(module).items() if isinstance(each, Extension)}
    if len({id(each) for each in found.values()}) != 1:
        names = ", ".join(f"{spec}:{name}" for name in found)
        raise InvalidExtension(f"{spec} has {'several extensions: ' + names if found else 'no extension'}")
    return next(iter(found.values()))


def _require_extension(spec: str, value: Any) -> Extension:
    if not isinstance(value, Extension):
        raise InvalidExtension(f"{spec} is not an Extension, but {type(value).__name__}")
    return value
