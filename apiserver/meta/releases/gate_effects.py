"""The effect of each feature gate on this server, from gate_effects.txt."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

GATED: Final = "gated"
BUILTIN: Final = "builtin"
NONE: Final = "none"
_SECTION: Final = ">"
_SINCE: Final = "since="


class GateEffect(NamedTuple):
    """The effect of a feature gate. kind: `GATED`, `BUILTIN` or `NONE`.

    modules: those of `apiserver` or `storage` with the effect. why: the reason for having none. since: the
    first release in which it has an effect; 0 if it always has one.
    """

    kind: str
    modules: tuple[str, ...]
    why: str = ""
    since: int = 0


@cache
def gate_effects() -> Mapping[str, GateEffect]:
    """Returns the effects of gates by name; missing gates have none, unless they are gates of fields."""
    text = pkgutil.get_data(__package__, "gate_effects.txt")
    assert text is not None
    found: dict[str, GateEffect] = {}
    kind = why = ""
    for line in text.decode().splitlines():
        if line.startswith(_SECTION):
            kind, _, why = line.removeprefix(_SECTION).strip().partition(" ")
        elif not line.startswith("#"):
            name, *words = line.split()
            modules = tuple(each for each in words if not each.startswith(_SINCE))
            since = int(words[-1].removeprefix(_SINCE)) if len(modules) < len(words) else 0
            found[name] = GateEffect(kind, modules, why, since)
    return MappingProxyType(found)


def effective_gates(minor: int) -> set[str]:
    """Returns the gates with an effect in the release 1.`minor`, except those of fields."""
    effects = gate_effects().items()
    return {name for name, effect in effects if effect.kind == GATED and effect.since <= minor}
