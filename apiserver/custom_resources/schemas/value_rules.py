"""The rules of a schema for single values: lengths, patterns, formats, enumerations, sizes and numbers.

Source: k8s.io/kube-openapi, pkg/validation/validate.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from apiserver.custom_resources.schemas import numbers
from apiserver.custom_resources.schemas.correlation import equal
from apiserver.custom_resources.schemas.findings import Finding, field_of, general, invalid_value, wrong_type
from apiserver.custom_resources.schemas.formats import format_of
from apiserver.custom_resources.schemas.json_schema import JSONSchema
from apiserver.golang.formatting import number_text
from apiserver.golang.regex import InvalidPattern, compile_pattern
from apiserver.meta.field_errors import VALUE_LENGTH_MAX, not_supported, quote, too_long, too_many, truncated

Test: TypeAlias = Callable[[Any], object]


class ValueRule(NamedTuple):
    """A rule for values of one type. finding: makes the error of a value that fails, at a path."""

    is_valid: Test
    finding: Callable[[Any, str], Finding]


def refuse(_: Any) -> bool:
    return False


def text_rules(schema: JSONSchema) -> list[ValueRule]:
    """Yields the rules for strings, whose lengths are in characters, although a message says bytes."""
    rules = []
    if (most := schema.get("maxLength")) is not None:
        rules.append(
            ValueRule(
                lambda text: len(text) <= most,
                lambda text, path: (
                    f"{path} in body should be at most {most} chars long",
                    too_long(field_of(path), most),
                ),
            )
        )
    if (least := schema.get("minLength")) is not None:
        rules.append(
            ValueRule(
                lambda text: len(text) >= least,
                lambda text, path: invalid_value(
                    path, text, f"{path} in body should be at least {least} chars long"
                ),
            )
        )
    if pattern := schema.get("pattern"):
        rules.append(pattern_rule(pattern))
    return rules


def pattern_rule(pattern: str) -> ValueRule:
    description = truncated(pattern)
    try:
        search: Test = compile_pattern(pattern).search
    except InvalidPattern as error:
        search, description = refuse, truncated(f"{pattern}, but pattern is invalid: {error}")
    return ValueRule(
        search, lambda text, path: invalid_value(path, text, f"{path} in body should match '{description}'")
    )


def format_rule(name: str, kind: str) -> ValueRule | None:
    is_valid = format_of(kind, name)
    return is_valid and ValueRule(is_valid, lambda text, path: wrong_type(path, name, text))


def enum_rule(values: Sequence[Any]) -> ValueRule:
    scalars = frozenset(
        (type(each) is bool, each) for each in values if type(each) not in (dict, list, type(None))
    )
    others = [each for each in values if type(each) in (dict, list)]
    allowed = _beginning(each if type(each) is str else quote(each) for each in values)

    def is_valid(value: Any) -> bool:
        if type(value) in (dict, list):
            return any(equal(value, each) for each in others)
        # Null is not allowed, even if it is listed.
        return value is not None and (type(value) is bool, value) in scalars

    def finding(value: Any, path: str) -> Finding:
        values = " ".join(allowed)
        return f"{path} in body should be one of [{values}]", not_supported(field_of(path), value, allowed)

    return ValueRule(is_valid, finding)


def _beginning(values: Iterable[str]) -> list[str]:
    """Returns the first values, as many as an error shows, as there may be a thousand errors."""
    shown: list[str] = []
    room = VALUE_LENGTH_MAX
    for value in values:
        room -= len(value)
        if room < 0:
            return [*shown, "..."]
        shown.append(value)
    return shown


def size_rules(schema: JSONSchema, name: str, noun: str) -> list[ValueRule]:
    """The rules for the sizes of lists and of objects."""
    rules = []
    if (least := schema.get(f"min{name}")) is not None:
        rules.append(
            ValueRule(
                lambda value: len(value) >= least,
                lambda value, path: invalid_value(
                    path, len(value), f"{path} in body should have at least {least} {noun}"
                ),
            )
        )
    if (most := schema.get(f"max{name}")) is not None:
        rules.append(
            ValueRule(
                lambda value: len(value) <= most,
                lambda value, path: (
                    f"{path} in body should have at most {most} {noun}",
                    too_many(field_of(path), len(value), most),
                ),
            )
        )
    return rules


def number_rules(schema: JSONSchema, kind: str, text_format: str, values: type) -> list[ValueRule]:
    """The rules for integers or for floats, as `values` says. kind: the schema's type, if it has only one."""
    rules = []
    typed = kind if kind == "integer" else "number"

    def misfit(subject: str) -> Callable[[Any, str], Finding]:
        described = f"{kind} with format {text_format}" if text_format else f"{kind} (default format)"
        return lambda value, path: general(f"{subject} value must be of type {described} in {path}")

    if text_format == "int32" or (values is float and (kind == "integer" or text_format == "float")):
        rules.append(ValueRule(lambda value: numbers.fits(value, typed, text_format), misfit("Checked")))
    for name, label, make in (
        ("multipleOf", "MultipleOf", _multiple_rule),
        ("minimum", "Minimum boundary", _minimum_rule),
        ("maximum", "Maximum boundary", _maximum_rule),
    ):
        if (limit := schema.get(name)) is None:
            continue
        limit = float(limit)
        if not numbers.fits(limit, typed, text_format):
            # Definitions are not validated for this, so Kubernetes refuses every value.
            rules.append(ValueRule(refuse, misfit(label)))
        elif values is int:
            # Integers are compared with integers: a factor below 1 is 0, which Kubernetes refuses.
            limit = int(limit)
        rules.append(make(limit, bool(schema.get(f"exclusive{name.capitalize()}"))))
    return rules


def _multiple_rule(factor: float, _: bool) -> ValueRule:
    def finding(value: float, path: str) -> Finding:
        if factor <= 0:
            text = f"factor MultipleOf declared for {path} must be positive: {number_text(factor)}"
            return invalid_value(path, factor, text)
        return invalid_value(path, value, f"{path} in body should be a multiple of {number_text(factor)}")

    return ValueRule(lambda value: numbers.is_multiple(value, factor), finding)


def _minimum_rule(least: float, is_exclusive: bool) -> ValueRule:
    if is_exclusive:
        return ValueRule(least.__lt__, _out_of_range("greater than", least))
    return ValueRule(least.__le__, _out_of_range("greater than or equal to", least))


def _maximum_rule(most: float, is_exclusive: bool) -> ValueRule:
    if is_exclusive:
        return ValueRule(most.__gt__, _out_of_range("less than", most))
    return ValueRule(most.__ge__, _out_of_range("less than or equal to", most))


def _out_of_range(relation: str, limit: float) -> Callable[[float, str], Finding]:
    return lambda value, path: invalid_value(
        path, value, f"{path} in body should be {relation} {number_text(limit)}"
    )
