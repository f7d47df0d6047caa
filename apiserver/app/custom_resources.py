"""Builds the serving of custom resources, and updates all other parts when the table of resources changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Final

from apiserver.app.background import BackgroundTask
from apiserver.app.core import Core
from apiserver.app.serving.listening import CannotStart
from apiserver.custom_resources import definitions
from apiserver.custom_resources.serving.conversion_webhooks import ConversionWebhook
from apiserver.custom_resources.serving.definition_controller import DefinitionController
from apiserver.endpoints.health import Health
from apiserver.endpoints.representation.form_cache import FormCache
from apiserver.extensions.conversions import extension_of
from apiserver.meta.vocabulary import Document
from apiserver.metrics.resource_series import ServedState
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.stored_object import StoredObject
from apiserver.schema.validation.documents import at
from apiserver.webhooks.client import WebhookClient

if TYPE_CHECKING:
    from apiserver.custom_resources.serving.custom_resource_codec import Converter
    from apiserver.custom_resources.serving.resources import CustomResourceFactory, DefinedResources

_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
# For custom resources that are not stored as they are shown.
CONVERTED_BYTES_MAX: Final = 32 * 1024 * 1024


def build_definitions(core: Core, webhooks: WebhookClient) -> DefinitionController:
    """Build the controller of definitions, while the table has only the built-in resources."""

    @cache
    def factory() -> CustomResourceFactory:
        return resource_factory(core, partial(_converter, core, webhooks))

    def make_resources(stored: StoredObject, definition: Document) -> DefinedResources:
        return factory().create(stored, definition)

    return DefinitionController(
        core.registry,
        core.served.current,
        partial(replace_served, core),
        make_resources,
        brand=core.brand,
        clock=core.clock,
    )


def resource_factory(core: Core, converter: Callable[[str, Document], Converter]) -> CustomResourceFactory:
    """Returns a factory of the resources of definitions. converter: see `CustomResourceFactory`."""
    # Imported at the first definition, as schemas, rules and columns take a megabyte.
    from apiserver.custom_resources.serving import resources

    return resources.CustomResourceFactory(
        brand=core.brand,
        meta=partial(core.schemas.get, _OBJECT_META),
        definitions=core.registry.cache,
        view_cache=FormCache(CONVERTED_BYTES_MAX, Lock()),
        offload=core.offload,
        converter=converter,
        timer=core.metrics.expressions,
    )


def extension_definitions(
    core: Core, health: Health, controller: DefinitionController
) -> Iterator[BackgroundTask]:
    """Yields the task that applies the definitions of extensions, if there are any."""
    wanted = core.extensions.definitions
    if not wanted:
        return
    from apiserver.controllers.extension_definitions import DefinitionRefused, ExtensionDefinitions

    resource = core.served.current.hub(definitions.group_of(core.brand), definitions.RESOURCE)
    assert resource is not None
    applied = ExtensionDefinitions(wanted, resource, core.registry, core.field_managers, controller)

    async def run(on_served: Callable[[], None]) -> None:
        try:
            await applied.run(on_served)
        except DefinitionRefused as error:
            raise CannotStart(str(error)) from None

    yield BackgroundTask.hooked(health.add_post_start_hook("extension-definitions"), run)


def _converter(core: Core, webhooks: WebhookClient, definition: str, webhook: Document) -> Converter:
    """Returns the converter of a definition's objects. webhook: its `spec.conversion.webhook`."""
    metrics = core.metrics.conversion_webhooks
    extension = extension_of(at(webhook, "clientConfig", "url") or "")
    if extension is not None:
        from apiserver.custom_resources.serving.conversion_functions import ConversionFunctions

        return ConversionFunctions(core.extensions, metrics, extension, definition)
    return ConversionWebhook(webhooks, metrics, definitions.group_of(core.brand), definition, webhook)


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
