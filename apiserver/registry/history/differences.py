"""What has become of an object between two moments: as a merge patch, and as lines of YAML."""

from __future__ import annotations

from typing import Final

from apiserver.golang.quoting import go_quote
from apiserver.meta.vocabulary import Document
from apiserver.registry.history import line_differences
from apiserver.registry.patch import merge_patch
from apiserver.registry.stored_object import StoredObject
from apiserver.wire import yaml

# Each write changes them, and they say nothing about the object.
LEFT_OUT: Final = ("managedFields", "resourceVersion")
# The name of nothing in a diff of files.
_NOTHING: Final = "/dev/null"


def difference(
    name: str, before: StoredObject | None, after: StoredObject | None, *, is_thinned: bool
) -> Document:
    """Returns the difference of two states of an object as JSON. None: there was no object.

    name: `RESOURCE/NAME`, for the names of the texts. is_thinned: whether one of them lacks its status, which
    is not compared then. Raises CorruptObject.
    """
    old, new = (None if each is None else each.document() for each in (before, after))
    if not is_thinned:
        return difference_of(name, old, new)
    for each in (old, new):
        if each is not None:
            each.pop("status", None)
    return {**difference_of(name, old, new), "thinned": True}


def difference_of(name: str, before: Document | None, after: Document | None) -> Document:
    """Returns the difference of two documents with metadata, which it changes; see `difference`."""
    versions = [_taken_version(each) for each in (before, after)]
    # Names may have line breaks, which would begin lines of the diff; Git quotes such names, too.
    name = name if name.isprintable() else go_quote(name)
    names = [f"{name}@{version}" if version else _NOTHING for version in versions]
    old_lines, new_lines = ([] if each is None else _lines(each) for each in (before, after))
    return {
        **{
            side: {"resourceVersion": version} if version else {}
            for side, version in zip(("from", "to"), versions, strict=True)
        },
        # RFC 7386: null instead of an object removes it.
        "mergePatch": None if after is None else merge_patch.between(before or {}, after),
        "yamlDiff": line_differences.unified(old_lines, new_lines, (names[0], names[1])),
    }


def _taken_version(document: Document | None) -> str:
    """Take what is left out of a document. Returns its resource version; empty without a document."""
    if document is None:
        return ""
    metadata = document["metadata"]
    version = str(metadata["resourceVersion"])
    for field in LEFT_OUT:
        metadata.pop(field, None)
    return version


def _lines(document: Document) -> list[str]:
    # Not by `splitlines`, which breaks at more characters, as U+2028.
    return [f"{line}\n" for line in yaml.dump(document).decode().split("\n")[:-1]]
