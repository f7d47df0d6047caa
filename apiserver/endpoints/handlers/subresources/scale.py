"""Handles the scale subresource: how many replicas an object wants and has, in one form for all types.

A scale is a view: reads make it of the object, writes set the replicas of the object, which is then validated
and stored like any other. Source: k8s.io/kubernetes, pkg/registry/apps/deployment/storage. Rows A17, I13.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from apiserver.admission.chain import SubresourceView
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.bodies import read_body
from apiserver.endpoints.handlers.apply import Applier
from apiserver.endpoints.handlers.apply_patcher import ApplyConversion
from apiserver.endpoints.handlers.decoding import Decoded, require_name, require_namespace
from apiserver.endpoints.handlers.patch import patch_type, version_condition
from apiserver.endpoints.handlers.patch_bodies import apply_patch, parse_patch
from apiserver.endpoints.handlers.recording import record_patch
from apiserver.endpoints.handlers.virtual_kinds import VirtualKinds, send_virtual, virtual_object
from apiserver.endpoints.representation import Encoder
from apiserver.load.size_class import SizeClass, size_class
from apiserver.meta import field_errors, names, object_meta
from apiserver.meta.errors import BadRequest, Conflict, Invalid
from apiserver.meta.options import WriteOptions, read_at_for_get
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ScaleFields, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.subresources import SCALE
from apiserver.registry.write_request import Draft
from apiserver.releases.deviations import Deviations
from apiserver.schema.validation.documents import at

INT32_MAX: Final = (1 << 31) - 1
# The number of replicas of a scale that has none yet, as its patches see it.
_NO_REPLICAS: Final = -(1 << 31)
# The metadata that a scale has of its object, and that an applied scale gives to it.
_SCALE_META: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_APPLIED_META: Final = ("name", "namespace", "resourceVersion")

# The current object -> the scale that is to be set.
MakeScale = Callable[[StoredObject], Decoded]


def scale_handlers(
    registry: Registry,
    virtual: VirtualKinds,
    applier: Applier,
    deviations: Deviations,
    definition: str = SCALE,
) -> Mapping[str, Handler]:
    """Returns the handlers of scale subresources, by verb. definition: of the kind of their documents."""
    requests, kind = virtual.requests, virtual.kinds[definition]

    async def get(call: ApiCall) -> None:
        resource, _ = _resource(call)
        encoder = virtual.encoder(call, kind)
        info = call.info
        found = await registry.get(resource, info.namespace, info.name, read_at_for_get(call.query))
        await send_scale(call, encoder, found)

    async def update(call: ApiCall) -> None:
        options = requests.options(call, "UpdateOptions")
        scale = await virtual.read(call, kind, options)
        require_name(scale, call.info.name)
        await write(call, lambda current: Decoded(scale, ()), options, SizeClass.SMALL)

    async def patch(call: ApiCall) -> None:
        if applier.is_apply(call):
            await apply(call)
            return
        content_type = patch_type(call)
        options = requests.options(call, "PatchOptions")
        body = await read_body(call)
        kind.compile()
        parsed = await call.offload.run(
            body.size, parse_patch, body.data, content_type, kind, options.field_validation
        )
        await record_patch(call, body)
        call.has_copied = parsed.copies
        condition = version_condition(call, content_type, deviations)
        resource, fields = _resource(call)
        fields = fields._replace(default=_NO_REPLICAS if fields.default is None else fields.default)

        def patched_scale(current: StoredObject) -> Decoded:
            if condition is not None and current.resource_version not in condition:
                raise Conflict(resource.group_resource, call.info.name)
            # With defaults, as clients see it: a JSON patch may name any part of it.
            scale = virtual_object(kind, scale_of(current.document(), resource, fields, kind)).document()
            patched = apply_patch(parsed, scale, kind, options.field_validation, _unchanged)
            require_name(patched.document, call.info.name)
            require_namespace(patched.document, resource, call.info.namespace)
            return patched

        await write(call, patched_scale, options, max(body.size, parsed.size))

    async def apply(call: ApiCall) -> None:
        resource, fields = _resource(call)
        encoder = virtual.encoder(call, kind)

        def to_object(scale: Document) -> Document:
            meta = {key: scale["metadata"][key] for key in _APPLIED_META if key in scale["metadata"]}
            document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
            spec = scale.get("spec") or {}
            if "replicas" in spec:
                _put(document, fields.replicas, spec["replicas"] or 0)
            return document

        def complete(document: Document, before: Document) -> None:
            """A scale has a number: who gives it up scales to 0."""
            if at(document, *fields.replicas) is None and at(before, *fields.replicas) is not None:
                _put(document, fields.replicas, 0)

        def check_object(document: Document) -> None:
            """Check that an object has a scale to answer with. Raises Invalid."""
            scale_of(document, resource, fields, kind)

        applied, _ = await applier.apply(
            call, ApplyConversion(_view(resource, fields, kind), to_object, complete, check_object)
        )
        await send_scale(call, encoder, applied)

    async def write(call: ApiCall, make_scale: MakeScale, options: WriteOptions, size: SizeClass) -> None:
        resource, fields = _resource(call)
        encoder = virtual.encoder(call, kind)

        def transform(current: StoredObject) -> Draft:
            (scale, warnings, _), document = make_scale(current), current.document()
            _check(scale, document, resource, fields, kind)
            replicas = scale["spec"].get("replicas", 0)
            if replicas == _NO_REPLICAS and fields.default is None:
                raise BadRequest(f'the spec replicas field ".{".".join(fields.replicas)}" cannot be empty')
            _put(document, fields.replicas, replicas)
            # Without a version the scale of the current object is set.
            if version := scale["metadata"].get("resourceVersion"):
                document["metadata"]["resourceVersion"] = version
            return Draft(document, warnings)

        request = requests.update(call, options, size, view=_view(resource, fields, kind))
        updated = await registry.update(request, transform)
        call.warnings += updated.warnings
        await send_scale(call, encoder, updated.found)

    async def send_scale(call: ApiCall, encoder: Encoder, found: StoredObject) -> None:
        """Send the scale of an object, which may be large, as the whole answer."""
        resource, fields = _resource(call)

        def scale() -> Document:
            return scale_of(found.document(), resource, fields, kind)

        shown = await call.offload.run_begun(size_class(len(found.tail)), scale)
        await send_virtual(call, encoder, kind, shown)

    return {"get": get, "update": update, "patch": patch}


def _view(resource: ServedResource, fields: ScaleFields, kind: ServedResource) -> SubresourceView:
    """Returns how admission sees the scale of an object. The old one may have no number of replicas yet."""
    shown = fields._replace(default=fields.default or 0)

    def put(document: Document, scale: Document) -> None:
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        _put(document, fields.replicas, replicas)

    return SubresourceView(kind, lambda document: scale_of(document, resource, shown, kind), put)


def _unchanged(document: Document) -> None:
    """The schema of a scale drops nothing that would be needed (see `apply_patch`)."""


def _resource(call: ApiCall) -> tuple[ServedResource, ScaleFields]:
    assert call.resource is not None
    fields = call.resource.subresources[call.info.subresource].scale
    assert fields is not None
    return call.resource, fields


def scale_of(
    document: Document, resource: ServedResource, fields: ScaleFields, kind: ServedResource
) -> Document:
    """Returns the scale of an object. Raises Invalid if neither object nor type has a number of replicas."""
    meta = document["metadata"]
    replicas = _number(document, fields.replicas)
    if replicas is None:
        replicas = fields.default
    if replicas is None:
        # kube-apiserver answers 500 here.
        problem = field_errors.required(f".{'.'.join(fields.replicas)}", "the object cannot be scaled")
        raise Invalid(resource.group_kind, meta["name"], [problem])
    return {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": {field: meta[field] for field in _SCALE_META if field in meta},
        "spec": {"replicas": replicas},
        "status": {
            "replicas": _number(document, fields.status_replicas) or 0,
            **_selector(document, fields),
        },
    }


def _selector(document: Document, fields: ScaleFields) -> Document:
    text = fields.selector(document)
    if not fields.has_labels:
        return {"selector": text}
    selector = document["spec"].get("selector") or {}
    labels = selector.get("matchLabels") if not selector.get("matchExpressions") else None
    return {"targetSelector": text, "selector": labels or {}}


def _check(
    scale: Document,
    document: Document,
    resource: ServedResource,
    fields: ScaleFields,
    kind: ServedResource,
) -> None:
    """Require that a scale is valid, and of this object. Raises Invalid, Conflict."""
    meta, own = scale["metadata"], document["metadata"]
    if fields.checks_replicas:
        errors = object_meta.validate(
            {**meta, "namespace": own.get("namespace", "")},
            is_namespaced=resource.is_namespaced,
            name_rule=names.dns_subdomain,
        )
        replicas = scale["spec"].get("replicas", 0)
        if replicas < 0:
            text = "must be greater than or equal to 0"
            errors.append(field_errors.invalid("spec.replicas", replicas, text))
        if errors:
            raise Invalid(kind.group_kind, own["name"], errors)
    if meta.get("uid") and meta["uid"] != own["uid"]:
        raise Conflict(
            resource.group_resource,
            own["name"],
            f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {own['uid']}",
        )


def _number(document: Document, path: tuple[str, ...]) -> int | None:
    """Returns the number at a path; None if there is no 32-bit integer."""
    value: Any = document
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and abs(value) <= INT32_MAX else None


def _put(document: Document, path: tuple[str, ...], value: int) -> None:
    *parents, last = path
    parent = document
    for step in parents:
        found = parent.get(step)
        if not isinstance(found, dict):
            found = parent[step] = {}
        parent = found
    parent[last] = value
