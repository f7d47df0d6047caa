"""Validates values by their JSON schema, with the errors of Kubernetes.

It has two steps, since nearly all values are valid. `SchemaValidator.is_valid` calls closures chosen by the
Python types of values, and builds nothing. Only for a value that fails, `SchemaValidator.validate` repeats
the tests one by one, with paths and messages. Each part is compiled for its first value, so an unused part of
a schema costs nothing.

Sources: k8s.io/kube-openapi, pkg/validation/validate (the checks and their order);
k8s.io/apiextensions-apiserver, pkg/apiserver/validation (messages, and ratcheting).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from apiserver.custom_resources.schemas import numbers
from apiserver.custom_resources.schemas.correlation import Correlation
from apiserver.custom_resources.schemas.findings import (
    NO_FIELD,
    ErrorsByMessage,
    add,
    field_of,
    general,
    wrong_type,
)
from apiserver.custom_resources.schemas.formats import is_recognised
from apiserver.custom_resources.schemas.json_schema import JSONSchema
from apiserver.custom_resources.schemas.value_rules import (
    Test,
    ValueRule,
    enum_rule,
    format_rule,
    number_rules,
    refuse,
    size_rules,
    text_rules,
)
from apiserver.golang.quoting import go_quote
from apiserver.meta.field_errors import FieldError, field_below, invalid, item_below, required, truncated_path
from apiserver.schema.extensions import Extensions

# More are not looked for: the response has to end somewhere.
ERRORS_MAX: Final = 1_000
# Levels of alternatives in alternatives that are searched for the best match: each costs all below it.
LEVELS_MAX: Final = 8
# The JSON type and the format that Go's decoder gives a value.
_GO_TYPES: Final[Mapping[type, tuple[str, str]]] = {
    str: ("string", ""),
    int: ("integer", "int64"),
    float: ("number", "float64"),
    bool: ("boolean", ""),
    list: ("array", ""),
    dict: ("object", ""),
}
_NULL: Final = type(None)


class SchemaValidator:
    """Validates values, which are decoded JSON, by one schema.

    Without an old value, `validate` returns errors if and only if `is_valid` is false.
    """

    __slots__ = (
        "_additional",
        "_all_of",
        "_any_of",
        "_enum",
        "_extensions",
        "_format",
        "_items",
        "_not",
        "_one_of",
        "_properties",
        "_schema",
        "_tests",
        "_text_format",
        "_types",
    )

    def __init__(self, schema: JSONSchema, extensions: Extensions) -> None:
        self._schema, self._extensions = schema, extensions
        self._tests: Mapping[type, Test] | None = None

    @property
    def tests(self) -> Mapping[type, Test]:
        """The tests of values, by type."""
        return self._tests or self._compile()

    def is_valid(self, value: Any) -> bool:
        return bool(self.tests[type(value)](value))

    # ---- compiling

    def _compile(self) -> Mapping[type, Test]:
        schema = self._schema
        kind = schema.get("type") or ""
        self._types: tuple[str, ...] = (kind,) if kind else ()
        if schema.get(self._extensions.int_or_string):
            self._types = ("integer", "string")
        name = schema.get("format") or ""
        single = self._types[0] if len(self._types) == 1 else ""
        self._format = name if is_recognised(single, name) else ""
        self._all_of, self._any_of, self._one_of = (
            tuple(SchemaValidator(each, self._extensions) for each in schema.get(name) or ())
            for name in ("allOf", "anyOf", "oneOf")
        )
        self._not, self._items = self._child("not"), self._child("items")
        self._additional = self._child("additionalProperties")
        self._properties = {
            name: SchemaValidator(each, self._extensions)
            for name, each in (schema.get("properties") or {}).items()
        }
        self._text_format = format_rule(self._format, single)
        self._enum = enum_rule(schema["enum"]) if schema.get("enum") else None
        is_null_fine = (not self._types or schema.get("nullable")) and not self._enum
        tests: dict[type, Test] = {kind: self._test(kind) for kind in _GO_TYPES}
        tests[_NULL] = _accept if is_null_fine else refuse
        if (whole := tests[int]) is not refuse and not (whole is _accept and tests[float] is _accept):
            tests[int] = _beyond_64_bits(whole, tests[float])
        # Most of them are equal to those of other schemas.
        self._tests = _shared(tests)
        return self._tests

    def _rules(self, kind: type) -> list[ValueRule]:
        """Returns the rules for values of one type, in the order of their errors; not cached, as few values
        fail.
        """
        schema = self._schema
        if kind is str:
            return text_rules(schema)
        if kind is int or kind is float:
            return number_rules(schema, self._types[0] if len(self._types) == 1 else "", self._format, kind)
        if kind is list:
            return size_rules(schema, "Items", "items")
        return size_rules(schema, "Properties", "properties") if kind is dict else []

    def _child(self, name: str) -> SchemaValidator | None:
        schema = self._schema.get(name)
        return SchemaValidator(schema, self._extensions) if isinstance(schema, Mapping) else None

    def _test(self, kind: type) -> Test:
        tests: list[Test] = []
        if kind is float:
            if "integer" in self._types and "number" not in self._types:
                tests.append(numbers.is_integral)
            elif self._type_problem(0.5):
                return refuse
        elif self._type_problem(kind()):
            return refuse
        tests += [rule.is_valid for rule in self._rules(kind)]
        if kind is str and self._text_format:
            tests.append(self._text_format.is_valid)
        if self._enum:
            tests.append(self._enum.is_valid)
        if kind is dict:
            tests += self._object_tests()
        elif kind is list and self._items:
            tests.append(_each_item(self._items))
        return _all([*tests, *self._logic_tests()])

    def _object_tests(self) -> Iterable[Test]:
        if names := tuple(self._schema.get("required") or ()):
            yield _has_fields(names)
        if self._properties:
            yield _each_field(_Fields(self._properties, self._additional))
        elif self._additional:
            yield _each_value(self._additional)

    def _logic_tests(self) -> Iterable[Test]:
        if any_of := self._any_of:
            yield lambda value: any(each.is_valid(value) for each in any_of)
        if one_of := self._one_of:
            yield lambda value: sum(each.is_valid(value) for each in one_of) == 1
        yield from (each.is_valid for each in self._all_of)
        if negated := self._not:
            yield lambda value: not negated.is_valid(value)

    def _type_problem(self, value: Any) -> tuple[str, str] | None:
        """Returns the expected types and the actual one if they differ; the value is not null."""
        types, text_format = self._types, self._format
        actual, actual_format = _GO_TYPES[type(value)]
        is_fine = (
            actual in types
            or (actual == "integer" and "number" in types)
            or (actual == "number" and "integer" in types and numbers.is_integral(value))
        )
        if is_fine or not (types or text_format):
            return None
        if text_format and actual not in ("string", "array"):
            return None if actual_format == text_format else (text_format, actual_format)
        if text_format and not {"number", "integer"} & set(types):
            return None  # Kubernetes does not check the type of a list, either, if there is a format.
        return ",".join(types), actual

    # ---- errors

    def validate(
        self, value: Any, path: str = "", correlation: Correlation | None = None
    ) -> list[FieldError]:
        """Returns all errors of a value at a path.

        correlation: the value with the one that it replaces, if any; an unchanged value has no errors.
        """
        errors: ErrorsByMessage = {}
        try:
            self._explain_child(value, path, correlation, errors)
        except RecursionError:
            return [invalid(NO_FIELD, "", "the object is nested too deeply")]
        return list(errors.values())

    def _explain(
        self, value: Any, path: str, correlation: Correlation | None, errors: ErrorsByMessage
    ) -> None:
        """Add the errors of a value at a path. correlation: the value with the one it replaces, if any."""
        if self.is_valid(value):
            return
        if value is None:
            if self._types and not self._schema.get("nullable"):
                add(errors, wrong_type(path, ",".join(self._types), "null"))
            if self._enum:
                add(errors, self._enum.finding(None, path))
            return
        value = numbers.as_go(value)
        kind = type(value)
        if problem := self._type_problem(value):
            add(errors, wrong_type(path, *problem))
        self._explain_logic(value, path, correlation, errors)
        if kind is list and self._items:
            for index, child in enumerate(value):
                below = correlation.item(index) if correlation else None
                self._items._explain_child(child, item_below(path, index), below, errors)
                if len(errors) >= ERRORS_MAX:
                    break
        broken = [rule for rule in self._rules(kind) if not rule.is_valid(value)]
        if kind is not dict:
            # Only the first broken rule of a string is reported.
            add(errors, *(rule.finding(value, path) for rule in (broken[:1] if kind is str else broken)))
        if kind is str and self._text_format and not self._text_format.is_valid(value):
            add(errors, self._text_format.finding(value, path))
        if self._enum and not self._enum.is_valid(value):
            add(errors, self._enum.finding(value, path))
        if kind is dict:
            add(errors, *(rule.finding(value, path) for rule in broken))
            self._explain_fields(value, path, correlation, errors)

    def _explain_child(
        self, value: Any, path: str, correlation: Correlation | None, errors: ErrorsByMessage
    ) -> None:
        own_errors: ErrorsByMessage = {}
        self._explain(value, path, correlation, own_errors)
        if own_errors and not (correlation and correlation.is_unchanged):
            for text, error in own_errors.items():
                errors.setdefault(text, error)

    def _explain_fields(
        self, value: Mapping[str, Any], path: str, correlation: Correlation | None, errors: ErrorsByMessage
    ) -> None:
        known = [
            (name, value[name], validator) for name, validator in self._properties.items() if name in value
        ]
        others = []
        if additional := self._additional:
            others = [
                (name, child, additional) for name, child in value.items() if name not in self._properties
            ]
        for children, prefix in ((others, "."), (known, "")):
            for name, child, validator in children:
                # Both objects are converted to the requested version, so a change of it cannot be seen.
                is_type = not path and name in ("apiVersion", "kind")
                below = correlation.field(name) if correlation and not is_type else None
                at = field_below(path, name) if path else truncated_path(prefix + name)
                validator._explain_child(child, at, below, errors)
                if len(errors) >= ERRORS_MAX:
                    return
        for name in self._schema.get("required") or ():
            if name not in value:
                at = field_below(path, name) if path else f".{name}"
                add(errors, (f"{at} in body is required", required(field_of(at))))

    def _explain_logic(
        self, value: Any, path: str, correlation: Correlation | None, errors: ErrorsByMessage
    ) -> None:
        def explained(validator: SchemaValidator) -> ErrorsByMessage:
            own_errors: ErrorsByMessage = {}
            validator._explain(value, path, correlation, own_errors)
            return own_errors

        def alternatives(validators: Sequence[SchemaValidator]) -> tuple[int, ErrorsByMessage]:
            """Returns the number of valid alternatives; if there are none, also the errors of the best match.

            Each alternative is explained at most once.
            """
            if correlation is None:
                valid = sum(validator.is_valid(value) for validator in validators)
                return valid, {} if valid else explained(validators[_best(validators, value)])
            results = list(map(explained, validators))
            valid = results.count({})
            return valid, {} if valid else results[_best(validators, value)]

        where = go_quote(path)
        if self._any_of:
            valid, best_errors = alternatives(self._any_of)
            if not valid:
                add(errors, general(f"{where} must validate at least one schema (anyOf)"))
                errors |= best_errors
        if self._one_of:
            valid, best_errors = alternatives(self._one_of)
            if valid != 1:
                how_many = f"Found {valid} valid alternatives" if valid else "Found none valid"
                problem = f"{where} must validate one and only one schema (oneOf). {how_many}"
                add(errors, general(problem))
                errors |= best_errors
        all_of = list(map(explained, self._all_of))
        for result in all_of:
            errors |= result
        if any(all_of):
            how_many = ". None validated" if all(all_of) else ""
            add(errors, general(f"{where} must validate all the schemas (allOf){how_many}"))
        if self._not and (not explained(self._not) if correlation else self._not.is_valid(value)):
            add(errors, general(f"{where} must not validate the schema (not)"))

    # ---- the best match among alternatives

    def matches(self, value: Any, levels: int = LEVELS_MAX) -> int:
        """Returns how well the schema matches a value; Kubernetes reports the errors of the best match.

        levels: how many nested levels of alternatives are still searched.
        """
        self.tests  # noqa: B018  compiled
        if value is None:
            return 0 if self._types and not self._schema.get("nullable") else 1
        value = numbers.as_go(value)
        kind = type(value)
        count = 4 + self._logic_matches(value, levels - 1)  # the value itself, its logic (two), its enum
        if self._types or self._format:
            count += 1 if self._type_problem(value) else 2
        if kind is str:
            count += 2 if self._text_format else 1
        elif kind is int or kind is float:
            count += 2
        elif kind is list:
            count += 2
            if self._items:
                count += sum(self._items.matches(child, levels) for child in value)
        elif kind is dict:
            count += 1
            for name, child in value.items():
                validator = self._properties.get(name, self._additional)
                count += validator.matches(child, levels) if validator else 0
        return count

    def _logic_matches(self, value: Any, levels: int) -> int:
        if not levels:
            return 0
        count = sum(each.matches(value, levels) for each in self._all_of)
        for validators, is_one in ((self._any_of, False), (self._one_of, True)):
            valid = [each for each in validators if each.is_valid(value)]
            if not valid:
                count += max((each.matches(value, levels) for each in validators), default=0)
            elif len(valid) == 1 or not is_one:
                count += valid[0].matches(value, levels)
        return count


def _best(validators: Sequence[SchemaValidator], value: Any) -> int:
    return (
        0
        if len(validators) == 1
        else max(range(len(validators)), key=lambda index: validators[index].matches(value))
    )


# ---- the tests of `is_valid`


def _accept(_: Any) -> bool:
    return True


_ANYTHING: Final[Mapping[type, Test]] = dict.fromkeys((*_GO_TYPES, _NULL), _accept)


def _shared(tests: dict[type, Test]) -> Mapping[type, Test]:
    """Returns the tests, which schemas that only check types share, as there are few."""
    if all(test is _accept or test is refuse for test in tests.values()):
        return _type_tests(tuple(tests.items()))
    return tests


@cache
def _type_tests(tests: tuple[tuple[type, Test], ...]) -> Mapping[type, Test]:
    return dict(tests)


def _all(tests: list[Test]) -> Test:
    tests = [test for test in tests if test is not _accept]
    if not tests or refuse in tests:
        return refuse if tests else _accept
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda value: first(value) and second(value)

    def is_valid(value: Any) -> bool:
        for test in tests:  # noqa: SIM110  a generator costs more than all the rest
            if not test(value):
                return False
        return True

    return is_valid


def _beyond_64_bits(whole: Test, fraction: Test) -> Test:
    low, high = numbers.INT64_MIN, numbers.INT64_MAX
    if whole is _accept:
        return lambda value: low <= value <= high or fraction(numbers.as_go(value))
    return lambda value: whole(value) if low <= value <= high else fraction(numbers.as_go(value))


class _Fields(dict[str, Mapping[type, Test]]):
    """The tests of an object's fields, each compiled for its first value."""

    __slots__ = ("_other", "_validators")

    def __init__(self, validators: Mapping[str, SchemaValidator], other: SchemaValidator | None) -> None:
        self._validators, self._other = validators, other

    def __missing__(self, name: str) -> Mapping[type, Test]:
        validator = self._validators.get(name)
        if validator is None:
            return self._other.tests if self._other else _ANYTHING
        self[name] = validator.tests
        return validator.tests


def _each_field(fields: _Fields) -> Test:
    def is_valid(value: Mapping[str, Any]) -> bool:
        for name, child in value.items():
            test = fields[name][type(child)]
            if test is not _accept and not test(child):
                return False
        return True

    return is_valid


def _each_value(validator: SchemaValidator) -> Test:
    each_item = _each_item(validator)
    return lambda value: each_item(value.values())


def _each_item(validator: SchemaValidator) -> Test:
    def is_valid(values: Iterable[Any]) -> bool:
        tests = validator.tests
        if all(tests[kind] is _accept for kind in set(map(type, values))):
            return True
        for child in values:  # noqa: SIM110
            if not tests[type(child)](child):
                return False
        return True

    return is_valid


def _has_fields(names: tuple[str, ...]) -> Test:
    def is_valid(value: Mapping[str, Any]) -> bool:
        for name in names:  # noqa: SIM110
            if name not in value:
                return False
        return True

    return is_valid
