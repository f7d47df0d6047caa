"""Regular expressions as Go has them (RE2): matched in linear time, whatever the pattern and the text.

Patterns come from clients: of schemas, of CEL expressions. RE2 itself does them all. Python's `re` is some
times faster, but means other things by some patterns and takes exponential time for others; so it gets those
of which `_translated` proves that neither can happen. Texts of errors are Go's (regexp/syntax/parse.go).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Final

import re2

# How many compiled patterns are kept, of those that are small, and of the few that are not. One of the former
# holds at most a megabyte, of the latter eight, and both usually a hundredth of it.
CACHE_MAX: Final = 512
LARGE_CACHE_MAX: Final = 8
MEMORY_MAX: Final = 1 << 20
LARGE_MEMORY_MAX: Final = 8 << 20

_PARSE_ERROR: Final = "error parsing regexp: "
_TOO_LARGE: Final = "pattern too large"

# One search may look at all that is left of a text, and find a short match. What is left after each match,
# in sum, is how long all could take; it takes about as many nanoseconds.
WORK_MAX: Final = 1 << 29

# What RE2 says, and what Go says. Both name the same part of the pattern.
_GO_MESSAGES: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid escape sequence": "invalid escape sequence",
    "invalid character class": "invalid character class",
    "invalid character class range": "invalid character class range",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid UTF-8": "invalid UTF-8",
}
# To find `\C` (any byte), which RE2 takes and Go does not: escapes, and what `\Q` quotes.
_ESCAPED: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)


class InvalidPattern(ValueError):
    """The pattern is no regular expression; the message is the client's, and Go's."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class TooMuchWork(Exception):
    """To find all matches would take too long."""


class Regex:
    """A pattern that can be looked for. A match is leftmost; among such, what the pattern has first."""

    __slots__ = ("_search", "_spans", "pattern")

    def __init__(
        self,
        pattern: str,
        search: Callable[[str], object],
        spans: Callable[[str], Iterator[tuple[int, int]]],
    ) -> None:
        self.pattern, self._search, self._spans = pattern, search, spans

    def search(self, text: str) -> bool:
        """Whether it is somewhere in the text."""
        return self._search(text) is not None

    def find(self, text: str) -> str | None:
        """The first match."""
        for start, end in self._spans(text):
            return text[start:end]
        return None

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """The first matches, or all if limit is negative. An empty one right after another is none.

        Raises TooMuchWork.
        """
        return [text[start:end] for start, end in self.spans(text, limit)]

    def spans(self, text: str, limit: int = -1) -> list[tuple[int, int]]:
        """Where the matches of `find_all` are. Raises TooMuchWork."""
        found: list[tuple[int, int]] = []
        end_before, work = -1, 0
        for start, end in self._spans(text) if limit else ():
            if start != end or start != end_before:
                found.append((start, end))
                if len(found) == limit:
                    break
            end_before = end
            work += len(text) - end
            if work > WORK_MAX:
                raise TooMuchWork
        return found


@lru_cache(maxsize=CACHE_MAX)
def compile_pattern(pattern: str) -> Regex:
    """Raises InvalidPattern, also for patterns that are too large when compiled."""
    if (source := translate_to_re(pattern)) is not None:
        compiled = re.compile(source, re.ASCII)
        return Regex(pattern, compiled.search, partial(_spans, compiled))
    if r"\C" in _ESCAPED.findall(pattern):
        raise InvalidPattern(rf"{_PARSE_ERROR}invalid escape sequence: `\C`")
    try:
        return _with_re2(pattern, MEMORY_MAX)
    except _TooLarge:
        return _compile_large(pattern)


@lru_cache(maxsize=LARGE_CACHE_MAX)
def _compile_large(pattern: str) -> Regex:
    try:
        return _with_re2(pattern, LARGE_MEMORY_MAX)
    except _TooLarge:
        raise InvalidPattern(f"{_PARSE_ERROR}expression too large: `{pattern}`") from None


class _TooLarge(Exception):
    """Of a program for the memory that it may have."""


def _with_re2(pattern: str, memory_max: int) -> Regex:
    options = re2.Options()
    options.max_mem = memory_max
    options.log_errors = False
    options.never_capture = True  # groups only group; that is faster by half
    try:
        encoded = pattern.encode()
    except UnicodeEncodeError:
        raise InvalidPattern(f"{_PARSE_ERROR}invalid UTF-8: `{pattern}`") from None
    try:
        compiled = re2.compile(encoded, options)
    except re2.error as error:
        raise _explained(pattern, error) from None
    search = compiled.search
    find_all = re2.compile(pattern, options).finditer
    return Regex(
        pattern,
        lambda text: search(text.encode("utf-8", "surrogatepass")),
        lambda text: (match.span() for match in find_all(text)),
    )


