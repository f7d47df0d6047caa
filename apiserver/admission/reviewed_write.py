"""A write as webhooks and policies see it: its attributes, its version and its labels."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Final

import orjson

from apiserver.admission.chain import AdmissionAttributes, Operation, SubresourceView
from apiserver.admission.rules import MatchAttributes, RuleWithOperations
from apiserver.load.size_class import size_class, size_class_of_document
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry import write_stages
from apiserver.registry.served_resource import ResourceTable, ServedResource, ServedTable
from apiserver.registry.stored_object import TooDeep

_NAMESPACES: Final = GroupResource("", "namespaces")


class EquivalentResources:
    """The resources that have the same objects in other versions, or in another group."""

    def __init__(self, served: ServedTable) -> None:
        self._served = served

    def of(self, stored: GroupResource) -> Sequence[ServedResource]:
        """Returns all resources that serve the objects of a stored resource."""
        return self._served.current.derived(EquivalentResources, _by_stored).get(stored, ())


def _by_stored(table: ResourceTable) -> dict[GroupResource, list[ServedResource]]:
    found: dict[GroupResource, list[ServedResource]] = {}
    for each in table.resources:
        found.setdefault(each.stored_group_resource, []).append(each)
    return found


class ReviewedWrite:
    """One write, of which webhooks see documents in the version that their rules name.

    new, old: of the hub version; None where there is none.
    shown_as_is: the resource as which webhooks see the documents themselves; None: they never do.
    new_shown_as_is: the same for the new document; also None if there is none.
    inline_s: how long inline functions of extensions have run for it, in seconds.
    """

    def __init__(
        self,
        attributes: AdmissionAttributes,
        equivalents: EquivalentResources,
        new: Document | None,
        old: Document | None,
    ) -> None:
        self.attributes = attributes
        self.offload = attributes.offload
        self.new = new
        self.old = old
        self._equivalents = equivalents
        own = attributes.resource
        self.shown_as_is = own if attributes.view is None and not own.codec.converts_hub else None
        self.new_shown_as_is = None if new is None else self.shown_as_is
        self.inline_s = 0.0
        self._encoded: dict[tuple[bool, object], bytes] = {}
        # Of the resource that was asked for.
        self._target: MatchAttributes | None = None

    # ---- what it is about

    @property
    def namespace(self) -> str:
        """The namespace in the review; that of a Namespace is its own name."""
        attributes = self.attributes
        return self.name_sent if self.is_namespace else attributes.namespace

    @property
    def is_namespace(self) -> bool:
        return self.attributes.resource.group_resource == _NAMESPACES

    @property
    def name_sent(self) -> str:
        """The name in the request; empty for a collection, or if it will be generated."""
        attributes = self.attributes
        return attributes.path_name if attributes.operation is Operation.DELETE else attributes.name

    def target(self, resource: ServedResource) -> MatchAttributes:
        """Returns the attributes that rules match, for a resource."""
        attributes, (group, version) = self.attributes, resource.group_version
        if resource is attributes.resource and self._target is not None:
            return self._target
        target = MatchAttributes(
            group,
            version,
            resource.resource,
            attributes.subresource,
            attributes.operation.value,
            attributes.namespace,
            self.name_sent,
        )
        if resource is attributes.resource:
            self._target = target
        return target

    def equivalents(self) -> Iterator[ServedResource]:
        """Yields the other resources by which a client might have made the same request."""
        attributes = self.attributes
        for each in self._equivalents.of(attributes.resource.stored_group_resource):
            has_subresource = not attributes.subresource or attributes.subresource in each.subresources
            if each is not attributes.resource and has_subresource:
                yield each

    def matching_resource(
        self, rules: Sequence[RuleWithOperations], *, with_equivalents: bool
    ) -> ServedResource | None:
        """Returns the resource under which a webhook or a policy sees the write; None if no rule matches.

        rules: those of the webhook or the policy. with_equivalents: whether they match equivalent resources.
        """
        own = self.attributes.resource
        target = self.target(own)
        if any(rule.matches(target) for rule in rules):
            return own
        if with_equivalents:
            others = [(each, self.target(each)) for each in self.equivalents()]
            for rule in rules:
                for resource, other in others:
                    if rule.matches(other):
                        return resource
        return None

    def labels(self) -> Iterator[Document]:
        """Yields the labels of the new object and of the old one; a scale has none."""
        view = self.attributes.view
        for document in (self.new, self.old):
            if document is None:
                continue
            shown = document if view is None else view.of(document)
            if isinstance(meta := shown.get("metadata"), dict):
                yield meta.get("labels") or {}

    # ---- what is sent

    def description(self, resource: ServedResource, meta_group: str) -> Document:
        """Returns the request of a review as of a resource, without objects."""
        attributes, user = self.attributes, self.attributes.user
        found: Document = {"kind": self._kind(resource), "resource": _resource(resource)}
        if attributes.subresource:
            found["subResource"] = attributes.subresource
        found["requestKind"] = self._kind(attributes.resource)
        found["requestResource"] = _resource(attributes.resource)
        if attributes.subresource:
            found["requestSubResource"] = attributes.subresource
        if self.name_sent:
            found["name"] = self.name_sent
        if self.namespace:
            found["namespace"] = self.namespace
        user_info: Document = {"username": user.name}
        if user.uid:
            user_info["uid"] = user.uid
        if user.groups:
            user_info["groups"] = list(user.groups)
        if user.extra:
            user_info["extra"] = {key: list(values) for key, values in user.extra}
        found["operation"], found["userInfo"] = attributes.operation.value, user_info
        found["dryRun"] = attributes.is_dry_run
        options, operation = attributes.options, attributes.operation.value
        found["options"] = None if options is None else options.document(operation, meta_group)
        return found

    async def review_request(self, resource: ServedResource, description: Document) -> tuple[str, Document]:
        """Returns the uid of a new request, and the request with objects in the version of a resource.

        Raises ApiError as `encoded`.
        """
        uid = str(uuid.uuid4())
        return uid, {
            "uid": uid,
            **description,
            "object": await self._fragment(self.new, resource, is_old=False),
            "oldObject": await self._fragment(self.old, resource, is_old=True),
        }

    async def _fragment(
        self, document: Document | None, resource: ServedResource, *, is_old: bool
    ) -> orjson.Fragment | None:
        if document is None:
            return None
        return orjson.Fragment(await self.encoded(document, resource, is_old=is_old))

    async def encoded(self, document: Document, resource: ServedResource, *, is_old: bool) -> bytes:
        """Returns the new or the old document in the version of a resource, as JSON.

        Raises ApiError if it cannot be converted, or is nested too deeply.
        """
        key = is_old, resource.cache_key
        found = self._encoded.get(key)
        if found is None:
            try:
                if resource is self.shown_as_is:
                    found = orjson.dumps(document)
                else:
                    found = await self._encode(document, resource)
                self._encoded[key] = found
            except orjson.JSONEncodeError:
                raise TooDeep from None
        return found

    def hub_json(self) -> bytes:
        """Returns the new document of the hub version as JSON. Raises TooDeep."""
        shown = self.shown_as_is
        key = False, shown and shown.cache_key
        found = self._encoded.get(key)
        if found is None:
            try:
                found = orjson.dumps(self.new)
            except orjson.JSONEncodeError:
                raise TooDeep from None
            if shown is not None:
                self._encoded[key] = found
        return found

    async def _encode(self, document: Document, resource: ServedResource) -> bytes:
        attributes = self.attributes
        if attributes.view is not None:
            return orjson.dumps(attributes.view.of(document))
        if attributes.resource.is_custom:
            [converted] = await resource.codec.converted([document])
            return orjson.dumps(converted)
        version = document["metadata"].get("resourceVersion")
        encoded = orjson.dumps(document)
        return await self.offload.run_begun(size_class(len(encoded)), _from_hub, encoded, resource, version)

    async def documents(self, resource: ServedResource) -> tuple[Document | None, Document | None]:
        """Returns the new and the old document in the version of a resource, which must not be changed."""
        if resource is self.shown_as_is:
            return self.new, self.old
        new = await self._decoded(self.new, resource, is_old=False)
        return new, await self._decoded(self.old, resource, is_old=True)

    async def size(self, resource: ServedResource) -> int:
        """Returns the size in bytes of the larger document in the version of a resource."""
        encoded = [
            await self.encoded(document, resource, is_old=is_old)
            for document, is_old in ((self.new, False), (self.old, True))
            if document is not None
        ]
        return max(map(len, encoded), default=0)

    async def _decoded(
        self, document: Document | None, resource: ServedResource, *, is_old: bool
    ) -> Document | None:
        if document is None:
            return None
        encoded = await self.encoded(document, resource, is_old=is_old)
        decoded: Document = await self.offload.run_begun(size_class(len(encoded)), orjson.loads, encoded)
        return decoded

    # ---- what is changed

    async def changed(self, document: Document, resource: ServedResource) -> Document:
        """Returns the new document after a change in the version of a resource.

        document: the changed one, which is taken over. Raises ApiError if it cannot be converted.
        """
        attributes, new = self.attributes, self.new
        assert new is not None
        if attributes.view is not None:
            encoded = orjson.dumps(new)
            size = size_class(len(encoded))
            return await self.offload.run_begun(size, _with_view, encoded, attributes.view, document)
        if resource is self.shown_as_is:
            return document
        if not resource.is_custom:
            return await self.offload.run_begun(
                size_class_of_document(document), resource.codec.to_hub, document
            )
        [converted] = await attributes.resource.codec.converted([document])
        return converted

    async def take_over(self, document: Document, resource: ServedResource) -> bool:
        """Replace the new document by a changed one, as `changed` takes it. Returns whether they differ.

        Raises ApiError if it cannot be converted.
        """
        changed = await self.changed(document, resource)
        # For a subresource with its own kind, what was changed is only a part of the object.
        size = size_class_of_document(changed)
        if await self.offload.run_begun(size, write_stages.is_same, changed, self.new):
            return False
        self.replace(changed)
        return True

    def replace(self, changed: Document) -> None:
        """Replace the new document by another one of the hub version."""
        assert self.new is not None
        # The caller that has made the write holds the document.
        self.new.clear()
        self.new.update(changed)
        self._encoded = {key: value for key, value in self._encoded.items() if key[0]}

    def _kind(self, resource: ServedResource) -> Document:
        view = self.attributes.view
        shown = resource if view is None else view.kind
        group, version = shown.group_version
        return {"group": group, "version": version, "kind": shown.kind}


def _with_view(encoded: bytes, view: SubresourceView, shown: Document) -> Document:
    """Returns an encoded object into which a changed view of a subresource is put back.

    shown: the changed view.
    """
    document: Document = orjson.loads(encoded)
    view.put(document, shown)
    return document


def _from_hub(encoded: bytes, resource: ServedResource, version: str | None) -> bytes:
    """Returns an encoded object of the hub version in the version of a built-in resource."""
    shown = resource.codec.from_hub(orjson.loads(encoded))
    if version is not None:
        shown["metadata"]["resourceVersion"] = version
    return orjson.dumps(shown)


def _resource(resource: ServedResource) -> Document:
    group, version = resource.group_version
    return {"group": group, "version": version, "resource": resource.resource}
