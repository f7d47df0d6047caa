"""The library of semantic versions: `semver('1.2.3-rc.1')`.

Source: k8s.io/apiserver pkg/cel/library/semverlib.go, blang/semver.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import total_ordering
from typing import Any, ClassVar, Final

from apiserver.cel import types
from apiserver.cel.declarations import Library, named_types
from apiserver.cel.functions import Overload, method
from apiserver.cel.library.shared_costs import of_text
from apiserver.cel.types import BOOL, INT, STRING, Type
from apiserver.cel.values import UINT_MAX, EvaluationError
from apiserver.golang.quoting import go_quote, strconv_error

SEMVER: Final = types.opaque("kubernetes.Semver")
_DIGITS: Final = re.compile("[0-9]*")
_LETTERS: Final = re.compile("[0-9A-Za-z-]*")


class _Invalid(Exception):
    """A text that is not a semantic version."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A semantic version.

    prerelease: numbers sort before texts, and versions with a prerelease before those without. Builds are
        ignored.
    """

    cel_type: ClassVar[Type] = SEMVER
    numbers: tuple[int, int, int]
    prerelease: tuple[tuple[bool, int, str], ...] = ()

    @property
    def _order(self) -> tuple[Any, ...]:
        return (self.numbers, not self.prerelease, self.prerelease)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._order == other._order

    def __lt__(self, other: Semver) -> bool:
        return self._order < other._order

    def __hash__(self) -> int:
        return hash(self._order)


def _number(text: str) -> int:
    if not text:
        raise _Invalid(strconv_error("ParseUint", "", "invalid syntax"))
    # Longer numbers are out of range, and parsing them takes quadratic time.
    if len(text) > 20 or int(text) > UINT_MAX:
        raise _Invalid(strconv_error("ParseUint", text, "value out of range"))
    return int(text)


def _part(name: str, text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise _Invalid(f"Invalid character(s) found in {name} number {go_quote(text)}")
    if len(text) > 1 and text.startswith("0"):
        raise _Invalid(f"{name.capitalize()} number must not contain leading zeroes {go_quote(text)}")
    return _number(text)


def _prerelease(text: str) -> tuple[bool, int, str]:
    if not text:
        raise _Invalid("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text.startswith("0"):
            raise _Invalid(f"Numeric PreRelease version must not contain leading zeroes {go_quote(text)}")
        return (False, _number(text), "")
    if not _LETTERS.fullmatch(text):
        raise _Invalid(f"Invalid character(s) found in prerelease {go_quote(text)}")
    return (True, 0, text)


def _parse(text: str) -> Semver:
    if not text:
        raise _Invalid("Version string empty")
    parts = text.split(".", 2)
    if len(parts) < 3:
        raise _Invalid("No Major.Minor.Patch elements found")
    major, minor = _part("major", parts[0]), _part("minor", parts[1])
    last, has_build, build = parts[2].partition("+")
    last, has_prerelease, prerelease = last.partition("-")
    patch = _part("patch", last)
    version = Semver(
        (major, minor, patch), tuple(map(_prerelease, prerelease.split("."))) if has_prerelease else ()
    )
    for item in build.split(".") if has_build else ():
        if not item:
            raise _Invalid("Build meta data is empty")
        if not _LETTERS.fullmatch(item):
            raise _Invalid(f"Invalid character(s) found in build meta data {go_quote(item)}")
    return version


def parse_semver(text: str) -> Semver | None:
    """Returns the version in a text, as `1.2.3-rc.1`; None if it is invalid."""
    try:
        return _parse(text)
    except _Invalid:
        return None


def _normalized(text: str) -> str:
    """Normalize a version: `v1.02` becomes 1.2.0."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1].isdecimal() and stripped[0].isascii() else f"0{stripped}"
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise _Invalid("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][: max(3, len(parts))])


def _read(text: str, is_normalized: bool) -> Semver:
    return _parse(_normalized(text) if is_normalized else text)


def _semver(text: str, is_normalized: bool = False) -> Semver:
    try:
        return _read(text, is_normalized)
    except _Invalid as invalid:
        raise EvaluationError(str(invalid)) from None


def _is_semver(text: str, is_normalized: bool = False) -> bool:
    try:
        _read(text, is_normalized)
    except _Invalid:
        return False
    return True


def _compare(a: Semver, b: Semver) -> int:
    return (a > b) - (a < b)


def _piece(index: int) -> Callable[[Semver], int]:
    def piece(version: Semver) -> int:
        number = version.numbers[index]
        return number - (UINT_MAX + 1) if number >> 63 else number  # as Go takes one for the other

    return piece


SEMVERS: Final = Library(
    "kubernetes.Semver",
    {
        "semver": (
            Overload("string_to_semver", (STRING,), SEMVER, _semver, call_cost=of_text()),
            Overload("string_bool_to_semver", (STRING, BOOL), SEMVER, _semver, call_cost=of_text()),
        ),
        "isSemver": (
            Overload("is_semver_string", (STRING,), BOOL, _is_semver, call_cost=of_text()),
            Overload("is_semver_string_bool", (STRING, BOOL), BOOL, _is_semver, call_cost=of_text()),
        ),
        "isGreaterThan": method("semver_is_greater_than", (SEMVER, SEMVER), BOOL, operator.gt),
        "isLessThan": method("semver_is_less_than", (SEMVER, SEMVER), BOOL, operator.lt),
        "compareTo": method("semver_compare_to", (SEMVER, SEMVER), INT, _compare),
        "major": method("semver_major", (SEMVER,), INT, _piece(0)),
        "minor": method("semver_minor", (SEMVER,), INT, _piece(1)),
        "patch": method("semver_patch", (SEMVER,), INT, _piece(2)),
    },
    constants=named_types(SEMVER),
    since=(1, 33),
)
