"""Parses label and field selectors, and tests labels and fields of objects by them.

The grammar and the errors of label selectors are those of k8s.io/apimachinery, pkg/labels/selector.go; those
of field selectors, pkg/fields/selector.go. Rows I17, I18.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from apiserver.field_errors import quote
from apiserver.golang.quoting import go_quote
from apiserver.meta import names


class SelectorSyntaxError(ValueError):
    """The text is not a valid selector. The message is for the client."""


# ---- label selectors


class Requirement(NamedTuple):
    """One condition on one label. operator: in, notin, exists, !, gt or lt (`=` is in, `!=` is notin)."""

    key: str
    operator: str
    values: frozenset[str]


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Selects by labels; all requirements must hold."""

    requirements: tuple[Requirement, ...] = ()

    @property
    def selects_everything(self) -> bool:
        return not self.requirements

    def compile(self) -> Callable[[Mapping[str, str]], bool]:
        """Returns a function that tests labels."""
        tests = [_test(requirement) for requirement in self.requirements]
        if len(tests) == 1:
            return tests[0]
        return lambda labels: all(test(labels) for test in tests)


def _test(requirement: Requirement) -> Callable[[Mapping[str, str]], bool]:
    key, operator, values = requirement
    if operator == "in":
        if len(values) == 1:
            (value,) = values
            return lambda labels: labels.get(key) == value
        return lambda labels: labels.get(key) in values
    if operator == "notin":
        return lambda labels: labels.get(key) not in values
    if operator == "exists":
        return lambda labels: key in labels
    if operator == "!":
        return lambda labels: key not in labels
    bound = int(next(iter(values)))

    def compare(labels: Mapping[str, str]) -> bool:
        number = _integer(labels.get(key, ""))
        return number is not None and (number > bound if operator == "gt" else number < bound)

    return compare


def parse_label_selector(text: str) -> LabelSelector:
    """Raises SelectorSyntaxError."""
    return LabelSelector(tuple(_LabelParser(text).parse()))


class _Token(NamedTuple):
    kind: str  # an operator's own text, "word" or "end"
    text: str


