"""Manifests of every built-in type, as people write them.

One file for each group of types. All documents together can live on one server. What others need
(namespaces, priority and runtime classes) stands in `groundwork.yaml` and is created first; a `status` is
written to the subresource, once its object is there. `reviews.yaml` has questions, which are never stored.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from apiserver.meta.vocabulary import GroupVersion
from apiserver.registry.served_resource import ResourceTable, ServedResource
from tests.support.yaml_loader import YAML_LOADER

_HERE: Final = Path(__file__).parent
GROUNDWORK: Final = "groundwork"
REVIEWS: Final = "reviews"


@dataclass(frozen=True)
class Manifest:
    """One document of the corpus.

    file: the name of the file that it is from. id: unique.
    """

    file: str
    content: dict[str, Any]

    @property
    def document(self) -> dict[str, Any]:
        """A copy of the document, which the caller may change."""
        return copy.deepcopy(self.content)

    @property
    def group_version(self) -> GroupVersion:
        group, _, version = self.content["apiVersion"].rpartition("/")
        return GroupVersion(group, version)

    @property
    def kind(self) -> str:
        return str(self.content["kind"])

    @property
    def name(self) -> str:
        """Empty for a review."""
        return str(self.content.get("metadata", {}).get("name", ""))

    @property
    def namespace(self) -> str:
        return str(self.content.get("metadata", {}).get("namespace", "default"))

    @property
    def id(self) -> str:
        where = f"{self.group_version.group or 'core'}/{self.group_version.version}"
        return f"{where}/{self.kind}/{self.namespace}/{self.name}"

    def type_in(self, table: ResourceTable) -> ServedResource:
        """The resource that it belongs to; the corpus has none that is not served."""
        (found,) = (r for r in table.group_versions[self.group_version] if r.kind == self.kind)
        return found

    def collection(self, resource: ServedResource) -> str:
        """The path of the collection in which it is created."""
        return path_of(resource, self.namespace)


def path_of(resource: ServedResource, namespace: str = "") -> str:
    """The path of a collection, in all namespaces if none is given."""
    group = resource.group_version.group
    root = f"/apis/{resource.api_version}" if group else f"/api/{resource.api_version}"
    inner = f"/namespaces/{namespace}" if resource.is_namespaced and namespace else ""
    return f"{root}{inner}/{resource.resource}"


@cache
def manifests() -> Sequence[Manifest]:
    """The manifests of everything that is stored, in an order in which it can be created."""
    files = sorted(path.stem for path in _HERE.glob("*.yaml") if path.stem not in (GROUNDWORK, REVIEWS))
    return tuple(each for name in (GROUNDWORK, *files) for each in _documents(name))


@cache
def reviews() -> Sequence[Manifest]:
    """The reviews, which are answered and not stored."""
    return tuple(_documents(REVIEWS))


def _documents(name: str) -> list[Manifest]:
    with (_HERE / f"{name}.yaml").open() as file:
        return [Manifest(name, document) for document in yaml.load_all(file, YAML_LOADER)]
