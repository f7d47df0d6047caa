"""The group `authorization.k8s.io`: questions about what somebody may do. Nothing of it is stored."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType

PACKAGE: Final = "io.k8s.api.authorization.v1."


def types() -> tuple[BuiltinType, ...]:
    return tuple(
        BuiltinType(
            "authorization.",
            "v1",
            f"{kind.lower()}s",
            kind,
            PACKAGE + kind,
            is_namespaced=kind == "LocalSubjectAccessReview",
            verbs=("create",),
        )
        for kind in (
            "LocalSubjectAccessReview",
            "SelfSubjectAccessReview",
            "SelfSubjectRulesReview",
            "SubjectAccessReview",
        )
    )
