"""Parses label and field selectors, and tests labels and fields of objects with them.

The grammar and the errors of label selectors are those of k8s.io/apimachinery, pkg/labels/selector.go; those
of field selectors, pkg/fields/selector.go. Rows I17, I18.

Selectors are tested for every object of a list and every event of a watch, so they are compiled: all
requirements for a key are merged into one condition, and a test costs one lookup for each key, for any number
of values. Contradictory selectors select nothing, without a test of any object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from apiserver.golang.quoting import aggregate, go_quote
from apiserver.meta import names
from apiserver.meta.field_errors import quote
from apiserver.meta.vocabulary import Document

T = TypeVar("T")


class SelectorSyntaxError(ValueError):
    """A text that is not a valid selector. The message is for the client."""


class TooManyTerms(SelectorSyntaxError):
    """A selector with more terms than the server allows."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"Too many: {problem}")


# Kubernetes has no bounds but that of the request's head. These are far beyond what people and programs
# write, and keep a selector of 64 KB from taking milliseconds to parse, or a megabyte for as long as a watch
# lasts. Each requirement of a selector counts, and each value in brackets.
REQUIREMENTS_MAX: Final = 1_000
VALUES_MAX: Final = 2_500
# Each label that is asked for costs a look-up for every object, where values cost nothing.
LABEL_KEYS_MAX: Final = 100


# ---- label selectors


