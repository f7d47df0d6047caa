"""EvictionRequests: a requester requests the eviction of a pod, or withdraws the request.

Source: pkg/apis/lifecycle/v1alpha1/validation.go, and the declarative rules of k8s.io/api/lifecycle/v1alpha1;
pkg/registry/lifecycle/evictionrequest (release 1.37).
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType, clear_status, status_subresource
from apiserver.catalogue.common.participants import validate_own_name
from apiserver.catalogue.lifecycle.eviction_fields import GATE, INTENTS, validate_progress, validate_target
from apiserver.meta.field_errors import Errors, required
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status, only_status_without_metadata
from apiserver.schema.validation.checks import immutable, one_of


def validate_request(document: Document) -> Errors:
    spec = document.get("spec") or {}
    errors = validate_target("spec.target", spec.get("target") or {})
    errors += validate_own_name("spec.requester", spec.get("requester") or "")
    return errors + _intent(spec)


def _intent(spec: Document) -> Errors:
    return one_of("spec.intent", spec.get("intent"), INTENTS, required_text="")


def validate_request_update(new: Document, old: Document) -> Errors:
    """Checks that only the intent changes."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    path, requester = "spec.requester", spec.get("requester") or ""
    errors = immutable("spec.target", spec.get("target") or {}, before.get("target") or {})
    errors += immutable(path, requester, before.get("requester") or "")
    return errors + ([] if requester else [required(path)]) + _intent(spec)


def validate_status(new: Document, old: Document) -> Errors:
    return validate_progress(new.get("status") or {}, old.get("status") or {})


BUILTIN_TYPE: Final = BuiltinType(
    "lifecycle.",
    "v1alpha1",
    "evictionrequests",
    "EvictionRequest",
    subresources=(
        status_subresource(
            validate_status, prepare=only_status_without_metadata, resets=("metadata", "spec")
        ),
    ),
    strategy=Strategy(
        prepare_create=clear_status,
        validate_create=validate_request,
        update=UpdateStrategy(keep_status, validate_request_update),
        has_generation=True,
        allows_unconditional_update=False,
    ),
    feature_gates=(GATE,),
)
