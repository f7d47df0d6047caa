"""Server-side apply: a PATCH that says what its sender wants of an object. Rows F04-F15, F24-F29."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import orjson
from aiohttp import hdrs

from apiserver.admission.chain import AdmissionChain, Operation
from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.apply import ownership as owning
from apiserver.apply.documents import TooDeep, Untyped, prune_unknown, stated
from apiserver.apply.field_set import LEAF, FieldSet
from apiserver.apply.ownership import APPLY as APPLY_OPERATION
from apiserver.apply.ownership import Applied, Manager
from apiserver.authz.attributes import AuthorizationChain
from apiserver.brand import Brand
from apiserver.deviations import Deviations
from apiserver.endpoints import bodies
from apiserver.endpoints.bodies import read_body
from apiserver.endpoints.call import Call
from apiserver.endpoints.middleware import attributes_of
from apiserver.endpoints.negotiation import base_type
from apiserver.errors import AlreadyExists, ApplyConflict, BadRequest, Conflict, NotFound, UnmergeablePatch
from apiserver.handlers.create import store_new, warn_of_duplicate_owners, write_of
from apiserver.handlers.decoding import check, require_size
from apiserver.handlers.ownership import Ownership
from apiserver.handlers.update import require_name, update_rules
from apiserver.meta.object_meta import ANNOTATIONS_BYTES_MAX
from apiserver.meta.options import WriteOptions
from apiserver.registry import aside
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.schema.compile import TypeMismatch, json_type
from apiserver.schema.duplicates import duplicate_fields
from apiserver.vocabulary import Document
from apiserver.wire import cbor, yaml

APPLY: Final = "application/apply-patch+yaml"
APPLY_CBOR: Final = "application/apply-patch+cbor"
# An object may come and go while it is applied.
ATTEMPTS_MAX: Final = 5
# What kubectl's client-side apply has applied, for the next time. Server-side apply under kubectl's name, and
# no other, takes over what is in there, and keeps it up.
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL: Final = "kubectl"
# Of how many objects, and for each of how many applies, it is remembered that they change nothing.
SETTLED_OBJECTS_MAX: Final = 20_000
SETTLED_DIGESTS_MAX: Final = 8


class Applier:
    """Applies bodies to objects."""

    def __init__(
        self,
        registry: Registry,
        brand: Brand,
        lifecycle: NamespaceLifecycle,
        admission: AdmissionChain,
        authorization: AuthorizationChain,
        deviations: Deviations,
        ownership: Ownership,
        *,
        has_cbor: bool = False,
    ) -> None:
        self._registry = registry
        self._brand = brand
        self._lifecycle = lifecycle
        self._admission = admission
        self._authorization = authorization
        self._deviations = deviations
        self._ownership = ownership
        self._types = {APPLY, APPLY_CBOR} if has_cbor else {APPLY}
        self._settled = _Settled()

    def is_apply(self, call: Call) -> bool:
        return base_type(call.request.headers.get(hdrs.CONTENT_TYPE, "")) in self._types

    async def apply(
        self,
        call: Call,
        *,
        speaks: ServedResource | None = None,
        part: Callable[[Document], Document] | None = None,
        check_whole: Callable[[Document], object] | None = None,
    ) -> tuple[StoredObject, HTTPStatus]:
        """The object as it is after the apply, and whether it is a new one.

        speaks: what the body is, if it is not of the resource's kind; part: makes of it a part of the object.
        check_whole: raises for an object that must not become so.
        """
        resource, info = call.resource, call.info
        assert resource is not None
        options = WriteOptions.from_query(
            call.query,
            "PatchOptions",
            self._brand.meta_group,
            takes_bare_dry_run=self._deviations.bare_dry_run,
            is_apply=True,
        )
        call.warnings += options.warnings
        body = await read_body(call)
        content_type = base_type(call.request.headers.get(hdrs.CONTENT_TYPE, ""))
        large = len(body) > aside.LARGE_BYTES
        if large:
            resource.compile()
        said = _Said(body, content_type, speaks or resource, part, check_whole)
        write = _Write(call, resource, self._ownership, options, said, self._settled)
        current = self._registry.cache.peek(self._registry.key(resource, info.namespace, info.name))
        if current is None or not write.is_settled(current.value):
            is_slow = large or (len(body) > bodies.YAML_LARGE_BYTES and not _looks_like_json(body))
            await aside.run(is_slow, write.read)
        attempts = 0
        while True:
            attempts += 1
            try:
                updated = await self._update(call, resource, write, options, large)
                write.remember(updated)
                return updated, HTTPStatus.OK
            except NotFound:
                if info.subresource:
                    raise
            self._authorization.require(attributes_of(call, "create"))
            try:
                return await self._create(call, resource, write, options, large), HTTPStatus.CREATED
            except AlreadyExists:
                if attempts == ATTEMPTS_MAX:
                    raise

    async def _update(
        self, call: Call, resource: ServedResource, write: _Write, options: WriteOptions, large: bool
    ) -> StoredObject:
        info = call.info
        asked = self._admission.of(write_of(call, Operation.UPDATE, info.name, is_dry_run=options.dry_run))
        return await self._registry.update(
            resource,
            info.namespace,
            info.name,
            write.onto,
            options,
            strategy=update_rules(resource, info.subresource),
            checks_uid=True,
            user=call.user,
            warnings=call.warnings,
            mutate=asked.mutate if asked else None,
            admit=asked.validate if asked else None,
            track=write.track,
            is_large=large,
        )

    async def _create(
        self, call: Call, resource: ServedResource, write: _Write, options: WriteOptions, large: bool
    ) -> StoredObject:
        document = await aside.run(large, write.anew)
        info = call.info
        call.info = replace(info, verb="create")  # which is what metrics are to call it
        try:
            return await store_new(
                *(self._registry, self._lifecycle, self._admission, call, resource, document, options),
                track=write.track,
                is_large=large,
            )
        except AlreadyExists:
            call.info = info
            raise


class _Settled:
    """What has been applied to a version of an object and changed nothing, and would change nothing again.

    Controllers apply the same body at every turn. It is known by a digest of all that an apply says.
    """

    def __init__(self) -> None:
        # Together with what stands for the resource: with its schema the meaning of a body may change.
        self._digests: WeakKeyDictionary[StoredObject, set[tuple[object, bytes]]] = WeakKeyDictionary()

    def knows(self, current: StoredObject, resource: ServedResource, digest: bytes) -> bool:
        return (resource.token, digest) in self._digests.get(current, ())

    def remember(self, current: StoredObject, resource: ServedResource, digest: bytes) -> None:
        if len(self._digests) >= SETTLED_OBJECTS_MAX:
            self._digests.clear()
        digests = self._digests.setdefault(current, set())
        if len(digests) >= SETTLED_DIGESTS_MAX:
            digests.clear()
        digests.add((resource.token, digest))


class _Said(NamedTuple):
    """A body as it came.

    speaks: what it is, if not of the resource's kind; part: what that is of the object.
    check_whole: what has to be so of the object as a whole.
    """

    body: bytes
    content_type: str
    speaks: ServedResource
    part: Callable[[Document], Document] | None
    check_whole: Callable[[Document], object] | None


class _Write:
    """One apply: what is wanted, and what has become of it at the last attempt."""

    def __init__(
        self,
        call: Call,
        resource: ServedResource,
        ownership: Ownership,
        options: WriteOptions,
        said: _Said,
        settled: _Settled,
    ) -> None:
        self._call, self._resource, self._options = call, resource, options
        self._version = ownership.version(resource, call.info.subresource)
        self._manager = Manager(
            options.field_manager, APPLY_OPERATION, resource.api_version, call.info.subresource
        )
        self._now = ownership.now(call)
        self._said, self._settled = said, settled
        self._digest = _digest(said, self._manager, options)
        self._current: StoredObject | None = None
        self._wanted: Document | None = None
        self._stated: FieldSet | None = None
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
        document = _parsed(body, content_type, speaks, self._options, warnings)
        _require_place(document, speaks, self._call.info.name, self._call.info.namespace)
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
                self._stated = stated(wanted, self._version.shape)
            except Untyped:
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
        if applied.document is live and self._is_remembered(live):
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
        owners = owning.owners_of(source) if source else {}
        try:
            arguments = (live, self.wanted, owners, self._manager, self._version, self._now)
            try:
                return owning.apply(*arguments, force=bool(self._options.force), wanted=self._stated)
            except owning.ApplyConflict:
                taken_over = self._taken_over(live)
                if not taken_over:
                    raise
                return owning.apply(*arguments, wanted=self._stated, taken_over=taken_over)
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
        except Untyped as error:
            raise UnmergeablePatch(
                f"failed to create typed patch object ({_place(self.wanted)}; {_kind(self.wanted)}): {error}"
            ) from None
        except TooDeep as error:
            raise BadRequest(str(error)) from None

    def _last_applied(self, document: Document | None) -> str | None:
        """What a client-side apply has left, if it is kubectl's to take over."""
        if document is None or self._manager.name != KUBECTL:
            return None
        text = ((document.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
        return text if isinstance(text, str) and text else None

    def _taken_over(self, live: Document | None) -> FieldSet:
        """What a client-side apply has set, and is as it was."""
        text = self._last_applied(live)
        if text is None or live is None:
            return LEAF
        try:
            applied = orjson.loads(text)
            if not isinstance(applied, dict) or applied.get("apiVersion") != self._resource.api_version:
                return LEAF
            return owning.still_as_applied(live, applied, self._version)
        except (orjson.JSONDecodeError, Untyped, TooDeep):
            return LEAF

    def _is_remembered(self, live: Document) -> bool:
        """Would the next client-side apply find what is wanted now?"""
        text = self._last_applied(live)
        return text is None or text == self._to_remember()

    def _to_remember(self) -> str:
        """What is wanted, for the next client-side apply."""
        meta = dict(self.wanted["metadata"])
        if isinstance(meta.get("annotations"), dict):
            meta["annotations"] = {k: v for k, v in meta["annotations"].items() if k != LAST_APPLIED}
        text = orjson.dumps({**self.wanted, "metadata": meta}, option=orjson.OPT_SORT_KEYS)
        return text.decode() + "\n"

    def _completed(self, applied: Applied) -> Document:
        """A document of its own that has passed the schema."""
        self._entries = owning.write(applied.owners)
        try:
            # What is merged shares parts with what is wanted, which another attempt needs as it is.
            document: Document = orjson.loads(orjson.dumps(applied.document))
        except TypeError:
            raise BadRequest("the object is nested too deeply") from None
        if self._last_applied(document) is not None:
            annotations = document["metadata"]["annotations"]
            annotations[LAST_APPLIED] = self._to_remember()
            size_bytes = sum(len(f"{key}{value}".encode()) for key, value in annotations.items())
            if size_bytes > ANNOTATIONS_BYTES_MAX:
                del annotations[LAST_APPLIED]
        resource = self._resource
        try:
            check(document, resource, field_validation="Ignore", warnings=[])
        except TypeMismatch as mismatch:
            subject = f"{_place(self.wanted)}; {_kind(self.wanted)}"
            raise UnmergeablePatch(f"failed to convert the merged object ({subject}): {mismatch}") from None
        require_size(document)
        if self._said.check_whole is not None:
            self._said.check_whole(document)
        warn_of_duplicate_owners(self._call, document)
        return document


def _digest(said: _Said, manager: Manager, options: WriteOptions) -> bytes:
    """Of everything that an apply says."""
    head = orjson.dumps([said.content_type, *manager, bool(options.force), options.field_validation])
    return hashlib.sha256(b"%b\n%b" % (head, said.body), usedforsecurity=False).digest()


def _parsed(
    body: bytes, content_type: str, resource: ServedResource, options: WriteOptions, warnings: list[str]
) -> Document:
    """The document in a body. Raises BadRequest."""
    repeated: list[str] = []
    is_checked = options.field_validation != "Ignore"
    try:
        if content_type == APPLY_CBOR:
            document = cbor.load(body)
        else:
            document, repeated = _from_yaml(body, is_checked=is_checked)
    except (yaml.NotYaml, cbor.NotCbor) as error:
        raise BadRequest(f"error decoding YAML: {error}") from None
    if repeated and options.field_validation == "Strict":
        raise BadRequest(f"error strict decoding YAML: error converting YAML to JSON: {', '.join(repeated)}")
    warnings += repeated if is_checked else []
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise BadRequest(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
            f"{json_type(document)} into Go value of type map[string]interface {{}}"
        )
    return document


def _from_yaml(body: bytes, *, is_checked: bool) -> tuple[Any, list[str]]:
    """A document, and what is there more than once. Most bodies are JSON, which is read far sooner."""
    if _looks_like_json(body):
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError:
            pass
        else:
            paths = duplicate_fields(body, document) if is_checked else []
            return document, [f'duplicate field "{path}"' for path in paths]
    document, lines = yaml.load(body)
    return document, ["yaml: unmarshal errors:\n  " + "\n  ".join(lines)] if lines else []


def _looks_like_json(body: bytes) -> bool:
    return body.lstrip()[:1] == b"{"


def _require_place(document: Document, resource: ServedResource, name: str, namespace: str) -> None:
    """The body is about the object in the path. Raises BadRequest."""
    if (document.get("apiVersion"), document.get("kind")) != (resource.api_version, resource.kind):
        raise BadRequest(f"invalid object type: {_kind(document)}")
    if document.get("metadata") is None:
        document["metadata"] = {}
    meta = document["metadata"]
    if not isinstance(meta, dict):
        raise BadRequest(f"metadata: expected an object, got {json_type(meta)}")
    if meta.get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    require_name(document, name)
    if meta.get("namespace") not in (None, "", namespace):
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _kind(document: Document) -> str:
    """As Go shows a kind: `apps/v1, Kind=Deployment`, `/v1, Kind=ConfigMap`."""
    api_version, kind = document.get("apiVersion") or "", document.get("kind") or ""
    shown = api_version if "/" in f"{api_version}" else f"/{api_version}"
    return f"{shown}, Kind={kind}"


def _place(document: Document) -> str:
    meta = document["metadata"]
    return f"{meta.get('namespace') or ''}/{meta.get('name') or ''}"
