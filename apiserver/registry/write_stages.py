"""The stages that a document passes before it is stored. Pure.

`write_path` calls them in their order, and decides where each runs.

Source: k8s.io/apiserver, pkg/registry/rest/{create,update}.go. Rows B01-B15, I13, J11, L01, L02.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from apiserver.golang.quoting import strconv_error
from apiserver.meta import names, object_meta
from apiserver.meta.errors import ApiError, BadRequest, Conflict, Invalid
from apiserver.meta.field_errors import FieldError, invalid, quote
from apiserver.meta.vocabulary import Document, GroupKind
from apiserver.registry.field_manager_conversions import ConversionsNeeded
from apiserver.registry.patch.apply import managed_fields
from apiserver.registry.patch.apply.field_set import InvalidFieldSet
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.strategy import (
    NO_FINDINGS,
    Findings,
    Strategy,
    UpdateStrategy,
    WriteContext,
    no_change,
    no_errors,
    no_ratcheting_errors,
    no_warnings,
)
from apiserver.registry.write_request import ManageFields, ProposedObject, WriteRequest
from apiserver.storage.resource_version import InvalidResourceVersion, parse_resource_version


class MutatedVersion(ApiError):
    """Admission has given a new object a resourceVersion, which is not the client's fault."""

    code, reason = 500, ""


GENERATION_MAX: Final = (1 << 63) - 1
# More errors are not useful, and a body may contain a million.
ERRORS_MAX: Final = 1_000

# ---- a new object


def place(
    request: WriteRequest, proposed: ProposedObject, document: Document, manage_fields: ManageFields | None
) -> None:
    """Set the place of a new document, remove fields that only the server sets, and record its owners.

    document: that of the proposed object, in the hub version. manage_fields: see `WriteRequest`.
    Raises Invalid, BadRequest, and ConversionsNeeded, after which it is called again.
    """
    meta = document["metadata"]
    object_meta.wipe_server_fields(meta)
    version = meta.pop("resourceVersion", "")
    if version and _is_version(version) and not request.options.dry_run:
        # Row B14; kube-apiserver answers 500 here: its storage refuses it, which a dry run does not ask.
        problem = invalid("metadata.resourceVersion", version, "must not be set on objects to be created")
        raise refusal(request.resource, meta.get("name", ""), [problem])
    if request.resource.is_namespaced:
        meta["namespace"] = request.namespace
    else:
        meta.pop("namespace", None)
    own(proposed, document, None, manage_fields)


def prepare_create(request: WriteRequest, document: Document, now: str) -> Sequence[str]:
    """Turn a new document, which has its identity, into the object that will be stored.

    now: in the format of documents.

    Returns warnings.
    """
    strategy = request.resource.strategy
    if strategy.has_generation:
        document["metadata"]["generation"] = 1
    warnings = strategy.prepare_create(document) if strategy.prepare_create is not no_change else None
    if strategy.stamp_create is not None:
        strategy.stamp_create(WriteContext(request.user, now), document)
    return warnings or ()


def validate_create(request: WriteRequest, document: Document, is_bounded: bool) -> Findings:
    """Returns the errors in, and warnings about, a new document. Raises TakesLong."""
    resource, strategy = request.resource, request.resource.strategy
    own = NO_FINDINGS
    if strategy.validate_create is not no_errors:
        own = Findings(strategy.validate_create(document))
    if strategy.expressions is not None:
        own = strategy.expressions(document, None, own.errors, is_bounded)
    errors: Sequence[FieldError] = [
        *_of_metadata(document["metadata"], resource),
        *own.errors,
        *strategy.validate(document),
    ]
    if strategy.validate_ratcheting is not no_ratcheting_errors:
        errors = [*errors, *strategy.validate_ratcheting(document, None)]
    if strategy.declared is not None:
        errors = strategy.declared(errors, document, None)
    # Last, as in Kubernetes: the rules of the kind are more specific.
    errors = errors or object_meta.validate_path_segments(document["metadata"])
    if errors:
        return Findings(errors)
    if strategy.warn is no_warnings and not own.warnings:
        return NO_FINDINGS
    return Findings((), [*strategy.warn(document, None), *own.warnings])


