"""The group `authorization.k8s.io`: reviews of what a user may do. None of them is stored."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType

PACKAGE: Final = "io.k8s.api.authorization.v1."


def _review(resource: str, kind: str, *, is_namespaced: bool = False) -> BuiltinType:
    return BuiltinType(
        "authorization.",
        "v1",
        resource,
        kind,
        is_namespaced=is_namespaced,
        verbs=("create",),
    )


TYPES: Final = (
    _review("localsubjectaccessreviews", "LocalSubjectAccessReview", is_namespaced=True),
    _review("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _review("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    _review("subjectaccessreviews", "SubjectAccessReview"),
)
