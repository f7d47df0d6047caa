"""`apiserver crd diff`: what an upgrade from one definition to another breaks."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from apiserver.catalogue.offline_definitions import DefinitionChecker, NotADefinition
from apiserver.cli.argument_parser import UsageError, add_output_option, nonempty
from apiserver.cli.crd.definition_sources import DefinitionSource, definitions
from apiserver.cli.manifest_files import require_stdin_once
from apiserver.cli.printing import print_json, print_lines
from apiserver.custom_resources.definitions.comparison.changes import Change, breaking, note
from apiserver.meta.errors import Invalid
from apiserver.meta.releases.emulation import DEFAULT_RELEASE
from apiserver.schema.builtin import BuiltinSchemas

COMMAND: Final = "crd diff"
COMPATIBLE, BREAKING = 0, 1
_ABOUT: Final = """
Compares two versions of CustomResourceDefinitions, and prints what an upgrade from OLD to NEW breaks for
stored objects and for clients: removed versions and fields, values that are no longer allowed, new required
fields and validation rules, changed defaults, and changes that the server refuses. Compatible changes are
printed as notes. If the files contain several definitions, the command compares those with the same name.

The command compares the meaning of the schemas. For example, a lower maximum is not a breaking change if no
allowed value exceeds it. If the command cannot decide whether a change is compatible, such as for two
patterns, it reports a breaking change.

The exit code is 1 if there are breaking changes.
"""
_Compared = tuple[str, list[Change]]


class _Pair(NamedTuple):
    """The old and the new definition of one name; None if there is none."""

    old: DefinitionSource | None
    new: DefinitionSource | None


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "diff", description=_ABOUT, help="Show what an upgrade of definitions breaks, without a server."
    )
    for name, which in (("old", "before"), ("new", "after")):
        parser.add_argument(
            name,
            type=nonempty,
            metavar=name.upper(),
            help=f"The definitions {which} the upgrade: a file, a directory, - for standard input, or a "
            "Python class (MODULE:CLASS).",
        )
    add_output_option(parser, "text", "json")
    parser.set_defaults(command=_run)


def _run(given: argparse.Namespace) -> int:
    """Compare the definitions and print the changes. Returns the exit code. Raises UsageError."""
    checker = DefinitionChecker(BuiltinSchemas(DEFAULT_RELEASE.version), DEFAULT_RELEASE)
    require_stdin_once(COMMAND, [given.old, given.new])
    old, new = (_by_name(argument, checker) for argument in (given.old, given.new))
    compared = [(name, _changes(pair, checker)) for name, pair in _pairs(old, new).items()]
    is_breaking = any(change.is_breaking for _, changes in compared for change in changes)
    if given.output == "json":
        print_json({"isBreaking": is_breaking, "definitions": [_document(*each) for each in compared]})
    else:
        for each in compared:
            for line in _lines(*each):
                print_lines(line)
    return BREAKING if is_breaking else COMPATIBLE


def _by_name(argument: str, checker: DefinitionChecker) -> Mapping[str, DefinitionSource]:
    found: dict[str, DefinitionSource] = {}
    for source in definitions(COMMAND, [argument], checker):
        if source.problems:
            raise UsageError(f"{COMMAND}: {source.place}: {source.problems[0]}")
        if source.name in found:
            raise UsageError(f"{COMMAND}: {source.place}: there are two definitions of this name")
        found[source.name] = source
    return found


def _pairs(old: Mapping[str, DefinitionSource], new: Mapping[str, DefinitionSource]) -> Mapping[str, _Pair]:
    if len(old) == len(new) == 1:
        # The name may have changed.
        ((name, before),), (after,) = old.items(), new.values()
        return {name: _Pair(before, after)}
    return {name: _Pair(old.get(name), new.get(name)) for name in dict.fromkeys((*old, *new))}


def _changes(pair: _Pair, checker: DefinitionChecker) -> list[Change]:
    """Returns the changes, the breaking ones first. Raises UsageError if a definition cannot be read."""
    if pair.new is None:
        text = "The definition is removed. Deleting a definition deletes all of its objects."
        return [breaking("DefinitionRemoved", "", text)]
    if pair.old is None:
        return [note("DefinitionAdded", "", "The definition is added.")]
    source = pair.old
    try:
        for source in (pair.old, pair.new):
            checker.read(source.document)
        changes = checker.compare(pair.old.document, pair.new.document)
    except (NotADefinition, Invalid) as error:
        raise UsageError(f"{COMMAND}: {source.place}: {error}") from None
    return sorted(changes, key=lambda change: not change.is_breaking)


def _lines(name: str, changes: list[Change]) -> Iterator[str]:
    if not changes:
        yield f"{name}: no changes"
    for change in changes:
        severity = "breaking" if change.is_breaking else "note"
        place = " ".join(filter(None, (change.version, change.path)))
        yield f"{name}: {severity}: {f'{place}: ' if place else ''}{change.message}"


def _document(name: str, changes: list[Change]) -> dict[str, Any]:
    return {
        "name": name,
        "changes": [
            {
                "kind": change.kind,
                "severity": "breaking" if change.is_breaking else "note",
                "version": change.version,
                "path": change.path,
                "message": change.message,
            }
            for change in changes
        ],
    }
