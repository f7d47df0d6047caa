"""Converts manifests between the versions of built-in types, without a server.

A manifest is written by a user, and not processed by a server. So defaults are only added where the versions
differ: a default of the old version is written out if the new one would not set it. The result lists fields
without a place in the new version.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from apiserver.catalogue.builtins import Catalogue
from apiserver.meta.brand import Brand
from apiserver.meta.errors import Invalid
from apiserver.meta.field_errors import FieldError, field_below, item_below
from apiserver.meta.releases.emulation import OLDEST_MINOR, EmulatedRelease
from apiserver.meta.releases.lifecycles import Lifecycle, known_lifecycles
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedResource, version_priority
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.compile import TypeMismatch

# The fields that are listed of one manifest.
NOTES_MAX: Final = 100
_ABSENT: Final = object()
# What conversions may take for granted.
_PARTS: Final = ("metadata", "spec", "status")
# The fields of one manifest that are tried without, to find defaults.
_TRIES_MAX: Final = 100


class NotConvertible(ValueError):
    """A manifest that cannot be converted. The message gives the reason in one line."""


class ConvertedManifest(NamedTuple):
    """A manifest in another version; unchanged if it already has that version, or is not of a built-in type.

    unknown: the paths of fields that its version does not have, which are left out.
    lost: the paths of fields without a place in the new version.
    refused: errors of the new version for new objects that the old version did not have.
    """

    document: Document
    unknown: Sequence[str] = ()
    lost: Sequence[str] = ()
    refused: Sequence[str] = ()


class ManifestConverter:
    """Converts manifests between all versions of the types of Kubernetes' own groups."""

    def __init__(self, schemas: BuiltinSchemas) -> None:
        catalogue = Catalogue(Brand(), schemas, release=EmulatedRelease.of(OLDEST_MINOR))
        self._types: dict[tuple[str, str], ServedResource] = {}
        # The versions of each type, by what it is stored as.
        self._families: dict[object, list[ServedResource]] = {}
        for each in catalogue.all_versions():
            self._types[each.api_version, each.kind] = each
            self._families.setdefault(each.codec.stored_group_resource, []).append(each)

    def knows(self, api_version: str, kind: str) -> bool:
        return (api_version, kind) in self._types

    def is_builtin(self, api_version: str) -> bool:
        """Returns whether a group is Kubernetes' own, in any version."""
        group = api_version.rpartition("/")[0]
        return any(group == known.rpartition("/")[0] for known, _ in self._types)

    def has_version(self, api_version: str) -> bool:
        """Returns whether any release has a version of a group, as `apps/v1`."""
        return any(api_version == known for known, _ in self._types)

    def convert(self, document: Document, wanted: str, minor: int) -> ConvertedManifest:
        """Returns a manifest in another version of its type.

        wanted: the version, as `apps/v1`; empty for the preferred one of release 1.`minor`.
        A manifest whose type lacks the version is returned unchanged. Raises NotConvertible.
        """
        api_version, kind = document.get("apiVersion"), document.get("kind")
        if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
            raise NotConvertible("apiVersion or kind is missing")
        source = self._types.get((api_version, kind))
        if source is None:
            if self.is_builtin(api_version):
                raise NotConvertible(f"no release of Kubernetes has {api_version} {kind}")
            return ConvertedManifest(document)
        family = self._families[source.codec.stored_group_resource]
        named = next((each for each in family if each.api_version == wanted), None)
        target = named if wanted else _preferred(family, source, minor)
        if target is None and not wanted:
            raise NotConvertible(_gone(source, minor))
        if target is None or target is source:
            return ConvertedManifest(document)
        return _Conversion(source, target).run(document)


def _life(resource: ServedResource) -> Lifecycle:
    return known_lifecycles()[resource.api_version, resource.resource]


def _preferred(family: Sequence[ServedResource], source: ServedResource, minor: int) -> ServedResource | None:
    """Returns the version that a release prefers, of those that it serves or can serve.

    It is of the same group, unless the release has deprecated all of its versions.
    """
    there = [each for each in family if _life(each).is_in(minor)]
    hub = family[0].codec.stored_group_resource.group

    def rank(resource: ServedResource) -> tuple[Any, ...]:
        life = _life(resource)
        return (
            not life.is_deprecated_in(minor),
            life.is_on_by_default,
            resource.group_resource.group == source.group_resource.group,
            resource.group_resource.group == hub,
            version_priority(life.version),
        )

    return max(there, key=rank, default=None)


def _gone(source: ServedResource, minor: int) -> str:
    life = _life(source)
    which = f"Kubernetes 1.{minor} has no {source.kind}"
    if life.removed is not None and life.removed <= minor:
        return f"{which}: {source.api_version} was removed in 1.{life.removed}, and nothing has replaced it"
    return f"{which}: {source.api_version} comes with 1.{life.introduced}"


