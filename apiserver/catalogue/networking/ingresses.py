"""Ingresses. Source: pkg/apis/networking/validation, ValidateIngress."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType, status_subresource
from apiserver.catalogue.common.columns import first_few
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, not_supported, required
from apiserver.meta.names import NameRule
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.validation.addresses import STRICT_ADDRESSES, AddressChecks, ip_warnings, parse_ip
from apiserver.schema.validation.checks import follows, named, port_name, port_number
from apiserver.schema.validation.documents import at, items


def builtin_type(gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    rules = IngressRules(
        gates.is_on("RelaxedServiceNameValidation"), AddressChecks(gates.is_on(STRICT_ADDRESSES))
    )
    check_status = partial(validate_ingress_status_update, addresses=rules.addresses)
    return BuiltinType(
        "networking.",
        "v1",
        "ingresses",
        "Ingress",
        short_names=("ing",),
        subresources=(status_subresource(check_status, warn=warn_ingress_status),),
        strategy=Strategy(
            prepare_create=prepare_ingress_create,
            validate_ratcheting=partial(_validate, rules=rules),
            warn=warn_ingress,
            update=UpdateStrategy(prepare=keep_status),
            has_generation=True,
        ),
        columns=columns(
            Column("Class", _class_cell, "The class of the ingress."),
            Column("Hosts", _hosts, "The first host names of the rules."),
            Column("Address", _addresses, "The addresses of the load balancer."),
            Column("Ports", _ports, "The ports of the ingress, including 443 if it has TLS."),
            AGE,
        ),
    )


_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"


class IngressRules(NamedTuple):
    """The rules of Ingresses that depend on feature gates.

    has_relaxed_names: whether the name of a Service may begin with a digit, as with Services.
    """

    has_relaxed_names: bool
    addresses: AddressChecks


class Leniency(NamedTuple):
    """The checks that are skipped, because the stored object or an old version lacks them, too."""

    service_name: NameRule
    takes_wildcard_rules: bool = False
    takes_secret_names: bool = False


def validate_ingress(document: Document, leniency: Leniency) -> Errors:
    spec = document.get("spec", {})
    errors: Errors = []
    backend = spec.get("defaultBackend")
    if not spec.get("rules") and backend is None:
        errors.append(invalid("spec", None, "either `defaultBackend` or `rules` must be specified"))
    if backend is not None:
        errors += _backend("spec.defaultBackend", backend, leniency.service_name)
    for where, rule in items(spec, "rules", "spec"):
        if host := rule.get("host"):
            errors += _not_an_ip(f"{where}.host", host) + _host(f"{where}.host", host)
        if not (leniency.takes_wildcard_rules and _is_wildcard_rule(rule)):
            errors += _rule_value(where, rule, leniency.service_name)
    for where, tls in items(spec, "tls", "spec"):
        for host_path, host in items(tls, "hosts", where):
            errors += _host(host_path, host)
        if not leniency.takes_secret_names:
            errors += _secret_name(where, tls)
    return errors + follows("spec.ingressClassName", spec.get("ingressClassName"), names.dns_subdomain)


def _validate(document: Document, old: Document | None, *, rules: IngressRules) -> Errors:
    if old is not None:
        return validate_ingress(document, _leniency(old, rules))
    name_rule = names.dns_label if rules.has_relaxed_names else names.dns1035_label
    return validate_ingress(document, Leniency(name_rule)) + validate_ingress_class_annotation(document)


def validate_ingress_class_annotation(document: Document) -> Errors:
    annotation = _class_annotation(document)
    class_name = at(document, "spec", "ingressClassName")
    if annotation is None or class_name is None or annotation == class_name:
        return []
    text = "must match `ingressClassName` when both are specified"
    return [invalid(f"annotations.{_CLASS_ANNOTATION}", annotation, text)]


def _leniency(old: Document, rules: IngressRules) -> Leniency:
    """Returns the checks to skip on an update. A stored fault may be repeated."""
    spec = old.get("spec", {})
    is_relaxed = rules.has_relaxed_names or any(map(_is_relaxed_name, _service_names(spec)))
    stored_rules = items(spec, "rules", "spec")
    return Leniency(
        names.dns_label if is_relaxed else names.dns1035_label,
        takes_wildcard_rules=any(
            _is_wildcard_rule(rule) and _rule_value(where, rule, names.dns1035_label)
            for where, rule in stored_rules
        ),
        takes_secret_names=any(_secret_name(where, tls) for where, tls in items(spec, "tls", "spec")),
    )


def _is_relaxed_name(name: str) -> bool:
    return bool(names.dns1035_label(name)) and not names.dns_label(name)


def backends_of(spec: Document) -> Iterator[Document]:
    if (backend := spec.get("defaultBackend")) is not None:
        yield backend
    for rule in spec.get("rules") or ():
        for path in at(rule, "http", "paths") or ():
            if (backend := path.get("backend")) is not None:
                yield backend


def _service_names(spec: Document) -> Iterator[str]:
    services = (backend.get("service") for backend in backends_of(spec))
    return (service.get("name", "") for service in services if service is not None)


def _secret_name(path: str, tls: Document) -> Errors:
    return named(f"{path}.secretName", tls.get("secretName"), names.dns_subdomain, is_required=False)


def warn_ingress(new: Document, old: Document | None) -> list[str]:
    if old is not None or _class_annotation(new) is None or at(new, "spec", "ingressClassName") is not None:
        return []
    return [f"annotation \"{_CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"]


def validate_ingress_status_update(new: Document, old: Document, *, addresses: AddressChecks) -> Errors:
    stored = {each.get("ip") for each in at(old, "status", "loadBalancer", "ingress") or ()}
    errors: Errors = []
    for where, ingress in _load_balancers(new):
        if ip := ingress.get("ip"):
            errors += addresses.ip(f"{where}.ip", ip, stored)
        if host := ingress.get("hostname"):
            errors += follows(f"{where}.hostname", host, names.dns_subdomain)
            errors += _not_an_ip(f"{where}.hostname", host)
    return errors


def warn_ingress_status(new: Document, old: Document | None) -> list[str]:
    return [
        text
        for where, ingress in _load_balancers(new)
        if ingress.get("ip")
        for text in ip_warnings(where, ingress["ip"])
    ]


def _load_balancers(document: Document) -> Iterable[tuple[str, Document]]:
    balancer = at(document, "status", "loadBalancer") or {}
    return items(balancer, "ingress", "status.loadBalancer")


def _class_annotation(document: Document) -> str | None:
    annotation: str | None = at(document, "metadata", "annotations", _CLASS_ANNOTATION)
    return annotation


def _is_wildcard_rule(rule: Document) -> bool:
    return "*" in rule.get("host", "")


def _rule_value(path: str, rule: Document, service_name: NameRule) -> Errors:
    http, path = rule.get("http"), f"{path}.http"
    if http is None:
        return []
    errors: Errors = [] if http.get("paths") else [required(f"{path}.paths")]
    for where, each in items(http, "paths", path):
        errors += _http_path(where, each, service_name)
    return errors


_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_PATH_MAY_NOT_CONTAIN: Final = ("//", "/./", "/../", "%2f", "%2F")
_PATH_MAY_NOT_END_WITH: Final = ("/..", "/.")


def _http_path(path: str, http_path: Document, service_name: NameRule) -> Errors:
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
    return errors + _backend(f"{path}.backend", http_path.get("backend", {}), service_name)


def _backend(path: str, backend: Document, service_name: NameRule) -> Errors:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return validate_object_reference(f"{path}.resource", resource)
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    errors = named(f"{path}.service.name", service.get("name"), service_name)
    port = service.get("port", {})
    name, number = port.get("name"), port.get("number")
    if name and number:
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif name:
        errors += follows(f"{path}.service.port.name", name, port_name)
    elif number:
        errors += port_number(f"{path}.service.port.number", number)
    else:
        errors.append(required(path, "port name or number is required"))
    return errors


def validate_object_reference(path: str, reference: Document) -> Errors:
    """Checks a reference to an object of any kind."""
    errors = follows(f"{path}.apiGroup", reference.get("apiGroup"), names.dns_subdomain)
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
    """Checks a host name, whose first part may be `*`."""
    if "*" not in host:
        return follows(path, host, names.dns_subdomain)
    errors: Errors = []
    if names.byte_length(host) > names.SUBDOMAIN_MAX:
        text = f"must be no more than {names.SUBDOMAIN_MAX} characters"
        errors.append(invalid(path, host, text))
    if not _is_wildcard(host):
        errors.append(invalid(path, host, _WILDCARD_TEXT))
    return errors


def _not_an_ip(path: str, host: str) -> Errors:
    if parse_ip(host) is None:
        return []
    return [invalid(path, host, "must be a DNS name, not an IP address")]


# ---- columns


def _class_cell(document: Document, now: float) -> str:
    name = at(document, "spec", "ingressClassName")
    if name is None:
        name = at(document, "metadata", "annotations", "kubernetes.io/ingress.class")
    return name or "<none>"


def _hosts(document: Document, now: float) -> str:
    hosts = [rule["host"] for rule in at(document, "spec", "rules") or () if rule.get("host")]
    return first_few(hosts, empty="*")


def _addresses(document: Document, now: float) -> str:
    ingress = at(document, "status", "loadBalancer", "ingress") or ()
    return ",".join(sorted({each.get("ip") or each.get("hostname") or "" for each in ingress} - {""}))


def _ports(document: Document, now: float) -> str:
    return "80, 443" if at(document, "spec", "tls") else "80"


def prepare_ingress_create(document: Document) -> None:
    document["status"] = {"loadBalancer": {}}
