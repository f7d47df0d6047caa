"""One apply: its body merged into the object as it is found. Rows F08-F15, F24-F29."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from apiserver.apply import last_applied
from apiserver.apply import updater as owning
from apiserver.apply.field_set import LEAF, FieldSet
from apiserver.apply.typed_value import SchemaMismatch, TooDeep, prune_unknown, stated
from apiserver.apply.updater import APPLY, Applied, FieldManager
from apiserver.endpoints.api_call import Call
from apiserver.errors import ApplyConflict, BadRequest, Conflict, UnmergeablePatch
from apiserver.handlers.apply_bodies import kind_text, parse, place_text, require_place
from apiserver.handlers.create import warn_of_duplicate_owners
from apiserver.handlers.decoding import check, require_size
from apiserver.handlers.ownership import Ownership
from apiserver.handlers.settled import Settled
from apiserver.meta.options import WriteOptions
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject
from apiserver.schema.compile import TypeMismatch
from apiserver.vocabulary import Document


class Said(NamedTuple):
    """A body as it came.

    speaks: what it is, if not of the resource's kind; part: what that is of the object.
    check_whole: what has to be so of the object as a whole.
    """

    body: bytes
    content_type: str
    speaks: ServedResource
    part: Callable[[Document], Document] | None
    check_object: Callable[[Document], object] | None


class ApplyWrite:
    """One apply: what is wanted, and what has become of it at the last attempt."""

    def __init__(
        self,
        call: Call,
        resource: ServedResource,
        ownership: Ownership,
        options: WriteOptions,
        said: Said,
        settled: Settled,
    ) -> None:
        self._call, self._resource, self._options = call, resource, options
        self._version = ownership.version(resource, call.info.subresource)
        self._manager = FieldManager(
            options.field_manager, APPLY, resource.api_version, call.info.subresource
        )
        self._now = ownership.now(call)
        self._said, self._settled = said, settled
        self._digest = _digest(said, self._manager, options)
        self._current: StoredObject | None = None
        self._wanted: Document | None = None
        self._to_field_set: FieldSet | None = None
        self._has_warned = False
        self._entries: list[Document] = []

    @property
    def wanted(self) -> Document:
        """Read when it is needed; raises as `read` does."""
        if self._wanted is None:
            self.read()
        assert self._wanted is not None
        return self._wanted

    def read(self) -> None:
        """Raises BadRequest."""
        body, content_type, speaks, part, _ = self._said
        warnings: list[str] = []
        document = parse(body, content_type, self._options.field_validation, warnings)
        require_place(document, speaks, self._call.info.name, self._call.info.namespace)
        self._wanted = part(document) if part is not None else document
        warnings += self._prune(self._wanted)
        self._call.warnings += warnings
        self._has_warned = bool(warnings)

    def is_settled(self, current: StoredObject | None) -> bool:
        """Is it known to change nothing of this version of the object?"""
        return current is not None and self._settled.knows(current, self._resource, self._digest)

    def remember(self, updated: StoredObject) -> None:
        """The apply has left the object as `updated`: perhaps as it was."""
        if updated is self._current and not self._has_warned:
            self._settled.remember(updated, self._resource, self._digest)

    def _prune(self, wanted: Document) -> list[str]:
        """Take out what the schema does not have. Returns what is to be said of it.

        Raises BadRequest if it is not allowed.
        """
        unknown: list[str] = []
        try:
            try:
                self._to_field_set = stated(wanted, self._version.shape)
            except SchemaMismatch:
                # An unknown field, or what does not fit: which is told when what is unknown has been.
                unknown = prune_unknown(wanted, self._version.shape)
        except TooDeep as error:
            raise BadRequest(str(error)) from None
        problems = [f'unknown field "{path}"' for path in unknown]
        if problems and self._options.field_validation == "Strict":
            raise BadRequest(f"strict decoding error: {', '.join(problems)}")
        return problems if self._options.field_validation == "Warn" else []

    def onto(self, current: StoredObject) -> Document:
        """The object with what is wanted in it."""
        self._current = current
        live = current.document()
        if self.is_settled(current):
            self._entries = live["metadata"].get("managedFields", [])
            return live
        applied = self._applied(live, live)
        if applied.document is live and self._is_last_applied(live):
            # It has passed the schema already.
            self._entries = owning.write(applied.owners)
            return live
        return self._completed(applied)

    def anew(self) -> Document:
        """A new object. Raises Conflict if a certain one is wanted."""
        document = self._completed(self._applied(None, {}))
        if uid := document["metadata"].get("uid"):
            raise Conflict(
                self._resource.group_resource,
                self._call.info.name,
                f"uid mismatch: the provided object specified uid {uid}, and no existing object was found",
            )
        return document

    def track(self, new: Document, old: Document | None, said: Any) -> None:
        """The owners are known since what is wanted was merged."""
        new["metadata"].pop("managedFields", None)
        if self._entries:
            new["metadata"]["managedFields"] = self._entries

    def _applied(self, live: Document | None, source: Document) -> Applied:
        owners = owning.decode_stored(source) if source else {}
        try:
            arguments = (live, self.wanted, owners, self._manager, self._version, self._now)
            try:
                return owning.apply(*arguments, force=bool(self._options.force), wanted=self._to_field_set)
            except owning.ApplyConflict:
                allowed_conflicts = self._allowed_conflicts(live)
                if not allowed_conflicts:
                    raise
                return owning.apply(
                    *arguments, wanted=self._to_field_set, allowed_conflicts=allowed_conflicts
                )
        except owning.ApplyConflict as conflict:
            causes = [
                {
                    "reason": "FieldManagerConflict",
                    "message": f"conflict with {manager.shown()}",
                    "field": path,
                }
                for manager, path in conflict.collisions
            ]
            raise ApplyConflict(conflict.text(), causes) from None
        except SchemaMismatch as error:
            raise UnmergeablePatch(
                f"failed to create typed patch object ({self._subject()}): {error}"
            ) from None
        except TooDeep as error:
            raise BadRequest(str(error)) from None

    def _allowed_conflicts(self, live: Document | None) -> FieldSet:
        """What is no conflict, since the same applier has set it without the server's knowing."""
        text = None if live is None else last_applied.text_of(live, self._manager.name)
        return last_applied.allowed_conflicts(live, text, self._version) if live and text else LEAF

    def _is_last_applied(self, live: Document) -> bool:
        """Would the next client-side apply find what is wanted now?"""
        text = last_applied.text_of(live, self._manager.name)
        return text is None or text == last_applied.annotation_for(self.wanted)

    def _completed(self, applied: Applied) -> Document:
        """A document of its own that has passed the schema."""
        self._entries = owning.write(applied.owners)
        try:
            # What is merged shares parts with what is wanted, which another attempt needs as it is.
            document: Document = orjson.loads(orjson.dumps(applied.document))
        except TypeError:
            raise BadRequest("the object is nested too deeply") from None
        if last_applied.text_of(document, self._manager.name) is not None:
            last_applied.set_annotation(document, self.wanted)
        resource = self._resource
        try:
            check(document, resource, field_validation="Ignore", warnings=[])
        except TypeMismatch as mismatch:
            raise UnmergeablePatch(
                f"failed to convert the merged object ({self._subject()}): {mismatch}"
            ) from None
        require_size(document)
        if self._said.check_object is not None:
            self._said.check_object(document)
        warn_of_duplicate_owners(self._call, document)
        return document

    def _subject(self) -> str:
        return f"{place_text(self.wanted)}; {kind_text(self.wanted)}"


def _digest(said: Said, manager: FieldManager, options: WriteOptions) -> bytes:
    """Of everything that an apply says."""
    head = orjson.dumps([said.content_type, *manager, bool(options.force), options.field_validation])
    return hashlib.sha256(b"%b\n%b" % (head, said.body), usedforsecurity=False).digest()