class Requirement(NamedTuple):
    """A condition on one label. operator: in, notin, exists, !, gt or lt (`=` is in, `!=` is notin)."""

    key: str
    operator: str
    values: frozenset[str]


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Selects by labels; all requirements must hold. conditions: the merged requirements."""

    requirements: tuple[Requirement, ...] = ()
    conditions: LabelConditions = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "conditions", LabelConditions.of(self.requirements))


_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1


class _Condition:
    """The merged requirements of a selector for one label."""

    def __init__(self) -> None:
        self.allowed: frozenset[str] | None = None  # None: any value
        self.forbidden: set[str] = set()
        self.is_required = False
        self.is_absent = False
        self.least, self.greatest = _INT64_MIN, _INT64_MAX
        self.is_number = False

    def add(self, requirement: Requirement) -> None:
        _, operator, values = requirement
        match operator:
            case "in":
                self.allowed = values if self.allowed is None else self.allowed & values
            case "notin":
                self.forbidden |= values
            case "exists":
                self.is_required = True
            case "!":
                self.is_absent = True
            case "gt":
                self.is_number = True
                self.least = max(self.least, int(next(iter(values))) + 1)
            case _:
                self.is_number = True
                self.greatest = min(self.greatest, int(next(iter(values))) - 1)

    def values(self) -> frozenset[str] | None:
        """Returns the values that meet all requirements, if these list the allowed values."""
        if self.allowed is None:
            return None
        values = self.allowed - self.forbidden
        if self.is_number:
            values = frozenset(value for value in values if self._is_in_range(value))
        return values

    @property
    def must_exist(self) -> bool:
        return self.is_required or self.is_number or self.allowed is not None

    @property
    def is_contradiction(self) -> bool:
        if self.is_absent:
            return self.must_exist
        return self.least > self.greatest or (self.allowed is not None and not self.values())

    def _is_in_range(self, value: str) -> bool:
        number = _integer(value)
        return number is not None and self.least <= number <= self.greatest


@dataclass(frozen=True, slots=True)
class LabelConditions:
    """The conditions that labels must meet to be selected.

    Selectors that mean the same have equal conditions.

    equal: the only allowed value of each of some labels. one_of: the allowed values of others.
    exist: labels with any value except forbidden ones; ranges: labels that are numbers, within bounds.
    forbidden: values that labels must not have, if they exist. absent: labels that must not exist.
    is_never: whether nothing is selected.
    """

    equal: frozenset[tuple[str, str]] = frozenset()
    one_of: frozenset[tuple[str, frozenset[str]]] = frozenset()
    exist: frozenset[str] = frozenset()
    ranges: frozenset[tuple[str, int, int]] = frozenset()
    forbidden: frozenset[tuple[str, frozenset[str]]] = frozenset()
    absent: frozenset[str] = frozenset()
    is_never: bool = False

    @classmethod
    def of(cls, requirements: Iterable[Requirement]) -> LabelConditions:
        by_key: dict[str, _Condition] = {}
        for requirement in requirements:
            condition = by_key.get(requirement.key)
            if condition is None:
                condition = by_key[requirement.key] = _Condition()
            condition.add(requirement)
        if any(condition.is_contradiction for condition in by_key.values()):
            return cls(is_never=True)
        equal, one_of, exist, ranges, forbidden, absent = [], [], [], [], [], []
        for key, condition in by_key.items():
            values = condition.values()
            if condition.is_absent:
                absent.append(key)
            elif values is not None and len(values) == 1:
                equal.append((key, next(iter(values))))
            elif values is not None:
                one_of.append((key, values))
            else:
                if condition.is_number:
                    ranges.append((key, condition.least, condition.greatest))
                elif condition.is_required:
                    exist.append(key)
                if condition.forbidden:
                    forbidden.append((key, frozenset(condition.forbidden)))
        return cls(
            frozenset(equal),
            frozenset(one_of),
            frozenset(exist),
            frozenset(ranges),
            frozenset(forbidden),
            frozenset(absent),
        )

    def __len__(self) -> int:
        """Returns the number of conditions, about one for each label."""
        return sum(map(len, (self.equal, self.one_of, self.exist, self.ranges, self.forbidden, self.absent)))

    @property
    def selects_everything(self) -> bool:
        return not self.is_never and not len(self)

    def test(self) -> Callable[[Mapping[str, str]], bool]:
        """Returns a function that tests labels."""
        if self.is_never:
            return lambda labels: False
        required = len(self.equal) + len(self.one_of) + len(self.exist) + len(self.ranges)
        if required == 1 and not self.forbidden and not self.absent:
            # What most selectors are.
            for only_key, only_value in self.equal:
                return lambda labels: labels.get(only_key) == only_value
            for only_key, only_values in self.one_of:
                return lambda labels: labels.get(only_key) in only_values
        equal, one_of, ranges = tuple(self.equal), tuple(self.one_of), tuple(self.ranges)
        exist, absent = dict.fromkeys(self.exist).keys(), dict.fromkeys(self.absent).keys()
        forbidden = dict(self.forbidden)
        forbidden_keys = forbidden.keys()

        def matches(labels: Mapping[str, str]) -> bool:
            if len(labels) < required:
                return False  # Each condition needs a separate label.
            for key, value in equal:
                if labels.get(key) != value:
                    return False
            for key, values in one_of:
                if labels.get(key) not in values:
                    return False
            if not exist <= labels.keys() or not absent.isdisjoint(labels.keys()):
                return False
            if forbidden:
                # This looks at the labels or at the conditions, whichever are fewer.
                for key in forbidden_keys & labels.keys():
                    if labels[key] in forbidden[key]:
                        return False
            for key, least, greatest in ranges:
                number = _integer(labels.get(key, ""))
                if number is None or not least <= number <= greatest:
                    return False
            return True

        return matches


def parse_label_selector(text: str) -> LabelSelector:
    """Parses the text of a label selector. Raises SelectorSyntaxError, TooManyTerms."""
    if not text:
        return ALL_LABELS
    requirements: list[Requirement] = []
    keys: set[str] = set()
    for requirement in _LabelParser(text).parse():
        requirements.append(requirement)
        keys.add(requirement.key)
        if len(requirements) > REQUIREMENTS_MAX:
            raise TooManyTerms(f"must have at most {REQUIREMENTS_MAX} requirements")
        if len(keys) > LABEL_KEYS_MAX:
            raise TooManyTerms(f"must be about at most {LABEL_KEYS_MAX} labels")
    return LabelSelector(tuple(requirements))


_OPERATORS_OF_OBJECTS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def label_selector_of(document: Document) -> LabelSelector:
    """Returns the selector in a validated LabelSelector. Raises TooManyTerms."""
    found = [
        Requirement(key, "in", frozenset((value,)))
        for key, value in (document.get("matchLabels") or {}).items()
    ]
    found += [
        Requirement(each["key"], _OPERATORS_OF_OBJECTS[each["operator"]], frozenset(each.get("values") or ()))
        for each in document.get("matchExpressions") or ()
    ]
    if len(found) > REQUIREMENTS_MAX:
        raise TooManyTerms(f"must have at most {REQUIREMENTS_MAX} requirements")
    return LabelSelector(tuple(found))


# Selects whatever labels there are.
ALL_LABELS: Final = LabelSelector()


class _Token(NamedTuple):
    kind: str  # an operator's own text, "word" or "end"
    text: str


_TOKEN: Final = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^=!(),<> \t\r\n]+))?")
_END: Final = _Token("end", "")
_OPERATORS: Final = {"in": "in", "notin": "notin", "=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}


class _LabelParser:
    """Parses a label selector up to the first error."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = next(self._tokens, _END)
        self._values_read = 0

    def parse(self) -> Iterator[Requirement]:
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
            self._values_read += 1
            if self._values_read > VALUES_MAX:
                raise TooManyTerms(f"must have at most {VALUES_MAX} values in brackets")
            token = self._take()
            if token.kind == ")":
                return values
            if token.kind != ",":
                raise _bad_requirement(f"found '{token.text}', expected: ',' or ')'")

    def _peek(self) -> _Token:
        return self._next

    def _take(self) -> _Token:
        token, self._next = self._next, next(self._tokens, _END)
        return token


