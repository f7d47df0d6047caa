"""A cache of valid pod specs, by digest.

The pods of one workload have the same spec except for the name of the volume with their account's token; a
workload's template is checked at every write. A spec that was valid is still valid.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

import orjson

from apiserver.meta.vocabulary import Document

# How many digests are kept; when there are more, all are forgotten.
DIGESTS_MAX: Final = 8_192
_DIGEST_BYTES: Final = 16
# The name that the plugin ServiceAccount gives it.
_is_token_volume = re.compile(r"kube-api-access-[a-z0-9]{5}").fullmatch
# Stands for any such name: text in JSON has no such character.
_ANY_TOKEN_VOLUME: Final = b'"\x00"'


class ValidSpecs:
    """Digests of specs that follow the rules of pods, or those of templates."""

    def __init__(self, digests_max: int = DIGESTS_MAX) -> None:
        self._digests_max = digests_max
        self._known: set[bytes] = set()

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._known

    def add(self, digest: bytes) -> None:
        if len(self._known) >= self._digests_max:
            self._known.clear()
        self._known.add(digest)


def digest_of(spec: Document) -> bytes | None:
    """Returns a digest that is equal for specs with the same validity.

    Returns None if validity depends on more than the spec.
    """
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
