"""IngressClasses. Source: pkg/apis/networking/validation."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.networking.ingresses import validate_object_reference
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, forbidden, not_supported, required
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.validation.checks import follows, immutable, max_bytes
from apiserver.schema.validation.documents import at
from apiserver.schema.validation.domain_prefixed_paths import validate_domain_prefixed_path


def _complete_parameters(parameters: Document) -> None:
    if parameters.get("scope") is None:
        parameters["scope"] = "Cluster"


_CONTROLLER_BYTES_MAX: Final = 250


def validate_ingress_class(document: Document) -> Errors:
    spec = document.get("spec", {})
    path, controller = "spec.controller", spec.get("controller", "")
    if controller:
        errors = max_bytes(path, controller, _CONTROLLER_BYTES_MAX)
        errors += validate_domain_prefixed_path(path, controller)
    else:
        errors = [required(path)]
    if (parameters := spec.get("parameters")) is not None:
        errors += _parameters("spec.parameters", parameters)
    return errors


def validate_ingress_class_update(new: Document, old: Document) -> Errors:
    return immutable(
        "spec.controller", at(new, "spec", "controller") or "", at(old, "spec", "controller") or ""
    )


_SCOPES: Final = ("Cluster", "Namespace")


def _parameters(path: str, parameters: Document) -> Errors:
    errors = validate_object_reference(path, parameters)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    where = f"{path}.namespace"
    if scope not in _SCOPES:
        errors.append(not_supported(f"{path}.scope", scope or "", _SCOPES))
    elif scope == "Cluster" and namespace is not None:
        errors.append(forbidden(where, "`parameters.scope` is set to 'Cluster'"))
    elif scope == "Namespace" and namespace is None:
        errors.append(required(where, "`parameters.scope` is set to 'Namespace'"))
    elif namespace is not None:
        errors += follows(where, namespace, names.dns_label)
    return errors


# ---- columns


def _parameters_cell(document: Document, now: float) -> str:
    parameters = at(document, "spec", "parameters")
    if not parameters:
        return "<none>"
    group, kind = parameters.get("apiGroup"), parameters.get("kind", "")
    return f"{kind}.{group}/{parameters.get('name', '')}" if group else f"{kind}/{parameters.get('name', '')}"


BUILTIN_TYPE: Final = BuiltinType(
    "networking.",
    "v1",
    "ingressclasses",
    "IngressClass",
    is_namespaced=False,
    defaults={"io.k8s.api.networking.v1.IngressClassParametersReference": _complete_parameters},
    strategy=Strategy(
        validate=validate_ingress_class,
        update=UpdateStrategy(validate=validate_ingress_class_update),
        has_generation=True,
    ),
    columns=columns(
        Column("Controller", field_cell("spec", "controller"), "The controller of the class."),
        Column("Parameters", _parameters_cell, "The parameters of the class."),
        AGE,
    ),
)
