"""Checks the resources that custom resources embed.

Source: k8s.io/apiextensions-apiserver, pkg/apiserver/schema/objectmeta/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apiserver.custom_resources.schemas.json_schema import JSONSchema
from apiserver.custom_resources.schemas.paths import Path, bracketed
from apiserver.custom_resources.schemas.visits import DocumentCheck
from apiserver.meta import object_meta
from apiserver.meta.field_errors import FieldError, invalid, required
from apiserver.meta.names import dns1035_label, path_segment
from apiserver.schema.extensions import Extensions


def embedded_resources(schema: JSONSchema, extensions: Extensions) -> DocumentCheck:
    """Returns the visits that check the types and the metadata of the resources in documents of a schema."""
    return DocumentCheck(schema, lambda each: bool(each.get(extensions.embedded_resource)), _check)


def _check(value: Any, schema: JSONSchema, path: Path | None) -> Iterator[FieldError]:
    if type(value) is not dict:
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
        # A name is not required; without one, all the rest is checked.
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
