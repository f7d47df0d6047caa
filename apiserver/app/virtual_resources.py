"""Builds the virtual resources of extensions, and serves them among the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from apiserver.app.background import BackgroundTask
from apiserver.app.core import Core
from apiserver.app.custom_resources import resource_factory
from apiserver.app.serving.listening import CannotStart
from apiserver.custom_resources import definitions
from apiserver.custom_resources.definitions.status import NamesInUse, with_status
from apiserver.custom_resources.serving.definition_controller import DefinitionController
from apiserver.endpoints.health import Health
from apiserver.extensions.hooks import Kind
from apiserver.extensions.host.virtual_registry import VirtualFunctions
from apiserver.extensions.virtual_resources import VERBS
from apiserver.meta import timestamps
from apiserver.meta.vocabulary import Document, GroupVersion
from apiserver.registry import write_stages
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject, encode, head_of
from apiserver.registry.write_request import WriteRequest
from apiserver.schema.compile import TypeMismatch

if TYPE_CHECKING:
    from apiserver.custom_resources.serving.custom_resource_codec import Converter

# By version and name.
VirtualResources: TypeAlias = Mapping[tuple[GroupVersion, str], VirtualFunctions]


class InvalidDefinition(ValueError):
    """The definition of a virtual resource is invalid; the message names the field."""


def add_virtual_resources(core: Core) -> VirtualResources:
    """Add the virtual resources of extensions to those that are served. Returns them by their names.

    Raises CannotStart.
    """
    found: dict[tuple[GroupVersion, str], VirtualFunctions] = {}
    for extension, definition in core.extensions.resources:
        made = _served(core, extension, definition)
        resource = made.resource
        for each in (*core.served.current.resources, *(other.resource for other in found.values())):
            if _collide(resource, each):
                other = found.get((each.group_version, each.resource))
                by = f'extension "{other.extension}"' if other is not None else "the server"
                raise CannotStart(
                    f'extension "{extension}": the virtual resource {_shown(resource)} collides with '
                    f"{_shown(each)} of {by}"
                )
        found[resource.group_version, resource.resource] = made
    if found:
        core.served.replace(core.served.current.changed((), [each.resource for each in found.values()]))
    return found


def virtual_resource_tasks(
    virtual: VirtualResources, health: Health, controller: DefinitionController
) -> Iterator[BackgroundTask]:
    """Yields the task that requires that no definition has the name of a virtual resource."""
    if not virtual:
        return

    async def run(on_checked: Callable[[], None]) -> None:
        await controller.wait_until_known()
        for each in virtual.values():
            if name := controller.definition_with_names_of(each.resource):
                mine = f'extension "{each.extension}": the virtual resource {_shown(each.resource)}'
                raise CannotStart(f"{mine} collides with the CustomResourceDefinition {name}")
        on_checked()

    yield BackgroundTask.hooked(health.add_post_start_hook("extension-resources"), run)


def _served(core: Core, extension: str, definition: Mapping[str, Any]) -> VirtualFunctions:
    """Returns a virtual resource with its functions. Raises CannotStart."""
    from apiserver.custom_resources.serving.resources import virtual_resource

    name = definition["metadata"]["name"]
    try:
        checked = _checked(core, definition)
    except InvalidDefinition as error:
        raise CannotStart(f'extension "{extension}": the virtual resource {name}: {error}') from None
    options = {"resource": name, "version": checked["spec"]["versions"][0]["name"]}
    hooks = {
        hook.info.kind: hook
        for kind in VERBS
        for hook in core.extensions.of_kind(kind)
        if hook.extension == extension and hook.info.options == options
    }
    head = head_of(checked["apiVersion"], checked["kind"])
    stored = StoredObject.written("", head, encode(checked, head), 1)
    made = resource_factory(core, _no_converter).create(stored, checked)
    return VirtualFunctions(virtual_resource(made.stored, _verbs(hooks)), hooks)


def _verbs(kinds: Collection[Kind]) -> Set[str]:
    """Returns the verbs that functions serve."""
    verbs = {str(each) for each in kinds}
    if Kind.LIST in kinds:
        verbs.add("get")
    if "get" in verbs and Kind.UPDATE in kinds:
        verbs.add("patch")  # As in kube-apiserver, where a store that gets and updates objects patches them.
    return verbs


def _checked(core: Core, definition: Mapping[str, Any]) -> Document:
    """Returns a definition as the server would store it. Raises InvalidDefinition."""
    resource = core.served.current.hub(definitions.group_of(core.brand), definitions.RESOURCE)
    assert resource is not None
    document: Document = orjson.loads(orjson.dumps(definition))
    try:
        unknown = resource.check.checked(document).unknown
    except TypeMismatch as error:
        raise InvalidDefinition(str(error)) from None
    if unknown:
        raise InvalidDefinition(f'unknown field "{unknown[0]}"')
    if definition.get("apiVersion") != resource.api_version:
        raise InvalidDefinition(f"apiVersion: must be {resource.api_version}")
    request = WriteRequest(resource=resource, namespace="")
    write_stages.prepare_create(request, document, "")
    if errors := write_stages.validate_create(request, document, False).errors:
        raise InvalidDefinition(str(errors[0]))
    if not document["spec"]["versions"][0].get("served"):
        raise InvalidDefinition("spec.versions[0].served: must be true")
    now = timestamps.to_text(core.clock())
    return with_status(document, NamesInUse(), now, brand=core.brand)


def _no_converter(definition: str, webhook: Document) -> Converter:
    raise AssertionError("virtual resources have one version")


def _collide(some: ServedResource, other: ServedResource) -> bool:
    """Returns whether two resources cannot both be served."""
    if some.group_version.group != other.group_version.group:
        return False
    has_same_name, has_same_kind = some.resource == other.resource, some.kind == other.kind
    if has_same_name and has_same_kind and other.is_virtual:
        return some.group_version == other.group_version
    return has_same_name or has_same_kind


def _shown(resource: ServedResource) -> str:
    return f"{resource.resource}.{resource.group_version.version}.{resource.group_version.group}"
