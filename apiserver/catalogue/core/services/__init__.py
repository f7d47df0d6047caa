"""Services.

preparation  sets defaults, IP families, and what a client may leave out on updates
validation   checks a Service in itself, and its status
updates      checks what may not change
allocation   gives out cluster IPs and node ports
addresses    tells what the types of Services need, and reads addresses
warnings     warns of what is allowed and still not wise
columns      has what `kubectl get services` shows
"""

from __future__ import annotations

from functools import partial

from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType, status_subresource
from apiserver.catalogue.core.services.allocation import ServiceAllocator
from apiserver.catalogue.core.services.columns import COLUMNS
from apiserver.catalogue.core.services.preparation import (
    DEFAULTS,
    prepare_service_create,
    prepare_service_update,
)
from apiserver.catalogue.core.services.validation import (
    ServiceRules,
    validate_service,
    validate_service_status,
)
from apiserver.catalogue.core.services.warnings import warn_service, warn_service_status
from apiserver.meta import names
from apiserver.registry import subresources
from apiserver.registry.field_getters import field_texts
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.releases.gates import FeatureGates
from apiserver.schema.validation.addresses import STRICT_ADDRESSES, AddressChecks


def builtin_type(allocator: ServiceAllocator, gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    rules = ServiceRules(
        AddressChecks(gates.is_on(STRICT_ADDRESSES)),
        has_relaxed_names=gates.is_on("RelaxedServiceNameValidation"),
        has_same_node=gates.is_on("PreferSameTrafficDistribution"),
    )
    families = tuple(allocator.networks)
    return BuiltinType(
        "",
        "v1",
        "services",
        "Service",
        short_names=("svc",),
        categories=("all",),
        subresources=(
            subresources.proxy("ServiceProxyOptions"),
            status_subresource(
                partial(validate_service_status, addresses=rules.addresses), warn=warn_service_status
            ),
        ),
        defaults=DEFAULTS,
        strategy=Strategy(
            name_rule=names.dns_label,
            prepare_create=partial(prepare_service_create, families=families),
            validate_ratcheting=partial(validate_service, families=families, rules=rules),
            warn=warn_service,
            update=UpdateStrategy(partial(prepare_service_update, families=families)),
            allows_create_on_update=True,
            returns_deleted=True,
            allocator=allocator,
        ),
        columns=COLUMNS,
        selectable_fields=field_texts("spec.clusterIP", "spec.type"),
    )
