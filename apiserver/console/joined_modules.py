"""Joins the modules of the first view into one, for which a browser asks once. Pure.

Browsers ask for at most six files of a server at a time, each over a connection with a handshake of its own.
With a file for each module, the first view took a quarter longer.

The pages need no build for this. Each module becomes a function that is called once, in the order of the
imports, and returns what the module exports. A view that is loaded later imports the same modules by their
paths: each of these files only passes on what the joined module has, so that no module runs twice.

Of JavaScript it knows no more than our pages use, and refuses what else it sees.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

JOINED: Final = "first_view.js"
_IMPORT: Final = re.compile(r'^import (?P<names>[^;"]+) from "(?P<path>[^"]+)";\n', re.MULTILINE)
_EXPORT: Final = re.compile(
    r"^export (?P<default>default )?(?:async function|function|class|const) (?P<name>\w+)", re.MULTILINE
)
# At the end of a library.
_LIST: Final = re.compile(r"\bexport\{(?P<names>[^}]*)\};?\s*\Z")
# Not of types in comments.
_DYNAMIC: Final = re.compile(r'(?:(?<==> )|(?<=await )|(?<=void ))import\("(?P<path>[^"]+)"\)')
_MODULE_SYNTAX: Final = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


class UnknownSyntax(ValueError):
    """A module uses syntax that `join` does not know."""


class _Module(NamedTuple):
    """A module. imports: what it imports, by path. exports: the names of its exports, and those inside it."""

    body: str
    imports: Sequence[tuple[str, str]]
    exports: Mapping[str, str]


def join(entries: Sequence[str], read: Callable[[str], str]) -> dict[str, str]:
    """Returns the texts of the joined module and of those that it contains, by their paths.

    entries: modules that run in this order, after those that they import. read: returns the text of a module.
    Raises UnknownSyntax.
    """
    modules: dict[str, _Module] = {}

    def add(path: str, importers: Sequence[str]) -> None:
        if path in importers:
            raise UnknownSyntax(f"{path} imports itself by way of {importers[-1]}")
        if path not in modules:
            module = _parsed(path, read(path))
            for _, imported in module.imports:
                add(imported, [*importers, path])
            modules[path] = module

    for each in entries:
        add(each, ())
    variables = {path: f"module_{number}" for number, path in enumerate(modules)}
    parts = [_called_once(path, module, variables) for path, module in modules.items()]
    listed = ", ".join(f'"{path}": {variable}' for path, variable in variables.items())
    joined = "\n".join([*parts, f"export const modules = {{ {listed} }};", ""])
    return {JOINED: joined, **{path: _passed_on(path, module) for path, module in modules.items()}}


def _parsed(path: str, text: str) -> _Module:
    directory = posixpath.dirname(path)
    imports = [
        (found["names"], posixpath.normpath(posixpath.join(directory, found["path"])))
        for found in _IMPORT.finditer(text)
    ]
    exports = {
        "default" if found["default"] else found["name"]: found["name"] for found in _EXPORT.finditer(text)
    }
    body = _EXPORT.sub(lambda found: found[0].removeprefix("export ").removeprefix("default "), text)
    body = _IMPORT.sub("", body)
    if (names := _LIST.search(body)) is not None:
        for each in names["names"].split(","):
            inside, _, exported = each.strip().partition(" as ")
            exports[exported or inside] = inside
        body = body[: names.start()]
    unknown = _MODULE_SYNTAX.search(body)
    if unknown is None and directory:
        # Its path would be taken for one beside the joined module.
        unknown = _DYNAMIC.search(body)
    if unknown is not None:
        raise UnknownSyntax(f"{path}: {unknown[0][:80]}")
    return _Module(body, imports, exports)


def _called_once(path: str, module: _Module, variables: Mapping[str, str]) -> str:
    """Returns the statement that runs a module, and keeps its exports in its variable."""

    def loaded(found: re.Match[str]) -> str:
        variable = variables.get(posixpath.normpath(found["path"]))
        return found[0] if variable is None else f"Promise.resolve({variable})"

    imports = [f"const {_bindings(names)} = {variables[imported]};" for names, imported in module.imports]
    exports = ", ".join(f"{name}: {inside}" for name, inside in module.exports.items())
    body = _DYNAMIC.sub(loaded, module.body)
    lines = [f"// {path}", f"const {variables[path]} = (() => {{", *imports, body]
    return "\n".join([*lines, f"return {{ {exports} }};", "})();"])


def _bindings(names: str) -> str:
    """Returns the left side of the declaration that stands for an import."""
    names = " ".join(names.split())
    if names.startswith("* as "):
        return names.removeprefix("* as ")
    if not names.startswith("{"):
        raise UnknownSyntax(f"import {names}")
    return names.replace(" as ", ": ")


def _passed_on(path: str, module: _Module) -> str:
    """Returns a module that exports what the joined one has of it."""
    joined = posixpath.relpath(JOINED, posixpath.dirname(path) or ".")
    source = joined if joined.startswith(".") else f"./{joined}"
    exports = [f'import {{ modules }} from "{source}";', f'const module = modules["{path}"];']
    named = [name for name in module.exports if name != "default"]
    if named:
        exports.append(f"export const {{ {', '.join(named)} }} = module;")
    if "default" in module.exports:
        exports.append("export default module.default;")
    return "\n".join([*exports, ""])
