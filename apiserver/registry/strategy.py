"""Strategies: the hooks in which resources differ.

A strategy is data: a set of small functions over documents, none of which does I/O. The defaults are
what most resources do. Source of the division: k8s.io/apiserver, pkg/registry/rest.
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
    """A hook that changes nothing."""


def _no_errors(*_: Document) -> list[FieldError]:
    """A check that finds nothing."""
    return []


def _no_errors_either(new: Document, old: Document | None) -> list[FieldError]:
    return []


def _no_refusal(name: str) -> str:
    return ""


def _no_warnings(new: Document, old: Document | None) -> list[str]:
    return []


class Findings(NamedTuple):
    """What the checks of a write have found.

    errors: why the write is refused. warnings: what the client is warned of, although the write is allowed.
    """

    errors: Sequence[FieldError]
    warnings: Sequence[str] = ()


class WriteContext(NamedTuple):
    """The user and the time of a write.

    user: None if the server itself writes. now: as documents have it.
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
    """How one endpoint of a resource takes updates: its main one, or a subresource.

    prepare: (new, old): takes over from `old` what this endpoint may not change.
    stamp: (context, new, old): writes in by whom, or when, the change is made.
    validate: (new, old): what is wrong with the change, beyond what is wrong with `new` itself.
    validate_write: (context, new, old): likewise, where it matters who makes the change, or when.
    expressions: rules of which some are expressions; those of custom resources are all among them.
    compares_old: whether they compare new values with old ones (transition rules): they may refuse also what
        does not change.
    checks_object: whether the object as a whole is checked, too (`Strategy.validate`), and warned about. A
        status update does not check it: its writer may be unable to correct the spec.
    warn: (new, old): what the client should know of the change, if the object is not checked.
    raises_generation: whether a change counts in metadata.generation, if the type has that.
    resets, writes: the paths of what this endpoint leaves as it is, or of all that it writes; see
        `apply.endpoint_fields`. resets: None for the status, if that has an endpoint of its own.
    change_checks, object_checks: how often Kubernetes checks the change of the metadata, and the metadata
        itself, in its generic code and again in the type's own. An answer repeats each cause as often, and
        those of labels, annotations and owners with both.
    """

    prepare: Callable[[Document, Document], None] = no_change
    validate: Callable[[Document, Document], list[FieldError]] = _no_errors
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

    prepare_create: fills in and takes out what clients have no say in. May return warnings about it.
    stamp_create: (context, document): writes into a new object by whom, or when, it is made.
    validate: what is wrong with an object about to be stored, beside its metadata.
    validate_ratcheting: (new, old, None for a new object): likewise, by rules that an object may go on
        breaking if it broke them before. Subresources with an UpdateStrategy of their own leave it out.
    validate_create: what is wrong with a new object only.
    validate_size: which rules of `validate` a document breaks that is too large to be stored anyway.
    expressions: as in `UpdateStrategy`, for a new object.
    declared: the rules of the type that are declared, if it has any: see `registry.declarative_validation`.
    warn: (new, old, None for a new object): what the client should know, though it is allowed.
    has_generation: metadata.generation counts changes of everything but `generation_ignores`.
    allows_unconditional_update: an update need not name the resourceVersion that it replaces.
    allows_unqualified_finalizers: the names of finalizers need no domain.
    allows_create_on_update: a PUT of an absent object creates it.
    grace_period_s: (object, seconds asked for): how long a deletion waits for somebody to confirm it;
        None for resources that are deleted at once.
    mark_deleted: what else changes when a deletion begins, and whether it has a grace period.
    blockers: whatever must be gone before the object is removed: its finalizers.
    orphans_by_default: what a delete that names no policy does (Jobs).
    has_dependents: the propagation policy of a delete matters (not for definitions).
    returns_deleted: the response to a delete is the object instead of a Status.
    ttl_s: objects expire this long after their last write (Events).
    allocator: chooses what objects have and no other may have (addresses of Services).
    delete_warning: what a delete that names no policy is told.
    delete_refusal: (name): why this object may not be deleted by anybody; empty if it may.
    is_costly: even small objects may take long to check, so that it is never done in the event loop.
    default_bytes: returns how many bytes the defaults of a type that clients have defined add at most to one
        object, or one null, in an object; None for built-in types, which have few.
    """

    name_rule: NameRule = names.dns_subdomain
    prepare_create: Callable[[Document], Sequence[str] | None] = no_change
    stamp_create: Callable[[WriteContext, Document], None] | None = None
    validate: Callable[[Document], list[FieldError]] = _no_errors
    validate_ratcheting: Callable[[Document, Document | None], list[FieldError]] = _no_errors_either
    validate_create: Callable[[Document], list[FieldError]] = _no_errors
    validate_size: Callable[[Document], list[FieldError]] = _no_errors
    expressions: ExpressionRules | None = None
    declared: DeclaredChecks | None = None
    warn: Callable[[Document, Document | None], list[str]] = _no_warnings
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
    """Drops the status of a new object: it belongs to the controller, not to the user."""
    document.pop("status", None)


def keep_status(new: Document, old: Document) -> None:
    """Update of the main resource: the status stays as it is (row I13)."""
    if "status" in old:
        new["status"] = old["status"]
    else:
        new.pop("status", None)


def only_status(new: Document, old: Document) -> None:
    """Update of the status subresource: everything else stays as it is, but for the metadata."""
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
    """Keeps these fields of the metadata as they are."""
    for field in fields:
        if field in old["metadata"]:
            new["metadata"][field] = old["metadata"][field]
        else:
            new["metadata"].pop(field, None)


def only_status_without_metadata(new: Document, old: Document) -> None:
    """Update of the status subresource where that changes no metadata."""
    only_status(new, old)
    keep_metadata(new, old, *CLIENT_METADATA, "deletionTimestamp")


def only_status_with_old_metadata(new: Document, old: Document) -> None:
    """Update of the status subresource where the metadata stays as a whole: generateName, too."""
    only_status(new, old)
    keep_metadata(new, old, *((new["metadata"].keys() | old["metadata"].keys()) - _WRITTEN_BY_SERVER))


# The server sets these at each write.
_WRITTEN_BY_SERVER: Final = frozenset({"managedFields", "resourceVersion"})
# What such a subresource writes.
STATUS_ALONE: Final = ("status",)
