"""Reads the file of `--authorization-config`: which authorizers there are, in their order.

Its errors name fields as kube-apiserver's do.
Source: k8s.io/apiserver, pkg/apis/apiserver/{v1,validation}; k8s.io/kubernetes, pkg/kubeapiserver/authorizer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from apiserver.auth.authz.configuration import (
    FAIL_CLOSED,
    FAIL_OPEN,
    MODES,
    V1,
    V1BETA1,
    WEBHOOK,
    ConfiguredAuthorizer,
    WebhookSettings,
)
from apiserver.auth.authz.match_conditions import CONDITIONS_MAX, InvalidCondition, compile_condition
from apiserver.golang.durations import parse_duration
from apiserver.meta import names
from apiserver.meta.brand import Brand
from apiserver.meta.field_errors import Errors, duplicate, invalid, not_supported, required, too_many
from apiserver.wire.configuration_fields import ConfigurationObject, InvalidConfiguration, decode

KIND: Final = "AuthorizationConfiguration"
_GROUP: Final = "apiserver.config"
_VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
_KUBECONFIG_FILE: Final = "KubeConfigFile"
_IN_CLUSTER: Final = "InClusterConfig"
TIMEOUT_MAX_S: Final = 30.0
_ERRORS_TOLD: Final = 20


def parse_authorization_configuration(
    content: bytes, brand: Brand, required_types: Collection[str] = (), *, has_selectors: bool = True
) -> tuple[ConfiguredAuthorizer, ...]:
    """Returns the authorizers in a file. Raises InvalidConfiguration.

    required_types: of which there must be one each, when a running server reads the file again.
    has_selectors: conditions may name the selectors of a request (gate AuthorizeWithSelectors).
    """
    errors: Errors = []
    with ConfigurationObject(decode(content)) as fields:
        fields.require_kind(*((f"{brand.group(_GROUP)}/{version}", KIND) for version in _VERSIONS))
        documents = list(fields.objects("authorizers"))
        if not documents:
            errors.append(required("authorizers", "at least one authorization mode must be defined"))
        read = partial(_authorizer, _Seen(), errors, has_selectors=has_selectors)
        found = [each for each in map(read, documents) if each is not None]
    problems = [str(each) for each in errors]
    if not problems:
        problems = _names_and_types(found, required_types)
    if problems:
        told = ", ".join(problems[:_ERRORS_TOLD])
        raise InvalidConfiguration(f"[{told}]" if len(problems) > 1 else told)
    return tuple(found)


def _names_and_types(found: Sequence[ConfiguredAuthorizer], required_types: Collection[str]) -> list[str]:
    problems = [
        f"expected name {each.type.lower()} for authorizer {each.type} instead of {each.name}"
        for each in found
        if each.type != WEBHOOK and each.name != each.type.lower()
    ]
    missing = sorted(set(required_types) - {each.type for each in found})
    return problems + [f"authorizer of type {each} must be configured" for each in missing]


class _Seen:
    """The types and names of the authorizers before."""

    def __init__(self) -> None:
        self.types: set[str] = set()
        self.names: set[str] = set()


def _authorizer(
    seen: _Seen, errors: Errors, fields: ConfigurationObject, *, has_selectors: bool
) -> ConfiguredAuthorizer | None:
    """Returns one authorizer; None if it is not valid."""
    before = len(errors)
    with fields:
        type_, name, webhook = fields.text("type"), fields.text("name"), fields.any("webhook")
    if not type_:
        errors.append(required(fields.at("type")))
        return None
    if type_ not in MODES:
        errors.append(not_supported(fields.at("type"), type_, sorted(MODES)))
        return None
    if type_ in seen.types and type_ != WEBHOOK:
        errors.append(duplicate(fields.at("type"), type_))
        return None
    seen.types.add(type_)
    if not name:
        errors.append(required(fields.at("name")))
    elif name in seen.names:
        errors.append(duplicate(fields.at("name"), name))
    elif problems := names.dns_subdomain(name):
        errors.append(invalid(fields.at("name"), name, f"authorizer name is invalid: {', '.join(problems)}"))
    seen.names.add(name)
    settings = None
    if type_ == WEBHOOK:
        if webhook is None:
            errors.append(required(fields.at("webhook"), "required when type=Webhook"))
            return None
        where = ConfigurationObject(webhook, fields.at("webhook"))
        settings = _webhook(where, fields.path, errors, has_selectors=has_selectors)
    elif webhook is not None:
        errors.append(invalid(fields.at("webhook"), "non-null", "may only be specified when type=Webhook"))
    return ConfiguredAuthorizer(type_, name, settings) if len(errors) == before else None


def _webhook(
    fields: ConfigurationObject, path: str, errors: Errors, *, has_selectors: bool
) -> WebhookSettings:
    """path: as upstream's errors have it, which leave out `webhook`."""
    with fields:
        timeout_s = _seconds(fields, "timeout", None)
        if timeout_s is None:
            errors.append(required(f"{path}.timeout"))
        elif not 0 < timeout_s <= TIMEOUT_MAX_S:
            value = fields.text("timeout")
            errors.append(invalid(f"{path}.timeout", value, "must be > 0s and <= 30s"))
        ttls = []
        for name, caches, default_s in (
            ("authorizedTTL", "cacheAuthorizedRequests", 300.0),
            ("unauthorizedTTL", "cacheUnauthorizedRequests", 30.0),
        ):
            ttl_s = _seconds(fields, name, default_s) or default_s
            if ttl_s < 0:
                errors.append(invalid(f"{path}.{name}", fields.text(name), "must be > 0s"))
            ttls.append(ttl_s if fields.boolean(caches, True) else 0.0)
        version = fields.text("subjectAccessReviewVersion")
        _require(errors, f"{path}.subjectAccessReviewVersion", version, (V1, V1BETA1))
        texts = _conditions(fields, path, errors, has_selectors=has_selectors)
        seen_by_conditions = fields.text("matchConditionSubjectAccessReviewVersion")
        where = f"{path}.matchConditionSubjectAccessReviewVersion"
        if seen_by_conditions:
            _require(errors, where, seen_by_conditions, (V1,))
        elif texts:
            errors.append(required(where, "required if match conditions are specified"))
        policy = fields.text("failurePolicy")
        _require(errors, f"{path}.failurePolicy", policy, (FAIL_OPEN, FAIL_CLOSED))
        kubeconfig = _connection(fields.object("connectionInfo"), f"{path}.connectionInfo", errors)
    return WebhookSettings(
        kubeconfig=str(kubeconfig),
        authorized_ttl_s=ttls[0],
        unauthorized_ttl_s=ttls[1],
        timeout_s=timeout_s or TIMEOUT_MAX_S,
        version=version,
        fails_closed=policy == FAIL_CLOSED,
        conditions=texts,
    )


