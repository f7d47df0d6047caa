"""Finds the definitions of Python classes, which arguments name as `MODULE:CLASS` or `MODULE`."""

from __future__ import annotations

import re
import sys
import traceback
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

from apiserver.cli.argument_parser import UsageError
from apiserver.meta.vocabulary import Document
from apiserver.types import definition, definitions
from apiserver.types.decorators import is_version, version_of

_NAME: Final = r"[^\W\d]\w*"
_MODULE: Final = rf"{_NAME}(?:\.{_NAME})*"
_CLASS: Final = re.compile(rf"(?P<module>{_MODULE}):(?P<name>{_NAME})")


def is_class(argument: str) -> bool:
    """Returns whether an argument names a class rather than a file."""
    return _CLASS.fullmatch(argument) is not None and not Path(argument).exists()


def definition_of(command: str, argument: str) -> Document:
    """Returns the definition of a class, with all versions of its type in the same module.

    The module can be in the current directory. command: named in errors.
    Raises UsageError, and the errors of `apiserver.types.definition`.
    """
    found = _CLASS.fullmatch(argument)
    assert found is not None
    module = _imported(command, found["module"])
    cls = getattr(module, found["name"], None)
    if not is_version(cls):
        problem = "does not exist" if cls is None else "does not have the decorator crd"
        raise UsageError(f"{command}: {argument} {problem}")
    names = version_of(cls).names
    versions = (each for each in vars(module).values() if is_version(each))
    return definition(
        *dict.fromkeys(
            each
            for each in versions
            if (version_of(each).names.group, version_of(each).names.kind) == (names.group, names.kind)
        )
    )


def definitions_of(command: str, argument: str) -> list[Document]:
    """Returns the definition of a class as `definition_of` does, or those of all classes in a module.

    argument: `MODULE:CLASS` or `MODULE`. Raises UsageError, and the errors of `apiserver.types.definition`.
    """
    if _CLASS.fullmatch(argument) is not None:
        return [definition_of(command, argument)]
    if re.fullmatch(_MODULE, argument) is None:
        raise UsageError(f"{command}: {argument!r} is not MODULE or MODULE:CLASS")
    found = definitions(_imported(command, argument))
    if not found:
        raise UsageError(f"{command}: the module {argument} has no classes with the decorator crd")
    return found


def _imported(command: str, name: str) -> ModuleType:
    """Imports a module. Raises UsageError."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # As `python -m` does.
    try:
        with redirect_stdout(sys.stderr):  # What the module prints is no part of the output.
            return import_module(name)
    except (Exception, SystemExit) as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f" ({frame.filename}, line {frame.lineno})" if frame.filename.endswith(".py") else ""
        problem = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(f"{command}: cannot import {name}: {problem}{place}") from error
