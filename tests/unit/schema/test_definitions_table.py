"""The table of definitions has what kubernetes-validate has, in a small part of its size."""

from __future__ import annotations

import json
from pathlib import Path

import kubernetes_validate
import pytest

from apiserver.schema.definitions_table import TABLE, read_definitions, releases, write_table
from apiserver.schema.go_fields import undecoded

PACKAGE = Path(kubernetes_validate.__file__).parent
FOLDERS = sorted(PACKAGE.glob("kubernetes-json-schema/v*-local/"))


def release_of(folder: Path) -> tuple[int, int]:
    major, minor, _ = folder.name.removeprefix("v").split(".", 2)
    return int(major), int(minor)


def test_it_has_every_release_of_the_package() -> None:
    assert releases() == sorted(release_of(folder) for folder in FOLDERS)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_its_definitions_are_those_of_the_package(folder: Path) -> None:
    there = json.loads((folder / "_definitions.json").read_bytes())["$defs"]
    whole = json.loads(read_definitions(release_of(folder), described=True))
    assert json.dumps(whole) == json.dumps(there)  # in the same order, too
    bare = read_definitions(release_of(folder), described=False)
    assert json.loads(bare) == without_texts(there)
    assert {name: json.loads(text) for name, text in undecoded(bare).items()} == json.loads(bare)


def without_texts(schema: object) -> object:
    """A walk of its own: what is called `description` and is a text is left out, whatever it is in."""
    if isinstance(schema, dict):
        kept = {key: without_texts(value) for key, value in schema.items()}
        return {key: value for key, value in kept.items() if (key, type(value)) != ("description", str)}
    return schema


def test_two_builds_make_the_same_bytes(tmp_path: Path) -> None:
    write_table(PACKAGE, tmp_path / "first.zip")
    write_table(PACKAGE, tmp_path / "second.zip")
    assert (tmp_path / "first.zip").read_bytes() == (tmp_path / "second.zip").read_bytes()


def test_it_is_small_and_its_licence_is_beside_it() -> None:
    assert TABLE.stat().st_size <= 4_000_000
    assert "Apache License" in TABLE.with_suffix(".LICENSE").read_text()


def test_a_release_that_it_does_not_have() -> None:
    with pytest.raises(KeyError):
        read_definitions((1, 999), described=False)
