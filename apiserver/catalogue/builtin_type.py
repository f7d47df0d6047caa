"""The declaration of a built-in type."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from apiserver.meta import table
from apiserver.meta.field_errors import Errors
from apiserver.meta.releases.emulation import DEFAULT_MINOR
from apiserver.meta.releases.gates import gates_of
from apiserver.meta.table import Columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_getters import FieldGetter
from apiserver.registry.served_resource import ALL_VERBS, Subresource
from apiserver.registry.strategy import (
    DEFAULT_STRATEGY,
    STATUS,
    STATUS_ALONE,
    STATUS_RESETS,
    Strategy,
    UpdateStrategy,
    only_status,
    only_status_without_metadata,
)
from apiserver.schema.compile import Default


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BuiltinType:
    """One version of a built-in type.

    group: as in `apps`; after a final dot, as in `coordination.`, the deployment's domain follows.
    definition: the name of its schema; by default that of `k8s.io/api`, as `io.k8s.api.core.v1.ConfigMap`.
    defaults: the defaults of its definition and of those below it, by the definition's name, without the
        package if it is the type's.
    field_refusal: the error about fields that are not selectable; see `selectors.OwnFields`.
    feature_gates: the gates that must all be on for it to be served; gates that the release lacks are
        ignored.
    optional_gates: it is not served if one of these was turned off explicitly.
    hub: the conversion, if its objects are those of another version or group in another form. Strategy and
        selectable fields are then those of that form; schema and columns those of this one.
    """

    group: str
    version: str
    resource: str
    kind: str
    definition: str = ""
    is_namespaced: bool = True
    singular: str = ""  # the kind in lower case, if empty
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    defaults: Mapping[str, Default] = dataclasses.field(default_factory=dict)
    strategy: Strategy = DEFAULT_STRATEGY
    columns: Columns = table.DEFAULT
    selectable_fields: Mapping[str, FieldGetter] = dataclasses.field(default_factory=dict)
    field_refusal: str = ""
    feature_gates: tuple[str, ...] = ()
    optional_gates: tuple[str, ...] = ()
    hub: HubConversion | None = None

    def __post_init__(self) -> None:
        if not self.definition:
            package = self.group.partition(".")[0] or "core"
            object.__setattr__(self, "definition", f"io.k8s.api.{package}.{self.version}.{self.kind}")
        own = self.definition.removesuffix(self.kind)
        full = {name if "." in name else own + name: default for name, default in self.defaults.items()}
        object.__setattr__(self, "defaults", full)


class HubConversion(NamedTuple):
    """The conversion to the version of a type for which its rules are written.

    group: as in `BuiltinType`. to_hub, from_hub: convert a document's content, in place; the caller sets
    apiVersion and kind.
    validate: returns the errors in a client's document that the hub's form does not show, by the strategy.
    """

    group: str
    version: str
    resource: str
    kind: str
    to_hub: Callable[[Document], None]
    from_hub: Callable[[Document], None]
    validate: Callable[[Document], Errors] | None = None


# For types that are made without a server.
DEFAULT_GATES: Final = gates_of(DEFAULT_MINOR, ())
# How the names of the core group's definitions begin.
CORE: Final = "io.k8s.api.core.v1."


def _no_errors(new: Document, old: Document) -> Errors:
    return []


STATUS_SUBRESOURCE: Final = Subresource("status", update=STATUS)


def status_subresource(
    validate: Callable[[Document, Document], Errors],
    *,
    prepare: Callable[[Document, Document], None] = only_status,
    resets: tuple[str, ...] = STATUS_RESETS,
    warn: Callable[[Document, Document], list[str]] | None = None,
) -> Subresource:
    """Returns the subresource `status` of a kind whose status is validated.

    prepare, resets, warn: see `registry.strategy.UpdateStrategy`.
    """
    update = UpdateStrategy(prepare, validate, resets=resets, checks_object=False, warn=warn)
    return Subresource("status", update=update)


def status_without_metadata(
    validate: Callable[[Document, Document], Errors] = _no_errors,
    prepare: Callable[[Document, Document], None] = only_status_without_metadata,
) -> Subresource:
    """Returns the subresource `status` of a kind where it writes only the status, and no metadata."""
    update = UpdateStrategy(prepare, validate, writes=STATUS_ALONE, checks_object=False)
    return Subresource("status", update=update)


def clear_status(document: Document) -> None:
    """Removes the status of a new object, which its controller sets."""
    document["status"] = {}


def review_type(group: str, kind: str, *, is_namespaced: bool = False) -> BuiltinType:
    """Returns a type whose objects are only returned in responses, and never stored."""
    resource = f"{kind.lower()}s"
    return BuiltinType(group, "v1", resource, kind, is_namespaced=is_namespaced, verbs=("create",))
