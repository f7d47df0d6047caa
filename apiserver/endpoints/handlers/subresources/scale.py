"""Handles the scale subresource: the desired and current replicas of an object, in one form for all types.

A scale is a view: reads make it from the object, writes set the replicas of the object, which is then
validated and stored like any other. Source: k8s.io/kubernetes, pkg/registry/apps/deployment/storage. Rows
A17, I13.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Self

from apiserver.admission.chain import SubresourceView
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.handlers.apply import Applier
from apiserver.endpoints.handlers.apply_patcher import ApplyConversion
from apiserver.endpoints.handlers.decoding import DecodedDocument, require_name
from apiserver.endpoints.handlers.patch import read_patch
from apiserver.endpoints.handlers.virtual_kinds import VirtualKinds, send_virtual, virtual_object
from apiserver.endpoints.representation import Encoder
from apiserver.load.size_class import SizeClass
from apiserver.meta import field_errors, names, object_meta
from apiserver.meta.errors import BadRequest, Conflict, Invalid
from apiserver.meta.options import WriteOptions, read_at_for_get
from apiserver.meta.releases.deviations import Deviations
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ScaleFields, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.subresources import SCALE
from apiserver.registry.write_request import ProposedObject
from apiserver.schema.validation.checks import non_negative
from apiserver.schema.validation.documents import at

INT32_MAX: Final = (1 << 31) - 1
# The number of replicas of a scale that has none yet, as its patches see it.
_NO_REPLICAS: Final = -(1 << 31)
# The metadata that a scale has of its object, and that an applied scale gives to it.
_SCALE_META: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_APPLIED_META: Final = ("name", "namespace", "resourceVersion")

# The current object -> the scale that is to be set.
MakeScale = Callable[[StoredObject], DecodedDocument]


def scale_handlers(
    registry: Registry,
    virtual: VirtualKinds,
    applier: Applier,
    deviations: Deviations,
    definition: str = SCALE,
) -> Mapping[str, Handler]:
    """Returns the handlers of scale subresources, by verb. definition: of the kind of their documents."""
    handlers = _ScaleHandlers(registry, virtual, applier, deviations, virtual.kinds[definition])
    return {"get": handlers.get, "update": handlers.update, "patch": handlers.patch}


class ScaledType(NamedTuple):
    """The type of an object that has a scale. kind: of its scales."""

    resource: ServedResource
    fields: ScaleFields
    kind: ServedResource

    @classmethod
    def of(cls, call: ApiCall, kind: ServedResource) -> Self:
        """Returns the type of the object that a call is about."""
        fields = call.resource.subresources[call.info.subresource].scale
        assert fields is not None
        return cls(call.resource, fields, kind)

    def with_default(self, replicas: int) -> Self:
        """Returns the type with a default number of replicas, if it has no other default."""
        default = replicas if self.fields.default is None else self.fields.default
        return self._replace(fields=self.fields._replace(default=default))

    @property
    def view(self) -> SubresourceView:
        """Returns the scale of an object as admission sees it; the old object may have no replicas yet."""

        def put(document: Document, scale: Document) -> None:
            self.put_replicas(document, (scale.get("spec") or {}).get("replicas", 0))

        return SubresourceView(self.kind, self.with_default(0).scale_of, put)

    @property
    def conversion(self) -> ApplyConversion:
        """Returns the conversion by which a scale is applied to an object."""
        return ApplyConversion(self.view, self._to_object, self._complete, self.scale_of)

    def scale_of(self, document: Document) -> Document:
        """Returns the scale of an object. Raises Invalid if the object has no number of replicas."""
        fields, meta = self.fields, document["metadata"]
        replicas = _number(document, fields.replicas)
        if replicas is None:
            replicas = fields.default
        if replicas is None:
            # kube-apiserver answers 500 here.
            problem = field_errors.required(f".{'.'.join(fields.replicas)}", "the object cannot be scaled")
            raise Invalid(self.resource.group_kind, meta["name"], [problem])
        return {
            "kind": self.kind.kind,
            "apiVersion": self.kind.api_version,
            "metadata": {field: meta[field] for field in _SCALE_META if field in meta},
            "spec": {"replicas": replicas},
            "status": {
                "replicas": _number(document, fields.status_replicas) or 0,
                **_selector(document, fields),
            },
        }

    def require_valid(self, scale: Document, document: Document) -> None:
        """Require that a scale is valid, and belongs to this object. Raises Invalid, Conflict."""
        meta, own = scale["metadata"], document["metadata"]
        if self.fields.checks_replicas:
            errors = object_meta.validate(
                {**meta, "namespace": own.get("namespace", "")},
                is_namespaced=self.resource.is_namespaced,
                name_rule=names.dns_subdomain,
            )
            errors += non_negative("spec.replicas", scale["spec"].get("replicas", 0))
            if errors:
                raise Invalid(self.kind.group_kind, own["name"], errors)
        if meta.get("uid") and meta["uid"] != own["uid"]:
            raise Conflict(
                self.resource.group_resource,
                own["name"],
                f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {own['uid']}",
            )

    def put_replicas(self, document: Document, replicas: int) -> None:
        """Set the number of replicas of an object."""
        *parents, last = self.fields.replicas
        parent = document
        for step in parents:
            found = parent.get(step)
            if not isinstance(found, dict):
                found = parent[step] = {}
            parent = found
        parent[last] = replicas

    def _to_object(self, scale: Document) -> Document:
        """Returns an applied scale as a configuration of the object."""
        meta = {key: scale["metadata"][key] for key in _APPLIED_META if key in scale["metadata"]}
        document = {"apiVersion": self.resource.api_version, "kind": self.resource.kind, "metadata": meta}
        spec = scale.get("spec") or {}
        if "replicas" in spec:
            self.put_replicas(document, spec["replicas"] or 0)
        return document

    def _complete(self, document: Document, before: Document) -> None:
        """Set the fields that an apply has removed: a scale needs a number, and giving it up scales to 0."""
        path = self.fields.replicas
        if at(document, *path) is None and at(before, *path) is not None:
            self.put_replicas(document, 0)


class _ScaleHandlers(NamedTuple):
    """The handlers of scales of one kind."""

    registry: Registry
    virtual: VirtualKinds
    applier: Applier
    deviations: Deviations
    kind: ServedResource

    async def get(self, call: ApiCall) -> None:
        scaled, info = ScaledType.of(call, self.kind), call.info
        encoder = self.virtual.encoders.for_call(call, self.kind)
        found = await self.registry.get(
            scaled.resource, info.namespace, info.name, read_at_for_get(call.query)
        )
        await self._send(call, encoder, found)

    async def update(self, call: ApiCall) -> None:
        options = self.virtual.requests.options(call, "UpdateOptions")
        scale = await self.virtual.read(call, self.kind, options)
        require_name(scale, call.info.name)
        await self._write(call, lambda current: DecodedDocument(scale, ()), options, SizeClass.SMALL)

    async def patch(self, call: ApiCall) -> None:
        if self.applier.is_apply(call):
            encoder = self.virtual.encoders.for_call(call, self.kind)
            applied, _ = await self.applier.apply(call, ScaledType.of(call, self.kind).conversion)
            await self._send(call, encoder, applied)
            return
        request = await read_patch(call, self.kind, self.virtual.requests, self.deviations)
        scaled = ScaledType.of(call, self.kind).with_default(_NO_REPLICAS)

        def scale_with_defaults(current: StoredObject) -> Document:
            """Returns the scale with its defaults, as clients see it, since a JSON patch may name any part of
            it.
            """
            return virtual_object(self.kind, scaled.scale_of(current.document())).document()

        def patched(current: StoredObject) -> DecodedDocument:
            return request.patched(current, scale_with_defaults, _unchanged)

        await self._write(call, patched, request.options, request.size)

    async def _write(
        self, call: ApiCall, make_scale: MakeScale, options: WriteOptions, size: SizeClass
    ) -> None:
        """Set the replicas of the object to those of a scale, and send its new scale."""
        scaled = ScaledType.of(call, self.kind)
        encoder = self.virtual.encoders.for_call(call, self.kind)

        def transform(current: StoredObject) -> ProposedObject:
            (scale, warnings, _), document = make_scale(current), current.document()
            scaled.require_valid(scale, document)
            replicas = scale["spec"].get("replicas", 0)
            if replicas == _NO_REPLICAS and scaled.fields.default is None:
                path = ".".join(scaled.fields.replicas)
                raise BadRequest(f'the spec replicas field ".{path}" cannot be empty')
            scaled.put_replicas(document, replicas)
            # Without a version the scale of the current object is set.
            if version := scale["metadata"].get("resourceVersion"):
                document["metadata"]["resourceVersion"] = version
            return ProposedObject(document, warnings)

        request = self.virtual.requests.update(call, options, size, view=scaled.view)
        updated = await self.registry.update(request, transform)
        call.warnings += updated.warnings
        await self._send(call, encoder, updated.found)

    async def _send(self, call: ApiCall, encoder: Encoder, found: StoredObject) -> None:
        """Send the scale of an object, which may be large, as the whole response."""
        scaled = ScaledType.of(call, self.kind)
        scale = await call.offload.read(found, scaled.scale_of)
        await send_virtual(call, encoder, self.kind, scale)


def _unchanged(document: Document) -> None:
    """Returns a scale unchanged, as its schema drops nothing that is needed (see `apply_patch`)."""


def _selector(document: Document, fields: ScaleFields) -> Document:
    text = fields.selector(document)
    if not fields.has_labels:
        return {"selector": text}
    selector = document["spec"].get("selector") or {}
    labels = selector.get("matchLabels") if not selector.get("matchExpressions") else None
    return {"targetSelector": text, "selector": labels or {}}


def _number(document: Document, path: tuple[str, ...]) -> int | None:
    """Returns the number at a path; None if there is no 32-bit integer."""
    value = at(document, *path)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and abs(value) <= INT32_MAX else None
