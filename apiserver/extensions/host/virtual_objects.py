"""The objects of virtual resources: what functions return, checked and in the form that encoders take. Pure.

A function may be broken or hostile: its objects are checked like those that clients send.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apiserver.meta import object_meta
from apiserver.meta.errors import ApiError
from apiserver.meta.vocabulary import Document
from apiserver.registry.object_keys import ObjectKeys
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject, TooDeep, encode, with_version
from apiserver.schema.compile import TypeMismatch


class InvalidObject(Exception):
    """A function has returned something that is no object of its resource. The message names the field."""


class RequestRefused(ApiError):
    """A function has refused a request: see `extensions.errors.Denied`."""

    def __init__(self, message: str, reason: str, code: int, causes: Sequence[Document]) -> None:
        super().__init__(message, details={"causes": list(causes)} if causes else None)
        self.reason, self.code = reason, code


class VirtualObject(StoredObject):
    """An object that a function has made."""

    __slots__ = ()

    def at_revision(self, revision: int) -> bytes:
        """Returns the tail as it is, also for an object that has been deleted: it has no revision."""
        return self.tail


class ObjectForm:
    """Makes objects of what the functions of a virtual resource return. keys: of all resources."""

    def __init__(self, resource: ServedResource, keys: ObjectKeys) -> None:
        self._resource, self._keys = resource, keys

    def objects(self, found: Sequence[Any], namespace: str) -> list[StoredObject]:
        """Returns the objects of a list, in the order of their keys, as lists of stored objects are.

        namespace: that of the request, which objects without one get; empty if it is for all.
        Raises InvalidObject.
        """
        by_key: dict[str, StoredObject] = {}
        for index, each in enumerate(found):
            made = self.object(each, namespace, f"items[{index}]")
            if made.key in by_key:
                raise InvalidObject(f"items[{index}].metadata.name: there is another object of this name")
            by_key[made.key] = made
        return [by_key[key] for key in sorted(by_key)]

    def object(self, found: Any, namespace: str, path: str, name: str = "") -> StoredObject:
        """Returns an object. path: where it is in the result. name: the one it must have; empty for any.

        Raises InvalidObject.
        """
        resource = self._resource
        if not isinstance(found, dict):
            raise InvalidObject(f"{path} is not an object")
        for field, expected in (("apiVersion", resource.api_version), ("kind", resource.kind)):
            if found.get(field) not in (None, "", expected):
                raise InvalidObject(f"{path}.{field} is {found[field]!r:.100}, not {expected}")
        meta = found.get("metadata")
        if not isinstance(meta, dict):
            raise InvalidObject(f"{path}.metadata is not an object")
        if resource.is_namespaced:
            meta["namespace"] = meta.get("namespace") or namespace
        else:
            meta.pop("namespace", None)
        found["apiVersion"], found["kind"] = resource.api_version, resource.kind
        self._check(found, path)
        if name and (meta["name"], meta.get("namespace", "")) != (name, namespace):
            wanted = f"{namespace}/{name}" if namespace else name
            raise InvalidObject(f"{path}.metadata is that of another object than {wanted}")
        return self.encoded(found)

    def encoded(self, document: Document) -> StoredObject:
        """Returns an object that has been checked. Raises InvalidObject."""
        resource, meta = self._resource, document["metadata"]
        try:
            rest = encode(document, resource.head)[len(resource.head) :]
        except TooDeep as error:
            raise InvalidObject(str(error)) from None
        if version := meta.get("resourceVersion"):
            rest = with_version(rest, version)
        key = self._keys.of(resource, meta.get("namespace", ""), meta["name"])
        return VirtualObject(key, resource.head, rest)

    def _check(self, document: Document, path: str) -> None:
        """Check an object as if it were stored; unknown fields are removed, and defaults set."""
        resource, strategy = self._resource, self._resource.strategy
        try:
            resource.check(document)
        except TypeMismatch as mismatch:
            raise InvalidObject(f"{path}: {mismatch}") from None
        meta = document["metadata"]
        errors = object_meta.validate(
            meta,
            is_namespaced=resource.is_namespaced,
            name_rule=strategy.name_rule,
            allows_unqualified_finalizers=strategy.allows_unqualified_finalizers,
        )
        if not errors:
            errors = object_meta.validate_path_segments(meta)
        if strategy.expressions is not None:
            errors = [*errors, *strategy.expressions(document, None, (), False).errors]
        if errors:
            raise InvalidObject(f"{path}.{errors[0]}")


def refusal(result: Mapping[str, Any]) -> RequestRefused | None:
    """Returns the error by which a function refuses a request; None if it does not. Raises InvalidObject."""
    match result.get("denied"):
        case None:
            return None
        case {"message": str(message), "reason": str(reason), "code": int(code), **rest} if (
            400 <= code <= 599
        ):
            return RequestRefused(message, reason, code, _causes(rest.get("details")))
    raise InvalidObject("denied is no refusal")


def _causes(details: Any) -> list[Document]:
    match details:
        case None:
            return []
        case {"causes": [{"message": str(message), "field": str(field)}]}:
            return [{"message": message, "field": field}]
    raise InvalidObject("denied.details has no causes")
