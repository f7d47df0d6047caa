"""MutatingWebhookConfigurations and ValidatingWebhookConfigurations; row T13.

Source: pkg/apis/admissionregistration/{validation,v1}.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final

from apiserver.catalogue.admissionregistration import match_rules
from apiserver.catalogue.admissionregistration.expressions import (
    MatchConditionExpressions,
    condition_texts,
    too_many_expressions,
)
from apiserver.catalogue.admissionregistration.match_rules import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    default_selectors,
    validate_match_conditions,
    validate_operation_rule,
)
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.columns import list_length
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, not_supported, required
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.validation.checks import one_of, one_of_if_set, uniqueness
from apiserver.schema.validation.defaults import in_turn, setting
from apiserver.schema.validation.documents import items
from apiserver.schema.validation.label_selectors import label_selector
from apiserver.schema.validation.webhooks import REVIEW_VERSIONS, client_config, review_versions


def builtin_type(resource: str, kind: str, compatibility: CompatibilityVersion) -> BuiltinType:
    """Returns one of the two types, which differ in their names and in the allowed side effects.

    compatibility: the version that limits new expressions.
    """
    validate = partial(validate_webhook_configuration, compatibility)
    return BuiltinType(
        "admissionregistration.",
        "v1",
        resource,
        kind,
        is_namespaced=False,
        categories=("api-extensions",),
        defaults=DEFAULTS,
        strategy=Strategy(
            allows_unconditional_update=False,
            validate_create=validate,
            update=UpdateStrategy(validate=validate),
            has_generation=True,
            is_costly=True,  # There may be many match conditions to compile.
        ),
        columns=columns(
            Column("Webhooks", list_length("webhooks"), "The number of webhooks.", type="integer"), AGE
        ),
    )


_PACKAGE: Final = "io.k8s.api.admissionregistration.v1."
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_ALL_SIDE_EFFECTS: Final = (*_SIDE_EFFECTS, "Some", "Unknown")
_REINVOCATIONS: Final = ("IfNeeded", "Never")
_TIMEOUT_S_MAX: Final = 30

_HOOK: Final = setting(failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
# The same objects for both types: a definition has one default.
DEFAULTS: Final = {
    **match_rules.DEFAULTS,
    f"{_PACKAGE}ValidatingWebhook": in_turn(_HOOK, default_selectors),
    f"{_PACKAGE}MutatingWebhook": in_turn(_HOOK, setting(reinvocationPolicy="Never"), default_selectors),
    f"{_PACKAGE}ServiceReference": setting(port=443),
}


def validate_webhook_configuration(
    compatibility: CompatibilityVersion,
    document: Document,
    old: Document | None = None,
    *,
    of_v1beta1: bool = False,
) -> Errors:
    """Checks a configuration. v1 is stricter than v1beta1, but unchanged values remain valid.

    compatibility: the version that limits new expressions. old: the configuration before an update.
    of_v1beta1: whether it is written in that version.
    Source: pkg/apis/admissionregistration/validation (release 1.21), on `requestGV`.
    """
    hooks, old_hooks = document.get("webhooks") or [], (old or {}).get("webhooks") or []
    if excess := too_many_expressions("webhooks", _texts(hooks), _texts(old_hooks)):
        return excess
    expressions = None
    if not _has_same_conditions(hooks, old_hooks):
        expressions = MatchConditionExpressions(old_hooks, compatibility)
    errors: Errors = []
    unique = uniqueness()
    old_effects = {hook.get("sideEffects") for hook in old_hooks}
    effects = _ALL_SIDE_EFFECTS if of_v1beta1 or not old_effects <= set(_SIDE_EFFECTS) else _SIDE_EFFECTS
    old_names = [hook.get("name", "") for hook in old_hooks]
    may_repeat_names = of_v1beta1 or len(set(old_names)) < len(old_names)
    needs_known = all(map(_has_known_version, old_hooks))
    for where, hook in items(document, "webhooks", ""):
        errors += _hook(where, hook, effects)
        if expressions is not None:
            errors += validate_match_conditions(where, hook, expressions)
        errors += _review_versions(f"{where}.admissionReviewVersions", hook, needs_known=needs_known)
        if (name := hook.get("name")) and not may_repeat_names:
            errors += unique(f"{where}.name", name)
    return errors


def _texts(hooks: Sequence[Document]) -> Iterator[str]:
    return chain.from_iterable(map(condition_texts, hooks))


def _has_same_conditions(hooks: Sequence[Document], old_hooks: Sequence[Document]) -> bool:
    """Whether the match conditions are unchanged, and need no check."""
    return [hook.get("matchConditions") for hook in hooks] == [
        hook.get("matchConditions") for hook in old_hooks
    ]


def _has_known_version(hook: Document) -> bool:
    return not set(hook.get("admissionReviewVersions") or ()).isdisjoint(REVIEW_VERSIONS)


def _hook(path: str, hook: Document, side_effects: Sequence[str]) -> Errors:
    """Checks a webhook. side_effects: the allowed values."""
    errors = validate_qualified_domain(f"{path}.name", hook.get("name", ""))
    for where, rule in items(hook, "rules", path):
        errors += validate_operation_rule(where, rule)
    errors += one_of(f"{path}.failurePolicy", hook.get("failurePolicy"), FAILURE_POLICIES)
    errors += one_of(f"{path}.matchPolicy", hook.get("matchPolicy"), MATCH_POLICIES)
    effects = hook.get("sideEffects")
    if effects is None:
        errors.append(required(f"{path}.sideEffects", f"must specify one of {', '.join(side_effects)}"))
    elif effects not in side_effects:
        errors.append(not_supported(f"{path}.sideEffects", effects, side_effects))
    timeout_s = hook.get("timeoutSeconds")
    if timeout_s is not None and not 1 <= timeout_s <= _TIMEOUT_S_MAX:
        text = f"the timeout value must be between 1 and {_TIMEOUT_S_MAX} seconds"
        errors.append(invalid(f"{path}.timeoutSeconds", timeout_s, text))
    for field in ("namespaceSelector", "objectSelector"):
        errors += label_selector(f"{path}.{field}", hook.get(field))
    errors += one_of_if_set(f"{path}.reinvocationPolicy", hook.get("reinvocationPolicy"), _REINVOCATIONS)
    return errors + client_config(f"{path}.clientConfig", hook.get("clientConfig", {}))


def _review_versions(path: str, hook: Document, *, needs_known: bool) -> Errors:
    versions = hook.get("admissionReviewVersions") or []
    if not versions:
        return [required(path, f"must specify one of {', '.join(REVIEW_VERSIONS)}")]
    return review_versions(path, versions, needs_known=needs_known)


def validate_qualified_domain(path: str, name: str) -> Errors:
    """Checks a domain of at least three parts. Source: apimachinery util/validation, IsFullyQualifiedName."""
    if not name:
        return [required(path)]
    if problems := names.dns_subdomain(name):
        return [invalid(path, name, ",".join(problems))]
    if name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        return [invalid(path, name, text)]
    return []
