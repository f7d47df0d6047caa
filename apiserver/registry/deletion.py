"""The rules of deletion: preconditions, finalizers, grace periods, and when an object is removed. Pure.

Rows G01-G15.

Source: k8s.io/apiserver, pkg/registry/rest/delete.go.
"""

from __future__ import annotations

from typing import Final

from apiserver.meta import object_meta, timestamps
from apiserver.meta.errors import Conflict
from apiserver.meta.options import DeleteOptions
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.write_stages import next_generation

# A hundred years: the calendar has an end.
GRACE_S_MAX: Final = 100 * 365 * 86_400


def check_preconditions(resource: ServedResource, document: Document, options: DeleteOptions) -> None:
    """Checks the preconditions of a delete against the current object.

    Raises Conflict, which names the kind where other Conflicts name the resource (row G06).
    """
    meta = document["metadata"]
    for label, field, wanted, likely in (
        ("UID", "uid", options.uid, "deleted and then recreated"),
        ("ResourceVersion", "resourceVersion", options.resource_version, "modified"),
    ):
        if wanted is None or wanted == meta.get(field):
            continue
        if resource.strategy.mark_deleted is not None:
            # Kubernetes deletes namespaces and definitions by separate code with separate texts.
            raise Conflict(
                resource.group_resource,
                meta["name"],
                f"Precondition failed: {label} in precondition: {wanted}, "
                f"{label} in object meta: {meta.get(field)}",
            )
        raise Conflict(
            GroupResource(*resource.group_kind),
            meta["name"],
            f"the {label} in the precondition ({wanted}) does not match the {label} in record "
            f"({meta.get(field, '')}). The object might have been {likely}",
        )


def may_be_removed(resource: ServedResource, document: Document) -> bool:
    """Returns whether an object that is being deleted has no finalizer and no grace period left."""
    has_grace = bool(document["metadata"].get("deletionGracePeriodSeconds"))
    return not has_grace and not resource.strategy.blockers(document)


def mark(resource: ServedResource, document: Document, options: DeleteOptions, now: float) -> Document:
    """Returns the object as this deletion leaves it if it cannot be removed at once, else unchanged.

    document: taken over, with its metadata, whose values are replaced and not changed, unless the strategy
        has a `mark_deleted`. now: seconds since 1970.
    """
    strategy, meta = resource.strategy, document["metadata"]
    is_terminating = "deletionTimestamp" in meta
    # Once its grace period runs, another deletion may only shorten it, and does not change its finalizers.
    left_s = meta.get("deletionGracePeriodSeconds") or 0 if strategy.grace_period_s is not None else 0
    asked_s = (
        1 if options.grace_period_s is not None and options.grace_period_s < 0 else options.grace_period_s
    )
    if is_terminating and left_s and (asked_s is None or asked_s >= left_s):
        return document
    finalizers = object_meta.finalizers(document)
    if strategy.has_dependents:
        finalizers = options.finalizers(document, orphans_by_default=strategy.orphans_by_default)
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    if is_terminating and left_s and asked_s is not None:
        _shorten_grace(meta, left_s, asked_s, now)
    elif is_terminating:
        pass
    elif strategy.grace_period_s is not None:
        grace_s = min(strategy.grace_period_s(document, options.grace_period_s), GRACE_S_MAX)
        meta["deletionTimestamp"] = timestamps.to_text(now + grace_s)
        meta["deletionGracePeriodSeconds"] = grace_s
    elif strategy.blockers(document):
        if strategy.mark_deleted is not None:
            strategy.mark_deleted(document, timestamps.to_text(now))
        else:
            meta["deletionTimestamp"] = timestamps.to_text(now)
            meta["deletionGracePeriodSeconds"] = 0
    if "deletionTimestamp" in meta and not is_terminating and meta.get("generation"):
        meta["generation"] = next_generation(meta)
    return document


def _shorten_grace(meta: Document, left_s: int, asked_s: int, now: float) -> None:
    """Shorten the grace period since the deletion began, but not to end before now.

    If that time is over, the client that confirms the deletion still gets a second to do so.
    """
    ends_at = timestamps.from_text(meta["deletionTimestamp"])
    ends_at = (ends_at if ends_at is not None else now + left_s) - left_s + asked_s
    if ends_at < now:
        ends_at, asked_s = now, min(asked_s, 1)
    meta["deletionTimestamp"] = timestamps.to_text(ends_at)
    meta["deletionGracePeriodSeconds"] = asked_s