# ---- a change


def prepare_update(request: WriteRequest, new: Document, old: Document, now: str) -> bool:
    """Turn `new` into the object that will replace `old` in the store. now: in the format of documents.

    Returns whether the stored object is the same already. Raises Conflict, Invalid, BadRequest.
    """
    resource, rules = request.resource, request.update or request.resource.strategy.update
    meta, old_meta = new["metadata"], old["metadata"]
    _require_expected(resource, meta, old_meta, checks_uid=request.checks_uid)
    # Without a resourceVersion the current one is meant.
    meta["resourceVersion"] = old_meta["resourceVersion"]
    if resource.is_namespaced:
        meta["namespace"] = meta.get("namespace") or old_meta["namespace"]
    else:
        meta.pop("namespace", None)
    object_meta.prepare_update(meta, old_meta)
    if rules.prepare is not no_change:
        rules.prepare(new, old)
    if rules.stamp is not None:
        rules.stamp(WriteContext(request.user, now), new, old)
    strategy = resource.strategy
    if (
        strategy.has_generation
        and rules.raises_generation
        and _differs(new, old, strategy.generation_ignores)
    ):
        meta["generation"] = next_generation(old_meta)
    if resource.is_virtual and "generation" not in old_meta:
        meta.pop("generation", None)  # The functions that make its objects keep none.
    return _is_unchanged(new, old)


def validate_update(
    request: WriteRequest, new: Document, old: Document, now: str, is_unchanged: bool, is_bounded: bool
) -> Findings:
    """Returns the errors in, and warnings about, a change. Raises TakesLong.

    now: in the format of documents.
    """
    resource, strategy = request.resource, request.resource.strategy
    rules = request.update or strategy.update
    if is_unchanged and not (rules.compares_old is not None and rules.compares_old()):
        # What is stored and stays as it is has been checked.
        return Findings((), _warnings(strategy, rules, new, old))
    meta, old_meta = new["metadata"], old["metadata"]
    own = Findings(rules.validate(new, old))
    if rules.validate_write is not None:
        own = Findings([*own.errors, *rules.validate_write(WriteContext(request.user, now), new, old)])
    if rules.expressions is not None:
        own = rules.expressions(new, old, own.errors, is_bounded)
    errors: Sequence[FieldError] = [
        *_of_changed_metadata(meta, old_meta, resource, rules),
        *own.errors,
        *(strategy.validate(new) if rules.checks_object else ()),
    ]
    if request.update is None and strategy.validate_ratcheting is not no_ratcheting_errors:
        errors = [*errors, *strategy.validate_ratcheting(new, old)]
    if strategy.declared is not None:
        errors = strategy.declared(errors, new, old)
    if errors:
        return Findings(errors)
    return Findings((), [*_warnings(strategy, rules, new, old), *own.warnings])


def _warnings(strategy: Strategy, rules: UpdateStrategy, new: Document, old: Document) -> list[str]:
    if rules.checks_object:
        return [] if strategy.warn is no_warnings else strategy.warn(new, old)
    return [] if rules.warn is None else rules.warn(new, old)


def _require_expected(
    resource: ServedResource, meta: Document, old_meta: Document, *, checks_uid: bool
) -> None:
    """Require that the stored object is the one that the client expects."""
    name, expected, stored = old_meta["name"], meta.get("resourceVersion"), old_meta["resourceVersion"]
    if expected and expected != stored:
        revision = required_revision(expected)
        if revision and revision != int(stored):
            raise Conflict(resource.group_resource, name)
        expected = str(revision or "")  # 0 is how Kubernetes reads a version that is not given.
    if not expected and not resource.strategy.allows_unconditional_update:
        # Kubernetes names the resource where it names the kind otherwise.
        problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise Invalid(GroupKind(*resource.group_resource), name, [problem])
    if checks_uid and meta.get("uid") and meta["uid"] != old_meta["uid"]:
        raise Conflict(
            resource.group_resource,
            name,
            f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {old_meta['uid']}",
        )


