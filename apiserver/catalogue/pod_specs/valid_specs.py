"""Pod specs that have been found sound, known again by what is written in them.

The pods of one workload have the same spec but for the name of the volume that holds their account's token; a
workload's template is looked at each time that anything of it is written. What was sound is so again.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

import orjson

from apiserver.vocabulary import Document

# Digests that are kept; when there are more, all are forgotten.
REMEMBERED_MAX: Final = 8_192
_DIGEST_BYTES: Final = 16
# As the plugin ServiceAccount names it.
_is_token_volume = re.compile(r"kube-api-access-[a-z0-9]{5}").fullmatch
# Stands for it: text in JSON has no such character.
_ANY_TOKEN_VOLUME: Final = b'"\x00"'


class ValidSpecs:
    """Those of one kind: of pods, or of templates."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._known

    def add(self, digest: bytes) -> None:
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        self._known.add(digest)


def digest_of(spec: Document) -> bytes | None:
    """The same for specs of which the same rules hold; None if more than the spec counts."""
    token_volumes = []
    for volume in spec.get("volumes") or ():
        if "ephemeral" in volume:
            return None  # The pod's name makes one with the volume's.
        name = volume.get("name")
        if type(name) is str and _is_token_volume(name):
            token_volumes.append(name)
    try:
        text = orjson.dumps(spec)
    except TypeError:
        return None  # Numbers that only Python knows.
    if len(token_volumes) == 1:
        text = text.replace(b'"%b"' % token_volumes[0].encode(), _ANY_TOKEN_VOLUME)
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest()
