"""Joins the modules of the first view into one, for which a browser asks once. Pure.

Browsers ask for at most six files of a server at a time, each over a connection with a separate handshake.
With a file for each module, the first view took a quarter longer.

The pages need no build for this. Each module becomes a function that is called once, in the order of the
imports, and returns what the module exports. Modules that are loaded later get what they import of these from
the joined one, so that no module runs twice.

It knows what our pages use of the syntax of modules, and refuses the rest. It does not parse JavaScript:
`export const` has one name, which keeps its value, and no module awaits at its top level.
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
# `import("…")` in a comment is a type, and loads nothing.
_COMMENT: Final = re.compile(r"/\*\*.*?\*/", re.DOTALL)
_DYNAMIC: Final = re.compile(r'(?<![{<\w.])import\("(?P<path>[^"]+)"\)')
_MODULE_SYNTAX: Final = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


class InvalidModule(ValueError):
    """A module imports what does not exist, or uses syntax that is not known here."""


class _Module(NamedTuple):
    """A module. imports: what it imports, by path. exports: the names of its exports, and those inside it."""

    body: str
    imports: Sequence[tuple[str, str]]
    exports: Mapping[str, str]


class JoinedModules:
    """The modules in the joined one. text: that of the joined one."""

    def __init__(self, entries: Sequence[str], read: Callable[[str], str]) -> None:
        """entries: modules that run in this order, after those that they import. read: returns their texts.

        Raises InvalidModule.
        """
        self._modules: dict[str, _Module] = {}
        self._read = read
        for each in entries:
            self._add(each, ())
        self._variables = {path: f"module_{number}" for number, path in enumerate(self._modules)}
        parts = [self._called_once(path, module) for path, module in self._modules.items()]
        listed = ", ".join(f'"{path}": {variable}' for path, variable in self._variables.items())
        self.text = "\n".join([*parts, f"export const modules = {{ {listed} }};", ""])

    def __contains__(self, path: str) -> bool:
        return path in self._modules

    def _add(self, path: str, importers: Sequence[str]) -> None:
        if path in importers:
            raise InvalidModule(f"{path} imports itself by way of {importers[-1]}")
        if path not in self._modules:
            module = _parsed(path, self._read(path))
            for _, imported in module.imports:
                self._add(imported, [*importers, path])
            self._modules[path] = module

    def _called_once(self, path: str, module: _Module) -> str:
        """Returns the statement that runs a module, and keeps its exports in its variable."""

        def loaded(found: re.Match[str]) -> str:
            variable = self._variables.get(posixpath.normpath(found["path"]))
            return found[0] if variable is None else f"Promise.resolve({variable})"

        imports = [
            self._binding(path, names, imported, self._variables[imported])
            for names, imported in module.imports
        ]
        exports = ", ".join(f"{name}: {inside}" for name, inside in module.exports.items())
        body = _DYNAMIC.sub(loaded, module.body)
        lines = [f"// {path}", f"const {self._variables[path]} = (() => {{", *imports, body]
        return "\n".join([*lines, f"return {{ {exports} }};", "})();"])

    def linked(self, path: str, text: str) -> str:
        """Returns a module that is loaded later, with its imports of modules in the joined one from that.

        Raises InvalidModule.
        """

        def bound(found: re.Match[str]) -> str:
            imported = _resolved(path, found["path"])
            if imported not in self._modules:
                return found[0]
            return self._binding(path, found["names"], imported, f'modules["{imported}"]') + "\n"

        linked = _IMPORT.sub(bound, text)
        rest = _COMMENT.sub("", _EXPORT.sub("", _IMPORT.sub("", linked)))
        loaded = (
            found for found in _DYNAMIC.finditer(rest) if _resolved(path, found["path"]) in self._modules
        )
        # It would run another copy of a module.
        if (unknown := _MODULE_SYNTAX.search(rest) or next(loaded, None)) is not None:
            raise InvalidModule(f"{path}: {unknown[0][:80]}")
        if linked == text:
            return text
        joined = posixpath.relpath(JOINED, posixpath.dirname(path) or ".")
        source = joined if joined.startswith(".") else f"./{joined}"
        return f'import {{ modules }} from "{source}";\n{linked}'

    def _binding(self, path: str, names: str, imported: str, value: str) -> str:
        """Returns the declaration that stands for an import."""
        if (whole := re.fullmatch(r"\* as (\w+)", names)) is not None:
            return f"const {whole[1]} = {value};"
        if not (names.startswith("{") and names.endswith("}")):
            raise InvalidModule(f"{path}: import {names}")
        pairs = [each.split(" as ") for each in names.strip("{} \n").rstrip(",").split(",")]
        for name, *_ in pairs:
            if name.strip() not in self._modules[imported].exports:
                raise InvalidModule(f"{path}: {imported} does not export {name.strip()}")
        return f"const {{ {', '.join(': '.join(map(str.strip, each)) for each in pairs)} }} = {value};"


def _parsed(path: str, text: str) -> _Module:
    directory = posixpath.dirname(path)
    imports = [(found["names"], _resolved(path, found["path"])) for found in _IMPORT.finditer(text)]
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
        unknown = _DYNAMIC.search(_COMMENT.sub("", body))
    if unknown is not None:
        raise InvalidModule(f"{path}: {unknown[0][:80]}")
    return _Module(body, imports, exports)


def _resolved(path: str, imported: str) -> str:
    """Returns the path of a module that another one imports."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), imported))
