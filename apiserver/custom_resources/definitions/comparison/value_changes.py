"""Compares the values that two schemas allow, apart from the fields and items in them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeAlias

from apiserver.custom_resources.definitions.comparison.changes import Change, breaking, note, shown
from apiserver.custom_resources.schemas import numbers
from apiserver.custom_resources.schemas.formats import format_of, is_recognised
from apiserver.custom_resources.schemas.json_schema import JSONSchema
from apiserver.custom_resources.schemas.validation import SchemaValidator
from apiserver.schema.extensions import Extensions

ANY: Final = "any type"
INT_OR_STRING: Final = "integer or string"
# Integers between bounds are tried one by one if there are at most so many.
TRIED_MAX: Final = 1_000
# The values that messages name.
NAMED_MAX: Final = 5

_WIDENED: Final = frozenset({("integer", "number"), ("integer", INT_OR_STRING), ("string", INT_OR_STRING)})
# Formats all of whose values another format allows.
_NARROWER: Final[Mapping[str, frozenset[str]]] = {
    "uuid": frozenset({"uuid3", "uuid4", "uuid5"}),
    "isbn": frozenset({"isbn10", "isbn13"}),
    "k8slongname": frozenset({"k8sshortname"}),
}
# Patterns that all strings match.
_TRIVIAL_PATTERNS: Final = frozenset({"", "^", "$", ".*", "^.*", ".*$"})
# A schema that allows integers and strings may say so in alternatives, too.
_INT_OR_STRING_ALTERNATIVES: Final = [{"type": "integer"}, {"type": "string"}]
# The schemas of an alternative, by what they mean.
_Members: TypeAlias = Mapping[str, JSONSchema]
# The lists in schemas whose order has no meaning.
_UNORDERED: Final = frozenset({"required", "enum", "allOf", "anyOf", "oneOf"})


class _Size(NamedTuple):
    """A keyword for a size, the type of the values that have one, and what values beyond it are called."""

    keyword: str
    type_: str
    kind: str
    refused: str


_GREATEST: Final = (
    _Size("maxLength", "string", "MaxLengthLowered", "Strings with more than {} characters"),
    _Size("maxItems", "array", "MaxItemsLowered", "Lists with more than {} items"),
    _Size("maxProperties", "object", "MaxPropertiesLowered", "Objects with more than {} fields"),
)
_LEAST: Final = (
    _Size("minLength", "string", "MinLengthRaised", "Strings with fewer than {} characters"),
    _Size("minItems", "array", "MinItemsRaised", "Lists with fewer than {} items"),
    _Size("minProperties", "object", "MinPropertiesRaised", "Objects with fewer than {} fields"),
)


def category(schema: JSONSchema, extensions: Extensions) -> str:
    """Returns the type of values as messages name it."""
    if schema.get(extensions.int_or_string):
        return INT_OR_STRING
    return schema.get("type") or ANY


class ValueComparison:
    """Compares the values of two schemas of one field."""

    def __init__(self, old: JSONSchema, new: JSONSchema, path: str, extensions: Extensions) -> None:
        self._old, self._new, self._path, self._extensions = old, new, path, extensions
        self._old_type, self._new_type = category(old, extensions), category(new, extensions)
        self._was_valid, self._is_valid = (SchemaValidator(each, extensions).is_valid for each in (old, new))

    def type_changes(self) -> Iterator[Change]:
        """Yields the change of the type; if it is breaking, nothing else need be compared."""
        old, new = self._old_type, self._new_type
        if old == new:
            return
        message = f"The type changes from {old} to {new}."
        if new == ANY or (old, new) in _WIDENED or self._refused_values() == []:
            yield note("TypeWidened", self._path, message)
        else:
            yield breaking("TypeChanged", self._path, message)

    def changes(self) -> Iterator[Change]:
        """Yields the changes of values whose type has not changed, or allows more."""
        yield from self._null()
        refused = self._refused_values()
        if self._old.get("enum"):
            yield from self._enum(refused or [])
            return
        for change in self._keywords():
            # What bounds and alternatives mean together is known from the values.
            if refused != [] or not change.is_breaking:
                yield change

    def _had(self, type_: str) -> bool:
        """Returns whether the old schema allows values of a type. Other values have no bounds to meet."""
        return self._old_type in (type_, ANY) or (
            self._old_type == INT_OR_STRING and type_ in ("integer", "string")
        )

    def _keywords(self) -> Iterator[Change]:
        if values := self._new.get("enum"):
            text = f"Only {_listed(values)} {'are' if len(values) > 1 else 'is'} allowed."
            yield breaking("EnumAdded", self._path, text)
            return  # Its values are all that is allowed, whatever else the schema says.
        yield from self._range()
        yield from self._sizes()
        yield from self._text()
        yield from self._alternatives()

    def _null(self) -> Iterator[Change]:
        before, after = self._was_valid(None), self._is_valid(None)
        if before and not after:
            text = "The server removes it, replaces it with the default, or refuses it."
            yield breaking("NullableRemoved", self._path, f"Null is no longer allowed. {text}")
        elif after and not before and self._new.get("nullable"):
            yield note("NullableAdded", self._path, "Null is allowed.")

    # ---- values that can be tried

    def _refused_values(self) -> Sequence[Any] | None:
        """Returns the values that only the old schema allows, except null; None if they cannot be tried."""
        old = self._old
        values: Sequence[Any]
        if old.get("enum"):
            values = [each for each in old["enum"] if each is not None]
        elif self._old_type == "boolean":
            values = [False, True]
        elif self._old_type == "integer":
            interval = _Interval.of(old, "integer")
            if interval.high - interval.low >= TRIED_MAX:
                return None
            values = range(int(interval.low), int(interval.high) + 1)
        else:
            return None
        return [value for value in values if self._was_valid(value) and not self._is_valid(value)]

    def _enum(self, refused: Sequence[Any]) -> Iterator[Change]:
        """Yields the change of an enum. refused: its values that are no longer allowed."""
        if refused:
            text = f"{_listed(refused)} {'are' if len(refused) > 1 else 'is'} no longer allowed."
            yield breaking("ValuesRemoved", self._path, text)
        elif not self._new.get("enum"):
            yield note("EnumRemoved", self._path, "Values other than those of the enum can be used.")
        elif added := [each for each in self._new["enum"] if each not in self._old["enum"]]:
            yield note("ValuesAdded", self._path, f"{_listed(added)} can be used.")

    # ---- numbers

    def _range(self) -> Iterator[Change]:
        if not (self._had("integer") or self._had("number")):
            return
        old, new = _Interval.of(self._old, self._old_type), _Interval.of(self._new, self._new_type)
        if (new.low, new.excludes_low) > (old.low, old.excludes_low):
            than = "less than or equal to" if new.excludes_low else "less than"
            yield self._refused("MinimumRaised", f"Numbers {than} {_number(new.low)}", old.lowest)
        elif new.lowest != old.lowest:
            yield self._relaxed("minimum", old.lowest, new.lowest)
        if (new.high, not new.excludes_high) < (old.high, not old.excludes_high):
            than = "greater than or equal to" if new.excludes_high else "greater than"
            yield self._refused("MaximumLowered", f"Numbers {than} {_number(new.high)}", old.highest)
        elif new.highest != old.highest:
            yield self._relaxed("maximum", old.highest, new.highest)
        yield from self._multiple()

    def _multiple(self) -> Iterator[Change]:
        before, after = self._old.get("multipleOf"), self._new.get("multipleOf")
        if before == after:
            return
        if after is None:
            yield self._relaxed("multipleOf", before, None)
            return
        factor = Fraction(str(after))
        step = Fraction(str(before)) if before is not None else Fraction(self._old_type == "integer")
        # The validator of the server refuses integers if the factor has a fraction.
        if step and factor > 0 and factor.denominator == 1 and not step % factor:
            yield self._relaxed("multipleOf", before, after)
        else:
            yield self._refused("MultipleOfChanged", f"Numbers that are not multiples of {after}", before)

    # ---- sizes

    def _sizes(self) -> Iterator[Change]:
        for keyword, type_, kind, refused in _GREATEST:
            before, after = self._old.get(keyword), self._new.get(keyword)
            if before == after or not self._had(type_):
                continue
            if (
                after is not None
                and (before is None or after < before)
                and not self._has_at_most(keyword, after)
            ):
                yield self._refused(kind, refused.format(after), before)
            else:
                yield self._relaxed(keyword, before, after)
        for keyword, type_, kind, refused in _LEAST:
            before, after = self._old.get(keyword) or 0, self._new.get(keyword) or 0
            if before == after or not self._had(type_):
                continue
            if after > before and not self._has_at_least(keyword, after):
                yield self._refused(kind, refused.format(after), before or None)
            else:
                yield self._relaxed(keyword, before or None, after or None)

    @property
    def _is_open(self) -> bool:
        """Whether old objects have fields that the schema does not name; those of the root have."""
        extensions = self._extensions
        more = ("additionalProperties", extensions.preserve_unknown_fields, extensions.embedded_resource)
        return not self._path or any(self._old.get(each) for each in more)

    def _has_at_most(self, keyword: str, size: int) -> bool:
        """Whether the old schema allows no more fields, as it has no others."""
        return (
            keyword == "maxProperties"
            and not self._is_open
            and len(self._old.get("properties") or ()) <= size
        )

    def _has_at_least(self, keyword: str, size: int) -> bool:
        """Whether the old schema requires so many fields."""
        return keyword == "minProperties" and len(set(self._old.get("required") or ())) >= size

    # ---- strings

    def _text(self) -> Iterator[Change]:
        before, after = self._old.get("pattern") or "", self._new.get("pattern") or ""
        if before != after and self._had("string"):
            if after in _TRIVIAL_PATTERNS:
                yield self._relaxed("pattern", before or None, after or None)
            else:
                kind = "PatternChanged" if before else "PatternAdded"
                yield self._refused(kind, f"Strings that do not match {after}", before or None)
        yield from self._format()

    def _format(self) -> Iterator[Change]:
        before = _checked_format(self._old, self._old_type)
        after = _checked_format(self._new, self._new_type)
        if before == after or before in _NARROWER.get(after, ()):
            return
        if after:
            kind = "FormatChanged" if before else "FormatAdded"
            yield self._refused(
                kind, f"Strings that are not in the format {self._new['format']}", before or None
            )
        else:
            yield self._relaxed("format", self._old["format"], None)

    # ---- alternatives

    def _alternatives(self) -> Iterator[Change]:
        for keyword in ("allOf", "anyOf", "oneOf", "not"):
            before, after = self._members(self._old, keyword), self._members(self._new, keyword)
            if before.keys() == after.keys():
                continue
            if self._is_relaxed(keyword, before, after):
                yield note("ConstraintRelaxed", self._path, f"{keyword} allows more values.")
            else:
                text = f"Values that do not match the new {keyword} are refused."
                yield breaking("AlternativesChanged", self._path, text)

    def _is_relaxed(self, keyword: str, before: _Members, after: _Members) -> bool:
        """Whether all old values match: each member, one of them or exactly one, but not that of `not`."""
        if not after:
            return True
        match keyword:
            case "allOf":
                return after.keys() < before.keys()
            case "anyOf":
                before = before or self._members(self._old, "oneOf")
                return bool(before) and after.keys() >= before.keys()
            case "oneOf":
                added = [member for key, member in after.items() if key not in before]
                return (
                    bool(before) and after.keys() > before.keys() and all(map(self._needs_new_field, added))
                )
            case _:
                return False

    def _needs_new_field(self, member: JSONSchema) -> bool:
        """Whether no old object matches, as none has one of the required fields."""
        properties = self._new.get("properties") or {}
        return self._old_type == "object" and any(
            name not in (self._old.get("properties") or {})
            and not self._is_open
            and (properties.get(name) or {}).get("default") is None
            for name in member.get("required") or ()
        )

    def _members(self, schema: JSONSchema, keyword: str) -> _Members:
        members = schema.get(keyword)
        if members is None or (
            schema.get(self._extensions.int_or_string) and members == _INT_OR_STRING_ALTERNATIVES
        ):
            return {}
        listed = members if isinstance(members, list) else [members]
        return {_encoded(_in_order(each)): each for each in listed}

    # ---- messages

    def _refused(self, kind: str, values: str, before: object) -> Change:
        was = "There was no such limit." if before is None else f"The limit was {before}."
        return breaking(kind, self._path, f"{values} are refused. {was}")

    def _relaxed(self, keyword: str, before: object, after: object) -> Change:
        if after is None:
            text = f"{keyword} is removed."
        elif before is None:
            text = f"{keyword} is set to {after}, which does not exclude any values."
        else:
            text = f"{keyword} changes from {before} to {after}."
        return note("ConstraintRelaxed", self._path, text)


class _Interval(NamedTuple):
    """The numbers that a schema allows by its bounds and its format."""

    low: float
    excludes_low: bool
    high: float
    excludes_high: bool

    @classmethod
    def of(cls, schema: JSONSchema, type_: str) -> _Interval:
        low, high = schema.get("minimum"), schema.get("maximum")
        excludes_low = low is not None and bool(schema.get("exclusiveMinimum"))
        excludes_high = high is not None and bool(schema.get("exclusiveMaximum"))
        if type_ != "integer":
            is_float = type_ == "number" and schema.get("format") == "float"
            end = numbers.FLOAT32_END if is_float else _INFINITE
            return cls(
                -end if low is None else max(low, -end),
                excludes_low,
                end if high is None else min(high, end),
                excludes_high,
            )
        bits = 31 if schema.get("format") == "int32" else 63
        # As the validator of the server: bounds lose their fractions.
        least = -(1 << bits) if low is None else max(int(low) + excludes_low, -(1 << bits))
        most = (1 << bits) - 1 if high is None else min(int(high) - excludes_high, (1 << bits) - 1)
        return cls(least, False, most, False)

    @property
    def lowest(self) -> str | None:
        if self.low in (-_INFINITE, numbers.INT64_MIN):
            return None
        return f"{_number(self.low)} (exclusive)" if self.excludes_low else _number(self.low)

    @property
    def highest(self) -> str | None:
        if self.high in (_INFINITE, numbers.INT64_MAX):
            return None
        return f"{_number(self.high)} (exclusive)" if self.excludes_high else _number(self.high)


_INFINITE: Final = float("inf")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _checked_format(schema: JSONSchema, type_: str) -> str:
    """Returns the format that strings are checked for, without hyphens; empty if there is none."""
    name, kind = schema.get("format") or "", "" if type_ in (ANY, INT_OR_STRING) else type_
    if name == "password" or not is_recognised(kind, name) or format_of(kind, name) is None:
        return ""
    return str(name).replace("-", "")


def _in_order(schema: Any) -> Any:
    """Returns a schema whose lists are sorted where their order has no meaning."""
    if isinstance(schema, Mapping):
        return {
            name: sorted(map(_in_order, value), key=_encoded)
            if name in _UNORDERED and isinstance(value, list)
            else _in_order(value)
            for name, value in schema.items()
        }
    return schema


def _encoded(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _listed(values: Sequence[Any]) -> str:
    named = [shown(each) for each in values[:NAMED_MAX]]
    if len(values) > NAMED_MAX:
        return f"{', '.join(named)} and {len(values) - NAMED_MAX} more"
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
