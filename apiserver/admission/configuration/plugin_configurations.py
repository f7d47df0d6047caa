"""The configurations of all admission plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from apiserver.admission.configuration import (
    event_rate_limit,
    image_policy,
    pod_node_selector,
    pod_security,
    pod_toleration_restriction,
    resource_quota,
)
from apiserver.admission.configuration.event_rate_limit import EventLimit
from apiserver.admission.configuration.image_policy import ImagePolicy
from apiserver.admission.configuration.pod_node_selector import NodeSelectors
from apiserver.admission.configuration.pod_security import PodSecurityConfiguration
from apiserver.admission.configuration.pod_toleration_restriction import TolerationRestriction
from apiserver.admission.configuration.resource_quota import LimitedResource
from apiserver.meta.brand import Brand
from apiserver.webhooks.credentials import HostCredentials
from apiserver.webhooks.kubeconfig import ReadFile, read_kubeconfig
from apiserver.wire.configuration_fields import ConfigurationObject

# How long pods stay on nodes that do not answer.
TOLERATION_S: Final = 300


@dataclass(frozen=True, slots=True)
class PluginConfigurations:
    """The configurations of all admission plugins. image_policy: None if there is none."""

    mutating_webhooks: HostCredentials = field(default_factory=HostCredentials)
    validating_webhooks: HostCredentials = field(default_factory=HostCredentials)
    pod_security: PodSecurityConfiguration = field(default_factory=PodSecurityConfiguration)
    limited_resources: tuple[LimitedResource, ...] = ()
    event_limits: tuple[EventLimit, ...] = ()
    node_selectors: NodeSelectors = field(default_factory=dict)
    tolerations: TolerationRestriction = field(default_factory=TolerationRestriction)
    image_policy: ImagePolicy | None = None
    # These are flags.
    not_ready_toleration_s: int = TOLERATION_S
    unreachable_toleration_s: int = TOLERATION_S


def _webhook_credentials(document: Any, brand: Brand, read: ReadFile) -> HostCredentials:
    """Returns the credentials for webhooks, by host. Raises InvalidConfiguration, and the errors of `read`.

    Source: k8s.io/apiserver, pkg/admission/plugin/webhook/config.
    """
    group = brand.group("apiserver.config")
    with ConfigurationObject(document) as fields:
        fields.require_kind(
            (f"{group}/v1", "WebhookAdmissionConfiguration"), (f"{group}/v1alpha1", "WebhookAdmission")
        )
        path = Path(fields.text("kubeConfigFile"))
        if path == Path():
            return HostCredentials()
        if not path.is_absolute():
            raise fields.fail("kubeConfigFile", "must be an absolute file path")
    return read_kubeconfig(path, read).host_credentials()


_Parse = Callable[[Any, Brand, ReadFile], object]


def _without_files(parse: Callable[[Any, Brand], object]) -> _Parse:
    return lambda document, brand, _: parse(document, brand)


# By plugin: a field of PluginConfigurations, and what makes its value of the plugin's document.
PARSERS: Final[Mapping[str, tuple[str, _Parse]]] = MappingProxyType(
    {
        "MutatingAdmissionWebhook": ("mutating_webhooks", _webhook_credentials),
        "ValidatingAdmissionWebhook": ("validating_webhooks", _webhook_credentials),
        "PodSecurity": ("pod_security", _without_files(pod_security.parse)),
        "ResourceQuota": ("limited_resources", _without_files(resource_quota.parse)),
        "EventRateLimit": ("event_limits", _without_files(event_rate_limit.parse)),
        "PodNodeSelector": ("node_selectors", lambda document, *_: pod_node_selector.parse(document)),
        "PodTolerationRestriction": ("tolerations", _without_files(pod_toleration_restriction.parse)),
        "ImagePolicyWebhook": ("image_policy", lambda document, _, read: image_policy.parse(document, read)),
    }
)
# Those that can do nothing without.
REQUIRED: Final = ("EventRateLimit", "ImagePolicyWebhook")
