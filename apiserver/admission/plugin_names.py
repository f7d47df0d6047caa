"""The names of admission plugins, as `--enable-admission-plugins` has them, and which of them are on.

Source: kubernetes, pkg/kubeapiserver/options/plugins.go.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

# Those that this server has, and that are on unless they are switched off.
IMPLEMENTED: Final = frozenset(
    {
        "LimitRanger",
        "ServiceAccount",
        "TaintNodesByCondition",
        "PodSecurity",
        "Priority",
        "DefaultTolerationSeconds",
        "DefaultStorageClass",
        "StorageObjectInUseProtection",
        "PersistentVolumeClaimResize",
        "RuntimeClass",
        "CertificateApproval",
        "CertificateSigning",
        "CertificateSubjectRestriction",
        "DefaultIngressClass",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionWebhook",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionWebhook",
        "ResourceQuota",
    }
)
# Those that it always has: they can be named, and not be switched off.
ALWAYS_ON: Final = frozenset({"AlwaysAdmit", "NamespaceExists", "NamespaceLifecycle"})
# Those that kube-apiserver has besides: to name them has no effect.
NOT_IMPLEMENTED: Final = frozenset(
    {
        "AlwaysDeny",
        "AlwaysPullImages",
        "ClusterTrustBundleAttest",
        "DenyServiceExternalIPs",
        "EventRateLimit",
        "ExtendedResourceToleration",
        "ImagePolicyWebhook",
        "JobValidation",
        "LimitPodHardAntiAffinityTopology",
        "NamespaceAutoProvision",
        "NodeDeclaredFeatureValidator",
        "NodeRestriction",
        "OwnerReferencesPermissionEnforcement",
        "PodGroupProtection",
        "PodGroupWorkloadExists",
        "PodNodeSelector",
        "PodResizeValidator",
        "PodTolerationRestriction",
        "PodTopologyLabels",
    }
)
KNOWN: Final = IMPLEMENTED | ALWAYS_ON | NOT_IMPLEMENTED


def without_effect(enabled: Collection[str], disabled: Collection[str]) -> list[str]:
    """Of the plugins that are named, those about which the server cannot do what is asked."""
    return sorted((NOT_IMPLEMENTED & set(enabled)) | (ALWAYS_ON & set(disabled)))
