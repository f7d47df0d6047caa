"""Finds the version that has made each line of an object's YAML. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from apiserver.cli.history.reverts import Item
from apiserver.meta.vocabulary import Document
from apiserver.wire import yaml

# As in differences of two states: each write changes them.
LEFT_OUT: Final = frozenset({"managedFields", "resourceVersion"})
# The fields that name an item of a list; other items have numbers.
_NAMES: Final = ("name", "type")
# Where a line is. Numbers are places in lists.
LinePath: TypeAlias = tuple[str | Item | int, ...]
_Version = TypeVar("_Version")


class Entry(NamedTuple):
    """The lines of one field: its value if it is a scalar, else the name of the field alone."""

    path: LinePath
    lines: tuple[str, ...]


def entries(document: Document) -> Iterator[Entry]:
    """Yields the entries of an object. Their lines together are those of its YAML."""
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        shown = {key: value for key, value in metadata.items() if key not in LEFT_OUT}
        document = {**document, "metadata": shown}
    yield from _of_value(document, (), "")


def blamed(states: Iterable[tuple[_Version, Document | None]]) -> Iterator[tuple[Entry, _Version]]:
    """Yields the entries of the newest state, each with the version that has made it.

    states: the versions of an object and what it was in each, the newest first; None if it did not exist.
        They are only read until all entries are found. The last one has made what all have in common.
    """
    remaining = iter(states)
    version, newest = next(remaining)
    found = [] if newest is None else [*entries(newest)]
    open_entries = {each.path: each for each in found}
    makers: dict[LinePath, _Version] = {}
    for older_version, state in remaining:
        same = {} if state is None else {each.path: each for each in entries(state)}
        made = [path for path, each in open_entries.items() if same.get(path) != each]
        for path in made:
            makers[path] = version
            del open_entries[path]
        if not open_entries:
            break
        version = older_version
    for each in found:
        yield each, makers.get(each.path, version)


def _of_value(value: Any, path: LinePath, indent: str) -> Iterator[Entry]:
    """Yields the entries in an object or a list that is not empty."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _of_field(key, value[key], (*path, key), indent)
    else:
        steps: Iterable[Item | int] = _steps(value)
        for step, item in zip(steps, value, strict=True):
            yield from _of_item(item, (*path, step), indent)


def _of_field(key: str, value: Any, path: LinePath, indent: str) -> Iterator[Entry]:
    if not (isinstance(value, dict | list) and value):
        yield Entry(path, _lines({key: value}, indent))
        return
    *before, last = _lines({key: 0}, indent)
    yield Entry(path, (*before, last.removesuffix(" 0")))
    yield from _of_value(value, path, f"{indent}  " if isinstance(value, dict) else indent)


def _of_item(item: Any, path: LinePath, indent: str) -> Iterator[Entry]:
    if not (isinstance(item, dict | list) and item):
        yield Entry(path, _lines([item], indent))
        return
    first, *others = _of_value(item, path, f"{indent}  ")
    line, *more = first.lines
    yield Entry(first.path, (f"{indent}- {line[len(indent) + 2 :]}", *more))
    yield from others


def _lines(document: Any, indent: str) -> tuple[str, ...]:
    lines = yaml.dump(document).decode().split("\n")[:-1]
    if lines[-1] == "...":
        lines.pop()  # It ends a document whose last text ends in empty lines.
    # An empty line, as in a text, has no indent.
    return tuple(f"{indent}{line}" if line else "" for line in lines)


def _steps(items: list[Any]) -> list[Item] | range:
    """Returns what the items of a list are called in paths: names, if all have different ones, or numbers."""
    for key in _NAMES:
        names = [each.get(key) if isinstance(each, dict) else None for each in items]
        texts = [name for name in names if isinstance(name, str)]
        if len({*texts}) == len(items):
            return [Item(key, name) for name in texts]
    return range(len(items))
