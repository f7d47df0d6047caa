"""The group `authentication.k8s.io`: reviews of who a user is. None of them is stored."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType

PACKAGE: Final = "io.k8s.api.authentication.v1."


def _review(resource: str, kind: str) -> BuiltinType:
    return BuiltinType(
        "authentication.",
        "v1",
        resource,
        kind,
        is_namespaced=False,
        verbs=("create",),
    )


TYPES: Final = (
    _review("selfsubjectreviews", "SelfSubjectReview"),
    _review("tokenreviews", "TokenReview"),
)
