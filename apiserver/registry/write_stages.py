"""The stages that a document goes through before it is stored. Pure.

`write_path` calls them in their order, and decides where each runs.

Source: k8s.io/apiserver, pkg/registry/rest/{create,update}.go. Rows B01-B15, I13, J11, L01, L02.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from apiserver.errors import BadRequest, Conflict, Invalid
from apiserver.field_errors import FieldError, invalid, quote
from apiserver.golang.quoting import strconv_error
from apiserver.meta import object_meta
from apiserver.registry.findings import Findings
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.strategy import WriteContext
from apiserver.registry.write_request import Draft, WriteRequest
from apiserver.vocabulary import Document, GroupKind
from storage.resource_version import InvalidResourceVersion, parse_resource_version

GENERATION_MAX: Final = (1 << 63) - 1
# Nobody reads more, and a body may have a million things wrong.
ERRORS_MAX: Final = 1_000

# ---- a new object


def place(request: WriteRequest, document: Document) -> None:
    """Put a new document where it is to be. Raises Invalid."""
    meta = document["metadata"]
    version = meta.pop("resourceVersion", "")
    if version not in ("", "0"):
        # Row B14; kube-apiserver answers 500 here.
        problem = invalid("metadata.resourceVersion", version, "must not be set on objects to be created")
        raise refusal(request.resource, meta.get("name", ""), [problem])
    if request.resource.is_namespaced:
        meta["namespace"] = request.namespace
    else:
        meta.pop("namespace", None)


def prepare_create(request: WriteRequest, draft: Draft, document: Document, now: str) -> None:
    """Make a new document, which has its identity, what will be stored. now: as documents have it."""
    strategy = request.resource.strategy
    if strategy.has_generation:
        document["metadata"]["generation"] = 1
    strategy.prepare_create(document)
    if strategy.stamp_create is not None:
        strategy.stamp_create(WriteContext(request.user, now), document)
    _manage_fields(request, draft, document, None, None)


def validate_create(request: WriteRequest, document: Document, is_bounded: bool) -> Findings:
    """Returns what is wrong with a new document, or what its client should know. Raises TakesLong."""
    resource, strategy = request.resource, request.resource.strategy
    own = Findings(strategy.validate_create(document))
    if strategy.expressions is not None:
        own = strategy.expressions(document, None, own.errors, is_bounded)
    errors = [*_of_metadata(document["metadata"], resource), *own.errors, *strategy.validate(document)]
    if errors:
        return Findings(errors)
    return Findings((), [*strategy.warn(document, None), *own.warnings])


# ---- a change


def prepare_update(request: WriteRequest, draft: Draft, new: Document, old: Document, now: str) -> bool:
    """Make `new` what will be stored in place of `old`. now: as documents have it.

    Returns whether that is what is stored already. Raises Conflict, Invalid, BadRequest.
    """
    resource, rules = request.resource, request.update or request.resource.strategy.update
    meta, old_meta = new["metadata"], old["metadata"]
    _require_expected(resource, meta, old_meta, checks_uid=request.checks_uid)
    # Who names no version means the one that there is.
    meta["resourceVersion"] = old_meta["resourceVersion"]
    if resource.is_namespaced:
        meta["namespace"] = meta.get("namespace") or old_meta["namespace"]
    else:
        meta.pop("namespace", None)
    sent_managed_fields = meta.get("managedFields")
    object_meta.prepare_update(meta, old_meta)
    rules.prepare(new, old)
    if rules.stamp is not None:
        rules.stamp(WriteContext(request.user, now), new, old)
    _manage_fields(request, draft, new, old, sent_managed_fields)
    strategy = resource.strategy
    if (
        strategy.has_generation
        and rules.raises_generation
        and _differs(new, old, strategy.generation_ignores)
    ):
        meta["generation"] = next_generation(old_meta)
    return is_same(new, old)


def validate_update(
    request: WriteRequest, new: Document, old: Document, is_unchanged: bool, is_bounded: bool
) -> Findings:
    """Returns what is wrong with a change, or what its client should know. Raises TakesLong."""
    resource, strategy = request.resource, request.resource.strategy
    if is_unchanged:
        # What is stored and stays as it is has been checked.
        return Findings((), strategy.warn(new, old))
    rules = request.update or strategy.update
    meta, old_meta = new["metadata"], old["metadata"]
    own = Findings(rules.validate(new, old))
    if rules.expressions is not None:
        own = rules.expressions(new, old, own.errors, is_bounded)
    errors = [
        *object_meta.validate_update(meta, old_meta) * rules.change_checks,
        *_of_metadata(meta, resource) * rules.object_checks,
        *own.errors,
        *strategy.validate(new),
    ]
    if errors:
        return Findings(errors)
    return Findings((), [*strategy.warn(new, old), *own.warnings])


def _require_expected(
    resource: ServedResource, meta: Document, old_meta: Document, *, checks_uid: bool
) -> None:
    """Is the stored object the one that the client has in mind?"""
    name, expected = old_meta["name"], meta.get("resourceVersion")
    if expected and expected != old_meta["resourceVersion"]:
        _require_revision(expected)
        raise Conflict(resource.group_resource, name)
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


def _require_revision(text: str) -> None:
    """Row J11: what is no version is no conflict, either."""
    try:
        parse_resource_version(text)
    except InvalidResourceVersion as error:
        reason = strconv_error("ParseUint", error.text, error.problem)
        raise BadRequest(
            f"invalid resource version: metadata.resourceVersion: Invalid value: {quote(text)}: {reason}"
        ) from None


# ---- both


def _manage_fields(
    request: WriteRequest, draft: Draft, new: Document, old: Document | None, sent: Any
) -> None:
    """Write into a new object who owns which of its fields. sent: the managedFields that the client sent."""
    meta = new["metadata"]
    if draft.managed_fields is not None:
        entries: Sequence[Document] | None = draft.managed_fields
    elif request.manage_fields is not None:
        entries = request.manage_fields(new, old, sent)
    elif old is not None:
        entries = old["metadata"].get("managedFields", meta.get("managedFields"))
    else:
        return
    if entries:
        meta["managedFields"] = entries
    else:
        meta.pop("managedFields", None)


def refusal(resource: ServedResource, name: str, errors: Sequence[FieldError]) -> Invalid:
    return Invalid(resource.group_kind, name, errors[:ERRORS_MAX])


def next_generation(meta: Document) -> int:
    generation: int = meta.get("generation", 0)
    return min(generation + 1, GENERATION_MAX)


def _of_metadata(meta: Document, resource: ServedResource) -> list[FieldError]:
    """What is wrong with metadata."""
    strategy = resource.strategy
    return object_meta.validate(
        meta,
        is_namespaced=resource.is_namespaced,
        name_rule=strategy.name_rule,
        allows_unqualified_finalizers=strategy.allows_unqualified_finalizers,
    )


def _differs(new: Document, old: Document, besides: frozenset[str]) -> bool:
    return any(not is_same(new.get(field), old.get(field)) for field in (new.keys() | old.keys()) - besides)


def is_same(new: Any, old: Any) -> bool:
    """Would they be stored as the same, in whatever order? Python takes 1, 1.0 and true for the same."""
    if new != old:
        return False
    return orjson.dumps(new) == orjson.dumps(old) or _sorted(new) == _sorted(old)


def _sorted(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
