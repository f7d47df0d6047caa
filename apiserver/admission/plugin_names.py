"""The names of kube-apiserver's admission plugins, and which of them this server implements.

Source: kubernetes, pkg/kubeapiserver/options/plugins.go.
"""

from __future__ import annotations

from collections.abc import Collection
from types import MappingProxyType
from typing import Final

# Those that are enabled unless they are disabled by name.
ON_BY_DEFAULT: Final = frozenset(
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
        "ClusterTrustBundleAttest",
        "CertificateSubjectRestriction",
        "DefaultIngressClass",
        "PodTopologyLabels",
        "NodeDeclaredFeatureValidator",
        "PodResizeValidator",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionWebhook",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionWebhook",
        "ResourceQuota",
    }
)
# Those that are disabled unless they are enabled by name.
OFF_BY_DEFAULT: Final = frozenset(
    {
        "LimitPodHardAntiAffinityTopology",
        "NodeRestriction",
        "AlwaysPullImages",
        "ImagePolicyWebhook",
        "PodNodeSelector",
        "PodTolerationRestriction",
        "EventRateLimit",
        "ExtendedResourceToleration",
        "OwnerReferencesPermissionEnforcement",
        "DenyServiceExternalIPs",
        "AlwaysDeny",
        "NamespaceAutoProvision",
    }
)
# Those that kube-apiserver had, by the first release without them. Older ones may name them, with a warning.
REMOVED: Final = MappingProxyType({"PodPreset": 20, "PodSecurityPolicy": 25})
# Its work is done by `namespace_lifecycle`, too.
AUTO_PROVISION: Final = "NamespaceAutoProvision"
IMPLEMENTED: Final = ON_BY_DEFAULT | OFF_BY_DEFAULT
# Those whose work is always done: by `namespace_lifecycle`, which rejects missing namespaces, too; and
# AlwaysAdmit does nothing. They can be named, but not disabled.
ALWAYS_ON: Final = frozenset({"AlwaysAdmit", "NamespaceExists", "NamespaceLifecycle"})
# Those that kube-apiserver has besides. They can be named, with a warning.
NOT_IMPLEMENTED: Final = frozenset(
    {
        # They do nothing unless a feature gate is on that is off by default.
        "JobValidation",
        "PodGroupProtection",
        "PodGroupWorkloadExists",
    }
)
KNOWN: Final = IMPLEMENTED | ALWAYS_ON | NOT_IMPLEMENTED | REMOVED.keys()


def is_known(name: str, minor: int) -> bool:
    """Returns whether release 1.`minor` knows a plugin; older releases may list newer plugins, too."""
    return name in KNOWN and minor < REMOVED.get(name, minor + 1)


def warnings(enabled: Collection[str], disabled: Collection[str]) -> list[str]:
    """Returns a warning for each plugin that cannot be enabled or disabled as the flags request."""
    return [
        *(
            f"admission plugin {name} is not implemented by this server: enabling it has no effect yet"
            for name in sorted((NOT_IMPLEMENTED | REMOVED.keys()) & set(enabled))
        ),
        *(
            f"admission plugin {name} is always on: disabling it has no effect"
            for name in sorted(ALWAYS_ON & set(disabled))
        ),
    ]
