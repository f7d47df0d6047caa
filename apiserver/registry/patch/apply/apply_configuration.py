"""Merges the ApplyConfiguration of a policy into an object: like an apply, but without owners of fields.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/mutating/patch/smd.go.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.meta.vocabulary import Document
from apiserver.registry.patch.apply.merge import merge
from apiserver.registry.patch.apply.type_defs import TypeDef
from apiserver.registry.patch.apply.typed_value import DocumentTooDeep, SchemaMismatch, to_field_set

# More would not be read, and a patch may have a thousand atomic lists.
_TOLD_MAX: Final = 20


class InvalidApplyConfiguration(ValueError):
    """A configuration that cannot be merged. The message is for the client."""


def apply_configuration(live: Document, configuration: Document, type_def: TypeDef) -> Document:
    """Returns `live` with a configuration merged; `live` itself if that changes nothing.

    The result shares parts with both. type_def: of all fields, including those that the server sets.
    Raises InvalidApplyConfiguration.
    """
    try:
        to_field_set(configuration, type_def)
    except SchemaMismatch as mismatch:
        why = f"failed to convert patch object to typed object: {mismatch}"
        raise InvalidApplyConfiguration(why) from None
    except DocumentTooDeep as error:
        raise InvalidApplyConfiguration(str(error)) from None
    if atomics := _atomics(configuration, type_def, ""):
        told = ", ".join(atomics[:_TOLD_MAX])
        why = f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {told}"
        raise InvalidApplyConfiguration(why)
    try:
        return merge(live, configuration, type_def)
    except DocumentTooDeep as error:
        raise InvalidApplyConfiguration(f"failed to merge patch: {error}") from None


def _atomics(value: Any, type_def: TypeDef, path: str) -> list[str]:
    """Returns the paths of all lists, maps and structs in a value that are owned as a whole.

    A writer that names one field of them would remove all others. The entries of maps are not searched.
    """
    found: list[str] = []
    if type(value) is dict:
        if type_def.is_atomic:
            found.append(path)
        if type_def.kind == "struct":
            for name, child in value.items():
                if name in type_def.fields:
                    found += _atomics(child, type_def.fields[name][1], f"{path}.{name}")
    elif type(value) is list:
        if type_def.is_atomic or type_def.kind == "untyped":
            found.append(path)
        if type_def.kind != "untyped":
            for index, child in enumerate(value):
                found += _atomics(child, type_def.element, f"{path}[{index}]")
    return found