_TOKEN: Final = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^=!(),<> \t\r\n]+))?")
_END: Final = _Token("end", "")
_OPERATORS: Final = {"in": "in", "notin": "notin", "=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}


class _LabelParser:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._next = 0

    def parse(self) -> Iterable[Requirement]:
        while True:
            token = self._peek()
            if token.kind == "end":
                return
            if token.kind not in ("word", "!"):
                raise SelectorSyntaxError(
                    f"found '{token.text}', expected: !, identifier, or 'end of string'"
                )
            yield self._requirement()
            token = self._take()
            if token.kind == "end":
                return
            if token.kind != ",":
                raise SelectorSyntaxError(f"found '{token.text}', expected: ',' or 'end of string'")
            if self._peek().kind not in ("word", "!"):
                raise SelectorSyntaxError(f"found '{self._peek().text}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        must_be_absent = self._peek().kind == "!"
        if must_be_absent:
            self._take()
        key = self._take()
        if key.kind != "word":
            raise _bad_requirement(f"found '{key.text}', expected: identifier")
        if problems := names.qualified_name(key.text):
            raise _bad_requirement(f"<nil>: Invalid value: {quote(key.text)}: {'; '.join(problems)}")
        if must_be_absent or self._peek().kind in ("end", ","):
            return Requirement(key.text, "!" if must_be_absent else "exists", frozenset())
        token = self._take()
        operator = _OPERATORS.get(token.text if token.kind == "word" else token.kind)
        if operator is None:
            raise _bad_requirement(f"found '{token.text}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._values() if token.kind == "word" else [self._value()]
        return _validated_requirement(key.text, operator, values)

    def _value(self) -> str:
        if self._peek().kind in ("end", ","):
            return ""
        token = self._take()
        if token.kind != "word":
            raise _bad_requirement(f"found '{token.text}', expected: identifier")
        return token.text

    def _values(self) -> list[str]:
        """Parse `(a,b)`; nothing between commas is an empty value."""
        token = self._take()
        if token.kind != "(":
            raise _bad_requirement(f"found '{token.text}' expected: '('")
        values = []
        while True:
            if self._peek().kind in (",", ")"):
                values.append("")
            else:
                token = self._take()
                if token.kind != "word":
                    expected = "',', or identifier" if values else "',', ')' or identifier"
                    raise _bad_requirement(f"found '{token.text}', expected: {expected}")
                values.append(token.text)
            token = self._take()
            if token.kind == ")":
                return values
            if token.kind != ",":
                raise _bad_requirement(f"found '{token.text}', expected: ',' or ')'")

    def _peek(self) -> _Token:
        return self._tokens[self._next] if self._next < len(self._tokens) else _END

    def _take(self) -> _Token:
        token = self._peek()
        self._next += 1
        return token


def _tokens(text: str) -> Iterable[_Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None
        symbol, word = match.groups()
        if symbol:
            yield _Token(symbol, symbol)
        elif word:
            yield _Token("word", word)
        position = match.end()


def _validated_requirement(key: str, operator: str, values: list[str]) -> Requirement:
    if operator in ("gt", "lt"):
        if _integer(values[0]) is None:
            raise _bad_requirement(
                f"values[0]: Invalid value: {quote(values[0])}: "
                "for 'Gt', 'Lt' operators, the value must be an integer"
            )
    else:
        wrong = [
            f"values[{index}][{key}]: Invalid value: {quote(value)}: {'; '.join(problems)}"
            for index, value in enumerate(sorted(set(values)))
            if (problems := names.label_value(value))
        ]
        if wrong:
            raise _bad_requirement(wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")
    return Requirement(key, operator, frozenset(values))


def _bad_requirement(why: str) -> SelectorSyntaxError:
    return SelectorSyntaxError(f"unable to parse requirement: {why}")


def _integer(text: str) -> int | None:
    """Parse an integer of 64 bits; None if the text is none."""
    if not re.fullmatch(r"[+-]?[0-9]{1,100}", text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


# ---- field selectors


class FieldRequirement(NamedTuple):
    field: str
    value: str
    is_equal: bool


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Selects by the values of a few fields, compared as text; all requirements must hold."""

    requirements: tuple[FieldRequirement, ...] = ()

    @property
    def selects_everything(self) -> bool:
        return not self.requirements

    def required_value(self, field: str) -> str | None:
        """The value that the selector requires of a field; None if it requires none."""
        for requirement in self.requirements:
            if requirement.field == field and requirement.is_equal:
                return requirement.value
        return None

    def without(self, *fields: str) -> FieldSelector:
        """The selector without the equalities of some fields, which the caller has tested."""
        return FieldSelector(tuple(r for r in self.requirements if r.field not in fields or not r.is_equal))

    def matches(self, value_of: Callable[[str], str]) -> bool:
        return all((value_of(r.field) == r.value) is r.is_equal for r in self.requirements)


class CustomFields(frozenset[str]):
    """The selectable fields of a custom resource. Errors about other fields do not list them."""


def parse_field_selector(text: str, known: Collection[str] | None) -> FieldSelector:
    """known: the fields that the resource can be selected by; None for any. Raises SelectorSyntaxError."""
    requirements = []
    for term in _split_terms(text):
        if not term:
            continue
        match = re.match(r"((?:[^\\=!]|\\.|!(?!=))*)(!=|==|=)(.*)\Z", term, re.DOTALL)
        if match is None:
            raise SelectorSyntaxError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = match.groups()
        if known is not None and field not in known:
            if isinstance(known, CustomFields):
                raise SelectorSyntaxError(f"field label not supported: {field}")
            names_known = ", ".join(map(go_quote, sorted(known)))
            raise SelectorSyntaxError(f"{quote(field)} is not a known field selector: only {names_known}")
        requirements.append(FieldRequirement(field, _unescape(value), operator != "!="))
    return FieldSelector(tuple(requirements))


def _split_terms(text: str) -> list[str]:
    """Split at commas that are not escaped."""
    return re.findall(r"(?:[^\\,]|\\.|\\\Z)+", text, re.DOTALL)


def _unescape(value: str) -> str:
    r"""Replace the escape sequences `\,` `\=` and `\\`; these characters must not occur otherwise."""
    characters = []
    remaining = iter(value)
    for character in remaining:
        if character == "\\":
            escaped = next(remaining, "")
            if escaped not in ("\\", ",", "="):
                raise SelectorSyntaxError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            characters.append(escaped)
        elif character in ",=":
            raise SelectorSyntaxError(
                f"invalid field selector: unescaped character in value: {ord(character)}"
            )
        else:
            characters.append(character)
    return "".join(characters)
