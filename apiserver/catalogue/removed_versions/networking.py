"""Ingresses and their classes of networking/v1beta1.

Ingresses of `extensions/v1beta1` have the same form. There a backend is a service's name and port, and some
current checks of secret names and wildcard rules are missing. Source:
pkg/apis/networking/v1beta1 (conversion.go, defaults.go), pkg/apis/networking/validation (release 1.21). Rows
T20, T21.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import CurrentTypes, columns_of_hub, hub_of, other_version
from apiserver.catalogue.networking.ingresses import (
    Leniency,
    backends_of,
    validate_ingress,
    validate_ingress_class_annotation,
)
from apiserver.meta import names
from apiserver.meta.field_errors import Errors
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import DEFAULT_STRATEGY, UpdateStrategy, keep_status
from apiserver.schema.compile import Default
from apiserver.schema.validation.defaults import setting

_GROUP: Final = "networking."


def types(current: CurrentTypes) -> tuple[BuiltinType, ...]:
    return (ingress_of_v1beta1(current), other_version(current[_GROUP, "ingressclasses"], "v1beta1"))


def ingress_of_v1beta1(current: CurrentTypes) -> BuiltinType:
    v1 = current[_GROUP, "ingresses"]
    strategy = v1.strategy._replace(
        validate=validate_ingress_of_v1beta1,
        validate_ratcheting=DEFAULT_STRATEGY.validate_ratcheting,
        validate_create=validate_ingress_class_annotation,
        update=UpdateStrategy(prepare=keep_status),
    )
    return other_version(
        v1,
        "v1beta1",
        adds=DEFAULTS,
        strategy=strategy,
        columns=columns_of_hub(v1.columns, to_v1),
        hub=hub_of(v1, to_v1, to_v1beta1),
    )


DEFAULTS: Final[Mapping[str, Default]] = {"HTTPIngressPath": setting(pathType="ImplementationSpecific")}


def to_v1(document: Document) -> None:
    spec = document.get("spec") or {}
    if "backend" in spec:
        spec["defaultBackend"] = spec.pop("backend")
    for backend in backends_of(spec):
        name, port = backend.pop("serviceName", ""), backend.pop("servicePort", 0)
        if name or port:
            port = {"name": port} if isinstance(port, str) else {"number": port}
            backend["service"] = {"name": name, "port": {key: value for key, value in port.items() if value}}


def to_v1beta1(document: Document) -> None:
    spec = document.get("spec") or {}
    for backend in backends_of(spec):
        service = backend.pop("service", None) or {}
        port = service.get("port") or {}
        if service.get("name"):
            backend["serviceName"] = service["name"]
        # It is no pointer in Go: zero is shown, too.
        backend["servicePort"] = port.get("name") or port.get("number", 0)
    if "defaultBackend" in spec:
        spec["backend"] = spec.pop("defaultBackend")


# What versions before v1 have not checked.
_LENIENCY: Final = Leniency(names.dns1035_label, takes_wildcard_rules=True, takes_secret_names=True)

_service_port = re.compile(r"\.service\.port\.(?:name|number)$").sub
_service_name = re.compile(r"\.service\.name$").sub


def validate_ingress_of_v1beta1(document: Document) -> Errors:
    """Checks an ingress in its v1 form. Errors have the field names of v1beta1."""
    return [
        replace(
            error,
            field=_service_port(
                ".servicePort",
                _service_name(".serviceName", error.field.replace("spec.defaultBackend", "spec.backend", 1)),
            ),
            message=error.message.replace("`defaultBackend`", "`backend`"),
        )
        for error in validate_ingress(document, _LENIENCY)
    ]
