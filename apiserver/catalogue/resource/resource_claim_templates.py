"""ResourceClaimTemplates. Source: pkg/apis/resource/validation, ValidateResourceClaimTemplate."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.claim_specs import validate_claim_metadata
from apiserver.catalogue.resource.device_requests import DEFAULTS, claim_selectors, validate_claim_spec
from apiserver.catalogue.resource.device_selectors import selector_rules
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.meta.field_errors import Errors
from apiserver.meta.table import AGE, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.validation.checks import immutable_spec
from apiserver.schema.validation.documents import at


def builtin_type(compatibility: CompatibilityVersion) -> BuiltinType:
    """Returns the type. compatibility: the version that limits new expressions."""
    return BuiltinType(
        "resource.",
        "v1",
        "resourceclaimtemplates",
        "ResourceClaimTemplate",
        defaults=DEFAULTS,
        strategy=Strategy(
            returns_deleted=True,
            validate_create=validate_template_create,
            expressions=selector_rules(
                lambda new, old: claim_selectors("spec.spec", at(new, "spec", "spec") or {}),
                "spec.spec.devices",
                compatibility,
            ),
            update=UpdateStrategy(validate=validate_template_update),
        ),
        columns=columns(AGE),
    )


def validate_template_create(document: Document) -> Errors:
    template = document.get("spec", {})
    errors = validate_claim_metadata("spec.metadata", template.get("metadata") or {})
    return errors + validate_claim_spec("spec.spec", template.get("spec", {}))


def validate_template_update(new: Document, old: Document) -> Errors:
    """Checks the whole template again, as Kubernetes does, although it cannot change."""
    return validate_template_create(new) + immutable_spec(new, old)
