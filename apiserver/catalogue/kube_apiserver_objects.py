"""Translates what a kube-apiserver has stored into what this server stores.

- *Built-in types* are protobuf, or JSON, in other folders: `/registry/pods/ns/name`. They become JSON in the
  same version, under the key of this server: `/registry/core/pods/ns/name`. The server converts former
  versions when it reads them.
- *Custom resources* have the same keys and values in both; they stay as they are.
- *Left out without mention*: the records of kube-apiservers, allocated addresses and ports, which this server
  finds from the Services, and what a server of this program has stored in the same prefix with --adopt. Left
  out with mention: objects of types that no release has.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import orjson

from apiserver.catalogue.builtins import Catalogue
from apiserver.meta.brand import Brand
from apiserver.meta.releases.emulation import DEFAULT_RELEASE, OLDEST_MINOR, EmulatedRelease
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import TooDeep, encode, head_of
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.storage.interface import ENCRYPTED_PREFIX, Stored
from apiserver.storage.keys import INTERNAL_GROUP, object_key
from apiserver.storage.store_copy import CopyError, Translate, Translated
from apiserver.wire.protobuf import MAGIC, InvalidProtobuf, open_envelope

_RECORDS: Final = ("masterleases/", "peerserverleases/", "ranges/")
# Leases with this label are those by which kube-apiservers find each other.
_IDENTITY_LABEL: Final = "apiserver.kubernetes.io/identity"
# A kube-apiserver keeps built-in types of these groups in the same folders as this server.
_SHARED_FOLDERS: Final = frozenset({"apiextensions.k8s.io", "apiregistration.k8s.io"})
_LEFT_OUT: Final = Translated(None)


def own_objects(source_prefix: str, target_prefix: str) -> Translate:
    """Returns a translation that leaves out the built-in objects of a kube-apiserver.

    Its folders are names of resources. Those of this server, and of custom resources, are names of groups.
    """
    folders = _group_folders(Catalogue(Brand(), BuiltinSchemas(DEFAULT_RELEASE.version)))

    def translate(stored: Stored) -> Translated:
        path = stored.key[len(source_prefix) + 1 :]
        folder = path.partition("/")[0]
        if "." not in folder and folder not in folders:
            return _LEFT_OUT
        return Translated(stored._replace(key=f"{target_prefix}/{path}"))

    return translate


def _group_folders(catalogue: Catalogue) -> frozenset[str]:
    """Returns the folders of the built-in groups of this server, and that of keys which are no objects."""
    return frozenset({INTERNAL_GROUP, *(each.folder.split("/")[1] for each in catalogue.all_versions())})


class KubeApiserverObjects:
    """Translates stored values, one by one. source_prefix, target_prefix: those of all keys."""

    def __init__(self, source_prefix: str, target_prefix: str) -> None:
        self._source_prefix, self._target_prefix = source_prefix, target_prefix
        schemas = BuiltinSchemas(DEFAULT_RELEASE.version)
        self._current = Catalogue(Brand(), schemas)
        # It has the types of all later releases, too.
        self._oldest = Catalogue(Brand(), schemas, release=EmulatedRelease.of(OLDEST_MINOR))
        self._own_folders = _group_folders(self._current) - _SHARED_FOLDERS

    def __call__(self, stored: Stored) -> Translated:
        """Returns the key and value of this server. Raises CopyError."""
        path = stored.key[len(self._source_prefix) + 1 :]
        if path.startswith(_RECORDS) or path.partition("/")[0] in self._own_folders:
            return _LEFT_OUT
        try:
            if stored.value.startswith(MAGIC):
                return self._from_protobuf(stored)
            if stored.value.startswith(ENCRYPTED_PREFIX):
                raise CopyError(
                    f"{stored.key} is encrypted: let the kube-apiserver decrypt its objects first, with the "
                    "provider identity"
                )
            if stored.value.startswith(b"{"):
                return self._from_json(stored)
        except (InvalidProtobuf, orjson.JSONDecodeError, TooDeep, UnicodeError) as error:
            raise CopyError(f"{stored.key} cannot be read: {error}") from error
        return Translated(None, path.partition("/")[0])

    def _from_protobuf(self, stored: Stored) -> Translated:
        envelope = open_envelope(stored.value)
        api_version, kind = envelope.api_version, envelope.kind
        resource = self._types.get((api_version, kind))
        if resource is None or not resource.has_protobuf:
            return Translated(None, f"{api_version} {kind}")
        return self._builtin(stored, api_version, kind, resource.from_protobuf(envelope.raw))

    def _from_json(self, stored: Stored) -> Translated:
        document = orjson.loads(stored.value)
        api_version, kind = document.get("apiVersion"), document.get("kind")
        if (api_version, kind) in self._types:
            return self._builtin(stored, api_version, kind, document)
        return Translated(stored._replace(key=self._target_prefix + stored.key[len(self._source_prefix) :]))

    def _builtin(self, stored: Stored, api_version: str, kind: str, document: Any) -> Translated:
        head = head_of(api_version, kind)
        found = self._current.kind(head)
        metadata = document.get("metadata") or {}
        name = metadata.get("name")
        if found is None or not name:
            return Translated(None, f"{api_version} {kind}")
        if _IDENTITY_LABEL in (metadata.get("labels") or {}):
            return _LEFT_OUT
        key = object_key(self._target_prefix + found.folder, metadata.get("namespace", ""), name)
        return Translated(stored._replace(key=key, value=encode(document, head)))

    @cached_property
    def _types(self) -> Mapping[tuple[str, str], ServedResource]:
        return {(each.api_version, each.kind): each for each in self._oldest.all_versions()}
