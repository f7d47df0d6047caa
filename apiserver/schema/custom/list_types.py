"""What is checked beside values: lists without repetitions, and resources inside of resources.

Sources: k8s.io/apiextensions-apiserver, pkg/apiserver/schema/listtype and objectmeta/validation.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import orjson

from apiserver.field_errors import FieldError, duplicate, invalid, required
from apiserver.meta import object_meta
from apiserver.meta.names import dns1035_label, path_segment
from apiserver.schema.custom.json_schema import Extensions, JSONSchema, below, everywhere
from apiserver.schema.custom.paths import Key, Path, bracketed
from apiserver.vocabulary import Document

# Of one value, with its schema.
_Rule: TypeAlias = "Callable[[Any, JSONSchema, Path | None], Iterator[FieldError]]"

# More are not looked for: the answer has to end somewhere.
ERRORS_MAX: Final = 1_000


class ListTypes:
    """The lists of one schema whose items are told apart: whole ones of type `set`, keys of type `map`."""

    def __init__(self, schema: JSONSchema, extensions: Extensions) -> None:
        self._schema, self._extensions = schema, extensions
        self._visits = _visits(schema, lambda each: each.get(extensions.list_type) in ("set", "map"))

    def check(self, document: Document) -> list[FieldError]:
        """The items that are in a list twice."""
        return _visited(document, self._schema, self._visits, self._check)

    def _check(self, value: Any, schema: JSONSchema, path: Path | None) -> Iterator[FieldError]:
        if type(value) is not list:
            return
        match schema.get(self._extensions.list_type):
            case "set":
                for index in _repeated(value):
                    yield duplicate(bracketed((path, index)), _ordered(value[index]))
            case "map":
                yield from _check_map(value, schema.get(self._extensions.list_map_keys) or (), path)


def _check_map(items: list[Any], names: Iterable[str], path: Path | None) -> Iterator[FieldError]:
    for index, item in enumerate(items):
        if item is not None and type(item) is not dict:
            problem = "must be an object for an array of list-type map"
            yield invalid(bracketed((path, index)), item, problem)
            return
    keys = [{name: item[name] for name in names if item and name in item} for item in items]
    for index in _repeated(keys):
        yield duplicate(bracketed((path, index)), _ordered(keys[index]))


def _repeated(values: list[Any]) -> Iterator[int]:
    """The indexes at which values stand for the second time."""
    seen: dict[Any, int] = {}
    for index, value in enumerate(values):
        key = (type(value), _text(value) if type(value) in (dict, list) else value)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2:
            yield index


def _text(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # nested too deeply to be stored
        return repr(value).encode(errors="surrogatepass")


def _ordered(value: Any) -> Any:
    """As messages show it: by the names of fields."""
    return dict(sorted(value.items())) if type(value) is dict else value


class EmbeddedResources:
    """The resources inside of resources of one schema."""

    def __init__(self, schema: JSONSchema, extensions: Extensions) -> None:
        self._schema, self._extensions = schema, extensions
        self._visits = _visits(schema, lambda each: bool(each.get(extensions.embedded_resource)))

    def check(self, document: Document) -> list[FieldError]:
        """What keeps one from being a resource: its type and its metadata."""
        return _visited(document, self._schema, self._visits, self._check)

    def _check(self, value: Any, schema: JSONSchema, path: Path | None) -> Iterator[FieldError]:
        if type(value) is not dict or not schema.get(self._extensions.embedded_resource):
            return
        for name, rule in (("apiVersion", _api_version_problems), ("kind", _kind_problems)):
            at, text = bracketed((path, name)), value.get(name, "")
            if type(text) is not str:
                yield invalid(at, text, "must be a string")
            elif not text:
                yield required(at)
            else:
                yield from (invalid(at, text, problem) for problem in rule(text))
        if type(meta := value.get("metadata")) is dict:
            # It need not have a name; what has none yet is checked for all the rest.
            named = {**meta, "name": meta.get("name") or "fakename"}
            is_namespaced = bool(meta.get("namespace"))
            for error in object_meta.validate(named, is_namespaced=is_namespaced, name_rule=path_segment):
                yield FieldError(f"{bracketed(path)}.{error.field}", error.reason, error.message)


def _api_version_problems(text: str) -> list[str]:
    return [] if text.count("/") < 2 else [f"unexpected GroupVersion string: {text}"]


def _kind_problems(text: str) -> list[str]:
    problems = dns1035_label(text.lower())
    if not problems:
        return []
    return [f"may have mixed case, but should otherwise match: {','.join(problems)}"]


def _visits(schema: JSONSchema, is_wanted: Callable[[JSONSchema], bool]) -> frozenset[int]:
    """The ids of the schemas that are wanted, and of those on the way to them."""
    ways: set[int] = set()
    for each in reversed(list(everywhere(schema))):  # what is below comes first
        if is_wanted(each) or any(id(child) in ways for child in below(each)):
            ways.add(id(each))
    return frozenset(ways)


def _visited(document: Document, schema: JSONSchema, ways: frozenset[int], rule: _Rule) -> list[FieldError]:
    """What a rule says of the values on some ways, from the outside in."""
    errors: list[FieldError] = []
    todo: list[tuple[Any, JSONSchema, Path | None]] = [(document, schema, None)] if ways else []
    while todo and len(errors) < ERRORS_MAX:
        value, known, path = todo.pop()
        errors += rule(value, known, path)
        todo += reversed([each for each in _below(value, known, path) if id(each[1]) in ways])
    return errors[:ERRORS_MAX]


def _below(
    value: Any, schema: JSONSchema, path: Path | None
) -> Iterator[tuple[Any, JSONSchema, Path | None]]:
    """The objects and lists in a value of which something is known."""
    if type(value) is dict:
        properties, other = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, child in value.items():
            if type(child) is not dict and type(child) is not list:
                continue
            if (field := properties.get(name)) is not None:
                yield child, field, (path, name)
            elif isinstance(other, Mapping):
                yield child, other, (path, Key(name))
    elif isinstance(items := schema.get("items"), Mapping):
        for index, child in enumerate(value):
            if type(child) is dict or type(child) is list:
                yield child, items, (path, index)
