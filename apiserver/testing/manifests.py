"""Loads definitions and manifests into a server for tests; errors contain the file, the line and the
Status.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import yaml
from yaml.composer import ComposerError

from apiserver.testing.errors import ManifestNotLoaded, NotInTime, UnknownKind
from apiserver.testing.resources import DEFAULT_NAMESPACE, Resource, RunningServer, find_resource
from apiserver.testing.waiting import wait_for

# A file, a folder with such, an object, or several of these.
Manifests: TypeAlias = "str | Path | Mapping[str, Any] | Sequence[Manifests]"

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_FIELD_MANAGER: Final = "apiserver-testing"
_DEFINITION: Final = "CustomResourceDefinition"
_ESTABLISHED_WITHIN_S: Final = 10.0


class _Loader(yaml.SafeLoader):
    """Reads YAML as Kubernetes does: timestamps are strings, and a key may occur only once in a mapping."""

    yaml_implicit_resolvers = {
        first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Composes a mapping, without duplicate keys. Raises ComposerError for a duplicate key.

        Merges (`<<`) are resolved later: the keys that they bring may be overridden.
        """
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise ComposerError(None, None, f'key "{key.value}" already set in map', key.start_mark)
            seen.add(key.value)
        return node


class Manifest(NamedTuple):
    """An object, and its place in a file: `deploy/crds/widget.yaml:12`."""

    document: dict[str, Any]
    place: str

    def __str__(self) -> str:
        name = self.document["metadata"].get("name") or self.document["metadata"].get("generateName", "")
        return f"{self.place}: {self.document['kind']} {name}"


def read_manifests(manifests: Manifests, root: Path = Path()) -> Iterator[Manifest]:
    """Yields objects in their order, the files of a folder, and of its folders, by name.

    root: the directory that relative paths start at. Raises ManifestNotLoaded.
    """
    if isinstance(manifests, Mapping):
        yield from _objects(dict(manifests), "an object of the test")
    elif isinstance(manifests, str | Path):
        yield from _read(root / manifests)
    elif not isinstance(manifests, Iterable):
        raise ManifestNotLoaded(repr(manifests), "not a file, a directory or an object")
    else:
        for each in manifests:
            yield from read_manifests(each, root)


def load(server: RunningServer, manifests: Sequence[Manifest]) -> None:
    """Apply objects, definitions and namespaces first, and return when the defined types are served.

    Raises ManifestNotLoaded.
    """
    for manifest in sorted(manifests, key=_rank):
        _load(server, manifest)


def _rank(manifest: Manifest) -> int:
    return {_DEFINITION: 0, "Namespace": 1}.get(manifest.document["kind"], 2)


def _load(server: RunningServer, manifest: Manifest) -> None:
    document = manifest.document
    try:
        resource = find_resource(server, f"{document['apiVersion']}/{document['kind']}")
    except UnknownKind as error:
        raise ManifestNotLoaded(str(manifest), f"{document['apiVersion']}: {error}") from None
    code, answer = _apply(server, resource, document)
    if code not in (200, 201):
        raise ManifestNotLoaded(str(manifest), answer.get("message", answer), code=code, status=answer)
    if document["kind"] == _DEFINITION:
        _wait_until_established(server, resource, manifest)


def _apply(server: RunningServer, resource: Resource, document: dict[str, Any]) -> tuple[int, Any]:
    metadata = document["metadata"]
    namespace = metadata.get("namespace") or DEFAULT_NAMESPACE
    strict = {"fieldValidation": "Strict", "fieldManager": _FIELD_MANAGER}
    if not metadata.get("name"):
        return server.request("POST", resource.path(namespace), document, query=strict)
    return server.request(
        "PATCH",
        resource.path(namespace, metadata["name"]),
        document,
        query={**strict, "force": "true"},
        headers={"Content-Type": "application/apply-patch+yaml"},
    )


def _wait_until_established(server: RunningServer, resource: Resource, manifest: Manifest) -> None:
    """Wait until a definition is served. Raises ManifestNotLoaded, for example for conflicting names."""

    def is_established(definition: dict[str, Any]) -> bool:
        conditions = {each["type"]: each for each in definition["status"]["conditions"] or ()}
        if (names := conditions["NamesAccepted"])["status"] == "False":
            raise ManifestNotLoaded(str(manifest), f"{names['reason']}: {names['message']}")
        return bool(conditions["Established"]["status"] == "True")

    name = manifest.document["metadata"]["name"]
    try:
        wait_for(server, resource, name, until=is_established, timeout_s=_ESTABLISHED_WITHIN_S)
    except NotInTime as error:
        raise ManifestNotLoaded(str(manifest), str(error)) from None


def _read(path: Path) -> Iterator[Manifest]:
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES)
        if not files:
            raise ManifestNotLoaded(str(path), f"no file ends with {', '.join(_SUFFIXES)}")
        for file in files:
            yield from _read(file)
        return
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestNotLoaded(str(path), str(error)) from None
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                continue
            document = loader.construct_document(node)
            if document is not None:
                yield from _objects(document, f"{path}:{node.start_mark.line + 1}")
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise ManifestNotLoaded(f"{path}:{line}", error.problem or "not valid YAML") from None
    except yaml.YAMLError as error:
        raise ManifestNotLoaded(str(path), " ".join(str(error).split())) from None
    finally:
        loader.dispose()


def _objects(document: Any, place: str) -> Iterator[Manifest]:
    """Yields the object, or the objects of a list."""
    if not isinstance(document, dict):
        raise ManifestNotLoaded(place, "not an object")
    if isinstance(document.get("items"), list) and str(document.get("kind", "")).endswith("List"):
        for item in document["items"]:
            yield from _objects(item, place)
        return
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str):
            raise ManifestNotLoaded(place, f"{field}: Required value")
    if not isinstance(document.get("metadata"), dict):
        raise ManifestNotLoaded(place, "metadata: Required value")
    yield Manifest(document, place)