def required_revision(text: str) -> int:
    """Returns the revision that an update replaces, 0 for any; invalid text is no conflict (row J11).

    Raises BadRequest.
    """
    try:
        return parse_resource_version(text)
    except InvalidResourceVersion as error:
        reason = strconv_error("ParseUint", error.text, error.problem)
        raise BadRequest(
            f"invalid resource version: metadata.resourceVersion: Invalid value: {quote(text)}: {reason}"
        ) from None


# ---- both


def _is_version(text: str) -> bool:
    """Returns whether a new object has a resourceVersion; invalid text is dropped, as in Kubernetes."""
    try:
        return parse_resource_version(text) > 0
    except InvalidResourceVersion:
        return False


def own(
    proposed: ProposedObject, new: Document, old: Document | None, manage_fields: ManageFields | None
) -> None:
    """Record the owners of the fields in a document, as it was sent. old: None for a new object.

    manage_fields: see `WriteRequest`.
    Fields that admission, the strategy and the allocators set later have no owners.
    Raises BadRequest, ConversionsNeeded.
    """
    meta = new["metadata"]
    sent = meta.pop("managedFields", None)
    if proposed.managed_fields is not None:
        entries: Sequence[Document] | None = proposed.managed_fields
    elif manage_fields is not None:
        # The sender of an empty list owns it, though it is stored as null.
        for struct, name in proposed.emptied:
            struct[name] = []
        try:
            entries = manage_fields(new, old, sent)
        except ConversionsNeeded:
            if sent is not None:
                meta["managedFields"] = sent  # All begins again.
            raise
        for struct, name in proposed.emptied:
            struct[name] = None
    elif old is not None:
        entries = old["metadata"].get("managedFields", sent)
    else:
        entries = None
    if entries:
        meta["managedFields"] = entries


def check_mutated(request: WriteRequest, new: Document, old: Document | None) -> None:
    """Require that admission has not moved an object, and set its namespace if that is missing.

    Raises BadRequest, MutatedVersion.
    """
    meta = new["metadata"]
    if not request.resource.is_namespaced:
        meta.pop("namespace", None)
    elif not meta.get("namespace"):
        meta["namespace"] = request.namespace
    elif meta["namespace"] != request.namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    version = meta.get("resourceVersion") if old is None else None
    if version and _is_version(version) and not request.options.dry_run:
        raise MutatedVersion("resourceVersion should not be set on objects to be created")


def refusal_of(
    request: WriteRequest, old: Document | None, now: str, is_bounded: bool, new: Document
) -> ApiError | None:
    """Returns the error for which an object would be refused after admission has mutated it, if there is one.

    Runs the stages up to validation, which change the object. Plugins are not asked. Raises TakesLong if
    `is_bounded`.
    """
    meta = new["metadata"]
    try:
        check_mutated(request, new, old)
        if old is None:
            object_meta.prepare_create(meta, uid=_SOME_UID, now=now, generated_suffix=lambda: _SOME_SUFFIX)
            prepare_create(request, new, now)
            findings = validate_create(request, new, is_bounded)
        else:
            is_unchanged = prepare_update(request, new, old, now)
            findings = validate_update(request, new, old, now, is_unchanged, is_bounded)
        accepted(request.resource, meta.get("name", ""), (), findings)
    except ApiError as refused:
        return refused
    return None


# The uid, and the suffix of the name, of an object that is only validated.
_SOME_UID: Final = "00000000-0000-4000-8000-000000000000"
_SOME_SUFFIX: Final = names.GENERATED_ALPHABET[0] * names.GENERATED_SUFFIX_LENGTH


