"""A flag of the server: how it is written, parsed and explained, and the option that it sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, field, fields
from typing import Any, NamedTuple


class Flag(NamedTuple):
    """A flag.

    value: what --help calls its value. parse: its type.
    field: the option that it sets; the flag's own name if empty.
    default: the default that --help shows, where that is not the option's.
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


class Kind(NamedTuple):
    """The values of a flag: what --help calls them, their type, and whether there must be one."""

    value: str
    parse: Callable[[str], Any]
    needs_value: bool = True


def option(
    value: Any, kind: Kind, text: str, name: str = "", factory: Callable[[], Any] | None = None, **more: Any
) -> Any:
    """Returns the field of an option that a flag sets, in a dataclass of options.

    value: the option's default. text: of --help. name: of the flag, if it is not the option's.
    factory: makes the default. more: the flag's other fields.
    """
    flag = Flag(name, kind.value, kind.parse, text, needs_value=kind.needs_value, **more)
    return field(
        default=value if factory is None else MISSING,
        default_factory=MISSING if factory is None else factory,
        metadata={"flag": flag},
    )


def flags_of(options: type) -> Sequence[Flag]:
    """Returns the flags of a dataclass of options, and those that it has beside options, in their order."""
    by_option = {each.name: each.metadata.get("flag") for each in fields(options)}
    flags = []
    for name in options.__annotations__:
        flag = by_option[name] if name in by_option else getattr(options, name)
        if flag is not None:
            named = flag.name or f"--{name.removesuffix('_s').replace('_', '-')}"
            flags.append(flag._replace(name=named, field=flag.field or name))
    return tuple(flags)
