"""Plugins that have a say about writes: some change what is written, all may refuse it.

First those that change, in their order, then, once the resource's own rules have been applied, those that
only look. Which plugins a write concerns is known from its kind: where there are none it costs a look into a
table.
Source: k8s.io/apiserver, pkg/admission.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from apiserver.registry.served_resource import ServedResource
from apiserver.vocabulary import Document, GroupResource, UserInfo

# Kinds of writes whose plugins are remembered.
REMEMBERED_MAX: Final = 4_096


class Operation(enum.Enum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


class Write(NamedTuple):
    """What is about to be done, beside the objects.

    name: empty for a create whose name is not known yet.
    warnings: takes what the client should know.
    path_name: what the request's path names; not the same where many are deleted, or one is created.
    """

    operation: Operation
    resource: ServedResource
    namespace: str
    name: str
    user: UserInfo
    warnings: list[str]
    subresource: str = ""
    is_dry_run: bool = False
    path_name: str = ""


class Plugin:
    """One plugin. Documents are of the version in which they are stored.

    name: as `--enable-admission-plugins` has it.
    """

    name: str = ""

    def concerns(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        """Whether it wants to be asked about such writes. The answer is remembered."""
        return True

    async def mutate(self, write: Write, new: Document, old: Document | None) -> None:
        """Change what is written; old: what is there, None for a create. Raises ApiError."""

    async def validate(self, write: Write, new: Document | None, old: Document | None) -> None:
        """Look at what will be written; new: None for a delete. Raises ApiError."""


class Admission:
    """The plugins that one write concerns."""

    def __init__(self, write: Write, plugins: Sequence[Plugin]) -> None:
        self._write = write
        self._plugins = plugins

    async def mutate(self, new: Document, old: Document | None) -> None:
        for plugin in self._plugins:
            await plugin.mutate(self._write, new, old)

    async def validate(self, new: Document | None, old: Document | None) -> None:
        for plugin in self._plugins:
            await plugin.validate(self._write, new, old)


class AdmissionChain:
    """All plugins that are switched on, in their order."""

    def __init__(self, plugins: Sequence[Plugin]) -> None:
        self._all = tuple(plugins)
        self._concerned = lru_cache(maxsize=REMEMBERED_MAX)(self._find)

    def of(self, write: Write) -> Admission | None:
        """Those that a write concerns; None if there are none."""
        resource = write.resource.stored_group_resource
        plugins = self._concerned(resource, write.subresource, write.operation)
        return Admission(write, plugins) if plugins else None

    def _find(self, resource: GroupResource, subresource: str, operation: Operation) -> tuple[Plugin, ...]:
        return tuple(p for p in self._all if p.concerns(resource, subresource, operation))
