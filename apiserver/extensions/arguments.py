"""What functions get beside objects: the request, its user, and the attributes to authorize."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request."""

    name: str
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Request:
    """A request. document: as in an AdmissionReview, without the objects.

    Its shape is that of `request` in `admission.k8s.io/v1`.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    @property
    def operation(self) -> str:
        """CREATE, UPDATE, DELETE or CONNECT; for functions of virtual resources also GET, LIST or WATCH."""
        return str(self.document.get("operation", ""))

    @property
    def namespace(self) -> str:
        return str(self.document.get("namespace", ""))

    @property
    def name(self) -> str:
        """The name of the object; empty for a create whose name is not known yet."""
        return str(self.document.get("name", ""))

    @property
    def subresource(self) -> str:
        return str(self.document.get("subResource", ""))

    @property
    def dry_run(self) -> bool:
        return bool(self.document.get("dryRun"))

    @property
    def options(self) -> Mapping[str, Any]:
        """The CreateOptions, UpdateOptions, DeleteOptions or ListOptions."""
        return self.document.get("options") or {}

    @cached_property
    def user(self) -> User:
        return _user(self.document.get("userInfo") or {}, "username")


class AccessAttributes:
    """What a request is about, for functions that authorize.

    document: the `spec` of a `authorization.k8s.io/v1` SubjectAccessReview.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self._about = document.get("resourceAttributes") or document.get("nonResourceAttributes") or {}

    @property
    def is_resource(self) -> bool:
        """Whether the request is about a resource; otherwise it is about a path."""
        return "resourceAttributes" in self.document

    @property
    def verb(self) -> str:
        return str(self._about.get("verb", ""))

    @property
    def group(self) -> str:
        return str(self._about.get("group", ""))

    @property
    def resource(self) -> str:
        return str(self._about.get("resource", ""))

    @property
    def subresource(self) -> str:
        return str(self._about.get("subresource", ""))

    @property
    def namespace(self) -> str:
        return str(self._about.get("namespace", ""))

    @property
    def name(self) -> str:
        return str(self._about.get("name", ""))

    @property
    def path(self) -> str:
        return str(self._about.get("path", ""))

    @cached_property
    def user(self) -> User:
        return _user(self.document, "user")


def _user(document: Mapping[str, Any], name: str) -> User:
    return User(
        document.get(name) or "",
        document.get("uid") or "",
        document.get("groups") or (),
        document.get("extra") or {},
    )
