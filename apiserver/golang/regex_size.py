"""The size of patterns with repetitions expanded, as RE2 compiles them.

RE2 holds the interpreter while it compiles, and its memory limit does not limit the time: it joins
consecutive repetitions of the same character, `a{0,1000}a{0,1000}` to `a{0,2000}`, beyond the largest count
that it accepts, and nested optional parts take quadratic time. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# An escape of Unicode's classes stands for tens to hundreds of ranges, each of several bytes.
UNICODE_CLASS_SIZE: Final = 100
# Other classes: a negated one has the ranges of UTF-8.
_CLASS_SIZE: Final = 4
# Between two repetitions it means nothing, and keeps RE2 from joining them.
_NOTHING: Final = "(?:)"

# A class or a quotation without an end reaches to the end: it is wrong, as RE2 will say.
_TOKEN: Final = re.compile(
    r"""
    (?P<quoted> \\Q.*?(?:\\E|\Z) )
    | (?P<unicode> \\[pP] (?:\{[^}]*(?:\}|\Z)|.)? )
    | (?P<escape> \\ (?:x\{[^}]*(?:\}|\Z)|.)? )
    | (?P<class> \[\^?\]? (?:\[:\^?\w+:\]|\\.|[^]\\])* (?:\]|\\?\Z) )
    | (?P<open> \( (?:\?(?:P?<\w*>|[a-zA-Z-]*:?))? )
    | (?P<close> \) )
    | (?P<quantifier> (?:\{(?P<low>\d{1,4})(?:,(?P<high>\d{0,4}))?\}|[*+?]) \?? )
    | (?P<branch> \| )
    | (?P<character> . )
    """,
    re.DOTALL | re.VERBOSE,
)


def expanded_size(pattern: str, size_max: int, unicode_size: int = UNICODE_CLASS_SIZE) -> int:
    """Returns the number of characters, classes and branches in a pattern with expanded repetitions.

    unicode_size: for how many characters a class of Unicode counts.
    For a pattern with more than `size_max` it returns any number above that. Invalid patterns have a size,
    too.
    """
    total, last = 0, 0
    outer: list[int] = []  # the totals before each group that is open
    for token in _TOKEN.finditer(pattern):
        kind = token.lastgroup
        if kind == "open":
            outer.append(total)
            total, last = 0, 0
        elif kind == "close":
            last = max(total, 1)
            total = last + (outer.pop() if outer else 0)
        elif kind == "quantifier":
            copies = max(int(token["high"] or 0), int(token["low"] or 0), 1)
            total += last * (copies - 1)
            last *= copies
        else:
            last = _size(kind, token[0], unicode_size)
            total += last
        if total > size_max:
            return total
    return sum(outer, total)


def _size(kind: str | None, text: str, unicode_size: int) -> int:
    if kind == "unicode":
        return unicode_size
    if kind == "class":
        escapes = text.count(r"\p") + text.count(r"\P")
        return max(_CLASS_SIZE, len(text) // _CLASS_SIZE) + unicode_size * escapes
    return len(text) if kind == "quoted" else 1


def with_repetitions_apart(pattern: str) -> str:
    """Returns an equivalent pattern in which RE2 joins no repetitions."""
    return "".join(_apart(pattern))


def _apart(pattern: str) -> Iterator[str]:
    is_repeated = False
    for token in _TOKEN.finditer(pattern):
        is_quantifier = token.lastgroup == "quantifier"
        # Two quantifiers in a row are an error.
        if is_repeated and not is_quantifier:
            yield _NOTHING
        is_repeated = is_quantifier
        yield token[0]
