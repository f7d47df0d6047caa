"""CustomResourceDefinitions. Their rules are in `custom_resources.definitions`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType, status_subresource
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.custom_resources.definitions import strategy as definition_strategy
from apiserver.custom_resources.definitions.validation.custom_resource_definitions import DefinitionValidator
from apiserver.meta.brand import Brand
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.structural import Schema

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def builtin_type(
    brand: Brand, schema_of: Callable[[str], Schema], compatibility: CompatibilityVersion
) -> BuiltinType:
    """Returns the type. schema_of: finds built-in schemas. compatibility: the version that limits new
    expressions.
    """
    checks = DefinitionValidator(brand, partial(schema_of, _META), compatibility)
    return BuiltinType(
        "apiextensions.",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        is_namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=(status_subresource(checks.validate_status_update),),
        defaults=definition_strategy.DEFAULTS,
        strategy=Strategy(
            allows_unconditional_update=False,
            prepare_create=definition_strategy.prepare_create,
            validate_create=checks.validate_create,
            update=UpdateStrategy(definition_strategy.prepare_update, checks.validate_update),
            warn=checks.warn,
            has_generation=True,
            is_costly=True,  # There may be hundreds of rules to compile.
            blockers=definition_strategy.blockers,
            mark_deleted=definition_strategy.mark_deleted(brand),
            has_dependents=False,
        ),
    )
