"""Finds the definitions that the arguments of a command name: files, directories and Python classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from apiserver.catalogue.offline_definitions import DefinitionChecker
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.crd.class_sources import definition_of, is_class
from apiserver.cli.manifest_files import is_manifest, manifests, require_stdin_once
from apiserver.cli.printing import print_warning
from apiserver.types import DefinitionError
from apiserver.wire import yaml
from apiserver.wire.yaml import InvalidYaml


class DefinitionSource(NamedTuple):
    """A definition, and where it is from.

    file: the file, or the class as the argument names it. document: None if there is none, as the text is no
    YAML, or as no schema can express the class.
    problems: why there is none, or what the server would refuse in the text before it reads the definition.
    """

    file: str
    document: Any
    problems: Sequence[str] = ()

    @property
    def name(self) -> str:
        meta = self.document.get("metadata") if isinstance(self.document, dict) else None
        name = meta.get("name") if isinstance(meta, dict) else None
        return name if isinstance(name, str) else ""

    @property
    def place(self) -> str:
        return f"{self.file}: {self.name}" if self.name else self.file


def definitions(
    command: str, arguments: Sequence[str], checker: DefinitionChecker, *, recursive: bool = False
) -> Iterator[DefinitionSource]:
    """Yields the definitions that arguments name; reports documents of other kinds as skipped.

    command: named in errors. Raises UsageError, also if there are no definitions.
    """
    require_stdin_once(command, arguments)
    skipped: Counter[str] = Counter()
    templates: list[str] = []
    has_any = False
    for argument in arguments:
        if is_class(argument):
            has_any = True
            yield _of_class(command, argument)
            continue
        for manifest in manifests(command, [argument], templates, recursive=recursive):
            for source in _sources(manifest.file, manifest.text):
                is_unread = source.document is None and source.problems
                if is_unread or checker.is_definition(source.document):
                    has_any = True
                    yield source
                elif is_manifest(source.document) or not manifest.is_found:
                    skipped[manifest.file] += 1
    for file in templates:
        print_warning(f"apiserver {command}: {file}: skipped a template of a Helm chart")
    if not has_any:
        raise UsageError(f"{command}: {', '.join(arguments)}: there are no CustomResourceDefinitions")
    for file, count in skipped.items():
        documents = "1 document that is not a" if count == 1 else f"{count} documents that are not a"
        print_warning(f"apiserver {command}: {file}: skipped {documents} CustomResourceDefinition")


def _of_class(command: str, argument: str) -> DefinitionSource:
    try:
        return DefinitionSource(argument, definition_of(command, argument))
    except DefinitionError as error:
        return DefinitionSource(argument, None, [str(error)])


def _sources(file: str, text: bytes) -> Iterator[DefinitionSource]:
    """Yields the documents in a manifest, which may be a list."""
    try:
        document, duplicates = yaml.load(text)
    except InvalidYaml as error:
        yield DefinitionSource(file, None, [str(error)])
        return
    items = document.get("items") if isinstance(document, dict) else None
    kind = str(document.get("kind")) if isinstance(document, dict) else ""
    if isinstance(items, list) and kind.endswith("List"):
        # The server does not repeat the type of a list in its items.
        type_ = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
        for index, item in enumerate(items):
            typed = {**type_, **item} if kind != "List" and isinstance(item, dict) else item
            yield DefinitionSource(file, typed, () if index else duplicates)
    elif document is not None:
        yield DefinitionSource(file, document, duplicates)
