"""The group `authentication.k8s.io`: reviews of users' identities. None of them is stored."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import review_type

PACKAGE: Final = "io.k8s.api.authentication.v1."


TYPES: Final = (
    review_type("authentication.", "SelfSubjectReview"),
    review_type("authentication.", "TokenReview"),
)
