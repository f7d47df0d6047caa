"""A virtual resource: functions that make its objects, of which the server stores none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

from apiserver.extensions.errors import InvalidExtension
from apiserver.extensions.hooks import Kind

F = TypeVar("F", bound=Callable[..., Any])

VERBS: Final = frozenset({Kind.DELETE, Kind.GET, Kind.LIST, Kind.CREATE, Kind.UPDATE, Kind.WATCH})
_READS: Final = frozenset({Kind.GET, Kind.LIST})


class AddFunction(Protocol):
    """Adds a function to an extension."""

    def __call__(self, kind: Kind, options: Mapping[str, Any], function: F, /) -> F: ...


class VirtualResource:
    """A resource whose objects functions make. The server serves the verbs for which there are functions.

    definition: a CustomResourceDefinition with one version. add: adds a function to the extension.
    """

    def __init__(self, definition: Mapping[str, Any], add: AddFunction) -> None:
        self.definition = definition
        self.name, self.version = _name_and_version(definition)
        self._add = add
        self._kinds: dict[Kind, str] = {}

    def list(self, function: F) -> F:
        """Call the function for lists. It returns the objects of `namespace`, or all that there are.

        The server leaves out objects of other namespaces, and those that the client's selectors do not
        select. Parameters: namespace (empty for all namespaces), label_selector, field_selector.
        """
        return self._of_verb(Kind.LIST, function)

    def get(self, function: F) -> F:
        """Call the function for one object. It returns the object, or None if there is none.

        Without such a function, the server looks for the object in the list. Parameters: name, namespace.
        """
        return self._of_verb(Kind.GET, function)

    def create(self, function: F) -> F:
        """Call the function with a new object, after admission. It returns the created object, or nothing if
        that is the object it was given.
        """
        return self._of_verb(Kind.CREATE, function)

    def update(self, function: F) -> F:
        """Call the function with an object that replaces an existing one, after admission. It returns as a
        function for `create`. Parameters: old.
        """
        return self._of_verb(Kind.UPDATE, function)

    def delete(self, function: F) -> F:
        """Call the function to delete an object. Parameters: name, namespace, old."""
        return self._of_verb(Kind.DELETE, function)

    def watch(self, function: F) -> F:
        """Call the function, an async generator, for watches. It yields pairs of "ADDED", "MODIFIED" or
        "DELETED" and an object, which for a deletion is the object as it was.

        The server sends the objects of the list first, which it asks for when the function has begun. It
        leaves out events of other namespaces, and selects by the client's selectors. When the client goes,
        the function is cancelled. Parameters: as of `list`.
        """
        return self._of_verb(Kind.WATCH, function)

    def require_complete(self) -> None:
        """Require the functions without which others cannot be served. Raises InvalidExtension."""
        if not self._kinds:
            raise InvalidExtension(f"{self.name} has no function, such as one for list")
        for kind in (Kind.UPDATE, Kind.DELETE):
            if kind in self._kinds and _READS.isdisjoint(self._kinds):
                raise InvalidExtension(f"{self.name} has a function for {kind}, but none for get or list")
        if Kind.WATCH in self._kinds and Kind.LIST not in self._kinds:
            raise InvalidExtension(f"{self.name} has a function for watch, but none for list")

    def _of_verb(self, kind: Kind, function: F) -> F:
        if kind in self._kinds:
            raise InvalidExtension(f"{self.name} has two functions for {kind}: {self._kinds[kind]} is one")
        added = self._add(kind, {"resource": self.name, "version": self.version}, function)
        self._kinds[kind] = added.__name__
        return added


def require_different(resources: Iterable[VirtualResource]) -> None:
    """Require that no version of a resource is there twice. Raises InvalidExtension."""
    seen: set[tuple[str, str]] = set()
    for each in resources:
        if (each.name, each.version) in seen:
            raise InvalidExtension(f"there are two virtual resources {each.name} with version {each.version}")
        seen.add((each.name, each.version))


def _name_and_version(definition: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the name of a definition, as stocks.shop.example.com, and of its only version."""
    try:
        name, versions = definition["metadata"]["name"], definition["spec"]["versions"]
        [version] = [each["name"] for each in versions]
    except (KeyError, TypeError, ValueError):
        raise InvalidExtension(
            "resource takes a class with @crd, or a CustomResourceDefinition with a name and one version"
        ) from None
    if not isinstance(name, str) or not isinstance(version, str):
        raise InvalidExtension("resource: the name and the version of a definition must be texts")
    return name, version
