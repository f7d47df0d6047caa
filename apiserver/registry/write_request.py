"""The parameters of a write to the registry: its user, its target, and the new object. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from apiserver.load.size_class import SizeClass
from apiserver.meta.field_errors import FieldError
from apiserver.meta.options import WriteOptions
from apiserver.meta.vocabulary import Document, UserInfo
from apiserver.registry.guard import TransactionGuard
from apiserver.registry.invalidating_changes import InvalidField, ObjectChange
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.strategy import UpdateStrategy
from apiserver.registry.version_codec import Offloader

# (new, old, the managedFields that the client sent) -> the managedFields of the new object; None for none.
# `new` and `old` are of the hub version, and `old` is None for a new object.
ManageFields = Callable[[Document, Document | None, Any], Sequence[Document] | None]


class Resumption:
    """How mutating admission goes on without functions that have failed: `Admission` makes and uses it."""


class Admission(Protocol):
    """The admission plugins that apply to a write. Documents are of the hub version; old: None for a create.

    may_mutate: whether a plugin might change the object.
    has_mutated: whether one may have changed it in the last `mutate`.
    changes: those that functions have made in the last `mutate`; a function whose change makes the object
        invalid has failed.
    `mutate` and `validate` return warnings for the client, and raise ApiError to refuse the write.
    """

    @property
    def may_mutate(self) -> bool: ...

    @property
    def has_mutated(self) -> bool: ...

    @property
    def changes(self) -> Sequence[ObjectChange]: ...

    async def mutate(
        self, new: Document | None, old: Document | None, resumption: Resumption | None = None
    ) -> Sequence[str]:
        """Mutates the object that is about to be written, and returns warnings.

        new: None for a delete, which cannot be changed. resumption: made by `resumption`, after a function
            has failed. Then the warnings are those of all calls that still count, also of earlier ones.
        """
        ...

    def resumption(self, causes: Mapping[int, Sequence[InvalidField]]) -> Resumption:
        """Returns how to go on without the functions that have made the object invalid.

        causes: the errors that each change has caused, by its index in `changes`. `mutate` is then called
            again, with the object as it was before the first change.
        Raises ApiError if one of these failures fails the write.
        """
        ...

    async def check(self, new: Document, old: Document | None) -> Sequence[FieldError]:
        """Returns the errors in the object about to be written that depend on more than the object itself."""
        ...

    async def validate(self, new: Document | None, old: Document | None) -> Sequence[str]:
        """Validates the object that is about to be written, and returns warnings. new: None for a delete."""
        ...


class ProposedObject(NamedTuple):
    """The new object that a client or a part of the server wants to store.

    document: of the client's version; it has passed the schema, and the receiver may change it.
    warnings: those about making it, for the client.
    managed_fields: the owners of its fields, if making it has decided them (an apply); otherwise None.
    emptied: see `schema.compile.CheckedDocument`.
    """

    document: Document
    warnings: Sequence[str] = ()
    managed_fields: Sequence[Document] | None = None
    emptied: Sequence[tuple[Document, str]] = ()


# The object as it is, in the client's version -> what it is to become. It may run again on a newer object.
# A resourceVersion in the new document must be the object's, or be absent.
Transform = Callable[[StoredObject], ProposedObject]


class InternalWriter(NamedTuple):
    """A field manager as which the server itself writes, where Kubernetes has a separate client.

    manager: its name. subresource: the one that it writes to; empty for the object itself.
    applied: returns the part of the new object that it applies, with force; None if it updates the object.
    """

    manager: str
    subresource: str = ""
    applied: Callable[[Document], Document] | None = None

    def at(self, subresource: str) -> InternalWriter:
        """Returns the same writer for a subresource."""
        return self._replace(subresource=subresource)


# The programs that write by the loopback client, and from beside the server, in Kubernetes.
KUBE_APISERVER: Final = InternalWriter("kube-apiserver")
KUBE_CONTROLLER_MANAGER: Final = InternalWriter("kube-controller-manager")
_DEFAULTS: Final = WriteOptions()


class WriteRequest(NamedTuple):
    """A write with everything but its object; built once for each call.

    name: that of the object; empty for a create whose object or server chooses it.
    update: the rules of the endpoint that is written to; None for the resource's own.
    checks_uid: whether the new document's uid is a precondition rather than a change (PUT, apply).
    user: the one who writes; None for the server itself.
    admission: the plugins that apply; None for writes of the server itself.
    writer: the field manager of a write of the server itself; None for a client, and for objects that
        Kubernetes writes past its API, whose fields get no owners.
    manage_fields: records the owners of fields; without it owners do not change, and a new object has none.
        If there is a `writer` the registry makes it.
    size: that of the client's body.
    offload: runs the work of the write; None for the server itself.
    guard: a further condition of a create.
    """

    resource: ServedResource
    namespace: str
    name: str = ""
    options: WriteOptions = _DEFAULTS
    update: UpdateStrategy | None = None
    checks_uid: bool = False
    user: UserInfo | None = None
    admission: Admission | None = None
    writer: InternalWriter | None = None
    manage_fields: ManageFields | None = None
    size: SizeClass = SizeClass.SMALL
    offload: Offloader | None = None
    guard: TransactionGuard | None = None
