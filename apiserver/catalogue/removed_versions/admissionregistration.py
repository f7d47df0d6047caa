"""Webhook configurations of admissionregistration/v1beta1, and validating policies, also of v1alpha1.

A webhook that does not say otherwise may fail, is asked about exactly what it names, and may have any side
effects. Source: pkg/apis/admissionregistration/v1beta1/defaults.go and validation (release 1.21). Row T13.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from apiserver.catalogue.admissionregistration.match_rules import default_selectors
from apiserver.catalogue.admissionregistration.webhook_configurations import validate_webhook_configuration
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import other_version
from apiserver.catalogue.removed_versions.current_types import CurrentTypes
from apiserver.registry.strategy import UpdateStrategy
from apiserver.schema.compile import Default
from apiserver.validation.defaults import in_turn, setting
from apiserver.vocabulary import Document

_GROUP: Final = "admissionregistration."
_PACKAGE: Final = "io.k8s.api.admissionregistration.v1beta1."
_WEBHOOKS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_POLICIES: Final = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")


def types(current: CurrentTypes) -> tuple[BuiltinType, ...]:
    webhooks = (_webhooks(current.find(_GROUP, resource)) for resource in _WEBHOOKS)
    policies = (
        other_version(current.find(_GROUP, resource), version)
        for version in ("v1beta1", "v1alpha1")
        for resource in _POLICIES
    )
    return (*webhooks, *policies)


def _webhooks(v1: BuiltinType) -> BuiltinType:
    validate = partial(validate_webhook_configuration, of_v1beta1=True)
    strategy = replace(v1.strategy, validate_create=validate, update=UpdateStrategy(validate=validate))
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
