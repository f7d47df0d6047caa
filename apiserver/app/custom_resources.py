"""Builds the serving of custom resources, and updates all other parts when the table of resources changes."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from threading import Lock
from typing import Final

from apiserver.app.core import Core
from apiserver.custom_resources import definitions
from apiserver.custom_resources.serving.conversion_webhooks import ConversionWebhook
from apiserver.custom_resources.serving.definition_controller import DefinitionController
from apiserver.custom_resources.serving.resources import CustomResourceFactory
from apiserver.endpoints.representation.form_cache import FormCache
from apiserver.metrics.resource_series import ServedState
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.webhooks.client import WebhookClient

_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
# For custom resources that are not stored as they are shown.
CONVERTED_BYTES_MAX: Final = 32 * 1024 * 1024


def build_definitions(core: Core, webhooks: WebhookClient) -> DefinitionController:
    """Build the controller of definitions, while the table has only the built-in resources."""
    return DefinitionController(
        core.registry,
        core.served.current,
        partial(replace_served, core),
        CustomResourceFactory(
            brand=core.brand,
            meta=partial(core.schemas.get, _OBJECT_META),
            definitions=core.registry.cache,
            view_cache=FormCache(CONVERTED_BYTES_MAX, Lock()),
            offload=core.offload,
            webhook=partial(
                ConversionWebhook,
                webhooks,
                core.metrics.conversion_webhooks,
                definitions.group_of(core.brand),
            ),
            timer=core.metrics.expressions,
        ),
        clock=core.clock,
    )


def replace_served(core: Core, table: ResourceTable, gone: Collection[ServedResource]) -> None:
    """Replace the table of served resources. gone: those removed or changed, whose watches end."""
    core.served.replace(table)
    if gone:
        core.streams.end_all_of(frozenset(gone))
        _forget_gone(core, gone)


def _forget_gone(core: Core, gone: Collection[ServedResource]) -> None:
    """Drop metric series and cached objects of resources that are no longer served under the same name."""
    metrics, registry = core.metrics, core.registry
    for each in gone:
        name = (each.group_version, each.resource)
        if metrics.served_names.of_version(name) is ServedState.GONE:
            metrics.requests.forget(name)
        if metrics.served_names.of_resource(each.stored_group_resource) is ServedState.GONE:
            metrics.storage.forget(each.stored_group_resource)
            registry.cache.retire(registry.prefix_of(each))
