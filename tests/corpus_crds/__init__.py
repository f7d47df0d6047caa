"""Definitions as people write them, with objects that they accept and objects that they refuse.

Each file is one CustomResourceDefinition, followed by a document with its cases:

    accepted:                   objects that are stored
    - document:                 as it is posted; a `status` is written to the subresource, if there is one
      defaults: {path: value}   what it has on top of that once it is stored
      loses: [path]             what it has no longer
      cells: [...]              its row in a table, all columns
      selectedBy: [selector]    field selectors that find it
    refused:                    objects that are not
    - name:                     in words
      of:                       the accepted object (by name; else the first) that it is like
      with: {path: value}       in what it differs; null removes
      field:, message:          of the cause that names the problem; the message may be a part
      others: [field]           of further causes
    updates:                    of accepted objects; those with a field and a message are refused
    - subresource:              where it is written, if not to the object itself

A path is of names and indexes with dots between. In `refused/` are definitions that are not accepted, each
with all its causes. What is expected was decided from Kubernetes' documentation and source, not from answers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.yaml_loader import YAML_LOADER

_HERE: Final = Path(__file__).parent

Document = dict[str, Any]


@dataclass(frozen=True)
class Cause:
    """message: a part of it."""

    field: str
    message: str


@dataclass(frozen=True)
class Case:
    """An object and what becomes of it.

    expected: as it is stored, without what the server alone sets; empty unless it is accepted.
    cause: why it is refused; None if it is accepted.
    """

    file: str
    name: str
    document: Document
    content: Mapping[str, Any]
    expected: Document
    cause: Cause | None

    @property
    def id(self) -> str:
        return f"{self.file}/{self.name}"

    @property
    def others(self) -> Sequence[str]:
        """Fields of further causes."""
        found: list[str] = self.content.get("others", [])
        return found

    @property
    def subresource(self) -> str:
        return str(self.content.get("subresource", ""))


@dataclass(frozen=True)
class DefinitionFile:
    """A definition and its cases. name: that of the file."""

    name: str
    definition: Document
    accepted: Sequence[Case]
    refused: Sequence[Case]
    updates: Sequence[Case]

    @property
    def path(self) -> str:
        """The path of its objects, in the storage version."""
        return self.path_in(next(each["name"] for each in self.versions if each["storage"]))

    def path_in(self, version: str) -> str:
        spec = self.definition["spec"]
        inner = "/namespaces/default" if spec["scope"] == "Namespaced" else ""
        return f"/apis/{spec['group']}/{version}{inner}/{spec['names']['plural']}"

    def path_of(self, document: Document) -> str:
        return self.path_in(document["apiVersion"].partition("/")[2])

    @property
    def versions(self) -> Sequence[Document]:
        versions: list[Document] = self.definition["spec"]["versions"]
        return versions

    def has_status(self, document: Document) -> bool:
        """Whether the object has a status, which is written to its subresource."""
        version = document["apiVersion"].partition("/")[2]
        subresources = next(each.get("subresources", {}) for each in self.versions if each["name"] == version)
        return "status" in document and "status" in subresources

    def rules(self) -> Iterator[Document]:
        """All rules of all versions."""
        for version in self.versions:
            yield from _rules(version["schema"]["openAPIV3Schema"])


@dataclass(frozen=True)
class RefusedDefinition:
    """A definition that is not accepted, and all causes of its refusal."""

    name: str
    definition: Document
    causes: Sequence[Cause]


@cache
def definition_files() -> Sequence[DefinitionFile]:
    return tuple(_definition_file(path) for path in sorted(_HERE.glob("*.yaml")))


@cache
def refused_definitions() -> Sequence[RefusedDefinition]:
    return tuple(_refused(path) for path in sorted(_HERE.glob("refused/*.yaml")))


def _load(path: Path) -> tuple[Document, Document]:
    with path.open() as file:
        definition, cases = yaml.load_all(file, YAML_LOADER)
    return definition, cases


def _refused(path: Path) -> RefusedDefinition:
    definition, cases = _load(path)
    return RefusedDefinition(path.stem, definition, [Cause(**cause) for cause in cases["causes"]])


def _definition_file(path: Path) -> DefinitionFile:
    definition, cases = _load(path)
    name = path.stem
    by_name = {each["document"]["metadata"]["name"]: each["document"] for each in cases["accepted"]}
    first = next(iter(by_name))

    def changed(content: Document) -> Case:
        document = copy.deepcopy(by_name[content.get("of", first)])
        for where, value in content["with"].items():
            set_at(document, where, value)
        cause = Cause(str(content["field"]), content["message"]) if "field" in content else None
        return Case(name, content["name"], document, content, {}, cause)

    return DefinitionFile(
        name,
        definition,
        [_accepted(name, each) for each in cases["accepted"]],
        [changed(each) for each in cases["refused"]],
        [changed(each) for each in cases.get("updates", [])],
    )


def _accepted(file: str, content: Document) -> Case:
    document = content["document"]
    expected = copy.deepcopy(document)
    for where, value in content.get("defaults", {}).items():
        set_at(expected, where, value)
    for where in content.get("loses", []):
        set_at(expected, where, None)
    return Case(file, document["metadata"]["name"], document, content, expected, None)


def set_at(document: Document, where: str, value: Any) -> None:
    """Set what is at a path, or remove it if `value` is None. What is missing on the way there is made."""
    steps: list[Any] = [int(step) if step.isdigit() else step for step in where.split(".")]
    *above, last = steps
    at: Any = document
    for step in above:
        at = at[step] if isinstance(at, list) else at.setdefault(step, {})
    if value is None:
        del at[last]
    elif isinstance(at, list):
        at[last:] = [copy.deepcopy(value), *at[last + 1 :]]
    else:
        at[last] = copy.deepcopy(value)


def _rules(schema: Document) -> Iterator[Document]:
    yield from schema.get("x-kubernetes-validations", [])
    below = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for each in below:
        if isinstance(each, dict):
            yield from _rules(each)
