"""Evictions: the removal of a pod by its responders, one after the other.

Source: pkg/apis/lifecycle/validation, ValidateEvictionStatus, and the declarative rules of
k8s.io/api/lifecycle/v1alpha1; pkg/registry/lifecycle/eviction (release 1.37).
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType, clear_status
from apiserver.catalogue.common.participants import participant_name
from apiserver.catalogue.lifecycle.eviction_fields import GATE, INTENTS, validate_progress, validate_target
from apiserver.catalogue.lifecycle.responders import Progress, validate_responders, validate_turns
from apiserver.meta import timestamps
from apiserver.meta.field_errors import Errors, invalid
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import (
    Strategy,
    UpdateStrategy,
    WriteContext,
    keep_status,
    only_status_without_metadata,
)
from apiserver.schema.validation.checks import immutable, max_items, named, one_of, uniqueness, without_nulls
from apiserver.schema.validation.documents import at, items

# The conditions with which an eviction ends.
_ENDINGS: Final = ("TargetEvicted", "Failed")
_REQUESTERS_MAX: Final = 100


def validate_eviction(document: Document) -> Errors:
    return validate_target("spec.target", at(document, "spec", "target") or {})


def validate_eviction_update(new: Document, old: Document) -> Errors:
    target, before = (at(each, "spec", "target") or {} for each in (new, old))
    return immutable("spec.target", target, before)


def validate_status(context: WriteContext, new: Document, old: Document) -> Errors:
    """Checks a status, which kube-controller-manager and each responder write."""
    status, before = new.get("status") or {}, old.get("status") or {}
    errors, has_ended = _endings(status, before)
    progress = Progress(status, before, has_ended, timestamps.from_text(context.now) or 0.0)
    return [
        *validate_progress(status, before),
        *errors,
        *_requesters(status),
        *validate_turns(progress),
        *validate_responders(progress),
    ]


def _endings(status: Document, before: Document) -> tuple[Errors, bool]:
    """Returns the errors in the conditions that end an eviction, and whether it has ended."""
    path, conditions = "status.conditions", status.get("conditions") or []
    now = {each.get("type"): each for each in reversed(conditions)}  # the first of each type
    has_ended = any(now.get(kind, {}).get("status") == "True" for kind in _ENDINGS)
    errors: Errors = []
    for condition in before.get("conditions") or ():
        kind = condition.get("type")
        if kind in _ENDINGS and condition.get("status") == "True":
            has_ended = True
            if without_nulls(now.get(kind)) != without_nulls(condition):
                errors.append(invalid(path, conditions, f"{kind} condition status cannot be reverted"))
    return errors, has_ended


def _requesters(status: Document) -> Errors:
    if errors := max_items("status.requesters", status.get("requesters"), _REQUESTERS_MAX):
        return errors
    unique = uniqueness()
    for where, requester in items(status, "requesters", "status"):
        name = requester.get("name") or ""
        errors += unique(where, name)
        errors += named(f"{where}.name", name, participant_name)
        errors += one_of(f"{where}.intent", requester.get("intent"), INTENTS, required_text="")
    return errors


BUILTIN_TYPE: Final = BuiltinType(
    "lifecycle.",
    "v1alpha1",
    "evictions",
    "Eviction",
    subresources=(
        Subresource(
            "status",
            update=UpdateStrategy(
                only_status_without_metadata, validate_write=validate_status, resets=("metadata", "spec")
            ),
        ),
    ),
    strategy=Strategy(
        prepare_create=clear_status,
        validate_create=validate_eviction,
        update=UpdateStrategy(keep_status, validate_eviction_update),
        has_generation=True,
        allows_unconditional_update=False,
    ),
    feature_gates=(GATE,),
)