class _Conversion:
    """A conversion from one version of a type to another."""

    def __init__(self, source: ServedResource, target: ServedResource) -> None:
        self._source, self._target = source, target

    def run(self, document: Document) -> ConvertedManifest:
        """Returns a converted document, and the lost and refused fields. Raises NotConvertible."""
        whole = copy.deepcopy(document)
        try:
            unknown = list(map(str, self._source.check(whole)))
        except TypeMismatch as error:
            raise NotConvertible(str(error)) from None
        kept = _without(document, unknown)
        wanted = self._completed(_convert(self._source, self._target, whole))
        new = self._plain(kept)
        if new is None:
            new = copy.deepcopy(wanted)
        if "status" not in document:
            new.pop("status", None)
            wanted.pop("status", None)
        _adapt(new, self._completed(new), wanted)
        self._leave_out_defaults(new, document, wanted)
        back = _convert(self._target, self._source, self._completed(new))
        self._source.check(back)
        lost = [path for path in _missing(kept, back, "") if path not in ("apiVersion", "kind")]
        before = {error.field for error in _errors(self._source, kept)}
        refused = [str(error) for error in _errors(self._target, new) if error.field not in before]
        return ConvertedManifest(new, unknown[:NOTES_MAX], lost[:NOTES_MAX], refused[:NOTES_MAX])

    def _completed(self, document: Document) -> Document:
        """Returns a document of the new version with all its defaults."""
        completed = copy.deepcopy(document)
        self._target.check(completed)
        return completed

    def _plain(self, document: Document) -> Document | None:
        """Returns the document without any defaults in the new version; None if the conversion needs them."""
        plain = {**{name: {} for name in _PARTS}, **copy.deepcopy(document)}
        try:
            plain = _convert(self._source, self._target, plain)
            self._completed(plain)
        except Exception:  # Conversions are made for documents that have passed their schema.
            return None
        names = [name for name in document if name in plain]
        names += [name for name in plain if name not in document and not _is_nothing(plain[name])]
        return {name: plain[name] for name in names}

    def _leave_out_defaults(self, new: Document, given: Document, wanted: Document) -> None:
        """Removes fields that the manifest did not have, and that the new version sets by default."""
        tries = _TRIES_MAX
        for owner, name in [*_added(new, given)]:
            if not (tries := tries - 1):
                return
            before = dict(owner)
            del owner[name]
            if not self._is_completed_to(wanted, new, given):
                owner.clear()
                owner.update(before)

    def _is_completed_to(self, wanted: Document, new: Document, given: Document) -> bool:
        try:
            completed = self._completed(new)
        except TypeMismatch:
            return False
        if "status" not in given:
            completed.pop("status", None)
        return completed == wanted


def _errors(resource: ServedResource, document: Document) -> Sequence[FieldError]:
    """Returns the errors in a new object by the rules of its version."""
    completed = copy.deepcopy(document)
    completed.setdefault("metadata", {})
    resource.check(completed)
    try:
        hub = resource.codec.to_hub(completed)
    except Invalid as error:
        return [FieldError(**cause) for cause in (error.details or {})["causes"]]
    strategy = resource.strategy
    strategy.prepare_create(hub)
    return [*strategy.validate_create(hub), *strategy.validate(hub), *strategy.validate_ratcheting(hub, None)]


def _added(new: Any, given: Any) -> Iterator[tuple[Document, str]]:
    """Yields the fields, as object and name, that `given` does not have in the same place."""
    if isinstance(new, dict) and isinstance(given, Mapping):
        for name, value in new.items():
            if name in given:
                yield from _added(value, given[name])
            else:
                yield new, name
    elif isinstance(new, list) and isinstance(given, list):
        for one, other in zip(new, given, strict=False):
            yield from _added(one, other)


def _convert(source: ServedResource, target: ServedResource, document: Document) -> Document:
    return source.codec.convert(document, target.codec)


def _without(document: Document, paths: Sequence[str]) -> Document:
    """Returns a document without some of its fields."""
    kept = copy.deepcopy(document)
    _remove(kept, "", frozenset(paths))
    return kept


def _remove(value: Any, path: str, paths: frozenset[str]) -> None:
    if isinstance(value, dict):
        for name in [name for name in value if field_below(path, name) in paths]:
            del value[name]
    for where, child in _children(value, path):
        _remove(child, where, paths)


def _children(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((field_below(path, name), child) for name, child in value.items())
    elif isinstance(value, list):
        yield from ((item_below(path, index), child) for index, child in enumerate(value))


def _adapt(plain: Any, defaulted: Any, wanted: Any) -> None:
    """Adds fields to a document so that it equals `wanted` once it has its defaults.

    plain: the document. defaulted: the document with its current defaults.
    """
    if not isinstance(plain, dict):
        return
    for name, value in wanted.items():
        has = defaulted.get(name, _ABSENT)
        if has is not _ABSENT and has == value:
            continue
        child = plain.get(name, _ABSENT)
        if isinstance(child, dict) and isinstance(value, dict) and isinstance(has, dict):
            _adapt(child, has, value)
        elif _is_same_length(child, has, value):
            for one, two, three in zip(child, has, value, strict=True):
                if isinstance(one, dict) and isinstance(three, dict):
                    _adapt(one, two, three)
        elif not _is_nothing(value):
            plain[name] = value
    for name in [name for name in plain if name not in wanted]:
        del plain[name]


def _is_same_length(*values: Any) -> bool:
    return all(isinstance(value, list) for value in values) and len({len(value) for value in values}) == 1


def _is_nothing(value: Any) -> bool:
    """Returns whether a value is Go's text for an unset field."""
    return value is None or value in ({}, [], "")


def _missing(value: Any, back: Any, path: str) -> Iterator[str]:
    """Yields the paths of the fields that a document lost by a conversion to another version and back."""
    if isinstance(value, dict) and isinstance(back, Mapping):
        for name, child in value.items():
            where = field_below(path, name)
            if name in back:
                yield from _missing(child, back[name], where)
            elif not _is_nothing(child):
                yield where
    elif isinstance(value, list) and isinstance(back, list) and len(value) == len(back):
        for index, (child, other) in enumerate(zip(value, back, strict=True)):
            gone = list(_missing(child, other, item_below(path, index)))
            if gone and not any(next(_missing(child, each, ""), None) is None for each in back):
                yield from gone
    elif value != back and not _is_nothing(value) and type(value) is type(back):
        yield path
