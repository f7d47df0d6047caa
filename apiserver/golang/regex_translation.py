"""Translates patterns for Python's `re` where that means the same and takes linear time.

A pattern is translated to its positions (each character or class in it) and which position may follow which.
If no text leads to one position in two ways, a backtracking matcher never comes to the same place twice, and
takes linear time. This is checked on pairs of positions, as one decides whether an automaton is ambiguous. A
counted
repetition is taken for an unbounded one: if that is unambiguous, so is the counted one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

# Sets of characters are bits: one for each ASCII character, and one for all others.
_OTHERS: Final = 1 << 128
_ALL: Final = (1 << 129) - 1
# Larger patterns are rare, and RE2 matches them as well.
_TRANSLATED_MAX: Final = 512
_POSITIONS_MAX: Final = 160
_EDGES_MAX: Final = 1000
_PAIRS_MAX: Final = 1000
_DEPTH_MAX: Final = 20

_COUNTED: Final = re.compile(r"\{(0|[1-9]\d{0,3})(,(0|[1-9]\d{0,3})?)?\}")
_REPEAT_MAX: Final = 1000
_ESCAPES: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _bits(characters: str) -> int:
    return sum(1 << ord(character) for character in set(characters))


_LOWER, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
_PLAIN_CLASSES: Final = {
    "d": _bits(_DIGITS),
    "w": _bits(_LOWER + _LOWER.upper() + _DIGITS + "_"),
    "s": _bits("\t\n\f\r "),  # not \v, as in Python
}
_CLASSES: Final = _PLAIN_CLASSES | {letter.upper(): _ALL & ~bits for letter, bits in _PLAIN_CLASSES.items()}
_DOT: Final = _ALL & ~_bits("\n")
_SHORT_CLASSES: Final = {_DOT: ".", _ALL: "(?s:.)"}


class _Untranslatable(Exception):
    """The pattern cannot be translated: it needs RE2, or is not valid."""


class _Part(NamedTuple):
    """A part of a pattern.

    first, last: the positions that may begin and end a match of it.
    copies: the product of its nested counted repetitions.
    """

    source: str = ""
    can_be_empty: bool = True
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    copies: int = 1


_EMPTY: Final = _Part()


def _either(parts: list[_Part]) -> _Part:
    if sum(part.can_be_empty for part in parts) > 1:
        raise _Untranslatable  # two ways to be empty
    return _Part(
        "|".join(part.source for part in parts),
        any(part.can_be_empty for part in parts),
        tuple(position for part in parts for position in part.first),
        tuple(position for part in parts for position in part.last),
        max(part.copies for part in parts),
    )


def translate_to_re(pattern: str) -> str | None:
    """Translate a pattern for `re`; None if that has another meaning or may take more than linear time."""
    if len(pattern) > _TRANSLATED_MAX or not pattern.isascii():
        return None
    try:
        return _Translation(pattern).source()
    except _Untranslatable:
        return None


class _Translation:
    def __init__(self, pattern: str) -> None:
        self._pattern, self._at, self._depth = pattern, 0, 0
        # Position 0 is everything before the match.
        self._sets = [_ALL]
        self._followers = [0]  # of each position, as bits
        self._edge_count = 0

    def source(self) -> str:
        branches = self._branches()
        if self._at < len(self._pattern):
            raise _Untranslatable  # an unexpected ")"
        if len(branches) > 1 or not self._pattern.startswith("^"):
            self._followers[0] = 1  # a match may begin anywhere
        whole = _either(branches)
        self._connect((0,), whole.first)
        if self._is_ambiguous():
            raise _Untranslatable
        return whole.source

    def _connect(self, lasts: tuple[int, ...], firsts: tuple[int, ...]) -> None:
        self._edge_count += len(lasts) * len(firsts)
        if self._edge_count > _EDGES_MAX:
            raise _Untranslatable
        added = 0
        for position in firsts:
            added |= 1 << position
        for position in lasts:
            if self._followers[position] & added:
                raise _Untranslatable  # two ways from one position to the other
            self._followers[position] |= added

    def _is_ambiguous(self) -> bool:
        sets, followers = self._sets, self._followers
        overlapping = [
            sum(1 << other for other, theirs in enumerate(sets) if own & theirs and other != position)
            for position, own in enumerate(sets)
        ]
        pairs = [(position, position) for position in range(len(sets))]
        seen = set(pairs)
        while pairs:
            one, other = pairs.pop()
            if one != other and followers[one] & followers[other]:
                return True
            for position in _positions(followers[one]):
                for rival in _positions(followers[other] & overlapping[position]):
                    pair = (min(position, rival), max(position, rival))
                    if pair not in seen:
                        seen.add(pair)
                        pairs.append(pair)
            if len(seen) > _PAIRS_MAX:
                return True
        return False

    # ---- the pattern's text

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _next(self) -> str:
        character = self._peek()
        if not character:
            raise _Untranslatable
        self._at += 1
        return character

    def _branches(self) -> list[_Part]:
        """The alternatives between `|`."""
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise _Untranslatable
        parts = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            parts.append(self._sequence())
        self._depth -= 1
        return parts

    def _sequence(self) -> _Part:
        whole = _EMPTY
        while self._peek() not in ("", "|", ")"):
            part = self._repeated(self._single())
            self._connect(whole.last, part.first)
            whole = _Part(
                whole.source + part.source,
                whole.can_be_empty and part.can_be_empty,
                whole.first + part.first if whole.can_be_empty else whole.first,
                whole.last + part.last if part.can_be_empty else part.last,
                max(whole.copies, part.copies),
            )
        return whole

    def _single(self) -> _Part:
        match character := self._next():
            case "(":
                return self._group()
            case "[":
                return self._position(self._class())
            case ".":
                return self._position(_DOT)
            case "^":
                return _Part(r"\A")
            case "$":
                return _Part(r"\Z")
            case "\\":
                return self._escaped()
            case "*" | "+" | "?" | "{":
                raise _Untranslatable
        return self._position(1 << ord(character))

    def _escaped(self) -> _Part:
        letter = self._next()
        if letter in _CLASSES:
            return self._position(_CLASSES[letter])
        if letter == "A":
            return _Part(r"\A")
        if letter == "z":
            return _Part(r"\Z")
        if letter == "b":
            return _Part(r"\b")
        return self._position(1 << ord(self._escape(letter)))

    def _escape(self, letter: str) -> str:
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if letter.isalnum():
            raise _Untranslatable
        return letter

    def _group(self) -> _Part:
        if self._peek() == "?":
            if not self._pattern.startswith("?:", self._at):
                raise _Untranslatable
            self._at += 2
        inner = _either(self._branches())
        if self._next() != ")":
            raise _Untranslatable
        return inner._replace(source=f"(?:{inner.source})")

    def _class(self) -> int:
        bits = 0
        if is_negated := self._peek() == "^":
            self._at += 1
        is_first = True
        while (character := self._next()) != "]" or is_first:
            is_first = False
            if character == "[" and self._peek() == ":":
                raise _Untranslatable
            if character == "\\":
                letter = self._next()
                if letter in _CLASSES:
                    bits |= _CLASSES[letter]
                    continue
                character = self._escape(letter)
            last = character
            if self._peek() == "-" and not self._pattern.startswith("-]", self._at):
                self._at += 1
                last = self._next()
                if last == "\\":
                    last = self._escape(self._next())
            if last < character:
                raise _Untranslatable
            bits |= (1 << ord(last) + 1) - (1 << ord(character))
        return _ALL & ~bits if is_negated else bits

    def _position(self, bits: int) -> _Part:
        position = len(self._sets)
        if not bits or position > _POSITIONS_MAX:
            raise _Untranslatable
        self._sets.append(bits)
        self._followers.append(0)
        return _Part(_class_source(bits), False, (position,), (position,))

    def _repeated(self, part: _Part) -> _Part:
        operator = self._peek()
        counted = _COUNTED.match(self._pattern, self._at) if operator == "{" else None
        if operator == "{" and counted is None:
            raise _Untranslatable  # a literal brace
        if counted is None and operator not in ("*", "+", "?"):
            return part
        # Matchers differ in the repetition of parts that can be empty.
        if part.can_be_empty:
            raise _Untranslatable
        copies = part.copies
        if counted is None:
            self._at += 1
            can_be_empty, is_repeated = operator != "+", operator != "?"
        else:
            operator = counted.group()
            self._at = counted.end()
            low = int(counted[1])
            is_unbounded = counted[2] == ","
            high = int(counted[3] or low)
            copies *= max(high, 1)
            if copies > _REPEAT_MAX or low > high or not (high or is_unbounded):
                raise _Untranslatable
            can_be_empty, is_repeated = low == 0, is_unbounded or high > 1
        if self._peek() in ("*", "+", "?", "{"):
            raise _Untranslatable
        if is_repeated:
            self._connect(part.last, part.first)
        return _Part(
            part.source + operator,
            can_be_empty,
            part.first,
            part.last,
            copies,
        )


def _positions(bits: int) -> Iterator[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


@lru_cache(maxsize=256)
def _class_source(bits: int) -> str:
    """The source of a set of characters for `re`."""
    if bits in _SHORT_CLASSES:
        return _SHORT_CLASSES[bits]
    if bits.bit_count() == 1 and bits != _OTHERS:
        return re.escape(chr(bits.bit_length() - 1))
    is_negated = bits & _OTHERS
    codes = list(_positions((_ALL & ~bits if is_negated else bits) & ~_OTHERS))
    starts = codes[:1] + [code for before, code in pairwise(codes) if code != before + 1]
    ends = [before for before, code in pairwise(codes) if code != before + 1] + codes[-1:]
    ranges = "".join(
        f"\\x{a:02x}" if a == b else f"\\x{a:02x}-\\x{b:02x}" for a, b in zip(starts, ends, strict=True)
    )
    return f"[{'^' if is_negated else ''}{ranges}]"
