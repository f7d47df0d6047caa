"""The definitions of Kubernetes' types, release by release, in one compressed file beside this module.

The file is made when the package is built (`deploy/package_build.py`), from the package kubernetes-validate,
which has 108 MB. It is a zip archive of less than 3 MB, which any tool can read. Each release is there twice:
whole for OpenAPI, and without the descriptions, which are three quarters of the text, for schemas.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

TABLE: Final = Path(__file__).with_name("definitions.zip")

_WHOLE: Final = "definitions.json"
_WITHOUT_DESCRIPTIONS: Final = "schemas.json"
# As in a folder of kubernetes-validate: a release's contents, as references to definitions.
_FOLDER: Final = re.compile(r"v(\d+)\.(\d+)\.0-local")
_WRITTEN_AT: Final = (1980, 1, 1, 0, 0, 0)  # the same bytes in every build

Release = tuple[int, int]


def releases() -> list[Release]:
    """Returns the releases in the table, oldest first."""
    with _open() as table:
        names = {name.partition("/")[0] for name in table.namelist()}
    return sorted((int(major), int(minor)) for major, minor in (name.split(".") for name in names))


def read_definitions(release: Release, *, described: bool) -> bytes:
    """Returns the definitions of a release: a JSON object with a JSON Schema for each name, as
    `io.k8s.api.core.v1.ConfigMap`.

    described: whether to include descriptions of definitions and fields. Raises KeyError for an unknown
        release.
    """
    name = _WHOLE if described else _WITHOUT_DESCRIPTIONS
    with _open() as table:
        return table.read(f"{release[0]}.{release[1]}/{name}")


def write_table(package: Path, target: Path) -> None:
    """Write the table. package: the folder of the package kubernetes-validate."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as table:
        for (major, minor), definitions in _definitions_in(package):
            schemas = _without_descriptions(definitions)
            for name, document in ((_WHOLE, definitions), (_WITHOUT_DESCRIPTIONS, schemas)):
                member = zipfile.ZipInfo(f"{major}.{minor}/{name}", _WRITTEN_AT)
                member.compress_type = zipfile.ZIP_DEFLATED
                table.writestr(member, orjson.dumps(document))


def _definitions_in(package: Path) -> Iterator[tuple[Release, dict[str, Any]]]:
    for folder in sorted((package / "kubernetes-json-schema").iterdir()):
        if found := _FOLDER.fullmatch(folder.name):
            document = orjson.loads((folder / "_definitions.json").read_bytes())
            yield (int(found[1]), int(found[2])), document["$defs"]


def _without_descriptions(schema: Any) -> Any:
    """Returns a schema without texts; an object in place of a text is a field with that name."""
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_descriptions(value)
        for key, value in schema.items()
        if key != "description" or isinstance(value, dict)
    }


def _open() -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(TABLE)
    except FileNotFoundError:
        raise LookupError(
            f"{TABLE} is missing: `pip install` creates this file, also in a checkout"
        ) from None
