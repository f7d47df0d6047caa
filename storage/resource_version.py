"""resourceVersion text to revision and back: clients hold the text, only this server knows its meaning."""

from __future__ import annotations

from typing import Final

from storage.quoting import go_quote

# Revisions are etcd's int64; the text is read as Go reads unsigned integers.
_UINT64_MAX: Final = (1 << 64) - 1
_UINT64_DIGITS: Final = 20
REVISION_MAX: Final = (1 << 63) - 1


class InvalidResourceVersion(ValueError):
    """The text is no resourceVersion; the message is the one that Go's strconv gives."""


def parse_resource_version(text: str) -> int:
    """`"42"` -> 42; an empty text, which stands for no version, is 0. Raises InvalidRevision."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise InvalidResourceVersion(f"strconv.ParseUint: parsing {go_quote(text)}: invalid syntax")
    digits = text.lstrip("0") or "0"
    if len(digits) > _UINT64_DIGITS or int(digits) > _UINT64_MAX:
        raise InvalidResourceVersion(f"strconv.ParseUint: parsing {go_quote(text)}: value out of range")
    return min(int(digits), REVISION_MAX)
