"""Strategies: the hooks in which resources differ.

A strategy is data: a set of small functions over documents, none of which does I/O. The defaults are those of
most resources; the stages of a write do not call defaults that do nothing.

Source of the division: k8s.io/apiserver, pkg/registry/rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from apiserver.meta import names, object_meta
from apiserver.meta.field_errors import FieldError
from apiserver.meta.names import NameRule
from apiserver.meta.vocabulary import Document, UserInfo
from apiserver.registry.allocations import ResourceAllocator


def no_change(*_: Document) -> None:
    """Changes nothing, as the default of a hook."""


def no_errors(*_: Document) -> list[FieldError]:
    """Finds no errors, as the default of a check."""
    return []


def no_ratcheting_errors(new: Document, old: Document | None) -> list[FieldError]:
    """Finds no errors, as the default of a check with ratcheting."""
    return []


def _no_refusal(name: str) -> str:
    return ""


def no_warnings(new: Document, old: Document | None) -> list[str]:
    """Returns no warnings, as the default of a hook."""
    return []


class Findings(NamedTuple):
    """The findings of the checks of a write.

    errors: the reasons to refuse the write. warnings: those for the client of an allowed write.
    """

    errors: Sequence[FieldError]
    warnings: Sequence[str] = ()


NO_FINDINGS: Final = Findings(())


class WriteContext(NamedTuple):
    """The user and the time of a write.

    user: None if the server itself writes. now: in the format of documents.
    """

    user: UserInfo | None
    now: str


# Compares the errors that the checks of a type have found with what its declared rules find: (errors, new,
# old). `old`: None for a create. Returns the errors that count.
DeclaredChecks = Callable[[Sequence[FieldError], Document, Document | None], Sequence[FieldError]]

# Evaluates rules of which some are CEL expressions: (new, old, errors found so far, is_bounded). Some errors
# prevent it. Returns these errors and its own. Bounded, it raises TakesLong after a few milliseconds. `old`:
# None for a create.
ExpressionRules = Callable[[Document, Document | None, Sequence[FieldError], bool], Findings]


class UpdateStrategy(NamedTuple):
    """The rules for updates by one endpoint of a resource: its main one, or a subresource.

    prepare: (new, old): copies from `old` the fields that this endpoint may not change.
    stamp: (context, new, old): records the user, or the time, of the change.
    validate: (new, old): returns the errors in the change, beyond those in `new` itself.
    validate_write: (context, new, old): likewise, where the user or the time of the change matters.
    expressions: rules that include expressions; all rules of custom resources are here.
    compares_old: whether they compare new values with old ones (transition rules), and so may refuse an
        unchanged object.
    checks_object: whether the object as a whole is checked, too (`Strategy.validate`), and warned about. A
        status update does not check it: its writer may be unable to correct the spec.
    warn: (new, old): returns warnings about the change, if the object is not checked.
    raises_generation: whether a change increments metadata.generation, if the type has that.
    resets, writes: the paths of the fields that this endpoint does not change, or of all that it writes; see
        `apply.endpoint_fields`. A `resets` of None means the status, if that has its own endpoint.
    change_checks, object_checks: how often Kubernetes checks the change of the metadata, and the metadata
        itself, in its generic code and again in the type's own. A response repeats each cause as often, and
        those of labels, annotations and owners with both.
    """

    prepare: Callable[[Document, Document], None] = no_change
    validate: Callable[[Document, Document], list[FieldError]] = no_errors
    change_checks: int = 2
    object_checks: int = 1
    stamp: Callable[[WriteContext, Document, Document], None] | None = None
    validate_write: Callable[[WriteContext, Document, Document], list[FieldError]] | None = None
    expressions: ExpressionRules | None = None
    compares_old: Callable[[], bool] | None = None
    raises_generation: bool = True
    resets: tuple[str, ...] | None = None
    writes: tuple[str, ...] = ()
    checks_object: bool = True
    warn: Callable[[Document, Document], list[str]] | None = None


class Strategy(NamedTuple):
    """The rules of one resource.

    prepare_create: sets and removes the fields that clients may not set. May return warnings.
    stamp_create: (context, document): records the user, or the time, of the creation.
    validate: returns the errors in an object about to be stored, except in its metadata.
    validate_ratcheting: (new, old, None for a new object): likewise, by rules that an object may keep
        violating if it violated them before. Subresources with their own UpdateStrategy leave it out.
    validate_create: returns errors that only new objects can have.
    validate_size: returns the errors of `validate` in a document that is too large to be stored.
    expressions: as in `UpdateStrategy`, for a new object.
    declared: the rules of the type that are declared, if it has any: see `registry.declarative_validation`.
    warn: (new, old, None for a new object): returns warnings about an allowed write.
    has_generation: metadata.generation counts changes of everything but `generation_ignores`.
    allows_unconditional_update: an update need not name the resourceVersion that it replaces.
    allows_unqualified_finalizers: the names of finalizers need no domain.
    allows_create_on_update: a PUT of an absent object creates it.
    grace_period_s: (object, requested seconds): how long a deletion waits for its confirmation;
        None for resources that are deleted at once.
    mark_deleted: changes further fields when a deletion begins; returns whether it has a grace period.
    blockers: returns what must be removed before the object is: its finalizers.
    orphans_by_default: whether a delete without a policy orphans dependents (Jobs).
    has_dependents: whether the propagation policy of a delete matters (not for definitions).
    returns_deleted: whether the response to a delete is the object instead of a Status.
    ttl_s: objects expire this long after their last write (Events).
    allocator: chooses values that no two objects may have (addresses of Services).
    delete_warning: the warning for a delete without a policy.
    delete_refusal: (name): returns why no user may delete this object; empty if it may be deleted.
    is_costly: whether even small objects may take long to check, so that they are never checked on the event
        loop.
    default_bytes: returns how many bytes the defaults of a custom type add at most to one object, or one
        null, in an object; None for built-in types, which have few.
    """

    name_rule: NameRule = names.dns_subdomain
    prepare_create: Callable[[Document], Sequence[str] | None] = no_change
    stamp_create: Callable[[WriteContext, Document], None] | None = None
    validate: Callable[[Document], list[FieldError]] = no_errors
    validate_ratcheting: Callable[[Document, Document | None], list[FieldError]] = no_ratcheting_errors
    validate_create: Callable[[Document], list[FieldError]] = no_errors
    validate_size: Callable[[Document], list[FieldError]] = no_errors
    expressions: ExpressionRules | None = None
    declared: DeclaredChecks | None = None
    warn: Callable[[Document, Document | None], list[str]] = no_warnings
    update: UpdateStrategy = UpdateStrategy()
    has_generation: bool = False
    generation_ignores: frozenset[str] = frozenset({"metadata", "status"})
    allows_unconditional_update: bool = True
    allows_unqualified_finalizers: bool = False
    allows_create_on_update: bool = False
    grace_period_s: Callable[[Document, int | None], int] | None = None
    mark_deleted: Callable[[Document, str], None] | None = None
    blockers: Callable[[Document], Sequence[str]] = object_meta.finalizers
    orphans_by_default: bool = False
    has_dependents: bool = True
    returns_deleted: bool = False
    ttl_s: int | None = None
    allocator: ResourceAllocator | None = None
    delete_warning: str = ""
    delete_refusal: Callable[[str], str] = _no_refusal
    is_costly: bool = False
    default_bytes: Callable[[], int] | None = None


DEFAULT_STRATEGY: Final = Strategy()


# ---- hooks that many resources share


def drop_status(document: Document) -> None:
    """Drops the status of a new object, which belongs to the controller and not to the user."""
    document.pop("status", None)


def keep_status(new: Document, old: Document) -> None:
    """Keeps the status in an update of the main resource (row I13)."""
    if "status" in old:
        new["status"] = old["status"]
    else:
        new.pop("status", None)


def only_status(new: Document, old: Document) -> None:
    """Keeps everything but the status and the metadata in an update of the status subresource."""
    status = new.get("status")
    for field in [field for field in new if field not in ("apiVersion", "kind", "metadata")]:
        del new[field]
    new.update({k: v for k, v in old.items() if k not in ("apiVersion", "kind", "metadata", "status")})
    if status is not None:
        new["status"] = status


STATUS_RESETS: Final = ("spec",)
STATUS: Final = UpdateStrategy(prepare=only_status, resets=STATUS_RESETS, checks_object=False)


# What clients change of the metadata of objects.
CLIENT_METADATA: Final = ("labels", "annotations", "ownerReferences", "finalizers")


def keep_metadata(new: Document, old: Document, *fields: str) -> None:
    """Keeps some fields of the metadata unchanged."""
    for field in fields:
        if field in old["metadata"]:
            new["metadata"][field] = old["metadata"][field]
        else:
            new["metadata"].pop(field, None)


def only_status_without_metadata(new: Document, old: Document) -> None:
    """Keeps everything but the status in an update of the status subresource, the metadata included."""
    only_status(new, old)
    keep_metadata(new, old, *CLIENT_METADATA, "deletionTimestamp")


def only_status_with_old_metadata(new: Document, old: Document) -> None:
    """Keeps everything but the status, and the metadata as a whole, including generateName."""
    only_status(new, old)
    keep_metadata(new, old, *((new["metadata"].keys() | old["metadata"].keys()) - _WRITTEN_BY_SERVER))


# The server sets these at each write.
_WRITTEN_BY_SERVER: Final = frozenset({"managedFields", "resourceVersion"})
# What such a subresource writes.
STATUS_ALONE: Final = ("status",)
