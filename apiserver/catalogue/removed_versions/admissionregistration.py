"""Webhook configurations of admissionregistration/v1beta1, and validating policies, also of v1alpha1.

By default the failure policy is Ignore, the match policy Exact, and side effects are unknown. Source:
pkg/apis/admissionregistration/v1beta1/defaults.go and validation (release 1.21). Row T13.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from apiserver.catalogue.admissionregistration.match_rules import default_selectors
from apiserver.catalogue.admissionregistration.webhook_configurations import validate_webhook_configuration
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import CurrentTypes, hub_of, other_version
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.meta.field_errors import Errors, required
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import UpdateStrategy
from apiserver.schema.compile import Default
from apiserver.schema.structural import Schema
from apiserver.schema.validation.defaults import in_turn, setting

_GROUP: Final = "admissionregistration."
_PACKAGE: Final = "io.k8s.api.admissionregistration.v1beta1."
_WEBHOOKS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_ALPHA_BINDING: Final = "io.k8s.api.admissionregistration.v1alpha1.ValidatingAdmissionPolicyBindingSpec"
_POLICIES: Final = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")


def types(
    schema_of: Callable[[str], Schema], current: CurrentTypes, compatibility: CompatibilityVersion
) -> tuple[BuiltinType, ...]:
    """Returns the types. schema_of: finds built-in schemas. compatibility: the version that limits new
    expressions.
    """
    webhooks = (_webhooks(current[_GROUP, resource], compatibility) for resource in _WEBHOOKS)
    policies, bindings = (current[_GROUP, resource] for resource in _POLICIES)
    hub = hub_of(
        bindings,
        bind_to_deny,
        from_hub=lambda document: None,
        validate=partial(validate_actions, partial(schema_of, _ALPHA_BINDING)),
    )
    return (
        *webhooks,
        *(other_version(each, "v1beta1") for each in (policies, bindings)),
        other_version(policies, "v1alpha1"),
        other_version(bindings, "v1alpha1", hub=hub),
    )


# ---- bindings of v1alpha1


def bind_to_deny(document: Document) -> None:
    """Converts to v1. In 1.26 bindings had no actions: they always denied."""
    spec = document.get("spec", {})
    if not spec.get("validationActions"):
        spec["validationActions"] = ["Deny"]


def validate_actions(schema: Callable[[], Schema], document: Document) -> Errors:
    """Checks that a binding has actions, if the release has them. schema: that of its spec in the release."""
    if document.get("spec", {}).get("validationActions") or "validationActions" not in schema().fields:
        return []
    return [required("spec.validationActions", "at least one validation action is required")]


# ---- webhooks


def _webhooks(v1: BuiltinType, compatibility: CompatibilityVersion) -> BuiltinType:
    validate = partial(validate_webhook_configuration, compatibility, of_v1beta1=True)
    strategy = v1.strategy._replace(validate_create=validate, update=UpdateStrategy(validate=validate))
    builtin = other_version(v1, "v1beta1", strategy=strategy)
    return replace(builtin, defaults={**builtin.defaults, **DEFAULTS})


def _complete_reviews(hook: Document) -> None:
    if not hook.get("admissionReviewVersions"):
        hook["admissionReviewVersions"] = ["v1beta1"]


_HOOK: Final = in_turn(
    setting(failurePolicy="Ignore", matchPolicy="Exact", sideEffects="Unknown", timeoutSeconds=30),
    _complete_reviews,
    default_selectors,
)
DEFAULTS: Final[Mapping[str, Default]] = {
    f"{_PACKAGE}ValidatingWebhook": _HOOK,
    f"{_PACKAGE}MutatingWebhook": in_turn(_HOOK, setting(reinvocationPolicy="Never")),
}
