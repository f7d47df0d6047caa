"""The admission plugins of this server, and their order, which is kube-apiserver's.

The functions of extensions are called after the webhooks; they are disabled by leaving out the extension.

Some checks cannot be disabled. Before the plugins: the signers of pod certificates, claims with access to
devices in use, and writers of a claim's status; after them: access to parameters of policies, and, with RBAC,
privilege escalation. `plugin_names` lists the plugins that are enabled by default, and those of
kube-apiserver that are missing.

A plugin for a resource that is not served allows everything. To add one, write its module, build it in
`builtin_plugins`, and list it in `plugin_names`. `NamespaceLifecycle` is not among them: see
`admission.namespace_lifecycle`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from apiserver.admission.chain import Plugin
from apiserver.admission.configuration.plugin_configurations import PluginConfigurations
from apiserver.admission.listers import Lister
from apiserver.admission.plugin_context import PluginContext
from apiserver.admission.plugins.always_pull_images import AlwaysPullImages
from apiserver.admission.plugins.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
    ClusterTrustBundleAttest,
)
from apiserver.admission.plugins.device_admin_access import SINCE as ADMIN_ACCESS_SINCE
from apiserver.admission.plugins.device_admin_access import DeviceAdminAccess
from apiserver.admission.plugins.event_rate_limit import EventRateLimit
from apiserver.admission.plugins.image_policy_webhook import ImagePolicyWebhook
from apiserver.admission.plugins.limit_ranger import LimitRanger
from apiserver.admission.plugins.new_object_defaults import (
    DefaultIngressClass,
    DefaultStorageClass,
    StorageObjectInUseProtection,
    TaintNodesByCondition,
)
from apiserver.admission.plugins.node_declared_feature_validator import GATE as DECLARED_FEATURES
from apiserver.admission.plugins.node_declared_feature_validator import NodeDeclaredFeatureValidator
from apiserver.admission.plugins.node_restriction import NodeRestriction
from apiserver.admission.plugins.owner_references_permission_enforcement import (
    OwnerReferencesPermissionEnforcement,
)
from apiserver.admission.plugins.persistent_volume_claim_resize import PersistentVolumeClaimResize
from apiserver.admission.plugins.pod_certificates import PodCertificateSigning
from apiserver.admission.plugins.pod_node_selector import PodNodeSelector
from apiserver.admission.plugins.pod_resize_validator import PodResizeValidator
from apiserver.admission.plugins.pod_security import PodSecurity
from apiserver.admission.plugins.pod_topology_labels import GATE as LABELS_GATE
from apiserver.admission.plugins.pod_topology_labels import PodTopologyLabels
from apiserver.admission.plugins.priority import Priority
from apiserver.admission.plugins.privilege_escalation import PrivilegeEscalationCheck
from apiserver.admission.plugins.resource_claim_status import GATE as GRANULAR_STATUS
from apiserver.admission.plugins.resource_claim_status import ResourceClaimStatus
from apiserver.admission.plugins.resource_quota import ResourceQuota
from apiserver.admission.plugins.runtime_class import RuntimeClass
from apiserver.admission.plugins.service_account import ServiceAccount
from apiserver.admission.plugins.simple_denials import (
    AlwaysDeny,
    DenyServiceExternalIPs,
    LimitPodHardAntiAffinityTopology,
)
from apiserver.admission.plugins.tolerations import (
    DefaultTolerationSeconds,
    ExtendedResourceToleration,
    PodTolerationRestriction,
)
from apiserver.admission.policies.mutating import MutatingAdmissionPolicy
from apiserver.admission.policies.param_access import ParamAccess
from apiserver.admission.policies.params import Params
from apiserver.admission.policies.validating import ValidatingAdmissionPolicy
from apiserver.admission.webhooks.configurations import WebhookConfigurations
from apiserver.admission.webhooks.plugins import (
    MutatingAdmissionWebhook,
    ValidatingAdmissionWebhook,
    WebhookDependencies,
)
from apiserver.meta.releases.gates import FeatureGates
from apiserver.metrics.admission import AdmissionMetrics
from apiserver.webhooks.review_server import CallerFactory


def builtin_plugins(
    context: PluginContext,
    configured: PluginConfigurations,
    caller_with: CallerFactory,
    metrics: AdmissionMetrics,
    is_on: Callable[[str], bool],
    gates: FeatureGates,
) -> Sequence[Plugin]:
    """Returns the plugins in the order in which they are called, which is kube-apiserver's.

    caller_with: makes clients of webhooks. is_on: whether the plugin of a name is enabled.
    gates: of the release that is served. Raises InvalidExtension.
    """
    brand, authorize, offload, lister = context.brand, context.authorize, context.offload, context.lister
    registration = brand.group("admissionregistration")

    def configurations(resource: str) -> WebhookConfigurations:
        return WebhookConfigurations(lister(registration, resource), offload)

    namespaces = lister("", "namespaces")
    webhooks = WebhookDependencies(
        caller_with(configured.mutating_webhooks),
        context.equivalents,
        namespaces,
        authorize,
        brand,
        metrics.webhooks,
    )
    mutating, validating = _extension_plugins(context, namespaces)
    params = Params(context.registry, context.served, offload)
    storage_classes = lister(brand.group("storage"), "storageclasses")
    images = configured.image_policy
    plugins = (
        LimitPodHardAntiAffinityTopology(),
        LimitRanger(lister("", "limitranges")),
        ServiceAccount(lister("", "serviceaccounts")),
        NodeRestriction(context, gates),
        TaintNodesByCondition(),
        AlwaysPullImages(),
        *(
            [ImagePolicyWebhook(images, caller_with, brand, context.clock.monotonic)]
            if images is not None
            else ()
        ),
        PodSecurity(context, configured.pod_security, metrics.pod_security),
        PodNodeSelector(namespaces, configured.node_selectors),
        Priority(lister(brand.group("scheduling"), "priorityclasses"), gates),
        DefaultTolerationSeconds(configured.not_ready_toleration_s, configured.unreachable_toleration_s),
        PodTolerationRestriction(namespaces, configured.tolerations),
        EventRateLimit(configured.event_limits, brand),
        ExtendedResourceToleration(),
        DefaultStorageClass(storage_classes),
        StorageObjectInUseProtection(
            brand.group("storage"), protects_classes=gates.is_on("VolumeAttributesClass")
        ),
        OwnerReferencesPermissionEnforcement(context),
        PersistentVolumeClaimResize(storage_classes),
        RuntimeClass(lister(brand.group("node"), "runtimeclasses")),
        CertificateApproval(authorize, brand),
        CertificateSigning(authorize, brand),
        ClusterTrustBundleAttest(authorize, brand),
        CertificateSubjectRestriction(brand),
        DefaultIngressClass(lister(brand.group("networking"), "ingressclasses")),
        DenyServiceExternalIPs(),
        *([PodTopologyLabels(lister("", "nodes"))] if gates.is_on(LABELS_GATE) else ()),
        *([NodeDeclaredFeatureValidator(lister("", "nodes"))] if gates.is_on(DECLARED_FEATURES) else ()),
        PodResizeValidator(lister("", "nodes")),
        MutatingAdmissionPolicy(context, params, metrics.mutating_policies),
        MutatingAdmissionWebhook(configurations("mutatingwebhookconfigurations"), webhooks),
        *mutating,
        ValidatingAdmissionPolicy(context, params, metrics.validating_policies),
        ValidatingAdmissionWebhook(
            configurations("validatingwebhookconfigurations"),
            webhooks._replace(caller=caller_with(configured.validating_webhooks)),
        ),
        *validating,
        # The last one that validates and may be of use: usage that it has charged is not given back if
        # another plugin refuses the write.
        ResourceQuota(context, configured.limited_resources, context.clock.time),
        AlwaysDeny(),
    )
    # The plugins at both ends have no names by which they could be disabled. In Kubernetes the first are part
    # of validation: a write that they refuse reaches no other plugin, and is not charged to a quota.
    enabled: list[Plugin] = [PodCertificateSigning(authorize, brand, context.clock.time)]
    if gates.minor >= ADMIN_ACCESS_SINCE:
        enabled.append(DeviceAdminAccess(context))
    if gates.is_on(GRANULAR_STATUS):
        enabled.append(ResourceClaimStatus(context, gates))
    always = {*mutating, *validating}
    enabled += [plugin for plugin in plugins if plugin in always or is_on(plugin.name)]
    enabled.append(ParamAccess(context, params))
    if (policy := context.authorizers.rbac_policy) is not None:
        # It is called after all that change what is written.
        enabled.append(PrivilegeEscalationCheck(context, policy))
    return enabled


def _extension_plugins(
    context: PluginContext, namespaces: Lister
) -> tuple[Sequence[Plugin], Sequence[Plugin]]:
    """Returns the plugins that call mutating, and validating, functions of extensions, if there are any.

    Raises InvalidExtension.
    """
    if not context.extensions:
        return (), ()
    # Few servers have extensions.
    from apiserver.admission.extensions.plugins import (
        ExtensionDependencies,
        MutatingExtension,
        ValidatingExtension,
    )

    dependencies = ExtensionDependencies(
        context.extensions,
        context.served,
        context.equivalents,
        namespaces,
        context.authorize,
        context.brand,
    )
    return [MutatingExtension(dependencies)], [ValidatingExtension(dependencies)]
