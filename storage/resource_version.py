"""Parses a resourceVersion to a revision: clients hold the text, and only this server knows its meaning."""

from __future__ import annotations

from typing import Final

# Revisions are etcd's int64; kube-apiserver reads the text as a uint64, and so it is accepted here.
REVISION_MAX: Final = (1 << 63) - 1
_UINT64_MAX: Final = (1 << 64) - 1
_UINT64_DIGITS: Final = 20


class InvalidResourceVersion(ValueError):
    """`text` is not a resourceVersion; `problem` is "invalid syntax" or "value out of range"."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(f"{text!r} is not a revision: {problem}")
        self.text, self.problem = text, problem


def parse_resource_version(text: str) -> int:
    """Returns the revision of a resourceVersion: `"42"` -> 42; an empty text, for no version, is 0.

    Raises InvalidResourceVersion.
    """
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise InvalidResourceVersion(text, "invalid syntax")
    digits = text.lstrip("0") or "0"
    if len(digits) > _UINT64_DIGITS or int(digits) > _UINT64_MAX:
        raise InvalidResourceVersion(text, "value out of range")
    return min(int(digits), REVISION_MAX)