def _tokens(text: str) -> Iterator[_Token]:
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
    wrong = []
    if operator in ("gt", "lt") and _integer(values[0]) is None:
        wrong.append(
            f"values[0]: Invalid value: {quote(values[0])}: "
            "for 'Gt', 'Lt' operators, the value must be an integer"
        )
    wrong += [
        f"values[{index}][{key}]: Invalid value: {quote(value)}: {'; '.join(problems)}"
        for index, value in enumerate(sorted(set(values)))
        if (problems := names.label_value(value))
    ]
    if wrong:
        raise _bad_requirement(aggregate(wrong))
    return Requirement(key, operator, frozenset(values))


def _bad_requirement(why: str) -> SelectorSyntaxError:
    return SelectorSyntaxError(f"unable to parse requirement: {why}")


def _integer(text: str) -> int | None:
    """Parse an integer of 64 bits; None if it is invalid."""
    if text.isdecimal() and text.isascii() and len(text) < len(str(_INT64_MAX)):
        return int(text)  # what most are, without a pattern
    if not re.fullmatch(r"[+-]?[0-9]{1,100}", text):
        return None
    number = int(text)
    return number if _INT64_MIN <= number <= _INT64_MAX else None


# ---- field selectors


class FieldRequirement(NamedTuple):
    field: str
    value: str
    is_equal: bool


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Selects by the values of a few fields, compared as text; all requirements must hold.

    conditions: the merged requirements.
    """

    requirements: tuple[FieldRequirement, ...] = ()
    conditions: FieldConditions = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "conditions", FieldConditions.of(self.requirements))

    def required_value(self, field: str) -> str | None:
        """Returns the value that the selector requires of a field; None if it requires none."""
        for requirement in self.requirements:
            if requirement.field == field and requirement.is_equal:
                return requirement.value
        return None

    def without(self, tested: Collection[tuple[str, str]]) -> FieldSelector:
        """Returns the selector without some equalities, of fields and values, which the caller has tested."""
        if not self.requirements:
            return self
        remaining = tuple(r for r in self.requirements if not r.is_equal or (r.field, r.value) not in tested)
        return FieldSelector(remaining)


class FieldConditions(NamedTuple):
    """The conditions that fields must meet to be selected.

    Selectors that mean the same have equal conditions.

    equal: the required value of each of some fields. unequal: the forbidden values of others.
    is_never: whether nothing is selected.
    """

    equal: frozenset[tuple[str, str]] = frozenset()
    unequal: frozenset[tuple[str, frozenset[str]]] = frozenset()
    is_never: bool = False

    @classmethod
    def of(cls, requirements: Iterable[FieldRequirement]) -> FieldConditions:
        equal: dict[str, str] = {}
        unequal: dict[str, set[str]] = {}
        for field_, value, is_equal in requirements:
            if not is_equal:
                unequal.setdefault(field_, set()).add(value)
            elif equal.setdefault(field_, value) != value:
                return cls(is_never=True)
        if any(equal.get(each) in values for each, values in unequal.items()):
            return cls(is_never=True)
        return cls(
            frozenset(equal.items()),
            frozenset((each, frozenset(values)) for each, values in unequal.items() if each not in equal),
        )

    def test(self, getter: Callable[[str], Callable[[T], str]]) -> Callable[[T], bool]:
        """Returns a function that tests objects. getter: returns the getter of a field."""
        if self.is_never:
            return lambda found: False
        equal = [(getter(field), value) for field, value in self.equal]
        unequal = [(getter(field), values) for field, values in self.unequal]

        def matches(found: T) -> bool:
            for value_of, value in equal:
                if value_of(found) != value:
                    return False
            return not unequal or all(value_of(found) not in values for value_of, values in unequal)

        return matches


# Selects whatever fields there are.
ALL_FIELDS: Final = FieldSelector()


class OwnFields(frozenset[str]):
    """The additional selectable fields of a type, beyond name and namespace. Errors do not list them.

    refusal: the error about other fields, with {field} or {quoted}.
    """

    refusal = "field label not supported: {field}"

    @classmethod
    def of(cls, fields: Iterable[str], refusal: str = "") -> OwnFields:
        found = cls(fields)
        if refusal:
            found.refusal = refusal
        return found


def parse_field_selector(text: str, known: Collection[str] | None) -> FieldSelector:
    """Parses the text of a field selector. Raises SelectorSyntaxError, TooManyTerms.

    known: the fields that the resource can be selected by; None for any.
    """
    if not text:
        return ALL_FIELDS
    terms = list(islice(_terms(text), REQUIREMENTS_MAX + 1))
    if len(terms) > REQUIREMENTS_MAX:
        raise TooManyTerms(f"must have at most {REQUIREMENTS_MAX} requirements")
    requirements: list[FieldRequirement] = []
    # Kubernetes reads them in this order: it determines which of two names counts, and which error is
    # reported.
    for term in sorted(terms):
        match = re.match(r"((?:[^\\=!]|\\.|!(?!=))*)(!=|==|=)(.*)\Z", term, re.DOTALL)
        if match is None:
            raise SelectorSyntaxError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = match.groups()
        if known is not None and field not in known:
            if isinstance(known, OwnFields):
                raise SelectorSyntaxError(known.refusal.format(field=field, quoted=go_quote(field)))
            names_known = ", ".join(map(go_quote, sorted(known)))
            raise SelectorSyntaxError(f"{quote(field)} is not a known field selector: only {names_known}")
        requirements.append(FieldRequirement(field, _unescape(value), operator != "!="))
    return FieldSelector(tuple(requirements))


def _terms(text: str) -> Iterator[str]:
    """Yields the non-empty parts between commas that are not escaped."""
    return (match.group() for match in re.finditer(r"(?:[^\\,]|\\.|\\\Z)+", text, re.DOTALL))


def _unescape(value: str) -> str:
    r"""Replace the escape sequences `\,` `\=` and `\\`; these characters must not occur unescaped."""
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
