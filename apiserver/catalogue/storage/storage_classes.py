"""StorageClasses. Source: pkg/apis/storage/{validation,v1}, ValidateStorageClass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.node_labels import DEPRECATED_NODE_LABELS
from apiserver.meta import names, table
from apiserver.meta.field_errors import Errors, duplicate, invalid, required, too_long
from apiserver.meta.names import byte_length
from apiserver.meta.table import AGE, Column, Columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy
from apiserver.schema.validation.checks import follows, immutable, no_repeated_items, one_of
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.documents import items

_POLICIES: Final = ("Delete", "Retain")
_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_PARAMETERS_MAX: Final = 512
_PARAMETERS_BYTES_MAX: Final = 256 * 1024


def validate_storage_class(document: Document, old: Document | None) -> Errors:
    policy, mode = document.get("reclaimPolicy"), document.get("volumeBindingMode")
    return [
        *validate_provisioner("provisioner", document.get("provisioner", "")),
        *validate_parameters(document.get("parameters") or {}),
        *(one_of("reclaimPolicy", policy, _POLICIES) if policy else ()),
        *one_of("volumeBindingMode", mode, _MODES),
        *_topologies(document),
        *(_validate_change(document, old) if old is not None else ()),
    ]


def _validate_change(new: Document, old: Document) -> Errors:
    # Programs look for "field is immutable" to know that a class has to be made anew.
    return [
        *immutable("parameters", new.get("parameters") or None, old.get("parameters") or None),
        *immutable("provisioner", new.get("provisioner", ""), old.get("provisioner", "")),
        *immutable("reclaimPolicy", new.get("reclaimPolicy"), old.get("reclaimPolicy")),
        *immutable("volumeBindingMode", new.get("volumeBindingMode"), old.get("volumeBindingMode")),
    ]


# Each of a thousand equal terms has an error for each one before it.
_ERRORS_MAX: Final = 100


def _topologies(document: Document) -> Errors:
    """Checks terms that each require values of labels; all of them must differ.

    As in Kubernetes, terms are also compared with as many empty ones as there are terms.
    """
    count = len(document.get("allowedTopologies") or ())
    errors: Errors = []
    seen: Counter[frozenset[tuple[str, frozenset[str]]]] = Counter({frozenset(): count})
    for where, term in items(document, "allowedTopologies", ""):
        demands: dict[str, frozenset[str]] = {}
        for path, demand in items(term, "matchLabelExpressions", where):
            key, values = demand.get("key", ""), demand.get("values") or []
            if not values:
                errors.append(required(f"{path}.values"))
            errors += no_repeated_items(f"{path}.values", values)
            errors += follows(f"{path}.key", key, names.qualified_name)
            if key in demands:
                errors.append(duplicate(f"{path}.key", key))
            demands[key] = frozenset(values)
        identity = frozenset(demands.items())
        repeated = duplicate(f"{where}.matchLabelExpressions", "")
        errors += [repeated] * min(seen[identity], _ERRORS_MAX)
        seen[identity] += 1
        if len(errors) >= _ERRORS_MAX:
            break
    return errors


def warn_storage_class(new: Document, old: Document | None) -> list[str]:
    return [
        f"{path}.key: {text}"
        for where, term in items(new, "allowedTopologies", "")
        for path, demand in items(term, "matchLabelExpressions", where)
        if (text := DEPRECATED_NODE_LABELS.get(demand.get("key", "")))
    ]


# ---- what VolumeAttributesClasses have, too


def validate_provisioner(path: str, name: str) -> Errors:
    if not name:
        return [required(path)]
    return follows(path, name.lower(), names.qualified_name)


def validate_parameters(parameters: Mapping[str, str]) -> Errors:
    if len(parameters) > _PARAMETERS_MAX:
        return [too_long("parameters", _PARAMETERS_MAX)]
    errors: Errors = []
    if "" in parameters:
        errors.append(invalid("parameters", "", "field can not be empty."))
    if (
        sum(byte_length(key) + byte_length(value) for key, value in parameters.items())
        > _PARAMETERS_BYTES_MAX
    ):
        errors.append(too_long("parameters", _PARAMETERS_BYTES_MAX))
    return errors


# ---- columns

_DEFAULT_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _name_cell(document: Document, now: float) -> str:
    """Shows the name, and whether the class is the default."""
    annotations = document["metadata"].get("annotations") or {}
    is_default = any(annotations.get(each) == "true" for each in _DEFAULT_ANNOTATIONS)
    return f"{table.name_of(document, now)} (default)" if is_default else table.name_of(document, now)


BUILTIN_TYPE: Final = BuiltinType(
    "storage.",
    "v1",
    "storageclasses",
    "StorageClass",
    is_namespaced=False,
    short_names=("sc",),
    defaults={
        "io.k8s.api.storage.v1.StorageClass": setting(reclaimPolicy="Delete", volumeBindingMode="Immediate")
    },
    strategy=Strategy(
        returns_deleted=True, validate_ratcheting=validate_storage_class, warn=warn_storage_class
    ),
    columns=Columns(
        (
            Column("Name", _name_cell, table.NAME.description, format="name"),
            Column("Provisioner", field_cell("provisioner"), "The provisioner of the volumes."),
            Column(
                "ReclaimPolicy",
                field_cell("reclaimPolicy", default="Delete"),
                "The policy for a volume after its claim is deleted: Delete or Retain.",
            ),
            Column(
                "VolumeBindingMode",
                field_cell("volumeBindingMode", default="<unset>"),
                "The time of provisioning: immediately, or for the first pod.",
            ),
            Column(
                "AllowVolumeExpansion",
                field_cell("allowVolumeExpansion", default=False),
                "Whether volumes may be expanded.",
                type="string",
            ),
            AGE,
        )
    ),
)
