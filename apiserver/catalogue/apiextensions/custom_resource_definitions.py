"""CustomResourceDefinitions. Their rules are in `custom_resources.definitions`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final

from apiserver.catalogue.builtin_type import BuiltinType, status_subresource
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.custom_resources.definitions import strategy as definition_strategy
from apiserver.meta.brand import Brand
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.structural import Schema

if TYPE_CHECKING:
    from apiserver.custom_resources.definitions.validation.custom_resource_definitions import (
        DefinitionValidator,
    )

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def builtin_type(
    brand: Brand, schema_of: Callable[[str], Schema], compatibility: CompatibilityVersion
) -> BuiltinType:
    """Returns the type. schema_of: finds built-in schemas. compatibility: the version that limits new
    expressions.
    """

    @cache
    def checks() -> DefinitionValidator:
        # Imported at the first definition, as validation of schemas takes half a megabyte.
        from apiserver.custom_resources.definitions.validation import custom_resource_definitions as rules

        return rules.DefinitionValidator(brand, lambda: schema_of(META), compatibility)

    return BuiltinType(
        "apiextensions.",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        is_namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=(status_subresource(lambda new, old: checks().validate_status_update(new, old)),),
        defaults=definition_strategy.DEFAULTS,
        strategy=Strategy(
            allows_unconditional_update=False,
            prepare_create=definition_strategy.prepare_create,
            validate_create=lambda new: checks().validate_create(new),
            update=UpdateStrategy(
                definition_strategy.prepare_update, lambda new, old: checks().validate_update(new, old)
            ),
            warn=lambda new, old: checks().warn(new, old),
            has_generation=True,
            is_costly=True,  # There may be hundreds of rules to compile.
            blockers=definition_strategy.blockers,
            mark_deleted=definition_strategy.mark_deleted(brand),
            has_dependents=False,
        ),
    )
