"""The scale of an object: how many pods it wants and has, in the same form whatever its type.

A scale is a view: reads make it from the object, writes put its number into the object, which is then checked
and stored like any other. Source: k8s.io/kubernetes, pkg/registry/apps/deployment/storage. Rows A17, I13.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from apiserver import field_errors
from apiserver.admission.chain import Operation
from apiserver.endpoints.api_call import Call, Handler
from apiserver.endpoints.bodies import is_large, read_body
from apiserver.errors import Conflict, Invalid
from apiserver.handlers.apply import Applier
from apiserver.handlers.create import write_of
from apiserver.handlers.ownership import Ownership
from apiserver.handlers.patch import (
    apply_patch,
    parse_patch,
    patch_type,
    require_namespace,
    version_condition,
)
from apiserver.handlers.update import require_name
from apiserver.handlers.virtual_kinds import VirtualKinds, send_virtual, virtual_object
from apiserver.meta import names, object_meta
from apiserver.meta.options import WriteOptions, read_at_for_get
from apiserver.registry import offload
from apiserver.registry.served_resource import ScaleFields, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.vocabulary import Document

INT32_MAX: Final = (1 << 31) - 1
# A scale has no other metadata of its object's.
_SCALE_META: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_APPLIED_META: Final = ("name", "namespace", "resourceVersion")

# The object as it is -> the scale that is wanted for it.
MakeScale = Callable[[StoredObject], Document]


def scale_handlers(
    registry: Registry, virtual: VirtualKinds, spoken: ServedResource, ownership: Ownership, applier: Applier
) -> Mapping[str, Handler]:
    """What answers each verb. spoken: Scale."""

    async def get(call: Call) -> None:
        resource, fields = _resource(call)
        encoder = virtual.encoder(call, spoken)
        info = call.info
        found = await registry.get(resource, info.namespace, info.name, read_at_for_get(call.query))
        await send_virtual(call, encoder, spoken, scale_of(found.document(), resource, fields, spoken))

    async def update(call: Call) -> None:
        options = virtual.options(call, "UpdateOptions")
        scale = await virtual.read(call, spoken, options)
        require_name(scale, call.info.name)
        await write(call, lambda current: scale, options)

    async def patch(call: Call) -> None:
        if applier.is_apply(call):
            await apply(call)
            return
        content_type = patch_type(call)
        options = virtual.options(call, "PatchOptions")
        body = await read_body(call)
        spoken.compile()
        patch = await offload.run(
            is_large(body, content_type), parse_patch, body, content_type, spoken, options
        )
        condition = version_condition(call, content_type, virtual.deviations)
        resource, fields = _resource(call)

        def wanted(current: StoredObject) -> Document:
            if condition is not None and current.resource_version != condition:
                raise Conflict(resource.group_resource, call.info.name)
            # As clients see it, and as they may name its parts in a patch.
            shown = virtual_object(spoken, scale_of(current.document(), resource, fields, spoken)).document()
            warnings: list[str] = []
            scale = apply_patch(patch, shown, spoken, options, warnings)
            require_name(scale, call.info.name)
            require_namespace(scale, call.info.namespace)
            call.warnings += [text for text in warnings if text not in call.warnings]
            return scale

        await write(call, wanted, options, is_large=is_large(body, content_type))

    async def apply(call: Call) -> None:
        resource, fields = _resource(call)
        encoder = virtual.encoder(call, spoken)

        def part(scale: Document) -> Document:
            """What a scale says of the object."""
            meta = {key: scale["metadata"][key] for key in _APPLIED_META if key in scale["metadata"]}
            document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
            replicas = (scale.get("spec") or {}).get("replicas")
            if replicas is not None:
                _put(document, fields.replicas, replicas)
            return document

        # What is written has to have a scale to answer with.
        applied, _ = await applier.apply(
            call,
            speaks=spoken,
            part=part,
            check_object=lambda document: scale_of(document, resource, fields, spoken),
        )
        await send_virtual(call, encoder, spoken, scale_of(applied.document(), resource, fields, spoken))

    async def write(call: Call, wanted: MakeScale, options: WriteOptions, *, is_large: bool = False) -> None:
        resource, fields = _resource(call)
        encoder = virtual.encoder(call, spoken)
        info = call.info

        def transform(current: StoredObject) -> Document:
            scale, document = wanted(current), current.document()
            _check(scale, document, resource, fields, spoken)
            _put(document, fields.replicas, scale["spec"].get("replicas", 0))
            # Who names no version scales the object as it is.
            if version := scale["metadata"].get("resourceVersion"):
                document["metadata"]["resourceVersion"] = version
            return document

        asked = virtual.admission.of(write_of(call, Operation.UPDATE, info.name, is_dry_run=options.dry_run))
        updated = await registry.update(
            resource,
            info.namespace,
            info.name,
            transform,
            options,
            warnings=call.warnings,
            mutate=asked.mutate if asked else None,
            admit=asked.validate if asked else None,
            track=ownership.tracker(call, options),
            is_large=is_large,
        )
        await send_virtual(call, encoder, spoken, scale_of(updated.document(), resource, fields, spoken))

    return {"get": get, "update": update, "patch": patch}


def _resource(call: Call) -> tuple[ServedResource, ScaleFields]:
    assert call.resource is not None
    fields = call.resource.subresources[call.info.subresource].scale
    assert fields is not None
    return call.resource, fields


def scale_of(
    document: Document, resource: ServedResource, fields: ScaleFields, spoken: ServedResource
) -> Document:
    """Raises Invalid for an object that has no number where its type says that it has one."""
    meta = document["metadata"]
    replicas = _number(document, fields.replicas)
    if replicas is None:
        replicas = fields.default
    if replicas is None:
        # kube-apiserver answers 500 here.
        problem = field_errors.required(f".{'.'.join(fields.replicas)}", "the object cannot be scaled")
        raise Invalid(resource.group_kind, meta["name"], [problem])
    return {
        "kind": spoken.kind,
        "apiVersion": spoken.api_version,
        "metadata": {field: meta[field] for field in _SCALE_META if field in meta},
        "spec": {"replicas": replicas},
        "status": {
            "replicas": _number(document, fields.status_replicas) or 0,
            "selector": fields.selector(document),
        },
    }


def _check(
    scale: Document,
    document: Document,
    resource: ServedResource,
    fields: ScaleFields,
    spoken: ServedResource,
) -> None:
    """Is this a scale for the object? Raises Invalid, Conflict."""
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
            raise Invalid(spoken.group_kind, own["name"], errors)
    if meta.get("uid") and meta["uid"] != own["uid"]:
        raise Conflict(
            resource.group_resource,
            own["name"],
            f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {own['uid']}",
        )


def _number(document: Document, path: tuple[str, ...]) -> int | None:
    """The number at a path of a scale's; None if there is none that a scale can show."""
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
