"""Makes the `WriteRequest` of a call."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import hdrs

from apiserver.admission.chain import AdmissionAttributes, AdmissionChain, Operation, SubresourceView
from apiserver.endpoints.api_call import ApiCall
from apiserver.load.size_class import SizeClass
from apiserver.meta import object_meta
from apiserver.meta.brand import Brand
from apiserver.meta.options import DeleteOptions, WriteOptions
from apiserver.meta.releases.deviations import Deviations
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_managers import FieldManagers
from apiserver.registry.guard import TransactionGuard
from apiserver.registry.patch.apply.managed_fields import manager_or_user_agent
from apiserver.registry.write_request import Admission, ManageFields, ProposedObject, WriteRequest
from apiserver.registry.write_stages import required_revision


class WriteRequests:
    """Builds the options and the `WriteRequest` of a call, once for each."""

    def __init__(
        self, brand: Brand, deviations: Deviations, admission: AdmissionChain, field_managers: FieldManagers
    ) -> None:
        self._brand = brand
        self._deviations = deviations
        self._admission = admission
        self._field_managers = field_managers

    def options(self, call: ApiCall, kind: str, *, is_apply: bool = False) -> WriteOptions:
        """Returns the options in a call's query. kind: as CreateOptions. Raises Invalid."""
        options = WriteOptions.from_query(
            call.query,
            kind,
            self._brand.meta_group,
            allows_empty_dry_run=self._deviations.empty_dry_run,
            is_apply=is_apply,
        )
        call.warnings += options.warnings
        return options

    def delete_options(self, document: Document) -> DeleteOptions:
        """Returns the DeleteOptions in a document, as an Eviction has one. Raises Invalid."""
        return DeleteOptions.from_body(
            document, self._brand.meta_group, allows_empty_dry_run=self._deviations.empty_dry_run
        )

    def create(
        self, call: ApiCall, name: str, options: WriteOptions, size: SizeClass, guard: TransactionGuard | None
    ) -> WriteRequest:
        """Returns the request of a create. name: of the object; empty if it is to be generated."""
        return WriteRequest(
            resource=call.resource,
            namespace=call.info.namespace,
            name=name,
            options=options,
            user=call.user,
            admission=self.admission(call, Operation.CREATE, name, options),
            manage_fields=self._manage_fields(call, options),
            size=size,
            offload=call.offload,
            guard=guard,
        )

    def update(
        self,
        call: ApiCall,
        options: WriteOptions,
        size: SizeClass,
        *,
        checks_uid: bool = False,
        is_apply: bool = False,
        view: SubresourceView | None = None,
    ) -> WriteRequest:
        """Returns the request to update the object in a call's path, or a subresource of it.

        is_apply: whether the proposed object will have its managed fields.
        view: what the subresource shows, if it has its own kind.
        """
        resource, info = call.resource, call.info
        return WriteRequest(
            resource=resource,
            namespace=info.namespace,
            name=info.name,
            options=options,
            update=resource.subresources[info.subresource].update if info.subresource else None,
            checks_uid=checks_uid,
            user=call.user,
            admission=self.admission(call, Operation.UPDATE, info.name, options, view),
            manage_fields=None if is_apply else self._manage_fields(call, options),
            size=size,
            offload=call.offload,
        )

    def _manage_fields(self, call: ApiCall, options: WriteOptions) -> ManageFields:
        agent = call.request.headers.get(hdrs.USER_AGENT, "")
        name = manager_or_user_agent(options.field_manager, agent)
        return self._field_managers.updater(call.resource, call.info.subresource, name)

    def admission(
        self,
        call: ApiCall,
        operation: Operation,
        name: str,
        options: WriteOptions | DeleteOptions | None,
        view: SubresourceView | None = None,
    ) -> Admission:
        """Returns the admission of a write by a call; options: None for a write without options."""
        return self._admission.admission_for(
            AdmissionAttributes(
                operation,
                call.resource,
                namespace=call.info.namespace if call.resource.is_namespaced else "",
                name=name,
                user=call.user,
                offload=call.offload,
                subresource=call.info.subresource,
                is_dry_run=options is not None and options.dry_run,
                path_name=call.info.name,
                options=options,
                view=view,
                verb=call.info.verb,
                deadline=call.deadline,
                audit=call.audit,
                request=call,
            )
        )


def proposed_object_of(
    document: Document,
    warnings: Sequence[str] = (),
    emptied: Sequence[tuple[Document, str]] = (),
    managed_fields: Sequence[Document] | None = None,
) -> ProposedObject:
    """Returns a proposed object; repeated owner references are dropped from it, with a warning."""
    meta = document["metadata"]
    if "ownerReferences" in meta and (repeated := object_meta.remove_duplicate_owners(meta)):
        warnings = [*warnings, _duplicate_owners_warning(repeated)]
    return ProposedObject(document, warnings, managed_fields, emptied)


def as_new(proposed: ProposedObject) -> ProposedObject:
    """Returns a proposed object for a create, from one that was to replace a missing object.

    The version that it was to replace is ignored. Raises BadRequest if that is not a valid version.
    """
    if version := proposed.document["metadata"].pop("resourceVersion", ""):
        required_revision(version)
    return proposed


def _duplicate_owners_warning(uids: list[str]) -> str:
    return (
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in "
        "1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate "
        f"UID(s) observed: {', '.join(uids)}"
    )
