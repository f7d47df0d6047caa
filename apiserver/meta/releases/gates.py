"""The feature gates of a release, and their states."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

ALL_ALPHA: Final = "AllAlpha"
ALL_BETA: Final = "AllBeta"
ALPHA: Final = "ALPHA"
BETA: Final = "BETA"
STABLE: Final = ""  # as metrics have it
DEPRECATED: Final = "DEPRECATED"
# The gates that stand for all of a stage whose own are not given.
_OF_STAGE: Final = {ALL_ALPHA: ALPHA, ALL_BETA: BETA}
STAGE_GATES: Final = frozenset(_OF_STAGE)
_STAGES: Final = {"a": ALPHA, "b": BETA, "g": STABLE, "d": DEPRECATED}
_LOCKED: Final = "!"
_REMOVED: Final = "x"
_NEEDS: Final = "<"
_END: Final = "will be removed in a future release"
# Servers in one process nearly always have the same.
STATES_KEPT_MAX: Final = 8


class InvalidGates(ValueError):
    """Gates that cannot be set in this way; the message is one line."""


class GateStage(NamedTuple):
    """The stage of a gate from a release on. since: its minor number. name: as metrics have it."""

    since: int
    name: str
    is_on: bool
    is_locked: bool = False


class Gate(NamedTuple):
    """A feature gate. life: its stages, the first one first. needs: the gates that must be on with it.

    removed: the first release without it, by its minor number; None if all later ones have it.
    """

    name: str
    life: tuple[GateStage, ...]
    needs: tuple[str, ...] = ()
    removed: int | None = None

    def stage(self, minor: int) -> GateStage | None:
        """Returns the gate's stage in a release; None if the release does not have the gate."""
        if self.is_removed_in(minor):
            return None
        return next((stage for stage in reversed(self.life) if stage.since <= minor), None)

    def is_removed_in(self, minor: int) -> bool:
        return self.removed is not None and self.removed <= minor


@cache
def known_gates() -> Mapping[str, Gate]:
    """Returns all gates of Kubernetes by name, in order, including removed ones."""
    text = pkgutil.get_data(__package__, "gates.txt")
    assert text is not None
    lines = (line for line in text.decode().splitlines() if not line.startswith("#"))
    return MappingProxyType({gate.name: gate for gate in map(_parsed, lines)})


def _parsed(line: str) -> Gate:
    what, _, needs = line.partition(_NEEDS)
    name, *life = what.split()
    removed = int(life.pop()[1:]) if life[-1].startswith(_REMOVED) else None
    return Gate(name, tuple(map(_stage, life)), tuple(needs.split()), removed)


def _stage(text: str) -> GateStage:
    letter, since = text[0], text[1:]
    is_locked = since.endswith(_LOCKED)
    # Alpha and deprecated gates are off but for those that had been on: their letters are small, too.
    return GateStage(int(since.removesuffix(_LOCKED)), _STAGES[letter.lower()], letter.isupper(), is_locked)


@lru_cache(STATES_KEPT_MAX)
def gates_of(minor: int, given: tuple[tuple[str, bool], ...]) -> FeatureGates:
    """Returns the states of all gates of the release 1.`minor`. given: see `FeatureGates`.

    Raises InvalidGates.
    """
    return FeatureGates(minor, dict(given))


class FeatureGates:
    """The states of all gates of a release. warnings: a line for each gate that should not be set.

    given: as `--feature-gates` has them.
    """

    def __init__(self, minor: int, given: Mapping[str, bool] = MappingProxyType({})) -> None:
        """minor: the release 1.`minor`. Raises InvalidGates."""
        self.minor, self._given = minor, dict(given)
        self._stages = {
            gate.name: stage for gate in known_gates().values() if (stage := gate.stage(minor)) is not None
        }
        self.warnings = tuple(self._checked(given))
        together = {_OF_STAGE[name]: is_on for name, is_on in given.items() if name in _OF_STAGE}
        self._together = {name: given.get(name, False) for name in _OF_STAGE}
        self._states = {
            name: given.get(name, stage.is_on if stage.is_locked else together.get(stage.name, stage.is_on))
            for name, stage in self._stages.items()
        }
        self._check_needs()

    def is_on(self, name: str) -> bool:
        """Returns the state of a gate: off before it exists, and its last state after its removal.

        Raises KeyError.
        """
        if name in self._states:
            return self._states[name]
        gate = known_gates()[name]
        return gate.is_removed_in(self.minor) and any(stage.is_on for stage in gate.life[-1:])

    def allow(self, names: Iterable[str]) -> bool:
        """Returns whether all of some gates are on; gates that the release does not have are ignored."""
        return all(self._states.get(name, True) for name in names)

    def are_turned_off(self, names: Iterable[str]) -> bool:
        """Returns whether any of some gates was turned off explicitly."""
        return any(self._given.get(name) is False for name in names)

    def is_default(self, name: str) -> bool:
        """Whether a gate has its default state, also by a switch for all gates of a stage. Raises
        KeyError.
        """
        if name in self._together:
            return not self._together[name]
        return self._states[name] == self._stages[name].is_on

    def states(self) -> Iterator[tuple[str, str, bool]]:
        """Yields name, stage and state of each gate, as in the metric kubernetes_feature_enabled."""
        for name, is_on in self._together.items():
            yield name, _OF_STAGE[name], is_on
        for name, is_on in self._states.items():
            yield name, self._stages[name].name, is_on

    def described(self, names: Iterable[str]) -> list[str]:
        """Returns the lines of help about the gates that can be set: values, stages and defaults."""
        return [
            f"{name}=true|false ({self._stages[name].name or 'GA'} - "
            f"default={_as_text(self._stages[name].is_on)})"
            for name in names
            if name in self._stages and not self._stages[name].is_locked
        ]

    def _checked(self, given: Mapping[str, bool]) -> Iterator[str]:
        """Check the given gates, and yield warnings. Raises InvalidGates."""
        for name, is_on in given.items():
            if name in _OF_STAGE:
                continue
            if (gate := known_gates().get(name)) is None:
                raise InvalidGates(f"unrecognized feature gate: {name}")
            if gate.is_removed_in(self.minor):
                raise InvalidGates(
                    f"unrecognized feature gate: {name}, which Kubernetes 1.{gate.removed} has removed"
                )
            stage, value = self._stages.get(name), _as_text(is_on)
            if stage is None:
                why = f"feature is PreAlpha at emulated version 1.{self.minor}"
                raise InvalidGates(f"cannot set feature gate {name} to {value}, {why}")
            if stage.is_locked and stage.is_on != is_on:
                why = f"feature is locked to {_as_text(stage.is_on)}"
                raise InvalidGates(f"cannot set feature gate {name} to {value}, {why}")
            if stage.name in (STABLE, DEPRECATED):
                kind = "GA" if stage.name == STABLE else "deprecated"
                effect = "it has no effect, and " if stage.is_locked else "it "
                yield f"setting {kind} feature gate {name}={value}: {effect}{_END}"

    def _check_needs(self) -> None:
        for name, is_on in self._states.items():
            needed: Sequence[str] = known_gates()[name].needs if is_on else ()
            if off := [each for each in needed if not self._states.get(each, True)]:
                raise InvalidGates(
                    f"{name} is enabled, but depends on features that are disabled: [{' '.join(off)}]"
                )


def _as_text(is_on: bool) -> str:
    return "true" if is_on else "false"
