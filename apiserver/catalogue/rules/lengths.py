"""How long texts are."""

from __future__ import annotations


def byte_length(text: str) -> int:
    """In bytes, as Go counts; half a surrogate pair has three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
