"""What all admission plugins are configured with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from apiserver.admission.configuration import (
    event_rate_limit,
    image_policy,
    pod_node_selector,
    pod_security,
    pod_toleration_restriction,
    resource_quota,
    webhook_admission,
)
from apiserver.admission.configuration.event_rate_limit import EventLimit
from apiserver.admission.configuration.image_policy import ImagePolicy
from apiserver.admission.configuration.pod_node_selector import NodeSelectors
from apiserver.admission.configuration.pod_security import PodSecurityConfiguration
from apiserver.admission.configuration.pod_toleration_restriction import TolerationRestriction
from apiserver.admission.configuration.resource_quota import LimitedResource
from apiserver.meta.brand import Brand
from apiserver.webhooks.credentials import HostCredentials
from apiserver.webhooks.kubeconfig import ReadFile

# How long pods stay on nodes that do not answer.
TOLERATION_S: Final = 300


@dataclass(frozen=True, slots=True)
class PluginConfigurations:
    """What all admission plugins are configured with. image_policy: None if there is none."""

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


# Takes the document of a plugin; returns the values of fields of PluginConfigurations.
_Parser = Callable[[Any, Brand, ReadFile], Mapping[str, Any]]

PARSERS: Final[Mapping[str, _Parser]] = MappingProxyType(
    {
        "MutatingAdmissionWebhook": lambda document, brand, read: {
            "mutating_webhooks": webhook_admission.parse(document, brand, read)
        },
        "ValidatingAdmissionWebhook": lambda document, brand, read: {
            "validating_webhooks": webhook_admission.parse(document, brand, read)
        },
        "PodSecurity": lambda document, brand, _: {"pod_security": pod_security.parse(document, brand)},
        "ResourceQuota": lambda document, brand, _: {
            "limited_resources": resource_quota.parse(document, brand)
        },
        "EventRateLimit": lambda document, brand, _: {
            "event_limits": event_rate_limit.parse(document, brand)
        },
        "PodNodeSelector": lambda document, *_: {"node_selectors": pod_node_selector.parse(document)},
        "PodTolerationRestriction": lambda document, brand, _: {
            "tolerations": pod_toleration_restriction.parse(document, brand)
        },
        "ImagePolicyWebhook": lambda document, _, read: {"image_policy": image_policy.parse(document, read)},
    }
)
# Those that can do nothing without.
REQUIRED: Final = ("EventRateLimit", "ImagePolicyWebhook")
