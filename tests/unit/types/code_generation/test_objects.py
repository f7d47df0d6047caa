"""Objects that the server accepts are valid in pydantic and msgspec, and are written as they were."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pydantic
import pytest

from apiserver.types.code_generation.generation import definitions_source
from apiserver.types.decorators import is_version, version_of
from tests.corpus_crds import DefinitionFile, definition_files
from tests.unit.types.code_generation.modules import imported

FILES: Final = definition_files()
NAMES: Final = [file.name for file in FILES]
THINGS: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["least"],
                                "properties": {
                                    "least": {"type": "integer", "minimum": 1},
                                    "x-kind": {"type": "string", "enum": ["a", "b"], "default": "a"},
                                    "class": {"type": "string", "maxLength": 3},
                                    "ratio": {"type": "number", "maximum": 0.5, "exclusiveMaximum": True},
                                    "on": {"type": "string", "format": "date-time"},
                                    "port": {"x-kubernetes-int-or-string": True, "minimum": 1},
                                    "tags": {"type": "array", "maxItems": 1, "items": {"type": "string"}},
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
}
THING: Final[dict[str, Any]] = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
REFUSED: Final[dict[str, dict[str, Any]]] = {
    "a required field is absent": {"class": "abc"},
    "less than the minimum": {"least": 0},
    "not in the enumeration": {"least": 1, "x-kind": "c"},
    "too long, with a reserved word for its name": {"least": 1, "class": "abcd"},
    "not below an exclusive maximum": {"least": 1, "ratio": 0.5},
    "too many items": {"least": 1, "tags": ["a", "b"]},
    "not a time": {"least": 1, "on": "yesterday"},
    "another type": {"least": "many"},
}


def version_named(module: Any, api_version: str) -> type[Any]:
    """The class of a version in a module."""
    name = api_version.partition("/")[2]
    classes: list[type[Any]] = [each for each in vars(module).values() if is_version(each)]
    return next(each for each in classes if version_of(each).name == name)


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_accepted_objects_are_valid_in_pydantic(file: DefinitionFile) -> None:
    with imported(definitions_source([file.definition], "pydantic")) as module:
        for case in file.accepted:
            version_named(module, case.document["apiVersion"]).model_validate(case.document)


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_accepted_objects_are_valid_in_msgspec(file: DefinitionFile) -> None:
    with imported(definitions_source([file.definition], "msgspec")) as module:
        for case in file.accepted:
            msgspec.convert(case.document, version_named(module, case.document["apiVersion"]))


@pytest.mark.parametrize("spec", REFUSED.values(), ids=REFUSED)
def test_what_both_refuse(spec: dict[str, Any]) -> None:
    with (
        imported(definitions_source([THINGS], "pydantic")) as module,
        pytest.raises(pydantic.ValidationError, match="1 validation error"),
    ):
        module.Thing.model_validate({**THING, "spec": spec})
    with (
        imported(definitions_source([THINGS], "msgspec")) as module,
        pytest.raises(msgspec.ValidationError, match=r"\$\.spec"),
    ):
        msgspec.convert({**THING, "spec": spec}, module.Thing)


@pytest.mark.parametrize("port", [1, "http"])
def test_bounds_do_not_limit_other_types(port: object) -> None:
    document = {**THING, "spec": {"least": 1, "port": port}}
    with imported(definitions_source([THINGS], "pydantic")) as module:
        assert module.Thing.model_validate(document).spec.port == port
    with imported(definitions_source([THINGS], "msgspec")) as module:
        assert msgspec.convert(document, module.Thing).spec.port == port


def test_objects_are_written_with_their_names_and_without_absent_fields() -> None:
    """Also with apiVersion and kind, though these are defaults."""
    written = {**THING, "spec": {"least": 1, "class": "abc"}}
    with imported(definitions_source([THINGS], "msgspec")) as module:
        spec = module.ThingSpec(least=1, class_="abc")
        assert msgspec.to_builtins(module.Thing(metadata={"name": "a"}, spec=spec)) == written
        assert "status" not in msgspec.to_builtins(module.Thing())
    with imported(definitions_source([THINGS], "pydantic")) as module:
        thing = module.Thing(metadata={"name": "a"}, spec=module.ThingSpec(least=1, class_="abc"))
        # The defaults of other fields are written, too.
        defaults = {"spec": {"least": 1, "class": "abc", "x-kind": "a"}}
        assert thing.model_dump(by_alias=True, exclude_none=True) == {**written, **defaults}
