"""The options of each verb, parsed from a query or a body and validated as in Kubernetes.

Requirement rows J01-J11, K01-K46 (the semantics of resourceVersion), G06-G16. Sources: k8s.io/apimachinery
pkg/apis/meta/internalversion/validation, pkg/apis/meta/v1/validation; the tables of
https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from apiserver.golang.quoting import strconv_error
from apiserver.meta.errors import BadRequest, Invalid
from apiserver.meta.field_errors import FieldError, forbidden, invalid, not_supported, required, too_long
from apiserver.meta.object_meta import FINALIZER_FOREGROUND, FINALIZER_ORPHAN
from apiserver.meta.selectors import (
    ALL_FIELDS,
    ALL_LABELS,
    FieldSelector,
    LabelSelector,
    SelectorSyntaxError,
    TooManyTerms,
    parse_field_selector,
    parse_label_selector,
)
from apiserver.meta.vocabulary import Document, GroupKind, Query
from apiserver.storage.interface import ANY, MOST_RECENT, ReadAt
from apiserver.storage.resource_version import InvalidResourceVersion, parse_resource_version

EXACT: Final = "Exact"
NOT_OLDER_THAN: Final = "NotOlderThan"
FIELD_MANAGER_MAX: Final = 128
_INT64_MAX: Final = (1 << 63) - 1
_IS_INTEGER: Final = re.compile(r"[+-]?[0-9]+").fullmatch


# ---- query parameters


def first(query: Query, parameter: str) -> str:
    """Returns the first value of a parameter, or an empty string."""
    values = query.get(parameter)
    return values[0] if values else ""


def require_only(query: Query, parameters: Sequence[str]) -> None:
    """Check that a query has no other parameters than these, and each of them once. Raises BadRequest.

    For requests that mean something else without a parameter that the client has misspelt.
    """
    if unknown := sorted(query.keys() - set(parameters)):
        taken = ", ".join(parameters) or "none"
        raise BadRequest(f"unknown parameter {unknown[0]!r}: the request takes {taken}")
    for name, values in query.items():
        if len(values) > 1:
            raise BadRequest(f"the parameter {name} must be set once")


def is_true(query: Query, parameter: str) -> bool:
    """Returns whether kube-apiserver treats a parameter as true: present, and neither `false` nor `0`."""
    values = query.get(parameter)
    return values is not None and values[0].lower() not in ("false", "0")


def _integer(query: Query, parameter: str) -> int | None:
    """Returns the value of a parameter. Raises BadRequest if it is not an int64 (row J06), or empty."""
    if parameter not in query:
        return None
    text = first(query, parameter)
    if not _IS_INTEGER(text):
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if len(text) > 20 or not -_INT64_MAX - 1 <= int(text) <= _INT64_MAX:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": value out of range')
    return int(text)


def _require_valid(kind: str, meta_group: str, errors: Sequence[FieldError]) -> None:
    if errors:
        raise Invalid(GroupKind(meta_group, kind), "", errors)


# ---- get, list, watch


class ListOptions(NamedTuple):
    """The options of list, watch and deletecollection.

    at: the state to read, or the state of a watch's initial events.
    limit: 0 means all.
    """

    labels: LabelSelector
    fields: FieldSelector
    at: ReadAt
    limit: int
    continue_token: str
    timeout_s: int | None
    allow_bookmarks: bool = False
    send_initial_events: bool = False
    ends_initial_events_with_bookmark: bool = False
    start_after: int = 0  # a watch without initial events: the revision that the client has seen

    @classmethod
    def for_list(
        cls, query: Query, known_fields: frozenset[str], meta_group: str, *, limits_cached_lists: bool = True
    ) -> ListOptions:
        """Returns the options of a list. Raises BadRequest, Invalid.

        limits_cached_lists: whether a limit counts at resourceVersion 0, too.
        """
        labels, fields = _selectors(query, known_fields)
        limit, timeout_s = _integer(query, "limit"), _integer(query, "timeoutSeconds")
        version, match = first(query, "resourceVersion"), first(query, "resourceVersionMatch")
        token = first(query, "continue")
        _require_valid("ListOptions", meta_group, _validate_list(query, version, match, token))
        at = _read_at_for_list(version, match, has_limit=bool(limit and limit > 0), token=token)
        if version == "0" and not limits_cached_lists:
            # Recorded in chunking/rv-and-continue: with a token, too.
            limit = 0
        return cls(
            labels=labels,
            fields=fields,
            at=at,
            limit=max(limit or 0, 0),
            continue_token=token,
            timeout_s=timeout_s,
        )

    @classmethod
    def for_watch(cls, query: Query, known_fields: frozenset[str], meta_group: str) -> ListOptions:
        """Returns the options of a watch. Raises BadRequest, Invalid."""
        labels, fields = _selectors(query, known_fields)
        timeout_s = _integer(query, "timeoutSeconds")
        _integer(query, "limit")  # It has no effect on a watch, but must be a number.
        version = first(query, "resourceVersion")
        _require_valid("ListOptions", meta_group, _validate_watch(query))
        allow_bookmarks = is_true(query, "allowWatchBookmarks")
        revision = _revision(version, "invalid resource version: ")
        if "sendInitialEvents" in query:
            sends_initial_events = is_true(query, "sendInitialEvents")
            ends_with_bookmark = sends_initial_events and allow_bookmarks
            at = ReadAt.not_older_than(revision) if revision else ANY if version else MOST_RECENT
        else:
            # Rows K26, K27, K43: without a version a watch begins with the current state.
            sends_initial_events = revision == 0
            ends_with_bookmark = sends_initial_events and allow_bookmarks
            at = ANY if version else MOST_RECENT
        return cls(
            labels=labels,
            fields=fields,
            at=at,
            limit=0,
            continue_token="",
            timeout_s=timeout_s,
            allow_bookmarks=allow_bookmarks,
            send_initial_events=sends_initial_events,
            ends_initial_events_with_bookmark=ends_with_bookmark,
            start_after=revision,
        )


def read_at_for_get(query: Query) -> ReadAt:
    """Returns the state that a get reads: rows K01-K03. Raises BadRequest."""
    version = first(query, "resourceVersion")
    if not version:
        return MOST_RECENT
    if version == "0":
        return ANY
    revision = _revision(version, "invalid resource version: ")
    return ReadAt.not_older_than(revision) if revision else ANY


def _read_at_for_list(version: str, match: str, *, has_limit: bool, token: str) -> ReadAt:
    """Returns the state that a list reads: rows K04-K24. A continue token contains the revision."""
    if token:
        if version not in ("", "0"):
            raise BadRequest("specifying resource version is not allowed when using continue")
        return MOST_RECENT
    if not version:
        return MOST_RECENT
    if version == "0":
        return ANY
    revision = _revision(version, "invalid resource version: ")
    if revision == 0:
        return ANY
    if match == EXACT or (not match and has_limit):
        return ReadAt.exactly(revision)
    return ReadAt.not_older_than(revision)


def _revision(version: str, prefix: str) -> int:
    try:
        return parse_resource_version(version)
    except InvalidResourceVersion as error:
        reason = strconv_error("ParseUint", error.text, error.problem)
        raise BadRequest(f'{prefix}resourceVersion: Invalid value: "{version}": {reason}') from None


def _selectors(query: Query, known_fields: frozenset[str]) -> tuple[LabelSelector, FieldSelector]:
    if "labelSelector" not in query and "fieldSelector" not in query:
        return ALL_LABELS, ALL_FIELDS  # What most lists ask for.
    parameter = "labelSelector"
    try:
        labels = parse_label_selector(first(query, parameter))
        parameter = "fieldSelector"
        return labels, parse_field_selector(first(query, parameter), known_fields)
    except TooManyTerms as error:
        raise BadRequest(f"{parameter}: {error}") from None
    except SelectorSyntaxError as error:
        raise BadRequest(str(error)) from None


def _validate_list(query: Query, version: str, match: str, token: str) -> list[FieldError]:
    errors = []
    field = "resourceVersionMatch"
    if match:
        if not version:
            errors.append(
                forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided")
            )
        if token:
            errors.append(forbidden(field, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in (EXACT, NOT_OLDER_THAN):
            errors.append(not_supported(field, match, [EXACT, NOT_OLDER_THAN, ""]))
        if match == EXACT and version == "0":
            errors.append(
                forbidden(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
            )
    if "sendInitialEvents" in query:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _validate_watch(query: Query) -> list[FieldError]:
    errors = []
    field, match = "resourceVersionMatch", first(query, "resourceVersionMatch")
    has_initial_events = "sendInitialEvents" in query
    if has_initial_events and match != NOT_OLDER_THAN:
        errors.append(
            forbidden(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        )
    if match:
        if not has_initial_events:
            errors.append(
                forbidden(
                    field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
                )
            )
        if match != NOT_OLDER_THAN:
            errors.append(not_supported(field, match, [NOT_OLDER_THAN]))
        if first(query, "continue"):
            errors.append(forbidden(field, "resourceVersionMatch is forbidden when continue is provided"))
    return errors


# ---- create, update, patch


class WriteOptions(NamedTuple):
    """The options of create, update and patch.

    field_validation: Ignore, Warn or Strict; sent_field_validation: the client's value, or empty if it sent
    none.
    """

    dry_run: bool = False
    field_validation: str = "Warn"
    field_manager: str = ""
    force: bool | None = None
    sent_field_validation: str = ""
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_query(
        cls, query: Query, kind: str, meta_group: str, *, allows_empty_dry_run: bool, is_apply: bool = False
    ) -> WriteOptions:
        """Returns the options in a query. Raises Invalid.

        kind: CreateOptions, UpdateOptions or PatchOptions. is_apply: whether the patch is an apply (row F04).
        """
        if not query and not is_apply:
            return _NO_OPTIONS
        dry_run, errors, warnings = _dry_run(query.get("dryRun"), allows_empty_dry_run)
        validation = first(query, "fieldValidation")
        if validation not in ("", "Ignore", "Strict", "Warn"):
            errors.append(not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
        manager = first(query, "fieldManager")
        if is_apply and not manager:
            errors.append(required("fieldManager", "is required for apply patch"))
        errors += _validate_manager(manager)
        force = is_true(query, "force") if "force" in query else None
        if force is not None and kind == "PatchOptions" and not is_apply:
            errors.append(forbidden("force", "may not be specified for non-apply patch"))
        _require_valid(kind, meta_group, errors)
        return cls(dry_run, validation or "Warn", manager, force, validation, warnings)

    def document(self, operation: str, meta_group: str) -> Document:
        """Returns the options as webhooks and policies see them. operation: CREATE or UPDATE, for a patch
        too.
        """
        kind = "CreateOptions" if operation == "CREATE" else "UpdateOptions"
        document: Document = {"kind": kind, "apiVersion": f"{meta_group}/v1"}
        if self.dry_run:
            document["dryRun"] = ["All"]
        if self.field_manager:
            document["fieldManager"] = self.field_manager
        if self.sent_field_validation:
            document["fieldValidation"] = self.sent_field_validation
        return document


_NO_OPTIONS: Final = WriteOptions()
# Of a manager's name, which the error about each quotes.
_INVALID_CHARACTERS_MAX: Final = 32
# Row J08: webhooks that have side effects, or do not say that they have none, are called then.
EMPTY_DRY_RUN: Final = (
    "dryRun without a value means a dry run: nothing is stored, but webhooks that declare side effects "
    "may have been called; use dryRun=All to fail instead"
)


def _dry_run(
    values: Sequence[str] | None, allows_empty: bool
) -> tuple[bool, list[FieldError], tuple[str, ...]]:
    """Returns whether the write is a dry run, and errors and warnings."""
    if not values:
        return False, [], ()
    errors = []
    if any(value != "All" and (value or not allows_empty) for value in values):
        errors.append(not_supported("dryRun", list(values), ["All"]))
    return True, errors, (EMPTY_DRY_RUN,) if "All" not in values else ()


def _validate_manager(manager: str) -> list[FieldError]:
    errors = []
    if len(manager.encode()) > FIELD_MANAGER_MAX:
        # Each error about a character would quote all of them.
        return [too_long("fieldManager", FIELD_MANAGER_MAX)]
    position = 0  # in bytes
    for character in manager:
        if unicodedata.category(character)[0] in "CZ" and character != " ":
            code = f"U+{ord(character):04X}"
            problem = f"invalid character {code} (at position {position})"
            errors.append(invalid("fieldManager", manager, problem))
            if len(errors) == _INVALID_CHARACTERS_MAX:
                break
        position += len(character.encode("utf-8", "surrogatepass"))
    return errors


# ---- delete


# The option that removes objects which cannot be read, and those that it may not be combined with.
# Source: k8s.io/apimachinery, pkg/apis/meta/v1/validation/validation.go, ValidateIgnoreStoreReadError.
IGNORE_READ_ERROR: Final = "ignoreStoreReadErrorWithClusterBreakingPotential"
_NOT_WITH_IGNORE_READ_ERROR: Final = (
    "dryRun",
    "propagationPolicy",
    "orphanDependents",
    "gracePeriodSeconds",
    "preconditions",
)


class DeleteOptions(NamedTuple):
    """The options of delete and deletecollection.

    propagation: Orphan, Foreground, Background, or empty if the client sets none.
    orphan_dependents: the older field with the same meaning, if the client used it.
    ignores_read_error: whether to remove an object that cannot be read, without regard to its dependents.
    """

    dry_run: bool = False
    grace_period_s: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation: str = ""
    warnings: tuple[str, ...] = ()
    orphan_dependents: bool | None = None
    ignores_read_error: bool = False

    @classmethod
    def from_query(
        cls, query: Query, meta_group: str, *, allows_empty_dry_run: bool, allows_unsafe: bool = False
    ) -> DeleteOptions:
        """Returns the options in a query. Raises BadRequest, Invalid.

        Each precondition is a separate parameter; an empty one has no effect.
        allows_unsafe: as for `from_body`.
        Source: k8s.io/apimachinery, pkg/apis/meta/v1/conversion.go, Convert_url_Values_To_v1_DeleteOptions.
        """
        if not query:
            return _NO_DELETE_OPTIONS
        body = {
            "dryRun": query.get("dryRun"),
            "gracePeriodSeconds": _integer(query, "gracePeriodSeconds"),
            "orphanDependents": is_true(query, "orphanDependents") if "orphanDependents" in query else None,
            "propagationPolicy": first(query, "propagationPolicy") if "propagationPolicy" in query else None,
            "preconditions": {
                field: wanted for field in ("uid", "resourceVersion") if (wanted := first(query, field))
            }
            or None,
            IGNORE_READ_ERROR: is_true(query, IGNORE_READ_ERROR) if IGNORE_READ_ERROR in query else None,
        }
        return cls.from_body(
            body, meta_group, allows_empty_dry_run=allows_empty_dry_run, allows_unsafe=allows_unsafe
        )

    @classmethod
    def from_body(
        cls, body: Document, meta_group: str, *, allows_empty_dry_run: bool, allows_unsafe: bool = False
    ) -> DeleteOptions:
        """Returns the options in a body, which has passed the schema of DeleteOptions. Raises Invalid.

        allows_unsafe: whether objects that cannot be read may be removed. If not, ignoreStoreReadError has no
            effect (row G11).
        """
        ignores_read_error = allows_unsafe and bool(body.get(IGNORE_READ_ERROR))
        errors: list[FieldError] = []
        orphan_dependents = body.get("orphanDependents")
        propagation = body.get("propagationPolicy")
        if orphan_dependents is not None and propagation is not None:
            errors.append(
                invalid(
                    "propagationPolicy",
                    propagation,
                    "orphanDependents and deletionPropagation cannot be both set",
                )
            )
        if propagation not in (None, "Foreground", "Background", "Orphan"):
            supported = ["Foreground", "Background", "Orphan", "nil"]
            errors.append(not_supported("propagationPolicy", propagation, supported))
        dry_run, dry_run_errors, warnings = _dry_run(body.get("dryRun"), allows_empty_dry_run)
        errors += dry_run_errors
        if ignores_read_error:
            errors += [
                invalid(IGNORE_READ_ERROR, True, f"cannot be set together with .{field}")
                for field in _NOT_WITH_IGNORE_READ_ERROR
                if (body.get(field) if field == "dryRun" else body.get(field) is not None)
            ]
        _require_valid("DeleteOptions", meta_group, errors)
        if orphan_dependents is not None:
            propagation = "Orphan" if orphan_dependents else "Background"
        preconditions = body.get("preconditions") or {}
        return cls(
            dry_run=dry_run,
            grace_period_s=body.get("gracePeriodSeconds"),
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
            propagation=propagation or "",
            warnings=warnings,
            orphan_dependents=orphan_dependents,
            ignores_read_error=ignores_read_error,
        )

    def document(self, operation: str, meta_group: str) -> Document:
        """Returns the options as webhooks and policies see them."""
        document: Document = {"kind": "DeleteOptions", "apiVersion": f"{meta_group}/v1"}
        if self.grace_period_s is not None:
            document["gracePeriodSeconds"] = self.grace_period_s
        preconditions = {"uid": self.uid, "resourceVersion": self.resource_version}
        if expected := {field: value for field, value in preconditions.items() if value is not None}:
            document["preconditions"] = expected
        if self.orphan_dependents is not None:
            document["orphanDependents"] = self.orphan_dependents
        elif self.propagation:
            document["propagationPolicy"] = self.propagation
        if self.dry_run:
            document["dryRun"] = ["All"]
        if self.ignores_read_error:
            document[IGNORE_READ_ERROR] = True
        return document

    def finalizers(self, document: Document, *, orphans_by_default: bool) -> list[str]:
        """Returns the object's finalizers, with those of the garbage collector that this deletion
        requires.
        """
        meta: dict[str, Any] = document["metadata"]
        present: list[str] = meta.get("finalizers") or []
        others = [name for name in present if name not in (FINALIZER_ORPHAN, FINALIZER_FOREGROUND)]
        policy = self.propagation
        if not policy:
            if FINALIZER_ORPHAN in present:
                policy = "Orphan"
            elif FINALIZER_FOREGROUND in present:
                policy = "Foreground"
            elif orphans_by_default:
                policy = "Orphan"
        wanted = {"Orphan": [FINALIZER_ORPHAN], "Foreground": [FINALIZER_FOREGROUND]}.get(policy, [])
        return present if set(present) == {*others, *wanted} else [*others, *wanted]


_NO_DELETE_OPTIONS: Final = DeleteOptions()