def _spans(compiled: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """Not `finditer`, which tries again where a match was empty."""
    start, search = 0, compiled.search
    while start <= len(text) and (match := search(text, start)):
        yield match.span()
        start = match.end() + (match.start() == match.end())


def _explained(pattern: str, error: re2.error) -> Exception:
    said = error.args[0]
    said = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    if said.startswith(_TOO_LARGE):
        return _TooLarge()
    if said.startswith("trailing \\"):
        return InvalidPattern(f"{_PARSE_ERROR}trailing backslash at end of expression: ``")
    what, _, where = said.partition(": ")
    return InvalidPattern(f"{_PARSE_ERROR}{_GO_MESSAGES.get(what, what)}: `{where}`")


# ---- what `re` may do

# A pattern is taken to its positions (each character or class that it spells) and which may follow which. If
# no text leads to one position in two ways, a matcher that tries one way after another never comes to the
# same place twice, and takes linear time. That is looked for among pairs of positions, as one tells whether
# an automaton is ambiguous. A counted repetition is taken for an endless one: if that is not, neither is it.

# Sets of characters are bits: one for each of ASCII, and one for all others.
_OTHERS: Final = 1 << 128
_ALL: Final = (1 << 129) - 1
# What is larger is rare, and RE2 does it as well.
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


class _Unproven(Exception):
    """RE2 must do it; it may also be wrong."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Of a pattern. copies: how often its counted repetitions have what is in them."""

    source: str = ""
    can_be_empty: bool = True
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    copies: int = 1


_EMPTY: Final = _Part()


def _either(parts: list[_Part]) -> _Part:
    if sum(part.can_be_empty for part in parts) > 1:
        raise _Unproven  # two ways to be empty
    return _Part(
        "|".join(part.source for part in parts),
        any(part.can_be_empty for part in parts),
        tuple(position for part in parts for position in part.first),
        tuple(position for part in parts for position in part.last),
        max(part.copies for part in parts),
    )


def translate_to_re(pattern: str) -> str | None:
    """The pattern for `re`, where it means the same and takes linear time; else None."""
    if len(pattern) > _TRANSLATED_MAX or not pattern.isascii():
        return None
    try:
        return _Translation(pattern).source()
    except _Unproven:
        return None


class _Translation:
    def __init__(self, pattern: str) -> None:
        self._pattern, self._at, self._depth = pattern, 0, 0
        # Position 0 stands for what comes before the match.
        self._sets = [_ALL]
        self._followers = [0]  # of each position, as bits
        self._edge_count = 0

    def source(self) -> str:
        branches = self._branches()
        if self._at < len(self._pattern):
            raise _Unproven  # an unexpected ")"
        if len(branches) > 1 or not self._pattern.startswith("^"):
            self._followers[0] = 1  # it is tried everywhere
        whole = _either(branches)
        self._connect((0,), whole.first)
        if self._is_ambiguous():
            raise _Unproven
        return whole.source

    def _connect(self, lasts: tuple[int, ...], firsts: tuple[int, ...]) -> None:
        self._edge_count += len(lasts) * len(firsts)
        if self._edge_count > _EDGES_MAX:
            raise _Unproven
        added = 0
        for position in firsts:
            added |= 1 << position
        for position in lasts:
            if self._followers[position] & added:
                raise _Unproven  # two ways from one to the other
            self._followers[position] |= added

    def _is_ambiguous(self) -> bool:
        sets, followers = self._sets, self._followers
        alike = [
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
                for rival in _positions(followers[other] & alike[position]):
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
            raise _Unproven
        self._at += 1
        return character

    def _branches(self) -> list[_Part]:
        """What stands between `|`."""
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise _Unproven
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
                raise _Unproven
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
            raise _Unproven
        return letter

    def _group(self) -> _Part:
        if self._peek() == "?":
            if not self._pattern.startswith("?:", self._at):
                raise _Unproven
            self._at += 2
        inner = _either(self._branches())
        if self._next() != ")":
            raise _Unproven
        return replace(inner, source=f"(?:{inner.source})")

    def _class(self) -> int:
        bits = 0
        if is_negated := self._peek() == "^":
            self._at += 1
        is_first = True
        while (character := self._next()) != "]" or is_first:
            is_first = False
            if character == "[" and self._peek() == ":":
                raise _Unproven
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
                raise _Unproven
            bits |= (1 << ord(last) + 1) - (1 << ord(character))
        return _ALL & ~bits if is_negated else bits

    def _position(self, bits: int) -> _Part:
        position = len(self._sets)
        if not bits or position > _POSITIONS_MAX:
            raise _Unproven
        self._sets.append(bits)
        self._followers.append(0)
        return _Part(_spelled(bits), False, (position,), (position,))

    def _repeated(self, part: _Part) -> _Part:
        operator = self._peek()
        counted = _COUNTED.match(self._pattern, self._at) if operator == "{" else None
        if operator == "{" and counted is None:
            raise _Unproven  # a literal one
        if counted is None and operator not in ("*", "+", "?"):
            return part
        # To repeat what can be empty means different things to different matchers.
        if part.can_be_empty:
            raise _Unproven
        copies = part.copies
        if counted is None:
            self._at += 1
            can_be_empty, is_repeated = operator != "+", operator != "?"
        else:
            operator = counted.group()
            self._at = counted.end()
            low = int(counted[1])
            is_endless = counted[2] == ","
            high = int(counted[3] or low)
            copies *= max(high, 1)
            if copies > _REPEAT_MAX or low > high or not (high or is_endless):
                raise _Unproven
            can_be_empty, is_repeated = low == 0, is_endless or high > 1
        if self._peek() in ("*", "+", "?", "{"):
            raise _Unproven
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
def _spelled(bits: int) -> str:
    """A set of characters as `re` writes it."""
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
