"""Handles rollbacks, which tell a Deployment's controller to return to a former revision.

Versions before apps/v1 had this subresource. It writes the revision into the Deployment, and the annotations
that the client sends. Source: k8s.io/kubernetes, pkg/registry/apps/deployment/storage, RollbackREST. Row T27.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.handlers.virtual_kinds import VirtualKinds
from apiserver.endpoints.responses import send_status
from apiserver.load.size_class import size_class_of_document
from apiserver.meta import object_meta
from apiserver.meta.errors import BadRequest, Invalid
from apiserver.meta.field_errors import Errors, quote, required
from apiserver.meta.vocabulary import Document
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.strategy import UpdateStrategy
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.schema.validation.checks import non_negative

# The server itself changes the object: rules for client changes do not apply, and its controller does the
# rest.
_BY_SERVER: Final = UpdateStrategy(change_checks=0, object_checks=1, raises_generation=False)


def rollback_handlers(registry: Registry, virtual: VirtualKinds, definition: str) -> Mapping[str, Handler]:
    """Returns the handlers of deployments/{name}/rollback, by verb. definition: of the kind of its bodies."""
    kind = virtual.kinds[definition]

    async def create(call: ApiCall) -> None:
        info, deployments = call.info, call.resource
        rollback, options, _ = await virtual.read_posted(call, kind)
        name = rollback.get("name", "")
        if errors := validate_rollback(rollback):
            raise Invalid(kind.group_kind, name, errors)
        if name != info.name:
            raise BadRequest("name in URL does not match name in DeploymentRollback object")
        await virtual.admit(call, kind, name, rollback, options)

        def roll_back(current: StoredObject) -> ProposedObject:
            deployment = current.document()
            annotations = rollback.get("updatedAnnotations") or {}
            if annotations:
                meta = deployment["metadata"]
                meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
            deployment["spec"]["rollbackTo"] = rollback.get("rollbackTo") or {}
            return ProposedObject(deployment)

        request = WriteRequest(
            resource=deployments,
            namespace=info.namespace,
            name=name,
            options=options,
            size=size_class_of_document(rollback),
            update=_BY_SERVER,
        )
        await registry.update(request, roll_back)
        await send_status(call, _succeeded(name), HTTPStatus.CREATED)

    return {"create": create}


def validate_rollback(rollback: Document) -> Errors:
    errors = object_meta.validate_annotations(rollback.get("updatedAnnotations"), "updatedAnnotations")
    if not rollback.get("name"):
        errors.append(required("name", "name is required"))
    return errors + non_negative("rollback.version", (rollback.get("rollbackTo") or {}).get("revision"))


def _succeeded(name: str) -> Document:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "message": f"rollback request for deployment {quote(name)} succeeded",
        "code": HTTPStatus.OK.value,
    }
