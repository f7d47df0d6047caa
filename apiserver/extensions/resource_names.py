"""The names of resources as kubectl takes them: `pods`, `deployments.apps`, `orders.v1.shop.example.com`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

_T = TypeVar("_T")


class ResourceName(NamedTuple):
    """The name of a resource, and perhaps of a subresource.

    qualifier: what follows the first dot: nothing, a group, or a version and a group.
    subresource: what follows the slash, as in `pods/status`; empty for the resource itself.
    """

    resource: str
    qualifier: str = ""
    subresource: str = ""

    @classmethod
    def of(cls, text: str) -> ResourceName:
        full, _, subresource = text.partition("/")
        resource, _, qualifier = full.partition(".")
        return cls(resource, qualifier, subresource)

    def __str__(self) -> str:
        return f"{self.resource}.{self.qualifier}" if self.qualifier else self.resource

    def find(
        self, groups: Iterable[tuple[str, Sequence[str]]], find: Callable[[str, str, str], _T | None]
    ) -> _T | None:
        """Returns the resource that the name means; None if it is not served.

        groups: the served groups, the core group first, each with its versions, the preferred one first.
        find: returns the resource of a group and a version by its name.
        Source of the rules: k8s.io/apimachinery, pkg/runtime/schema/group_version.go, ParseResourceArg.
        """
        groups = list(groups)
        for group, version in self._meanings():
            for served_group, served_versions in groups:
                if group not in (None, served_group):
                    continue
                for served_version in served_versions:
                    if version not in (None, served_version):
                        continue
                    if (found := find(served_group, served_version, self.resource)) is not None:
                        return found
        return None

    def _meanings(self) -> Iterator[tuple[str | None, str | None]]:
        """Yields what the qualifier can mean, as group and version; None for any."""
        version, dot, group = self.qualifier.partition(".")
        if dot:
            yield group, version
        yield self.qualifier or None, None
