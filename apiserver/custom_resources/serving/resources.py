"""Makes the served resources of a definition (rows S02, S03, E14, E15, D06-D10, I13)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from apiserver.custom_resources import definitions
from apiserver.custom_resources.rules.rule_tree import NULL_TIMER, ExpressionTimer
from apiserver.custom_resources.serving.columns import COMPILED_INLINE_MAX, ColumnPreparation, columns_of
from apiserver.custom_resources.serving.custom_resource_codec import (
    Converter,
    CreationGuards,
    CustomResourceCodec,
    DefinitionReader,
    DefinitionVersions,
    ViewCache,
)
from apiserver.custom_resources.serving.openapi_schema import openapi_schema
from apiserver.custom_resources.serving.strategies import CustomResourceStrategies, ScalePaths
from apiserver.custom_resources.serving.version_schema import (
    LARGE_DEFINITION_BYTES,
    DefinitionSource,
    VersionSchema,
)
from apiserver.load.offload import Offload
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Deprecation, Document, GroupResource, GroupVersion
from apiserver.registry.field_getters import FieldGetter, field_texts
from apiserver.registry.served_resource import ResourcePreparation, ScaleFields, ServedResource, Subresource
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.strategy import no_change
from apiserver.registry.subresources import scale, text_at
from apiserver.schema.structural import Schema

# In the order in which Kubernetes lists them in discovery.
VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


class DefinedResources(NamedTuple):
    """The served resources of a definition.

    source: reads their schemas when these are needed.
    resources: those of the served versions. stored: that of the stored version, served or not.
    """

    source: DefinitionSource
    resources: tuple[ServedResource, ...]
    stored: ServedResource


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class CustomResourceFactory:
    """Makes the served resources of definitions.

    meta: gets the schema of ObjectMeta. definitions: reads definitions by their keys.
    view_cache: caches the views of objects that differ from the stored ones.
    offload: decides where large objects are processed.
    converter: makes a converter, given the name of the definition and its `spec.conversion.webhook`.
    timer: measures validation rules.
    """

    brand: Brand
    meta: Callable[[], Schema]
    definitions: DefinitionReader
    view_cache: ViewCache
    offload: Offload
    converter: Callable[[str, Document], Converter]
    timer: ExpressionTimer = NULL_TIMER

    def create(self, stored: StoredObject, definition: Document) -> DefinedResources:
        """Returns the served resources of a definition, by version.

        stored: the stored definition, whose document is `definition`.

        Raises LookupError for a definition without a storage version.
        """
        spec = definition["spec"]
        source = DefinitionSource(stored)
        schemas = {
            each["name"]: VersionSchema(
                source, each["name"], brand=self.brand, meta=self.meta, timer=self.timer
            )
            for each in spec["versions"]
        }
        group_resource = GroupResource(spec["group"], spec["names"]["plural"])
        conversion = spec.get("conversion") or {}
        converts, name = conversion.get("strategy") == "Webhook", definition["metadata"]["name"]
        versions = DefinitionVersions(
            group_resource=group_resource,
            kind=spec["names"]["kind"],
            schemas=schemas,
            storage_version=definitions.storage_version(spec),
            converter=self.converter(name, conversion.get("webhook") or {}) if converts else None,
            view_cache=self.view_cache,
            offload=self.offload,
            guards=CreationGuards(group_resource, stored.key, self.definitions),
        )
        is_large = len(stored.tail) > LARGE_DEFINITION_BYTES

        def resource(version: Mapping[str, Any]) -> ServedResource:
            return _served_resource(definition, version, versions, schemas, is_costly=is_large)

        by_name = {each["name"]: each for each in spec["versions"]}
        storage_resource = resource(by_name[versions.storage_version])
        served = (
            storage_resource if each["name"] == versions.storage_version else resource(each)
            for each in definitions.versions_to_serve(spec)
        )
        return DefinedResources(source, tuple(served), storage_resource)


def _served_resource(
    definition: Document,
    version: Mapping[str, Any],
    versions: DefinitionVersions,
    schemas: Mapping[str, VersionSchema],
    *,
    is_costly: bool,
) -> ServedResource:
    """Returns the resource of one version. schemas: those of all versions. is_costly: as in `Strategy`."""
    spec, names = definition["spec"], definitions.accepted_names(definition)
    group_version = GroupVersion(spec["group"], version["name"])
    schema = schemas[version["name"]]
    subresources, strategies = _subresources(version, schema)
    columns = columns_of(version.get("additionalPrinterColumns") or ())
    preparations: list[ResourcePreparation] = [*dict.fromkeys((schema, schemas[versions.storage_version]))]
    if len(columns.columns) > COMPILED_INLINE_MAX:
        preparations.append(ColumnPreparation(columns))
    warning = definitions.deprecation_warning(spec, version) if version.get("deprecated") else ""
    return ServedResource(
        group_version=group_version,
        resource=versions.group_resource.resource,
        kind=versions.kind,
        is_namespaced=spec["scope"] == "Namespaced",
        schema=schema.structural,
        list_kind=names.get("listKind") or "",
        singular=names.get("singular") or "",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        verbs=VERBS,
        subresources=MappingProxyType(subresources),
        strategy=strategies.of_resource(is_costly=is_costly),
        columns=columns,
        selectable_fields=_selectable_fields(version.get("selectableFields") or ()),
        storage_version=versions.storage_version,
        version_codec=CustomResourceCodec(versions, version["name"]),
        is_custom=True,
        deprecation=Deprecation("", text=warning) if warning else None,
        compile_check=schema.check,
        preparations=tuple(preparations),
        definition_schema=schema.document,
        openapi=partial(openapi_schema, schema, group_version, versions.kind),
    )


def virtual_resource(defined: ServedResource, verbs: Set[str]) -> ServedResource:
    """Returns the resource of a definition whose objects are not stored. verbs: those that are served."""
    strategy = defined.strategy
    return replace(
        defined,
        verbs=tuple(each for each in defined.verbs if each in verbs),
        is_virtual=True,
        subresources=MappingProxyType({}),
        storage_version="",
        version_codec=None,
        # Nothing belongs to a subresource, and what an update replaces is known to the functions alone.
        strategy=strategy._replace(
            prepare_create=no_change,
            update=strategy.update._replace(prepare=no_change),
            allows_unconditional_update=True,
        ),
        derived={},
    )


# ---- subresources


def _subresources(
    version: Mapping[str, Any], schema: VersionSchema
) -> tuple[dict[str, Subresource], CustomResourceStrategies]:
    described = version.get("subresources") or {}
    paths = _scale_paths(described["scale"]) if described.get("scale") is not None else None
    has_status = described.get("status") is not None
    strategies = CustomResourceStrategies(schema, has_status=has_status, scale=paths)
    subresources = {}
    if paths is not None:
        subresources["scale"] = scale(_scale_fields(paths))
    if has_status:
        subresources["status"] = Subresource("status", update=strategies.of_status())
    return subresources, strategies


def _scale_paths(described: Document) -> ScalePaths:
    selector = described.get("labelSelectorPath")
    return ScalePaths(
        _steps(described["specReplicasPath"]),
        _steps(described["statusReplicasPath"]),
        _steps(selector) if selector else (),
    )


def _scale_fields(paths: ScalePaths) -> ScaleFields:
    return ScaleFields(
        text_at(*paths.selector) if paths.selector else lambda document: "",
        replicas=paths.replicas,
        status_replicas=paths.status_replicas,
        default=None,
        checks_replicas=False,
    )


def _selectable_fields(described: Sequence[Document]) -> Mapping[str, FieldGetter]:
    """Returns the getters of selectable fields by their names in selectors, which are paths without the
    dot.
    """
    return field_texts(*(each["jsonPath"].removeprefix(".") for each in described))


def _steps(path: str) -> tuple[str, ...]:
    """Returns the fields on a path: `.spec.replicas` -> `spec`, `replicas`."""
    return tuple(path.removeprefix(".").split("."))
