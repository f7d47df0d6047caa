"""A write as the registry is asked for it: who writes where, and what the new object is. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from apiserver.load.size_class import SizeClass
from apiserver.meta.field_errors import FieldError
from apiserver.meta.options import WriteOptions
from apiserver.meta.vocabulary import Document, UserInfo
from apiserver.registry.guard import TransactionGuard
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.strategy import UpdateStrategy
from apiserver.registry.version_codec import Offloader

# (new, old, the managedFields that the client sent) -> the managedFields of the new object; None for none.
# `new` and `old` are of the hub version, and `old` is None for a new object.
ManageFields = Callable[[Document, Document | None, Any], Sequence[Document] | None]


class Admission(Protocol):
    """The admission plugins that a write concerns. Documents are of the hub version; old: None for a create.

    may_mutate: whether anything of it might change what is written.
    `mutate` and `validate` return warnings for the client, and raise ApiError to refuse the write.
    """

    @property
    def may_mutate(self) -> bool: ...

    async def mutate(self, new: Document | None, old: Document | None) -> Sequence[str]:
        """Mutates what is about to be written, and returns warnings.

        new: None for a delete, of which nothing can be changed.
        """
        ...

    async def check(self, new: Document, old: Document | None) -> Sequence[FieldError]:
        """Returns the errors in what is about to be written that depend on more than the object itself."""
        ...

    async def validate(self, new: Document | None, old: Document | None) -> Sequence[str]:
        """Validates what is about to be written, and returns warnings. new: None for a delete."""
        ...


class Draft(NamedTuple):
    """A new object, as a client or a function of the server wants it.

    document: of the client's version; it has passed the schema, and whoever gets the draft may change it.
    warnings: what the client should know of how it was made.
    managed_fields: who owns its fields, where making it has decided that (an apply); else None.
    emptied: see `schema.compile.CheckedDocument`.
    """

    document: Document
    warnings: Sequence[str] = ()
    managed_fields: Sequence[Document] | None = None
    emptied: Sequence[tuple[Document, str]] = ()


# The object as it is, in the client's version -> what it is to become. It may run again on a newer object.
# A resourceVersion in the new document must be the object's, or be absent.
Transform = Callable[[StoredObject], Draft]


class InternalWriter(NamedTuple):
    """The field manager for which the server itself writes; in Kubernetes it is a client of its own.

    manager: its name. subresource: the one that it writes to; empty for the object itself.
    applied: returns what it applies, with force, of the new object; None if it updates the object.
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class WriteRequest:
    """Everything about a write but its object. Built once for each call.

    name: of the object; empty for a create that leaves it to the object, or to the server.
    update: the rules of the endpoint that is written to; None for the resource's own.
    checks_uid: the new document's uid is a precondition rather than a change (PUT, apply).
    user: who writes; None for the server itself.
    admission: the plugins that have a say; None for writes of the server itself.
    writer: whom the server itself writes for; None for a client, and for what Kubernetes writes past its API:
        then nobody comes to own anything.
    manage_fields: tells who owns which fields; without it owners stay as they are, and nobody owns anything
        of a new object. Where there is a `writer` the registry makes it.
    size: of what the client has sent.
    offload: runs work for whoever writes; None for the server itself.
    guard: a condition of a create beside that the object is new.
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
