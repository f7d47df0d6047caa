"""Amounts as people read them."""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def size(amount: float) -> str:
    """Returns a number of bytes with three digits and a unit: `1.5 GiB`, `512 MiB`, `0 B`."""
    index = 0
    while amount >= 1024 and index < len(_UNITS) - 1:
        amount /= 1024
        index += 1
    return f"{amount:.0f} {_UNITS[index]}" if amount >= 100 or not index else f"{amount:.3g} {_UNITS[index]}"


def count(amount: int, noun: str) -> str:
    """Returns a number of things: `1 file`, `2 files`."""
    return f"{amount} {noun}{'' if amount == 1 else 's'}"


def milliseconds(duration_s: float) -> str:
    """Returns a duration: `0.4 ms`, `12 ms`, `2300 ms`."""
    amount = duration_s * 1000
    return f"{amount:.1f} ms" if amount < 10 else f"{amount:.0f} ms"
