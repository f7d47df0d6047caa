"""Reads the tokens of a text one by one, and recovers from syntax errors.

Errors and recovery are those of ANTLR's parsers (DefaultErrorStrategy), since clients know those texts: an
extraneous token is skipped, a missing one is assumed, otherwise tokens are skipped up to one that can follow.
"""

from __future__ import annotations

from typing import Final, NoReturn

from apiserver.cel import types
from apiserver.cel.grammar import Context
from apiserver.cel.lexer import (
    BYTES,
    END,
    FLOAT,
    IDENTIFIER,
    INT,
    ORDER,
    QUOTED,
    STRING,
    UINT,
    displayed,
    tokens,
)
from apiserver.cel.syntax import ISSUES_MAX, Constant, Issue, Node

# cel-go's limits, which Kubernetes leaves as they are.
RECOVERIES_MAX: Final = 30
SKIPPED_MAX: Final = 512  # tokens, in one recovery

# Rules that cannot go on if nothing expected is found.
_ALTERNATIVES: Final = frozenset({"unary", "primary", "field"})


class UnexpectedToken(Exception):
    """A token that was not expected; it has been reported. tree: the part that the rule has parsed so far."""

    def __init__(self, tree: Node | None = None) -> None:
        super().__init__()
        self.tree = tree


class ParsingAbandoned(Exception):
    """The end of parsing because of an error, which has been reported."""


class TokenReader:
    """Reads the tokens of a text one by one. issues: the errors found so far."""

    __slots__ = (
        "_attempts",
        "_contexts",
        "_failed",
        "_invalid",
        "_is_recovering",
        "_kinds",
        "_offsets",
        "_position",
        "_reports",
        "_source",
        "_texts",
        "issues",
    )

    def __init__(self, text: str) -> None:
        self._source = text
        self._kinds, self._texts, self._offsets, self._invalid = tokens(text)
        self.issues = [
            Issue(f"Syntax error: token recognition error at: {displayed(token)}", offset, True)
            for offset, token in self._invalid
        ]
        self._position = 0
        self._contexts: list[Context] = []
        self._reports = len(self.issues)
        self._is_recovering = False
        self._attempts = 0
        self._failed: tuple[int, frozenset[str]] = (-1, frozenset())

    def _advance(self) -> int:
        """Consume the current token, which is an expected one; returns its offset."""
        position = self._position
        self._position = position + 1
        self._is_recovering = False
        return self._offsets[position]

    def _report_error(self, message: str, offset: int) -> Node:
        self.issues.append(Issue(message, offset))
        return missing(offset)

    def _report(self, message: str, position: int) -> None:
        """Report a syntax error, unless it belongs to the last one: no token has fitted since."""
        if self._is_recovering:
            return
        self._is_recovering = True
        self._reports += 1
        if self._reports > ISSUES_MAX:
            raise ParsingAbandoned
        self.issues.append(Issue(f"Syntax error: {message}", self._offsets[position], True))

    def _match(self, kind: str, rule: str, behind: frozenset[str]) -> None:
        """Recover if the current token is not `kind`: skip an extraneous token, or assume a missing one.

        behind: the tokens that can follow `kind`. Raises UnexpectedToken.
        """
        self._count_attempt()
        position = self._position
        expected = frozenset({kind})
        if self._kinds[position + 1] == kind:
            self._report_extraneous(expected)
            self._position = min(position + 2, len(self._kinds) - 2)
            self._is_recovering = False
        elif self._kinds[position] in behind:
            self._report(f"missing {_listed(expected)} at {displayed(self._texts[position])}", position)
        else:
            self._mismatched(expected)

    def _sync(self, expected: frozenset[str], rule: str) -> None:
        """Skip the current, unexpected token if the next one is expected. Raises UnexpectedToken."""
        if self._is_recovering:
            if rule in _ALTERNATIVES:
                raise UnexpectedToken
            return
        if self._kinds[self._position + 1] in expected:
            self._report_extraneous(expected)
            self._position += 1
            self._is_recovering = False
        else:
            self._mismatched(expected)

    def _report_extraneous(self, expected: frozenset[str]) -> None:
        shown = displayed(self._texts[self._position])
        self._report(f"extraneous input {shown} expecting {_listed(expected)}", self._position)

    def _mismatched(self, expected: frozenset[str]) -> NoReturn:
        shown = displayed(self._texts[self._position])
        self._report(f"mismatched input {shown} expecting {_listed(expected)}", self._position)
        raise UnexpectedToken

    def _no_alternative(self, start: int, position: int) -> NoReturn:
        end = self._offsets[position] + (0 if self._kinds[position] == END else len(self._texts[position]))
        text = self._source[self._offsets[start] : end]
        for offset, token in self._invalid:
            if self._offsets[start] < offset < end:
                text = text.replace(token, "", 1)
        if text in (".true", ".false", ".null"):
            self._report(f"mismatched input '{text[1:]}' expecting IDENTIFIER", position)
        else:
            self._report(f"no viable alternative at input {displayed(text)}", position)
        raise UnexpectedToken

    def _recover(self, rule: str, level: frozenset[str]) -> None:
        """Skip to a token that can follow `rule`. level: those that can within the same expression."""
        self._count_attempt()
        position, rules = self._failed
        if position == self._position:
            if rule in rules and self._kinds[position] != END:
                self._position += 1
        else:
            rules = frozenset()
        self._failed = (self._position, rules | {rule})
        self._skip_to(self._followers(level))

    def _followers(self, level: frozenset[str]) -> set[str]:
        followers = set(level)
        for context in self._contexts:
            followers |= context.closers | context.outer
        return followers

    def _skip_to(self, followers: set[str]) -> None:
        start = self._position
        while (kind := self._kinds[self._position]) != END and kind not in followers:
            if self._position - start >= SKIPPED_MAX:
                self.issues.append(Issue(f"error recovery token lookahead limit exceeded: {SKIPPED_MAX}"))
                raise ParsingAbandoned
            self._position += 1

    def _count_attempt(self) -> None:
        if self._attempts == RECOVERIES_MAX:
            self._is_recovering = False
            self._report(f"error recovery attempt limit exceeded: {RECOVERIES_MAX}", self._position)
            raise ParsingAbandoned
        self._attempts += 1


def missing(offset: int) -> Node:
    """Returns a node in place of one that cannot be parsed."""
    return Constant(None, offset=offset, type=types.ERROR)


def _listed(expected: frozenset[str]) -> str:
    """Returns tokens as messages list them: `')'`, or `{']', ','}` in the grammar's order."""
    names = [name if name in _SYMBOLIC else f"'{name}'" for name in (*ORDER, END) if name in expected]
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"


_SYMBOLIC: Final = frozenset({FLOAT, INT, UINT, STRING, BYTES, IDENTIFIER, QUOTED, END})
