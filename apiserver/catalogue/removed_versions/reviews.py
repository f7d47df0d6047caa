"""Reviews of authentication/v1beta1 and authorization/v1beta1, which are answered as those of v1.

Rows T16 and T17: what v1 calls `spec.groups` is `spec.group` here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import CurrentTypes, hub_of, other_version
from apiserver.meta.vocabulary import Document

_RENAMED: Final = (
    ("authentication.", "selfsubjectreviews"),
    ("authentication.", "tokenreviews"),
    ("authorization.", "selfsubjectaccessreviews"),
    ("authorization.", "selfsubjectrulesreviews"),
)
_WITH_GROUPS: Final = ("localsubjectaccessreviews", "subjectaccessreviews")


def types(current: CurrentTypes) -> tuple[BuiltinType, ...]:
    reviews = [other_version(current[each], "v1beta1") for each in _RENAMED]
    reviews.append(other_version(current["authentication.", "selfsubjectreviews"], "v1alpha1"))
    for resource in _WITH_GROUPS:
        v1 = current["authorization.", resource]
        reviews.append(other_version(v1, "v1beta1", hub=hub_of(v1, to_v1, to_v1beta1)))
    return tuple(reviews)


def _renaming(old: str, new: str) -> Callable[[Document], None]:
    def rename(review: Document) -> None:
        spec = review.get("spec", {})
        if old in spec:
            spec[new] = spec.pop(old)

    return rename


to_v1: Final = _renaming("group", "groups")
to_v1beta1: Final = _renaming("groups", "group")