def _require(errors: Errors, path: str, value: str, allowed: Sequence[str]) -> None:
    if not value:
        errors.append(required(path))
    elif value not in allowed:
        errors.append(not_supported(path, value, allowed))


def _connection(fields: ConfigurationObject, path: str, errors: Errors) -> Path:
    with fields:
        type_, file = fields.text("type"), fields.text("kubeConfigFile")
    if type_ == _IN_CLUSTER:
        errors.append(invalid(f"{path}.type", type_, "the server cannot be its own authorization webhook"))
    else:
        _require(errors, f"{path}.type", type_, (_IN_CLUSTER, _KUBECONFIG_FILE))
    where = f"{path}.kubeConfigFile"
    found = Path(file)
    if type_ != _KUBECONFIG_FILE:
        if type_ == _IN_CLUSTER and file:
            errors.append(invalid(where, file, "can only be set when type=KubeConfigFile"))
    elif not file:
        errors.append(required(where))
    elif not found.is_absolute():
        errors.append(invalid(where, file, "must be an absolute path"))
    elif (problem := _problem_with(found)) is not None:
        errors.append(invalid(where, file, problem))
    return found


def _problem_with(path: Path) -> str | None:
    try:
        is_file = path.is_file()
        path.stat()
    except OSError as error:
        return f"error loading file: {error.strerror or error}"
    return None if is_file else "must be a regular file"


def _conditions(
    fields: ConfigurationObject, path: str, errors: Errors, *, has_selectors: bool
) -> tuple[str, ...]:
    texts: list[str] = []
    documents = list(fields.objects("matchConditions"))
    if len(documents) > CONDITIONS_MAX:
        errors.append(too_many(f"{path}.matchConditions", len(documents), CONDITIONS_MAX))
        return ()
    for index, document in enumerate(documents):
        where = f"{path}.matchConditions[{index}].expression"
        with document:
            text = document.text("expression")
        if not text.strip():
            errors.append(required(where))
        elif text in texts:
            errors.append(duplicate(where, text))
        else:
            texts.append(text)
            try:
                compile_condition(text, has_selectors=has_selectors)
            except InvalidCondition as error:
                errors.append(invalid(where, text, str(error)))
    return tuple(texts)


def _seconds(fields: ConfigurationObject, name: str, default_s: float | None) -> float | None:
    """Returns a duration; the default if there is none, or it is zero. Raises InvalidConfiguration."""
    value: Any = fields.text(name)
    if not value:
        return default_s
    is_negative = value.startswith("-")
    try:
        seconds = parse_duration(value.removeprefix("-"))
    except ValueError as error:
        raise fields.fail(name, str(error)) from None
    return -seconds if is_negative else seconds or default_s
