"""Merges the body of a server-side apply into the stored object (rows F08-F15, F24-F29).

Source: k8s.io/apiserver, pkg/endpoints/handlers/patch.go, applyPatcher.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import orjson

from apiserver.admission.chain import SubresourceView
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.bodies import Body
from apiserver.endpoints.handlers.apply_bodies import (
    kind_text,
    parse,
    place_text,
    require_place,
    strict_error,
)
from apiserver.endpoints.handlers.decoding import check_schema, nameless, require_storable
from apiserver.endpoints.handlers.write_requests import as_new, proposed_object_of
from apiserver.meta.errors import ApiError, ApplyConflict, BadRequest, Conflict, UnmergeablePatch
from apiserver.meta.options import WriteOptions
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_managers import FieldManagers
from apiserver.registry.patch.apply import last_applied, managed_fields
from apiserver.registry.patch.apply.field_set import LEAF, FieldSet
from apiserver.registry.patch.apply.managed_fields import APPLY, FieldManager
from apiserver.registry.patch.apply.typed_value import (
    DocumentTooDeep,
    SchemaMismatch,
    UnknownField,
    problems_text,
    prune_unknown,
    to_field_set,
)
from apiserver.registry.patch.apply.updater import ApplyResult, FieldConflicts, Updater
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject, TooDeep
from apiserver.registry.write_request import ProposedObject
from apiserver.schema.compile import TypeMismatch

# How many objects are known to be left as they are by applies, and how many applies of each.
NOOP_OBJECTS_MAX: Final = 20_000
NOOP_DIGESTS_MAX: Final = 8


class UndeclaredFields(ApiError):
    """An apply names fields that its type does not have, and `--strict-kube-compat` is set."""

    code, reason = 500, ""


class ApplyConversion(NamedTuple):
    """The conversion of an applied body of another kind, as a scale, to an object of the resource.

    view: returns an object of the resource as one of the body's kind, for admission.
    to_object: returns the same configuration as a document of the resource.
    complete: sets, in a merged object, the fields that no body of the kind can remove; gets the old object,
        too.
    check_object: raises for a merged object that must not be stored.
    """

    view: SubresourceView
    to_object: Callable[[Document], Document]
    complete: Callable[[Document, Document], object]
    check_object: Callable[[Document], object]

    @property
    def kind(self) -> ServedResource:
        """The kind of the body."""
        return self.view.kind


class NoopApplies:
    """Remembers which applies leave which version of an object unchanged.

    Controllers apply the same body in every reconciliation. An apply is identified by the digest of its body
    and everything else that its result depends on.
    """

    def __init__(self) -> None:
        # With the resource's cache key: a body may mean something else under another schema.
        self._digests: WeakKeyDictionary[StoredObject, set[tuple[object, bytes]]] = WeakKeyDictionary()

    def of(self, current: StoredObject) -> Collection[tuple[object, bytes]]:
        """Returns the known digests, each with the cache key of its resource."""
        return self._digests.get(current, ()) if self._digests else ()

    def add(self, current: StoredObject, resource: ServedResource, digest: bytes) -> None:
        if len(self._digests) >= NOOP_OBJECTS_MAX:
            self._digests.clear()
        digests = self._digests.setdefault(current, set())
        if len(digests) >= NOOP_DIGESTS_MAX:
            digests.clear()
        digests.add((resource.cache_key, digest))


class _AppliedConfiguration(NamedTuple):
    """The fields that the sender of an apply specifies, and their values.

    fields: the set of them. mismatch: the error where the document does not match the schema, else empty.
    has_name: the body names the object; else it takes the name of the one that it is merged into.
    """

    document: Document
    fields: FieldSet
    mismatch: str
    warnings: Sequence[str]
    has_name: bool


class ApplyPatcher:
    """A server-side apply: merges its body into the current object, or creates a new object from it.

    view: the object as admission sees it; None if admission sees the object itself.
    """

    def __init__(
        self,
        call: ApiCall,
        body: Body,
        options: WriteOptions,
        field_managers: FieldManagers,
        noop_applies: NoopApplies,
        conversion: ApplyConversion | None,
    ) -> None:
        resource, info = call.resource, call.info
        self._resource, self._info, self._options = resource, info, options
        self._body, self._conversion = body, conversion
        self.view = conversion.view if conversion is not None else None
        self._version = field_managers.version_to_write(resource, info.subresource, is_apply=True)
        # What the body is checked against.
        self._type_def = self._version.type_def
        if conversion is not None:
            self._type_def = field_managers.version(conversion.kind, "").type_def
        self._manager = FieldManager(options.field_manager, APPLY, resource.api_version, info.subresource)
        self._drops_unknown_fields = field_managers.drops_unknown_fields
        self._updater = Updater(self._version, self._manager, field_managers.now(info.subresource))
        self._noop_applies = noop_applies
        # The object as it is, if the last merge has left it so.
        self._left_alone: StoredObject | None = None

    @cached_property
    def _digest(self) -> bytes:
        """The digest of the body and of everything else that the result of the apply depends on."""
        options = self._options
        head = orjson.dumps(
            [
                self._body.media_type,
                *self._manager,
                bool(options.force),
                options.field_validation,
            ]
        )
        return hashlib.sha256(b"%b\n%b" % (head, self._body.data), usedforsecurity=False).digest()

    @cached_property
    def configuration(self) -> _AppliedConfiguration:
        """The configuration in the body, parsed when it is needed, which for a known no-op is never.

        The caller reports its warnings, whether the apply succeeds or fails. A known no-op has none.
        Raises BadRequest.
        """
        info, is_checked = self._info, self._options.field_validation != "Ignore"
        document, duplicates, _ = parse(self._body.data, self._body.media_type, is_checked=is_checked)
        kind = self._conversion.kind if self._conversion is not None else self._resource
        has_name = require_place(document, kind, self._resource, info)
        found = self._configuration(document, duplicates, has_name=has_name)
        if self._conversion is None:
            return found
        if found.mismatch:
            raise UnmergeablePatch(found.mismatch)
        converted = self._conversion.to_object(document)
        return found._replace(document=converted, fields=to_field_set(converted, self._version.type_def))

    def _configuration(
        self, document: Document, duplicates: Sequence[str], *, has_name: bool
    ) -> _AppliedConfiguration:
        """Remove unknown fields from a document, as field validation allows.

        duplicates: warnings about fields that the body has more than once. has_name: see
            `_AppliedConfiguration`.
        Raises BadRequest, UndeclaredFields.
        """
        fields, mismatch = LEAF, ""
        unknown: Sequence[UnknownField] = ()
        try:
            try:
                fields = to_field_set(document, self._type_def)
            except SchemaMismatch:
                # A field is unknown or a type is wrong. Unknown fields are reported first, wrong types later.
                unknown = prune_unknown(document, self._type_def)
                try:
                    fields = to_field_set(document, self._type_def)
                except SchemaMismatch as error:
                    mismatch = self._untyped(document, f"{error}")
        except DocumentTooDeep as error:
            raise BadRequest(str(error)) from None
        if unknown and not self._drops_unknown_fields:
            raise UndeclaredFields(self._untyped(document, problems_text(unknown)))
        warnings: Sequence[str] = ()
        match self._options.field_validation:
            case "Strict" if unknown or duplicates:
                errors = [self._untyped(document, problems_text(unknown))] if unknown else []
                errors += [strict_error(duplicates)] if duplicates else []
                raise BadRequest(", ".join(errors))
            case "Warn" if unknown or duplicates:
                warnings = [*duplicates, *(f'unknown field "{each.plain_path}"' for each in unknown)]
        return _AppliedConfiguration(document, fields, mismatch, warnings, has_name)

    def is_noop(self, current: StoredObject | None) -> bool:
        """Returns whether the apply is known to leave this version of the object unchanged."""
        known = self._noop_applies.of(current) if current is not None else ()
        return bool(known) and (self._resource.cache_key, self._digest) in known

    def remember_noop(self, current: StoredObject, *, may_be_mutated: bool) -> None:
        """Remember that the apply has left this version of the object unchanged, if it would do so again.

        may_be_mutated: whether admission may mutate it. A change that admission reverted now it may not
        revert the next time, so only a merge that changes nothing counts. All other stages are deterministic.
        """
        is_alone = self._left_alone is not None and self._left_alone.tail == current.tail
        will_recur = is_alone or not may_be_mutated
        if will_recur and not self.is_noop(current) and not self.configuration.warnings:
            self._noop_applies.add(current, self._resource, self._digest)

    def apply_to_current(self, current: StoredObject) -> ProposedObject:
        """Returns the current object with the body merged into it.

        Raises BadRequest, ApplyConflict, UnmergeablePatch, RequestEntityTooLarge.
        """
        live = current.document()
        before = live["metadata"].get("managedFields", [])
        self._left_alone = None
        if self.is_noop(current):
            return ProposedObject(live, managed_fields=before)
        merged = self._merge(live)
        if merged.document is live and self._is_last_applied(live):
            owners = managed_fields.encode(merged.managed)
            if owners == before:
                self._left_alone = current
            # It has passed the schema already.
            return ProposedObject(live, managed_fields=owners)
        return self._checked(merged, live)

    def create_new_object(self) -> ProposedObject:
        """Returns a new object made from the body.

        Raises as `apply_to_current`; Conflict if the body has a uid.

        The body has to have a name, as there is no object to take it from.
        """
        if not self.configuration.has_name:
            raise nameless(self._info.name)
        proposed = as_new(self._checked(self._merge(None), None))
        if uid := proposed.document["metadata"].get("uid"):
            raise Conflict(
                self._resource.group_resource,
                self._info.name,
                f"uid mismatch: the provided object specified uid {uid}, and no existing object was found",
            )
        return proposed

    def _merge(self, live: Document | None) -> ApplyResult:
        """live: the current object; None for a new one."""
        managed = managed_fields.decode_stored(live) if live is not None else {}
        try:
            document, fields, mismatch, *_ = self.configuration
            if mismatch:
                raise UnmergeablePatch(mismatch)
            try:
                return self._updater.apply(
                    live, document, managed, force=bool(self._options.force), applied_fields=fields
                )
            except FieldConflicts:
                allowed = self._allowed_conflicts(live)
                if not allowed:
                    raise
                return self._updater.apply(
                    live, document, managed, applied_fields=fields, allowed_conflicts=allowed
                )
        except FieldConflicts as conflict:
            causes = [
                {
                    "reason": "FieldManagerConflict",
                    "message": f"conflict with {manager.describe()}",
                    "field": path,
                }
                for manager, path in conflict.conflicts
            ]
            raise ApplyConflict(conflict.text(), causes) from None
        except DocumentTooDeep as error:
            raise BadRequest(str(error)) from None

    def _allowed_conflicts(self, live: Document | None) -> FieldSet:
        """Returns the fields that client-side apply has set for this applier, which are no conflicts."""
        text = None if live is None else last_applied.annotation_of(live, self._manager.name)
        return last_applied.allowed_conflicts(live, text, self._version) if live and text else LEAF

    def _is_last_applied(self, live: Document) -> bool:
        """Returns whether the last-applied annotation, if there is one, equals the configuration applied
        now.
        """
        text = last_applied.annotation_of(live, self._manager.name)
        return text is None or text == last_applied.annotation_for(self.configuration.document)

    def _checked(self, merged: ApplyResult, live: Document | None) -> ProposedObject:
        """Returns the merged object, which has passed the schema, as a proposed object.

        live: the object before, if any.
        """
        try:
            # The merged document shares parts with the applied one, which another attempt needs unchanged.
            document: Document = orjson.loads(orjson.dumps(merged.document))
        except TypeError:
            raise TooDeep from None
        if last_applied.annotation_of(document, self._manager.name) is not None:
            last_applied.set_annotation(document, self.configuration.document)
        if self._conversion is not None and live is not None:
            self._conversion.complete(document, live)
        resource = self._resource
        try:
            check_schema(document, resource, "Ignore", is_merged=True)
        except TypeMismatch as mismatch:
            raise UnmergeablePatch(
                f"failed to convert the merged object ({_subject(self.configuration.document)}): {mismatch}"
            ) from None
        require_storable(document, resource)
        if self._conversion is not None:
            self._conversion.check_object(document)
        return proposed_object_of(document, managed_fields=managed_fields.encode(merged.managed))

    @staticmethod
    def _untyped(document: Document, why: str) -> str:
        return f"failed to create typed patch object ({_subject(document)}): {why}"


def _subject(document: Document) -> str:
    return f"{place_text(document)}; {kind_text(document)}"
