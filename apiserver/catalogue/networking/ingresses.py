"""Ingresses and their classes. Source: pkg/apis/networking/validation."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Final

from apiserver.catalogue.rules.lengths import byte_length
from apiserver.field_errors import forbidden, invalid, not_supported, required, too_long
from apiserver.meta import names
from apiserver.schema.compile import Default
from apiserver.validation.checks import Errors, at, immutable, items, named, port_name, port_number
from apiserver.vocabulary import Document

_PACKAGE: Final = "io.k8s.api.networking.v1."
_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"


def _complete_parameters(parameters: Document) -> None:
    if parameters.get("scope") is None:
        parameters["scope"] = "Cluster"


DEFAULTS: Final[Mapping[str, Default]] = {f"{_PACKAGE}IngressClassParametersReference": _complete_parameters}


# ---- Ingress


def validate_ingress(document: Document) -> Errors:
    spec = document.get("spec", {})
    errors: Errors = []
    backend = spec.get("defaultBackend")
    if not spec.get("rules") and backend is None:
        errors.append(invalid("spec", None, "either `defaultBackend` or `rules` must be specified"))
    if backend is not None:
        errors += _backend("spec.defaultBackend", backend)
    for where, rule in items(spec, "rules", "spec"):
        if host := rule.get("host"):
            errors += _not_an_ip(f"{where}.host", host) + _host(f"{where}.host", host)
        if (http := rule.get("http")) is not None:
            errors += _http(f"{where}.http", http)
    for where, tls in items(spec, "tls", "spec"):
        for host_path, host in items(tls, "hosts", where):
            errors += _host(host_path, host)
        errors += named(f"{where}.secretName", tls.get("secretName"), names.dns_subdomain, is_required=False)
    if (class_name := spec.get("ingressClassName")) is not None:
        errors += [
            invalid("spec.ingressClassName", class_name, text) for text in names.dns_subdomain(class_name)
        ]
    return errors


def validate_ingress_create(document: Document) -> Errors:
    annotation = _class_annotation(document)
    class_name = at(document, "spec", "ingressClassName")
    if annotation is None or class_name is None or annotation == class_name:
        return []
    text = "must match `ingressClassName` when both are specified"
    return [invalid(f"annotations.{_CLASS_ANNOTATION}", annotation, text)]


def warn_ingress(new: Document, old: Document | None) -> list[str]:
    if old is not None or _class_annotation(new) is None or at(new, "spec", "ingressClassName") is not None:
        return []
    return [f"annotation \"{_CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"]


def validate_ingress_status_update(new: Document, old: Document) -> Errors:
    errors: Errors = []
    balancer = at(new, "status", "loadBalancer") or {}
    for where, ingress in items(balancer, "ingress", "status.loadBalancer"):
        if (ip := ingress.get("ip")) and not _is_ip(ip):
            text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            errors.append(invalid(f"{where}.ip", ip, text))
        if host := ingress.get("hostname"):
            errors += [invalid(f"{where}.hostname", host, text) for text in names.dns_subdomain(host)]
            errors += _not_an_ip(f"{where}.hostname", host)
    return errors


def _class_annotation(document: Document) -> str | None:
    annotation: str | None = at(document, "metadata", "annotations", _CLASS_ANNOTATION)
    return annotation


def _http(path: str, http: Document) -> Errors:
    errors: Errors = [] if http.get("paths") else [required(f"{path}.paths")]
    for where, each in items(http, "paths", path):
        errors += _http_path(where, each)
    return errors


_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_PATH_MAY_NOT_CONTAIN: Final = ("//", "/./", "/../", "%2f", "%2F")
_PATH_MAY_NOT_END_WITH: Final = ("/..", "/.")


def _http_path(path: str, http_path: Document) -> Errors:
    kind, url_path = http_path.get("pathType"), http_path.get("path", "")
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    errors: Errors = []
    where = f"{path}.path"
    if kind not in _PATH_TYPES:
        errors.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    elif not url_path.startswith("/") and (url_path or kind != "ImplementationSpecific"):
        errors.append(invalid(where, url_path, "must be an absolute path"))
    if kind in ("Exact", "Prefix"):
        errors += [
            invalid(where, url_path, f"must not contain '{part}'")
            for part in _PATH_MAY_NOT_CONTAIN
            if part in url_path
        ]
        errors += [
            invalid(where, url_path, f"cannot end with '{end}'")
            for end in _PATH_MAY_NOT_END_WITH
            if url_path.endswith(end)
        ]
    return errors + _backend(f"{path}.backend", http_path.get("backend", {}))


def _backend(path: str, backend: Document) -> Errors:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _reference(f"{path}.resource", resource)
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    errors = named(f"{path}.service.name", service.get("name"), names.dns1035_label)
    port = service.get("port", {})
    name, number = port.get("name"), port.get("number")
    if name and number:
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif name:
        errors += [invalid(f"{path}.service.port.name", name, problem) for problem in port_name(name)]
    elif number:
        errors += port_number(f"{path}.service.port.number", number)
    else:
        errors.append(required(path, "port name or number is required"))
    return errors


def _reference(path: str, reference: Document) -> Errors:
    """A reference to an object of any kind."""
    errors: Errors = []
    if (group := reference.get("apiGroup")) is not None:
        errors += [invalid(f"{path}.apiGroup", group, text) for text in names.dns_subdomain(group)]
    errors += named(f"{path}.kind", reference.get("kind"), names.path_segment)
    return errors + named(f"{path}.name", reference.get("name"), names.path_segment)


_is_wildcard = re.compile(r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*").fullmatch
_WILDCARD_TEXT: Final = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must "
    "consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character "
    "(e.g. '*.example.com', regex used for validation is "
    r"'\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def _host(path: str, host: str) -> Errors:
    """A host name; its first part may be `*`."""
    if "*" not in host:
        return [invalid(path, host, problem) for problem in names.dns_subdomain(host)]
    errors: Errors = []
    if len(host) > names.SUBDOMAIN_MAX:
        text = f"must be no more than {names.SUBDOMAIN_MAX} characters"
        errors.append(invalid(path, host, text))
    if not _is_wildcard(host):
        errors.append(invalid(path, host, _WILDCARD_TEXT))
    return errors


def _not_an_ip(path: str, host: str) -> Errors:
    return [invalid(path, host, "must be a DNS name, not an IP address")] if _is_ip(host) else []


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


# ---- IngressClass

_CONTROLLER_BYTES_MAX: Final = 250


def validate_ingress_class(document: Document) -> Errors:
    spec = document.get("spec", {})
    path, controller = "spec.controller", spec.get("controller", "")
    errors: Errors = []
    if not controller:
        errors.append(required(path))
    else:
        if byte_length(controller) > _CONTROLLER_BYTES_MAX:
            errors.append(too_long(path, _CONTROLLER_BYTES_MAX))
        errors += domain_prefixed_path(path, controller)
    if (parameters := spec.get("parameters")) is not None:
        errors += _parameters("spec.parameters", parameters)
    return errors


def validate_ingress_class_update(new: Document, old: Document) -> Errors:
    return immutable(
        "spec.controller", at(new, "spec", "controller") or "", at(old, "spec", "controller") or ""
    )


_SCOPES: Final = ("Cluster", "Namespace")


def _parameters(path: str, parameters: Document) -> Errors:
    errors = _reference(path, parameters)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    where = f"{path}.namespace"
    if scope not in _SCOPES:
        errors.append(not_supported(f"{path}.scope", scope or "", _SCOPES))
    elif scope == "Cluster" and namespace is not None:
        errors.append(forbidden(where, "`parameters.scope` is set to 'Cluster'"))
    elif scope == "Namespace" and namespace is None:
        errors.append(required(where, "`parameters.scope` is set to 'Namespace'"))
    elif namespace is not None:
        errors += [invalid(where, namespace, problem) for problem in names.dns_label(namespace)]
    return errors


_is_http_path = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+").fullmatch
_HTTP_PATH_TEXT: Final = (
    r"must be a valid HTTP path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')"
)


def domain_prefixed_path(path: str, value: str) -> Errors:
    """A domain and a path: `example.com/controller`."""
    host, _, rest = value.partition("/")
    if not host or not rest:
        return [invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [invalid(path, host, problem) for problem in names.dns_subdomain(host)]
    return errors if _is_http_path(rest) else [*errors, invalid(path, rest, _HTTP_PATH_TEXT)]
