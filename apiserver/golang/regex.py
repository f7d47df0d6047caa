"""Go's regular expressions (RE2), matched in linear time for any pattern and text.

Patterns come from clients, in schemas and in CEL expressions. Python's `re` gives some of them another
meaning, and takes exponential time for others. For those where it could replace RE2, it would save a
microsecond of each search: 7 % of the time in which an object of a usual definition is decoded and validated.
The error texts are Go's (regexp/syntax/parse.go).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any, Final

from apiserver.golang.regex_size import expanded_size, with_repetitions_apart

# The numbers of small and of large compiled patterns that are cached. A small one takes at most one megabyte,
# a large one eight, and both usually a hundredth of it.
CACHE_MAX: Final = 512
LARGE_CACHE_MAX: Final = 8
MEMORY_MAX: Final = 1 << 20
LARGE_MEMORY_MAX: Final = 8 << 20

# RE2 blocks all other work while it compiles. It takes up to two microseconds for each character of the
# pattern with expanded repetitions, and for some invalid patterns quadratic time in their length.
PATTERN_LENGTH_MAX: Final = 32 * 1024
EXPANDED_MAX: Final = 32 * 1024
# What is smaller takes a millisecond, even if RE2 takes quadratic time.
_SMALL_EXPANDED: Final = 1_000
# The largest class of Unicode, \pL, takes nearly a millisecond. In the size of a pattern it counts less, so
# that patterns are accepted that Kubernetes accepts.
_UNICODE_CLASS_COST: Final = 425
# No pattern that is accepted costs more.
_COST_MAX: Final = EXPANDED_MAX * 5

_PARSE_ERROR: Final = "error parsing regexp: "
_TOO_LARGE: Final = "pattern too large"

# One search may scan the whole rest of a text, and find a short match. The sum of these rests limits the time
# of all searches: it takes about as many nanoseconds.
WORK_MAX: Final = 1 << 29

# RE2's messages and Go's. Both name the same part of the pattern.
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
# Escapes and the literals of `\Q`, to find `\C` (any byte), which RE2 accepts and Go does not.
_ESCAPED: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)
# UTF-8 has none; Go decodes one in JSON as the replacement character.
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class InvalidPattern(ValueError):
    """A pattern that is not a valid regular expression. The message is Go's, for the client."""


class TooMuchWork(Exception):
    """A search for all matches that would take too long."""


class Regex:
    """A compiled pattern. The leftmost match counts, and among these the first alternative of the pattern."""

    __slots__ = ("_search", "_spans", "pattern")

    def __init__(
        self, pattern: str, search: Callable[[str], object], spans: Callable[[str], Iterator[tuple[int, int]]]
    ) -> None:
        self.pattern, self._search, self._spans = pattern, search, spans

    def search(self, text: str) -> bool:
        """Returns whether the pattern matches anywhere in the text."""
        return self._search(text) is not None

    def find(self, text: str) -> str | None:
        """Returns the first match, or None."""
        for start, end in self._spans(text):
            return text[start:end]
        return None

    def prepare_find(self) -> None:
        """Compile the pattern once more, for `find` and `find_all`, whose first call would do it."""
        self.find("")

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """Returns the first `limit` matches, or all if it is negative. An empty match right after another is
        skipped.

        Raises TooMuchWork.
        """
        return [text[start:end] for start, end in self.spans(text, limit)]

    def spans(self, text: str, limit: int = -1) -> list[tuple[int, int]]:
        """Returns the positions of the matches of `find_all`. Raises TooMuchWork."""
        spans: list[tuple[int, int]] = []
        end_before, work = -1, 0
        for start, end in self._spans(text) if limit else ():
            if start != end or start != end_before:
                spans.append((start, end))
                if len(spans) == limit:
                    break
            end_before = end
            work += len(text) - end
            if work > WORK_MAX:
                raise TooMuchWork
        return spans


@lru_cache(maxsize=CACHE_MAX)
def compile_pattern(pattern: str) -> Regex:
    """Compile a pattern. Raises InvalidPattern, also if it is too large."""
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise _too_large(pattern)
    if r"\C" in _ESCAPED.findall(pattern):
        raise InvalidPattern(rf"{_PARSE_ERROR}invalid escape sequence: `\C`")
    size = expanded_size(pattern, EXPANDED_MAX)
    if size > EXPANDED_MAX:
        raise _too_large(pattern)
    source = pattern if size <= _SMALL_EXPANDED else with_repetitions_apart(pattern)
    try:
        return _with_re2(pattern, source, MEMORY_MAX)
    except _TooLarge:
        return _compile_large(pattern, source)


def compilation_cost(pattern: str) -> int:
    """Returns the cost of compiling a pattern, in CEL's units: one for each two microseconds.

    It is 0 except for patterns with thousands of repetitions, or some classes of Unicode, which take
    milliseconds.
    """
    if len(pattern) <= _SMALL_EXPANDED and "{" not in pattern and "\\" not in pattern:
        return 0
    return max(0, expanded_size(pattern, _COST_MAX, _UNICODE_CLASS_COST) - _SMALL_EXPANDED)


def _too_large(pattern: str) -> InvalidPattern:
    return InvalidPattern(f"{_PARSE_ERROR}expression too large: `{pattern}`")


@lru_cache(maxsize=LARGE_CACHE_MAX)
def _compile_large(pattern: str, source: str) -> Regex:
    try:
        return _with_re2(pattern, source, LARGE_MEMORY_MAX)
    except _TooLarge:
        raise _too_large(pattern) from None


class _TooLarge(Exception):
    """A compiled pattern that takes more memory than allowed."""


def _with_re2(pattern: str, source: str, memory_max: int) -> Regex:
    """Compile a pattern with RE2. source: the text to compile, which is equivalent to the pattern."""
    import re2  # 2 ms, which a server that has no patterns saves

    options = re2.Options()
    options.max_mem = memory_max
    options.log_errors = False
    options.never_capture = True  # twice as fast
    try:
        encoded = source.encode()
    except UnicodeEncodeError:
        raise InvalidPattern(f"{_PARSE_ERROR}invalid UTF-8: `{pattern}`") from None
    try:
        compiled = re2.compile(encoded, options)
    except re2.error as error:
        raise _go_error(pattern, source, error) from None
    finally:
        re2.purge()  # The library's own cache has no bound in bytes.
    search = compiled.search

    @cache
    def finder() -> Callable[[str], Iterator[Any]]:
        """Returns the pattern for searches in bytes. Most patterns are only searched for."""
        find_all: Callable[[str], Iterator[Any]] = re2.compile(source, options).finditer
        re2.purge()
        return find_all

    return Regex(
        pattern,
        lambda text: search(_encoded(text)),
        lambda text: (match.span() for match in finder()(_SURROGATE.sub("\ufffd", text))),
    )


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text).encode()


def _go_error(pattern: str, source: str, error: Exception) -> Exception:
    text = error.args[0]
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    if text.startswith(_TOO_LARGE):
        return _TooLarge()
    if text.startswith("trailing \\"):
        return InvalidPattern(f"{_PARSE_ERROR}trailing backslash at end of expression: ``")
    message, _, part = text.partition(": ")
    if part == source:
        part = pattern
    return InvalidPattern(f"{_PARSE_ERROR}{_GO_MESSAGES.get(message, message)}: `{part}`")