def _is_unchanged(new: Document, old: Document) -> bool:
    """Returns whether two documents differ only in times in managedFields, and gives the new one the old
    times.

    Owners are recorded before the strategy runs, which may have undone the client's change.
    Source: k8s.io/apiserver, IgnoreManagedFieldsTimestampsTransformer.
    """
    meta = new["metadata"]
    entries, before = meta.get("managedFields"), old["metadata"].get("managedFields")
    if not entries or not before or len(entries) != len(before):
        return is_same(new, old)
    meta["managedFields"] = before
    if is_same(new, old):
        # The order of entries depends on their times.
        timeless = [_without_time(entry) for entry in before]
        if all(_without_time(entry) in timeless for entry in entries):
            return True
    meta["managedFields"] = entries
    return False


def _without_time(entry: Document) -> Document:
    return {field: value for field, value in entry.items() if field != "time"}


def check_owners(document: Document, before: Any) -> Sequence[str]:
    """Restore owners that admission has made invalid. before: the managedFields before admission.

    Returns warnings. Source: k8s.io/apiserver, fieldmanager/admission.go.
    """
    meta = document["metadata"]
    entries = meta.get("managedFields")
    if not entries:
        meta.pop("managedFields", None)
        return ()
    try:
        managed_fields.decode(entries, is_own=False)
    except InvalidFieldSet as error:
        if before:
            meta["managedFields"] = before
        else:
            del meta["managedFields"]
        return [f"{_INVALID_OWNERS}: {error}"]
    return ()


_INVALID_OWNERS: Final = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated "
    "mutating admission controller; please fix your requests"
)


def accepted(
    resource: ServedResource, name: str, errors: Sequence[FieldError], findings: Findings
) -> Sequence[str]:
    """Returns the warnings about a write, unless there are errors. errors: those of admission plugins.

    Raises Invalid.
    """
    if errors or findings.errors:
        raise refusal(resource, name, [*errors, *findings.errors])
    return findings.warnings


def refusal(resource: ServedResource, name: str, errors: Sequence[FieldError]) -> Invalid:
    return Invalid(resource.group_kind, name, errors[:ERRORS_MAX])


def next_generation(meta: Document) -> int:
    generation: int = meta.get("generation", 0)
    return min(generation + 1, GENERATION_MAX)


def _of_metadata(meta: Document, resource: ServedResource) -> list[FieldError]:
    """Returns the errors in metadata."""
    strategy = resource.strategy
    return object_meta.validate(
        meta,
        is_namespaced=resource.is_namespaced,
        name_rule=strategy.name_rule,
        allows_unqualified_finalizers=strategy.allows_unqualified_finalizers,
    )


# Fields of metadata that are checked with it, and once more with each check of a change of it.
_CHECKED_WITH_CHANGES: Final = ("metadata.labels", "metadata.annotations", "metadata.ownerReferences")
# Whether finalizers have a domain is not asked by the generic code.
_FINALIZER: Final = "metadata.finalizers["


def _of_changed_metadata(
    meta: Document, old: Document, resource: ServedResource, rules: UpdateStrategy
) -> list[FieldError]:
    """Returns the errors in changed metadata, each as often as Kubernetes finds it; see `UpdateStrategy`."""
    found, of_change = _of_metadata(meta, resource), object_meta.validate_update(meta, old)
    if not found and not of_change:
        return []
    strict = [error for error in found if error.field.startswith(_FINALIZER)]
    of_object = [error for error in found if not error.field.startswith(_FINALIZER)]
    of_change += [error for error in found if error.field.startswith(_CHECKED_WITH_CHANGES)]
    errors: list[FieldError] = []
    for turn in range(max(rules.object_checks, rules.change_checks)):
        # The first turn is the generic code.
        if turn < rules.object_checks:
            errors += of_object + (strict if turn else [])
        if turn < rules.change_checks:
            errors += of_change + (strict if turn else [])
    return errors


def _differs(new: Document, old: Document, besides: frozenset[str]) -> bool:
    return any(not is_same(new.get(field), old.get(field)) for field in (new.keys() | old.keys()) - besides)


def is_same(new: Any, old: Any) -> bool:
    """Returns whether two values would be stored as the same bytes, except for the order.

    In Python 1, 1.0 and True are equal.
    """
    if new != old:
        return False
    return orjson.dumps(new) == orjson.dumps(old) or _sorted(new) == _sorted(old)


def _sorted(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
