"""Warnings about files of a volume with the same path, or with a path within another file's.

Source: pkg/api/pod, warnings.go, warningsForOverlappingVirtualPaths.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from apiserver.meta.field_errors import quote
from apiserver.meta.vocabulary import Document

# The path of a file, the name of its kind of source, and its source.
_File: TypeAlias = tuple[str, str, Document]

# Thousands of files may have the same path, and each pair of them is a warning.
_PAIRS_SHOWN_MAX: Final = 32
# What has files by the keys of an object: its name, and the field that names the object in a volume.
_KEYED: Final = {
    "configMap": ("ConfigMap", "name"),
    "secret": ("Secret", "secretName"),
    "downwardAPI": ("DownwardAPI", ""),
}
_OF_CERTIFICATES: Final = (
    ("certificateChainPath", "PodCertificate chain"),
    ("keyPath", "PodCertificate key"),
    ("credentialBundlePath", "PodCertificate credential bundle"),
)


def warn_overlapping_paths(volumes: Iterable[Document]) -> list[str]:
    warnings: list[str] = []
    for volume in volumes:
        if "projected" in volume:
            warnings += _projected(volume, volume["projected"] or {})
        elif not _KEYED.keys().isdisjoint(volume):
            warnings += _keyed(volume)
    return warnings


def _keyed(volume: Document) -> list[str]:
    for field, (shown, name_field) in _KEYED.items():
        if (source := volume.get(field)) is None or not source.get("items"):
            continue
        named = f"{shown} {quote(source.get(name_field, ''))}" if name_field else shown
        pairs = _overlaps([(item.get("path", ""), "", source) for item in source["items"]])
        return [_text(volume, named, f"{quote(one)} with {quote(other)}") for (one, *_), (other, *_) in pairs]
    return []


def _projected(volume: Document, projected: Document) -> list[str]:
    sources = projected.get("sources") or ()
    warnings = [
        f"volume {quote(volume.get('name', ''))} (Projected) has no sources provided"
        for source in sources
        if not source
    ]
    pairs = _overlaps([file for source in sources for file in _files(source)])
    return warnings + [
        _text(volume, "Projected", f"{_shown(one)} with {_shown(other)}") for one, other in pairs
    ]


def _text(volume: Document, kind: str, pair: str) -> str:
    return f"volume {quote(volume.get('name', ''))} ({kind}): overlapping paths: {pair}"


def _shown(file: _File) -> str:
    path, kind, source = file
    if kind in ("ConfigMap", "Secret", "ClusterTrustBundle"):
        kind = f"{kind} {quote(source.get('name', source.get('signerName', '')))}"
    return f"{quote(path)} ({kind})"


def _files(source: Document) -> Sequence[_File]:
    """Returns the files of a projected source."""
    for field, projection in source.items():
        if field == "serviceAccountToken":
            return ((projection.get("path", ""), "ServiceAccountToken", projection),)
        if field in _KEYED:
            kind, _ = _KEYED[field]
            return [(item.get("path", ""), kind, projection) for item in projection.get("items") or ()]
        if field == "clusterTrustBundle":
            return ((projection.get("path", ""), "ClusterTrustBundle", projection),)
        return [(projection[path], kind, projection) for path, kind in _OF_CERTIFICATES if path in projection]
    return ()


def _overlaps(files: list[_File]) -> list[tuple[_File, _File]]:
    """Returns the pairs of files that overlap, each with an earlier one."""
    paths = {path for path, _, _ in files}
    if len(paths) == len(files) and not any("/" in path for path in paths):
        return []
    files = [(path.rstrip("/"), kind, source) for path, kind, source in files]
    # Sorted so, the files in a folder follow it at once.
    ordered = sorted((f"{path}/", index) for index, (path, _, _) in enumerate(files) if path)
    pairs: list[tuple[int, int]] = []
    around: list[tuple[str, int]] = []
    for path, index in ordered:
        while around and not path.startswith(around[-1][0]):
            around.pop()
        pairs += [(max(index, other), min(index, other)) for _, other in around[:_PAIRS_SHOWN_MAX]]
        around.append((path, index))
        if len(pairs) >= _PAIRS_SHOWN_MAX:
            break
    return [(files[later], files[earlier]) for later, earlier in sorted(pairs)[:_PAIRS_SHOWN_MAX]]
