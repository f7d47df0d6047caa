"""What becomes of a document before it is stored: the server's fields, its resource's rules, what is wrong.

Pure.

Source: k8s.io/apiserver, pkg/registry/rest/{create,update}.go. Rows B01-B15, I13, J11, L01, L02.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

import orjson

from apiserver.errors import BadRequest, Conflict, Invalid
from apiserver.field_errors import FieldError, invalid, quote
from apiserver.meta import object_meta
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.strategy import UpdateStrategy, WriteContext
from apiserver.vocabulary import Document, GroupKind, UserInfo
from storage.resource_version import InvalidResourceVersion, parse_resource_version

GENERATION_MAX: Final = (1 << 63) - 1
# Nobody reads more, and a body may have a million things wrong.
ERRORS_MAX: Final = 1_000

# The stored form of an object as it would be, and as it is (None for a new one): the last word about a write.
Admit = Callable[[Document, Document | None], Awaitable[None]]
# (new, old, the managedFields that the client sent): writes into the stored form of an object as it would be
# who owns what of it. `old` is None for a new object.
Track = Callable[[Document, Document | None, Any], None]


class Writer(NamedTuple):
    """Who writes, and who else has a say.

    user: who writes; None for the server itself.
    mutate, admit: asked before and after the resource's own rules, at each attempt; the first may change the
        new document.
    track: asked at each attempt when the object is as it will be stored; without it owners stay, and nobody
        owns anything of a new object.
    is_large: others need not wait while the new document is made and checked; as they need not where the
        stored object is large.
    """

    user: UserInfo | None
    mutate: Admit | None
    admit: Admit | None
    track: Track | None
    is_large: bool


# ---- a new object


def place(resource: ServedResource, namespace: str, document: Document) -> None:
    """Put a new document where it is to be. Raises Invalid."""
    meta = document["metadata"]
    version = meta.pop("resourceVersion", "")
    if version not in ("", "0"):
        # Row B14; kube-apiserver answers 500 here.
        problem = invalid("metadata.resourceVersion", version, "must not be set on objects to be created")
        raise refusal(resource, meta.get("name", ""), [problem])
    if resource.is_namespaced:
        meta["namespace"] = namespace
    else:
        meta.pop("namespace", None)


def prepare_create(resource: ServedResource, document: Document, writer: Writer, now: str) -> None:
    """Make a new document, which has its identity, what will be stored. now: as documents have it."""
    strategy = resource.strategy
    if strategy.has_generation:
        document["metadata"]["generation"] = 1
    strategy.prepare_create(document)
    if strategy.stamp_create is not None:
        strategy.stamp_create(WriteContext(writer.user, now), document)
    if writer.track is not None:
        writer.track(document, None, None)


def check_create(resource: ServedResource, document: Document) -> None:
    """Raises Invalid, and TakesLong."""
    strategy, meta = resource.strategy, document["metadata"]
    errors = _of_metadata(meta, resource)
    errors += strategy.validate_create(document) + strategy.validate(document)
    if errors:
        raise refusal(resource, meta.get("name", ""), errors)


# ---- a change


def prepare_update(
    resource: ServedResource,
    rules: UpdateStrategy,
    new: Document,
    old: Document,
    writer: Writer,
    now: str,
    *,
    checks_uid: bool,
) -> bool:
    """Make `new` what will be stored in place of `old`. now: as documents have it.

    checks_uid: the new document's uid is a precondition rather than a change (PUT).
    Returns whether it is for sure what is stored already. Raises Conflict, Invalid, BadRequest.
    """
    meta, old_meta = new["metadata"], old["metadata"]
    _require_expected(resource, meta, old_meta, checks_uid=checks_uid)
    if resource.is_namespaced:
        meta["namespace"] = meta.get("namespace") or old_meta["namespace"]
    else:
        meta.pop("namespace", None)
    sent_managed_fields = meta.get("managedFields")
    object_meta.prepare_update(meta, old_meta)
    rules.prepare(new, old)
    if rules.stamp is not None:
        rules.stamp(WriteContext(writer.user, now), new, old)
    if writer.track is not None:
        writer.track(new, old, sent_managed_fields)
    elif "managedFields" in old_meta:
        meta["managedFields"] = old_meta["managedFields"]
    if resource.strategy.has_generation and _differs(new, old, resource.strategy.generation_ignores):
        meta["generation"] = next_generation(old_meta)
    return is_same(new, old)


def check_update(
    resource: ServedResource, rules: UpdateStrategy, new: Document, old: Document, *, is_unchanged: bool
) -> list[str]:
    """What the client should know of a change. Raises Invalid, and TakesLong."""
    if is_unchanged:
        # What is stored and stays as it is has been checked.
        return resource.strategy.warn(new, old)
    meta, old_meta = new["metadata"], old["metadata"]
    changes = object_meta.validate_update(meta, old_meta)
    itself = _of_metadata(meta, resource)
    errors = changes * rules.change_checks + itself * rules.object_checks
    errors += rules.validate(new, old)
    errors += resource.strategy.validate(new)
    if errors:
        raise refusal(resource, old_meta["name"], errors)
    return resource.strategy.warn(new, old)


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
        raise BadRequest(
            f"invalid resource version: metadata.resourceVersion: Invalid value: {quote(text)}: {error}"
        ) from None


# ---- both


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
