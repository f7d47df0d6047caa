"""English plurals of kinds, as kubebuilder and `kubectl` users expect them: `policies` of `Policy`."""

from __future__ import annotations

from typing import Final

_HISSING: Final = ("s", "x", "z", "ch", "sh")
_VOWELS: Final = frozenset("aeiou")


def plural_of(kind: str) -> str:
    """Returns the plural of a kind in lower case, by the regular rules of English."""
    word = kind.lower()
    if word.endswith(_HISSING):
        return f"{word}es"
    if word.endswith("y") and word[-2:-1] not in _VOWELS:
        return f"{word[:-1]}ies"
    return f"{word}s"
