"""Configurations of admission webhooks. Source: pkg/apis/admissionregistration/{validation,v1}.

Rows T13. Match conditions are checked for their form; expressions where they are compiled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from apiserver.catalogue.admissionregistration import match_rules
from apiserver.catalogue.admissionregistration.match_rules import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    default_selectors,
    validate_match_conditions,
    validate_operation_rule,
)
from apiserver.field_errors import duplicate, invalid, not_supported, required
from apiserver.golang.urls import InvalidUrl, parse
from apiserver.meta import names
from apiserver.schema.compile import Default
from apiserver.validation.checks import Errors, in_turn, items, label_selector, one_of, setting
from apiserver.vocabulary import Document

_PACKAGE: Final = "io.k8s.api.admissionregistration.v1."
REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_REINVOCATIONS: Final = ("IfNeeded", "Never")
_TIMEOUT_S_MAX: Final = 30
_URL_FORM: Final = "; desired format: https://host[/path]"

_HOOK: Final = setting(failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
DEFAULTS: Final[Mapping[str, Default]] = {
    **match_rules.defaults("v1"),
    f"{_PACKAGE}ValidatingWebhook": in_turn(_HOOK, default_selectors),
    f"{_PACKAGE}MutatingWebhook": in_turn(_HOOK, setting(reinvocationPolicy="Never"), default_selectors),
    f"{_PACKAGE}ServiceReference": setting(port=443),
}


def validate_webhook_configuration(document: Document) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for where, hook in items(document, "webhooks", ""):
        errors += _hook(where, hook)
        errors += _review_versions(f"{where}.admissionReviewVersions", hook)
        if name := hook.get("name", ""):
            if name in seen:
                errors.append(duplicate(f"{where}.name", name))
            seen.add(name)
    return errors


def _hook(path: str, hook: Document) -> Errors:
    errors = validate_qualified_domain(f"{path}.name", hook.get("name", ""))
    for where, rule in items(hook, "rules", path):
        errors += validate_operation_rule(where, rule)
    errors += one_of(f"{path}.failurePolicy", hook.get("failurePolicy"), FAILURE_POLICIES)
    errors += one_of(f"{path}.matchPolicy", hook.get("matchPolicy"), MATCH_POLICIES)
    effects = hook.get("sideEffects")
    if effects is None:
        errors.append(required(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}"))
    elif effects not in _SIDE_EFFECTS:
        errors.append(not_supported(f"{path}.sideEffects", effects, _SIDE_EFFECTS))
    timeout_s = hook.get("timeoutSeconds")
    if timeout_s is not None and not 1 <= timeout_s <= _TIMEOUT_S_MAX:
        text = f"the timeout value must be between 1 and {_TIMEOUT_S_MAX} seconds"
        errors.append(invalid(f"{path}.timeoutSeconds", timeout_s, text))
    for field in ("namespaceSelector", "objectSelector"):
        errors += label_selector(f"{path}.{field}", hook.get(field))
    if (reinvocation := hook.get("reinvocationPolicy")) is not None:
        errors += one_of(f"{path}.reinvocationPolicy", reinvocation, _REINVOCATIONS)
    errors += client_config(f"{path}.clientConfig", hook.get("clientConfig", {}))
    return errors + validate_match_conditions(path, hook)


def _review_versions(path: str, hook: Document) -> Errors:
    versions = hook.get("admissionReviewVersions") or []
    if not versions:
        return [required(path, f"must specify one of {', '.join(REVIEW_VERSIONS)}")]
    return review_versions(path, versions)


def review_versions(path: str, versions: Sequence[str], *, needs_known: bool = True) -> Errors:
    """In which versions a webhook may be asked: of admission and of conversion alike."""
    errors: Errors = []
    seen: set[str] = set()
    for index, version in enumerate(versions):
        where = f"{path}[{index}]"
        if version in seen:
            errors.append(invalid(where, version, "duplicate version"))
        else:
            errors += [invalid(where, version, problem) for problem in names.dns1035_label(version)]
        seen.add(version)
    if needs_known and seen.isdisjoint(REVIEW_VERSIONS):
        errors.append(invalid(path, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}"))
    return errors


def validate_qualified_domain(path: str, name: str) -> Errors:
    """A domain of three parts or more. Source: apimachinery util/validation, IsFullyQualifiedName."""
    if not name:
        return [required(path)]
    if problems := names.dns_subdomain(name):
        return [invalid(path, name, ",".join(problems))]
    if name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        return [invalid(path, name, text)]
    return []


# ---- where a webhook is


def client_config(path: str, config: Document) -> Errors:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    if service is not None:
        return webhook_service(f"{path}.service", service)
    return webhook_url(f"{path}.url", str(url))


def webhook_url(path: str, text: str) -> Errors:
    """Source: k8s.io/apiserver, pkg/util/webhook, ValidateWebhookURL."""
    try:
        url = parse(text)
    except InvalidUrl as error:
        return [required(path, f"url must be a valid URL: {error.message}{_URL_FORM}")]
    errors: Errors = []
    if url.scheme != "https":
        errors.append(invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}"))
    if not url.host:
        errors.append(invalid(path, url.host, f"host must be specified{_URL_FORM}"))
    if url.user is not None:
        errors.append(invalid(path, url.user, "user information is not permitted in the URL"))
    if url.fragment:
        fragment = url.fragment.decode("utf-8", "replace")
        errors.append(invalid(path, fragment, "fragments are not permitted in the URL"))
    if url.query:
        errors.append(invalid(path, url.query, "query parameters are not permitted in the URL"))
    return errors


def webhook_service(path: str, service: Document) -> Errors:
    """Source: ValidateWebhookService. Kubernetes calls it with name and namespace exchanged; not so here."""
    errors: Errors = [
        required(f"{path}.{field}") for field in ("name", "namespace") if not service.get(field)
    ]
    port, url_path = service.get("port"), service.get("path")
    if port is not None and not 1 <= port <= 65_535:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid(f"{path}.port", port, text))
    if url_path and url_path != "/":
        errors += _url_path(f"{path}.path", url_path)
    return errors


def _url_path(path: str, url_path: str) -> Errors:
    if url_path == "//":
        return [invalid(path, url_path, "segment[0] may not be empty")]
    errors: Errors = []
    if not url_path.startswith("/"):
        errors.append(invalid(path, url_path, "must start with a '/'"))
    for index, segment in enumerate(url_path[1:].removesuffix("/").split("/")):
        if not segment:
            errors.append(invalid(path, url_path, f"segment[{index}] may not be empty"))
            continue
        problems = names.dns_subdomain(segment)
        errors += [invalid(path, url_path, f"segment[{index}]: {problem}") for problem in problems]
    return errors
