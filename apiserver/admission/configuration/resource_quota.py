"""Reads the resources that the plugin ResourceQuota limits by default, so that a quota has to cover them.

Source: k8s.io/apiserver, pkg/admission/plugin/resourcequota/apis/resourcequota.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.wire.configuration_fields import ConfigurationObject, one_of

_SCOPES: Final = (
    *("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "PriorityClass"),
    *("CrossNamespacePodAffinity", "VolumeAttributesClass"),
)
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


class LimitedResource(NamedTuple):
    """Objects that may use a resource only if a quota covers it.

    names: parts of the resource names that are limited in quotas.
    scopes: as in a quota's `scopeSelector`; objects that match one of them are limited.
    """

    resource: GroupResource
    names: tuple[str, ...] = ()
    scopes: tuple[Document, ...] = ()


def parse(document: Any, brand: Brand) -> tuple[LimitedResource, ...]:
    """Returns the resources that a configuration file limits by default. Raises InvalidConfiguration."""
    current, former = brand.group("apiserver.config"), brand.group("resourcequota.admission")
    with ConfigurationObject(document) as fields:
        fields.require_kind(
            (f"{current}/v1", "ResourceQuotaConfiguration"),
            (f"{former}/v1beta1", "Configuration"),
            (f"{former}/v1alpha1", "Configuration"),
        )
        return tuple(map(_limited, fields.objects("limitedResources")))


def _limited(fields: ConfigurationObject) -> LimitedResource:
    with fields:
        resource = GroupResource(fields.text("apiGroup"), fields.text("resource"))
        if not resource.resource:
            raise fields.fail("resource", "is required")
        return LimitedResource(
            resource, fields.texts("matchContains"), tuple(map(_scope, fields.objects("matchScopes")))
        )


def _scope(fields: ConfigurationObject) -> Document:
    with fields:
        scope = {
            "scopeName": one_of(fields, "scopeName", fields.text("scopeName"), _SCOPES),
            "operator": one_of(fields, "operator", fields.text("operator"), _OPERATORS),
        }
        values = fields.texts("values")
    return {**scope, "values": list(values)} if values else scope
