"""RuntimeClasses of node/v1alpha1, where all fields are in a spec. v1beta1 is like v1 (`renamed`).

Source: pkg/apis/node/v1alpha1/conversion.go (release 1.23). Row T12.
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import CurrentTypes, columns_of_hub, hub_of, other_version
from apiserver.meta.vocabulary import Document

# Fields of the spec, and those of v1.
_FIELDS: Final = (("runtimeHandler", "handler"), ("overhead", "overhead"), ("scheduling", "scheduling"))


def types(current: CurrentTypes) -> tuple[BuiltinType, ...]:
    v1 = current["node.", "runtimeclasses"]
    return (
        other_version(
            v1, "v1alpha1", columns=columns_of_hub(v1.columns, to_v1), hub=hub_of(v1, to_v1, to_v1alpha1)
        ),
    )


def to_v1(document: Document) -> None:
    spec = document.pop("spec", {})
    document.update({there: spec[here] for here, there in _FIELDS if here in spec})


def to_v1alpha1(document: Document) -> None:
    document["spec"] = {here: document.pop(there) for here, there in _FIELDS if there in document}
