"""The group `admissionregistration.k8s.io`: who else has a say about writes."""

from __future__ import annotations

from apiserver.catalogue.admissionregistration import (
    mutating_admission_policies,
    mutating_admission_policy_bindings,
    validating_admission_policies,
    validating_admission_policy_bindings,
    webhook_configurations,
)
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import other_version
from apiserver.cel.compatibility_version import CompatibilityVersion


def types(compatibility: CompatibilityVersion) -> tuple[BuiltinType, ...]:
    """Returns the group's types, whose new expressions may use what `compatibility` allows."""
    mutating = (
        mutating_admission_policies.builtin_type(compatibility),
        mutating_admission_policy_bindings.BUILTIN_TYPE,
    )
    return (
        *mutating,
        webhook_configurations.builtin_type(
            "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", compatibility
        ),
        validating_admission_policies.builtin_type(compatibility),
        validating_admission_policy_bindings.BUILTIN_TYPE,
        webhook_configurations.builtin_type(
            "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", compatibility
        ),
        *(other_version(each, version) for version in ("v1beta1", "v1alpha1") for each in mutating),
    )
