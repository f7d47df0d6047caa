"""The group `extensions`, whose types all have moved to groups of their own.

Source: pkg/apis/extensions/v1beta1 (conversion.go, defaults.go; release 1.15). Rows T20, T25-T27, T29, T30.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from apiserver.catalogue.builtin_type import BuiltinType, Hub
from apiserver.catalogue.common.other_versions import hub_of
from apiserver.catalogue.removed_versions.current_types import CurrentTypes
from apiserver.catalogue.removed_versions.networking import ingress_of_v1beta1
from apiserver.vocabulary import Document

_GROUP: Final = "extensions"
_VERSION: Final = "v1beta1"
_PACKAGE: Final = "io.k8s.api.extensions.v1beta1."


def types(current: CurrentTypes) -> tuple[BuiltinType, ...]:
    ingresses = ingress_of_v1beta1(current)
    assert ingresses.hub is not None
    network_policies = current.find("networking.", "networkpolicies")
    return (
        _in_extensions(ingresses, ingresses.hub),
        _in_extensions(network_policies, hub_of(network_policies, _as_it_is, _as_it_is)),
    )


def _in_extensions(other: BuiltinType, hub: Hub, **changes: Any) -> BuiltinType:
    """Returns a type of another group in this one. Its definitions have the same names here.

    changes: attributes of `BuiltinType` that differ.
    """
    package, _, kind = other.definition.rpartition(".")
    defaults = {
        f"{_PACKAGE}{name.rpartition('.')[2]}" if name.rpartition(".")[0] == package else name: default
        for name, default in other.defaults.items()
    }
    changes = {"definition": f"{_PACKAGE}{kind}", "defaults": defaults, **changes}
    return replace(other, group=_GROUP, version=_VERSION, hub=hub, **changes)


def _as_it_is(document: Document) -> None:
    """Converts a type that has moved to another group, and is the same there: not at all."""
