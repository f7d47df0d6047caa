"""A definition becomes classes, and the classes become the same definition."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.types.code_generation.generation import EMITTERS, definitions_source
from tests.corpus_crds import DefinitionFile, definition_files
from tests.unit.types.checks import problems
from tests.unit.types.code_generation.modules import Document, definition_of, definition_with
from tests.unit.types.code_generation.normalised_definitions import normalised

FILES = definition_files()


@pytest.mark.parametrize("kind", EMITTERS)
@pytest.mark.parametrize("file", FILES, ids=[file.name for file in FILES])
def test_classes_make_the_definition_that_they_are_from(file: DefinitionFile, kind: str) -> None:
    found = definition_of(definitions_source([file.definition], kind))
    assert normalised(found) == normalised(file.definition)
    assert problems(found) == []


@pytest.mark.parametrize("kind", EMITTERS)
def test_the_conversion_of_versions(kind: str) -> None:
    service = {"namespace": "system", "name": "webhook", "path": "/convert", "port": 443}
    webhook = {"clientConfig": {"service": service, "caBundle": "Cg=="}, "conversionReviewVersions": ["v1"]}
    definition = definition_with({"type": "object"})
    [stored] = definition["spec"]["versions"]
    definition["spec"]["versions"] = [{**stored, "name": "v1beta1", "storage": False}, stored]
    definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    found = definition_of(definitions_source([definition], kind))
    assert found["spec"]["conversion"] == definition["spec"]["conversion"]
    assert normalised(found) == normalised(definition)


STRING: Final = {"type": "string"}
SCHEMAS: Final[dict[str, Any]] = {
    "numbers that are integers": {"type": "number", "enum": [1, 2]},
    "null beside an enumeration": {**STRING, "enum": ["a"], "nullable": True, "default": "a"},
    "a bound that has no effect": {**STRING, "minimum": 1, "multipleOf": 2},
    "bounds of an integer or a string": {"x-kubernetes-int-or-string": True, "minimum": 0, "maxLength": 9},
}


@pytest.mark.parametrize("kind", EMITTERS)
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_schemas_make_the_classes_that_they_are_from(schema: Any, kind: str) -> None:
    spec = {"type": "object", "properties": {"field": schema}, "required": ["field"]}
    definition = definition_with({"type": "object", "properties": {"spec": spec}})
    found = definition_of(definitions_source([definition], kind))
    assert normalised(found) == normalised(definition)


@pytest.mark.parametrize("kind", EMITTERS)
def test_defaults_that_python_does_not_have(kind: str) -> None:
    """An object without its required field, a time, and objects that contain them."""
    properties: Document = {"name": {"type": "string"}, "on": {"type": "string", "format": "date"}}
    inner: Document = {"type": "object", "required": ["name"], "properties": properties}
    middle = {"type": "object", "properties": {"inner": {**inner, "default": {}}}, "default": {}}
    outer = {"type": "object", "properties": {"middle": middle}, "default": {}}
    dates = {"type": "array", "items": inner, "default": [{"name": "a", "on": "2026-01-02"}]}
    schema = {"type": "object", "properties": {"spec": outer, "dates": dates}}
    definition = definition_with(schema)
    assert normalised(definition_of(definitions_source([definition], kind))) == normalised(definition)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the modules of all definitions, of all kinds."""
    folder = tmp_path_factory.mktemp("generated")
    for file in FILES:
        for kind in EMITTERS:
            name = f"{file.name}_{kind}.py"
            folder.joinpath(name).write_text(definitions_source([file.definition], kind))
    return folder


def test_ruff_formats_nothing(sources: Path) -> None:
    formatter = [sys.executable, "-m", "ruff", "format", "--isolated", "--diff", "--no-cache", str(sources)]
    done = subprocess.run(formatter, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.slow
def test_mypy_finds_nothing(sources: Path, tmp_path: Path) -> None:
    checker = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file="]
    done = subprocess.run(
        [*checker, f"--cache-dir={tmp_path}", str(sources)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
