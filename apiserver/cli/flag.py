"""A flag of the server: how it is written, parsed and explained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Flag(NamedTuple):
    """A flag.

    value: what --help calls its value. parse: its type.
    field: the field of its section's options that it sets; the flag's own name if empty.
    default: the default that --help shows, where that is not the field's.
    repeats: may be given more than once. needs_value: may not be given alone, to mean true.
    is_list: its value is a list with commas, if it repeats.
    """

    name: str
    value: str
    parse: Callable[[str], Any]
    help: str
    field: str = ""
    default: str = ""
    alias: str = ""
    choices: Sequence[str] | None = None
    repeats: bool = False
    needs_value: bool = True
    is_list: bool = True

    @property
    def destination(self) -> str:
        return self.field or self.name.lstrip("-").replace("-", "_")
