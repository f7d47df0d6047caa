"""Roles and bindings of rbac.authorization.k8s.io/v1alpha1, whose subjects have an apiVersion.

All other versions have the group alone (`renamed`). Source: pkg/apis/rbac/v1alpha1/{conversion,defaults}.go
(release 1.22). Row T22.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import CurrentTypes, hub_of, other_version
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import AUTHENTICATED, Document
from apiserver.schema.compile import Default

_GROUP: Final = "rbac.authorization."
_VERSION: Final = "v1alpha1"
_SUBJECT: Final = f"io.k8s.api.rbac.{_VERSION}.Subject"
_ACCOUNT: Final = "ServiceAccount"
_USERS: Final = ("User", "Group")


def types(brand: Brand, current: CurrentTypes) -> tuple[BuiltinType, ...]:
    group = brand.group(_GROUP[:-1])
    roles = (other_version(current[_GROUP, each], _VERSION) for each in ("clusterroles", "roles"))
    complete = partial(complete_subject, group)
    bindings = (
        _bindings(current[_GROUP, each], group, complete) for each in ("clusterrolebindings", "rolebindings")
    )
    return (*roles, *bindings)


def _bindings(v1: BuiltinType, group: str, complete: Default) -> BuiltinType:
    hub = hub_of(v1, partial(to_v1, group), partial(to_v1alpha1, group))
    builtin = other_version(v1, _VERSION, hub=hub)
    return replace(builtin, defaults={**builtin.defaults, _SUBJECT: complete})


def complete_subject(group: str, subject: Document) -> None:
    if not subject.get("apiVersion"):
        versions: Mapping[str, str] = {_ACCOUNT: "v1", **dict.fromkeys(_USERS, f"{group}/{_VERSION}")}
        if version := versions.get(subject.get("kind", "")):
            subject["apiVersion"] = version


def to_v1(group: str, document: Document) -> None:
    """Converts to v1, where the user `*` is the group of all authenticated users."""
    for subject in document.get("subjects") or ():
        version, kind = subject.pop("apiVersion", ""), subject.get("kind", "")
        if kind in _USERS:
            subject["apiGroup"] = group
        elif kind != _ACCOUNT and "/" in version:
            subject["apiGroup"] = version.partition("/")[0]
        if kind == "User" and version == f"{group}/{_VERSION}" and subject.get("name") == "*":
            subject["kind"], subject["name"] = "Group", AUTHENTICATED


def to_v1alpha1(group: str, document: Document) -> None:
    for subject in document.get("subjects") or ():
        found, kind = subject.pop("apiGroup", ""), subject.get("kind", "")
        if kind == _ACCOUNT and not found:
            subject["apiVersion"] = "v1"
        else:
            subject["apiVersion"] = f"{found}/{_VERSION}" if found else _VERSION
