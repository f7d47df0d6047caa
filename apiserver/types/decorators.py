"""The decorators that turn classes into definitions: `crd` and `rule`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard, TypeVar

from apiserver.types.columns import Column
from apiserver.types.errors import DefinitionError
from apiserver.types.markers import Rule
from apiserver.types.models.model import RULES

_VERSION: Final = "__kubernetes_version__"
_SCOPES: Final = ("Namespaced", "Cluster")
Class = TypeVar("Class", bound=type)


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale subresource, with which `kubectl scale` and autoscalers set the replicas.

    spec_replicas, status_replicas, selector: JSON paths, as `.spec.replicas`.
    """

    spec_replicas: str
    status_replicas: str
    selector: str = ""

    def document(self) -> dict[str, Any]:
        fields = {
            "specReplicasPath": self.spec_replicas,
            "statusReplicasPath": self.status_replicas,
            "labelSelectorPath": self.selector,
        }
        return {name: value for name, value in fields.items() if value}


@dataclass(frozen=True, slots=True)
class Names:
    """What all versions of a type have in common. What is empty is as in the stored version.

    plural, singular: the regular ones if those of the stored version are empty.
    """

    group: str
    kind: str
    plural: str
    singular: str
    list_kind: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    scope: str
    labels: Mapping[str, str] = field(hash=False)
    annotations: Mapping[str, str] = field(hash=False)
    conversion: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a type: the arguments of `crd`."""

    names: Names
    name: str
    storage: bool
    served: bool
    deprecated: bool | str
    columns: tuple[Column, ...]
    scale: Scale | None
    selectable_fields: tuple[str, ...]
    status: bool | None
    keywords: Mapping[str, Any] = field(hash=False)


def crd(
    api_version: str,
    *,
    kind: str = "",
    plural: str = "",
    singular: str = "",
    list_kind: str = "",
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
    scope: str = "",
    storage: bool = True,
    served: bool = True,
    deprecated: bool | str = False,
    columns: Sequence[Column] = (),
    scale: Scale | None = None,
    selectable_fields: Sequence[str] = (),
    status: bool | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    keywords: Mapping[str, Any] | None = None,
    conversion: Mapping[str, Any] | None = None,
) -> Callable[[Class], Class]:
    """Returns a decorator that makes a class a version of a custom resource. Raises DefinitionError.

    api_version: the group and version, as `shop.example.com/v1`.
    kind: by default the name of the class. plural, singular: by default the kind in lower case.
    scope: Namespaced, the default, or Cluster.
    The names, scope, labels, annotations and conversion of the stored version apply to all; others may leave
    them out.
    storage: whether the server stores objects in this version; one version of a type is stored.
    deprecated: whether clients get a warning, or the text of the warning.
    selectable_fields: JSON paths for field selectors, as `.spec.color`; the marker `Selectable` adds others.
    status: whether there is a status subresource; by default if the class has a field `status`.
    keywords: of the schema of whole objects, as `Keywords` adds them to other schemas.
    labels, annotations: of the definition, such as `api-approved.kubernetes.io`.
    conversion: `spec.conversion` of the definition, for a conversion webhook. Not needed if an extension has
        `convert` functions.
    """
    group, slash, version = api_version.partition("/")
    if not (group and slash and version) or "/" in version:
        raise DefinitionError(f"{api_version!r} is not a group and a version, as 'shop.example.com/v1'")
    if scope and scope not in _SCOPES:
        raise DefinitionError(f"the scope {scope!r} is not one of {', '.join(_SCOPES)}")

    if not all(isinstance(column, Column) for column in columns):
        raise DefinitionError(f"columns has items of the class Column only, not {columns!r}")
    if scale is not None and not isinstance(scale, Scale):
        raise DefinitionError(f"scale is a Scale, not {scale!r}")
    lists = {"short_names": short_names, "categories": categories, "selectable_fields": selectable_fields}
    for name, values in lists.items():
        if isinstance(values, str):
            raise DefinitionError(f"{name} is a list, not {values!r}")

    def decorate(cls: Class) -> Class:
        own_kind = kind or cls.__name__
        names = Names(
            group,
            own_kind,
            plural,
            singular,
            list_kind,
            tuple(short_names),
            tuple(categories),
            scope or (_SCOPES[0] if storage else ""),
            dict(labels or {}),
            dict(annotations or {}),
            dict(conversion or {}),
        )
        options = Version(
            names,
            version,
            storage,
            served,
            deprecated,
            tuple(columns),
            scale,
            tuple(selectable_fields),
            status,
            dict(keywords or {}),
        )
        type.__setattr__(cls, _VERSION, options)
        return cls

    return decorate


def version_of(cls: type) -> Version:
    """Returns the version that a class is. Raises DefinitionError for a class without the decorator `crd`."""
    if not is_version(cls):
        raise DefinitionError(f"{cls.__qualname__} does not have the decorator crd")
    version: Version = cls.__dict__[_VERSION]
    return version


def is_version(value: object) -> TypeGuard[type]:
    """Returns whether a value is a class with the decorator `crd`. Subclasses need a separate decorator."""
    return isinstance(value, type) and _VERSION in value.__dict__


def rule(
    expression: str,
    *,
    message: str = "",
    message_expression: str = "",
    reason: str = "",
    field_path: str = "",
    optional_old_self: bool = False,
) -> Callable[[Class], Class]:
    """Returns a decorator that adds a validation rule in CEL to the objects of a class.

    The arguments are those of `Rule`. Rules are checked from the top decorator to the bottom one.
    """
    added = Rule(expression, message, message_expression, reason, field_path, optional_old_self)

    def decorate(cls: Class) -> Class:
        type.__setattr__(cls, RULES, (added, *cls.__dict__.get(RULES, ())))
        return cls

    return decorate
