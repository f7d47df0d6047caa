"""The group `authorization.k8s.io`: reviews of users' permissions. None of them is stored."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import review_type

PACKAGE: Final = "io.k8s.api.authorization.v1."


TYPES: Final = (
    review_type("authorization.", "LocalSubjectAccessReview", is_namespaced=True),
    review_type("authorization.", "SelfSubjectAccessReview"),
    review_type("authorization.", "SelfSubjectRulesReview"),
    review_type("authorization.", "SubjectAccessReview"),
)
