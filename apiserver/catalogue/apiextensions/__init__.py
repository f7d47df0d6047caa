"""The group `apiextensions.k8s.io`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from apiserver.apiextensions import definition_conditions
from apiserver.apiextensions.validation import custom_resource_definitions as rules
from apiserver.apiextensions.validation.custom_resource_definitions import CheckRules, DefinitionValidator
from apiserver.apiextensions.validation.schema_defaults import EvaluateRules
from apiserver.brand import Brand
from apiserver.catalogue.builtin_type import STATUS_SUBRESOURCE, BuiltinType
from apiserver.field_errors import FieldError
from apiserver.meta import table
from apiserver.registry.strategy import STATUS, Strategy, UpdateStrategy
from apiserver.schema.builtin import BuiltinSchemas

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def nothing_wrong(*_: object, **__: object) -> list[FieldError]:
    """A check of rules that takes all of them."""
    return []


def types(
    brand: Brand,
    schemas: BuiltinSchemas,
    *,
    check_rules: CheckRules = nothing_wrong,
    evaluate_rules: EvaluateRules = nothing_wrong,
) -> tuple[BuiltinType, ...]:
    """check_rules: what is wrong with the rules in a schema. evaluate_rules: what they say of defaults."""
    checks = DefinitionValidator(brand, partial(schemas.get, _META), check_rules, evaluate_rules)
    return (
        BuiltinType(
            "apiextensions.",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
            is_namespaced=False,
            short_names=("crd", "crds"),
            categories=("api-extensions",),
            subresources=(
                replace(STATUS_SUBRESOURCE, update=replace(STATUS, validate=checks.validate_status_update)),
            ),
            strategy=Strategy(
                prepare_create=rules.prepare_definition_create,
                validate_create=checks.validate_create,
                update=UpdateStrategy(rules.prepare_definition_update, checks.validate_update),
                warn=checks.warn,
                has_generation=True,
                takes_long=True,  # There may be hundreds of rules to compile.
                allows_unqualified_finalizers=True,
                blockers=definition_conditions.blockers,
                mark_deleted=definition_conditions.mark_deleted(brand),
                has_dependents=False,
            ),
            columns=table.DEFAULT,
        ),
    )
