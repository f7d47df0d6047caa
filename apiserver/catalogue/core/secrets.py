"""Secrets. Source: pkg/apis/core/validation, ValidateSecret."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

from apiserver.catalogue.builtin_type import CORE, BuiltinType
from apiserver.catalogue.core.config_maps import (
    DATA_TEXT,
    SIZE_MAX,
    decoded_size,
    validate_immutable_flag,
    validate_keys,
)
from apiserver.meta import table
from apiserver.meta.field_errors import Errors, invalid, required, too_long
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_getters import field_texts
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.validation.checks import immutable
from apiserver.schema.validation.defaults import setting
from apiserver.wire import json_text

_DEFAULT_TYPE: Final = setting(type="Opaque")


def _complete_secret(document: Document) -> None:
    """Moves `stringData`, which is never stored, to `data`, which the client then owns."""
    for name, text in (document.pop("stringData", None) or {}).items():
        document.setdefault("data", {})[name] = base64.b64encode(text.encode()).decode()
    _DEFAULT_TYPE(document)


_ACCOUNT_ANNOTATION: Final = "kubernetes.io/service-account.name"
# The keys that a secret of a type must have.
_TLS: Final = "kubernetes.io/tls"
_KEYS_OF_TYPES: Final = {_TLS: ("tls.crt", "tls.key")}
# The key that a secret of a type must have, and whose value is a JSON object.
_JSON_OF_TYPES: Final = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}


def validate_secret(document: Document) -> Errors:
    data = document.get("data") or {}
    return validate_keys("data", data) + validate_size(document) + _validate_by_type(document, data)


def validate_size(document: Document) -> Errors:
    size = sum(map(decoded_size, (document.get("data") or {}).values()))
    return [too_long("data", SIZE_MAX)] if size > SIZE_MAX else []


def validate_secret_update(new: Document, old: Document) -> Errors:
    errors = immutable("type", new.get("type", ""), old.get("type", ""))
    return errors + validate_immutable_flag(new, old, ("data",))


def _validate_by_type(document: Document, data: Mapping[str, str]) -> Errors:
    kind = document.get("type", "")
    if kind == "kubernetes.io/service-account-token":
        account = (document["metadata"].get("annotations") or {}).get(_ACCOUNT_ANNOTATION)
        return [] if account else [required(f"metadata.annotations[{_ACCOUNT_ANNOTATION}]")]
    if kind in _JSON_OF_TYPES:
        return _json(data, _JSON_OF_TYPES[kind])
    if kind == "kubernetes.io/basic-auth":
        keys = ("username", "password")
        return [] if data.keys() & set(keys) else [required(f"data[{name}]") for name in keys]
    if kind == "kubernetes.io/ssh-auth":
        return [] if data.get("ssh-privatekey") else [required("data[ssh-privatekey]")]
    return [required(f"data[{name}]") for name in _KEYS_OF_TYPES.get(kind, ()) if name not in data]


def _json(data: Mapping[str, str], name: str) -> Errors:
    where = f"data[{name}]"
    if name not in data:
        return [required(where)]
    try:
        is_object = isinstance(json_text.load(base64.b64decode(data[name])), dict | None)
        problem = "" if is_object else "json: cannot unmarshal into Go value of type map[string]interface {}"
    except (json_text.InvalidJson, json_text.TooManyValues) as error:
        problem = f"{error}"
    # Whatever it is, it was meant to be secret.
    return [invalid(where, "<secret contents redacted>", problem)] if problem else []


def warn_secret(new: Document, old: Document | None) -> list[str]:
    if new.get("type") != _TLS:
        return []
    from apiserver.golang.tls_pairs import pair_problem

    data = new.get("data") or {}
    certificates, keys = (base64.b64decode(data.get(name, "")) for name in _KEYS_OF_TYPES[_TLS])
    problem = pair_problem(certificates, keys)
    return [problem] if problem else []


# ---- columns

_TYPE_TEXT: Final = (
    "What the secret is for, which lets programs handle it and decides which keys it must have; Opaque if it "
    "is nothing special."
)


BUILTIN_TYPE: Final = BuiltinType(
    "",
    "v1",
    "secrets",
    "Secret",
    defaults={f"{CORE}Secret": _complete_secret},
    strategy=Strategy(
        validate=validate_secret,
        validate_size=validate_size,
        warn=warn_secret,
        update=UpdateStrategy(validate=validate_secret_update),
    ),
    columns=columns(
        Column("Type", field_cell("type"), _TYPE_TEXT), Column("Data", table.count("data"), DATA_TEXT), AGE
    ),
    selectable_fields=field_texts("type"),
)
