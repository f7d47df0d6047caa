"""Whether values are what their schema asks for; and if not, every reason, as Kubernetes tells it.

Two steps, since nearly all values are fine: `Check.holds` is closures chosen by the types of Python, and
builds nothing; only of a value that fails, `Check.explain` asks the same tests one by one, with paths and
texts. Each is compiled when a value first gets there, so a schema costs what is used of it.

Sources: k8s.io/kube-openapi, pkg/validation/validate (what is checked, in which order);
k8s.io/apiextensions-apiserver, pkg/apiserver/validation (texts, and what an old value excuses).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from apiserver.field_errors import FieldError, not_supported, quote, required, too_long, too_many
from apiserver.golang.quoting import go_quote
from apiserver.golang.regex import InvalidPattern, compile_pattern
from apiserver.schema.custom import numbers
from apiserver.schema.custom.correlation import Correlation, equal
from apiserver.schema.custom.formats import format_of, is_recognised
from apiserver.schema.custom.json_schema import Extensions, JSONSchema

Test: TypeAlias = Callable[[Any], object]
# What is wrong, by its whole sentence: the same is told once.
Errors: TypeAlias = dict[str, FieldError]
_Finding: TypeAlias = tuple[str, FieldError]

# More are not looked for: the answer has to end somewhere.
ERRORS_MAX: Final = 1_000
# Alternatives in alternatives, when the best one is looked for: each level costs all that are below it.
LEVELS_MAX: Final = 8
# Of an error that names no field.
NO_FIELD: Final = "<nil>"
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


class _Rule(NamedTuple):
    """One thing asked of values of one type. finding: of a value that fails, at a path."""

    holds: Test
    finding: Callable[[Any, str], _Finding]


class Check:
    """One schema's. Without an old value, `explain` finds something if and only if `holds` does not hold.

    Values are what JSON has: no other types.
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
        """Of values, by their type."""
        return self._tests or self._compile()

    def holds(self, value: Any) -> bool:
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
            tuple(Check(each, self._extensions) for each in schema.get(name) or ())
            for name in ("allOf", "anyOf", "oneOf")
        )
        self._not, self._items = self._child("not"), self._child("items")
        self._additional = self._child("additionalProperties")
        self._properties = {
            name: Check(each, self._extensions) for name, each in (schema.get("properties") or {}).items()
        }
        self._text_format = _format_rule(self._format, single)
        self._enum = _enum_rule(schema["enum"]) if schema.get("enum") else None
        is_null_fine = (not self._types or schema.get("nullable")) and not self._enum
        tests: dict[type, Test] = {kind: self._test(kind) for kind in _GO_TYPES}
        tests[_NULL] = _accept if is_null_fine else _refuse
        if (whole := tests[int]) is not _refuse and not (whole is _accept and tests[float] is _accept):
            tests[int] = _beyond_64_bits(whole, tests[float])
        # Most of them refuse and accept what many do.
        self._tests = _shared(tests)
        return self._tests

    def _rules(self, kind: type) -> list[_Rule]:
        """Of values of one type, in the order in which they are told. Made anew: few are told."""
        schema = self._schema
        if kind is str:
            return _text_rules(schema)
        if kind is int or kind is float:
            return _number_rules(schema, self._types[0] if len(self._types) == 1 else "", self._format, kind)
        if kind is list:
            return _size_rules(schema, "Items", "items")
        return _size_rules(schema, "Properties", "properties") if kind is dict else []

    def _child(self, name: str) -> Check | None:
        schema = self._schema.get(name)
        return Check(schema, self._extensions) if isinstance(schema, Mapping) else None

    def _test(self, kind: type) -> Test:
        tests: list[Test] = []
        if kind is float:
            if "integer" in self._types and "number" not in self._types:
                tests.append(numbers.is_integral)
            elif self._type_problem(0.5):
                return _refuse
        elif self._type_problem(kind()):
            return _refuse
        tests += [rule.holds for rule in self._rules(kind)]
        if kind is str and self._text_format:
            tests.append(self._text_format.holds)
        if self._enum:
            tests.append(self._enum.holds)
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
            yield lambda value: any(each.holds(value) for each in any_of)
        if one_of := self._one_of:
            yield lambda value: sum(each.holds(value) for each in one_of) == 1
        yield from (each.holds for each in self._all_of)
        if negated := self._not:
            yield lambda value: not negated.holds(value)

    def _type_problem(self, value: Any) -> tuple[str, str] | None:
        """The types asked for and the one that is found, if they do not agree; of any value but null."""
        types, text_format = self._types, self._format
        found, actual_format = _GO_TYPES[type(value)]
        is_fine = (
            found in types
            or (found == "integer" and "number" in types)
            or (found == "number" and "integer" in types and numbers.is_integral(value))
        )
        if is_fine or not (types or text_format):
            return None
        if text_format and found not in ("string", "array"):
            return None if actual_format == text_format else (text_format, actual_format)
        if text_format and not {"number", "integer"} & set(types):
            return None  # A list, too: nothing that has a format is asked for its type.
        return ",".join(types), found

    # ---- explaining

    def explain(self, value: Any, path: str, correlation: Correlation | None, errors: Errors) -> None:
        """Add what is wrong with a value at a path. correlation: with the one it replaces, if any."""
        if self.holds(value):
            return
        if value is None:
            if self._types and not self._schema.get("nullable"):
                _add(errors, _wrong_type(path, ",".join(self._types), "null"))
            if self._enum:
                _add(errors, self._enum.finding(None, path))
            return
        value = numbers.as_go(value)
        kind = type(value)
        if problem := self._type_problem(value):
            _add(errors, _wrong_type(path, *problem))
        self._explain_logic(value, path, correlation, errors)
        if kind is list and self._items:
            for index, child in enumerate(value):
                below = correlation.item(index) if correlation else None
                self._items._explain_child(child, f"{path}[{index}]", below, errors)
                if len(errors) >= ERRORS_MAX:
                    break
        broken = [rule for rule in self._rules(kind) if not rule.holds(value)]
        if kind is not dict:
            # Of texts, one thing at a time is told.
            _add(errors, *(rule.finding(value, path) for rule in (broken[:1] if kind is str else broken)))
        if kind is str and self._text_format and not self._text_format.holds(value):
            _add(errors, self._text_format.finding(value, path))
        if self._enum and not self._enum.holds(value):
            _add(errors, self._enum.finding(value, path))
        if broken and kind is dict:
            _add(errors, broken[0].finding(value, path))
        elif kind is dict:
            self._explain_fields(value, path, correlation, errors)

    def _explain_child(self, value: Any, path: str, correlation: Correlation | None, errors: Errors) -> None:
        found: Errors = {}
        self.explain(value, path, correlation, found)
        if found and not (correlation and correlation.is_unchanged):
            for text, error in found.items():
                errors.setdefault(text, error)

    def _explain_fields(
        self, value: Mapping[str, Any], path: str, correlation: Correlation | None, errors: Errors
    ) -> None:
        known = [(name, value[name], check) for name, check in self._properties.items() if name in value]
        others = []
        if additional := self._additional:
            others = [
                (name, child, additional) for name, child in value.items() if name not in self._properties
            ]
        for children, prefix in ((others, f"{path}."), (known, f"{path}." if path else "")):
            for name, child, check in children:
                # Both are converted to the version that is asked for, so changes of it cannot be seen.
                is_type = not path and name in ("apiVersion", "kind")
                below = correlation.field(name) if correlation and not is_type else None
                check._explain_child(child, f"{prefix}{name}", below, errors)
                if len(errors) >= ERRORS_MAX:
                    return
        for name in self._schema.get("required") or ():
            if name not in value:
                at = f"{path}.{name}"
                _add(errors, (f"{at} in body is required", required(_field(at))))

    def _explain_logic(self, value: Any, path: str, correlation: Correlation | None, errors: Errors) -> None:
        def explained(check: Check) -> Errors:
            found: Errors = {}
            check.explain(value, path, correlation, found)
            return found

        def alternatives(checks: Sequence[Check]) -> tuple[int, Errors]:
            """How many are fine; if none is, what is wrong with the best. Each is explained once at most."""
            if correlation is None:
                valid = sum(check.holds(value) for check in checks)
                return valid, {} if valid else explained(checks[_best(checks, value)])
            results = list(map(explained, checks))
            valid = results.count({})
            return valid, {} if valid else results[_best(checks, value)]

        where = go_quote(path)
        if self._any_of:
            valid, found = alternatives(self._any_of)
            if not valid:
                _add(errors, _general(f"{where} must validate at least one schema (anyOf)"))
                errors |= found
        if self._one_of:
            valid, found = alternatives(self._one_of)
            if valid != 1:
                how_many = f"Found {valid} valid alternatives" if valid else "Found none valid"
                problem = f"{where} must validate one and only one schema (oneOf). {how_many}"
                _add(errors, _general(problem))
                errors |= found
        all_of = list(map(explained, self._all_of))
        for result in all_of:
            errors |= result
        if any(all_of):
            how_many = ". None validated" if all(all_of) else ""
            _add(errors, _general(f"{where} must validate all the schemas (allOf){how_many}"))
        if self._not and (not explained(self._not) if correlation else self._not.holds(value)):
            _add(errors, _general(f"{where} must not validate the schema (not)"))

    # ---- which of several alternatives is the nearest

    def matches(self, value: Any, levels: int = LEVELS_MAX) -> int:
        """How much of a schema fits a value, as Kubernetes counts it: it tells the errors of the best one.

        levels: of alternatives in alternatives that are still looked at.
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
            if all(rule.holds(value) for rule in self._rules(dict)):
                for name, child in value.items():
                    check = self._properties.get(name, self._additional)
                    count += check.matches(child, levels) if check else 0
        return count

    def _logic_matches(self, value: Any, levels: int) -> int:
        if not levels:
            return 0
        count = sum(each.matches(value, levels) for each in self._all_of)
        for checks, is_one in ((self._any_of, False), (self._one_of, True)):
            valid = [each for each in checks if each.holds(value)]
            if not valid:
                count += max((each.matches(value, levels) for each in checks), default=0)
            elif len(valid) == 1 or not is_one:
                count += valid[0].matches(value, levels)
        return count


def _best(checks: Sequence[Check], value: Any) -> int:
    """The index of the first of those that fit best."""
    return 0 if len(checks) == 1 else max(range(len(checks)), key=lambda index: checks[index].matches(value))


# ---- tests of the fast way


def _accept(_: Any) -> bool:
    return True


def _refuse(_: Any) -> bool:
    return False


_ANYTHING: Final[Mapping[type, Test]] = dict.fromkeys((*_GO_TYPES, _NULL), _accept)


_plain_tests: Final[dict[tuple[Test, ...], Mapping[type, Test]]] = {}


def _shared(tests: Mapping[type, Test]) -> Mapping[type, Test]:
    """One for all schemas that only ask for types, of which there are few."""
    if all(test is _accept or test is _refuse for test in tests.values()):
        return _plain_tests.setdefault(tuple(tests.values()), tests)
    return tests


def _all(tests: list[Test]) -> Test:
    tests = [test for test in tests if test is not _accept]
    if not tests or _refuse in tests:
        return _refuse if tests else _accept
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda value: first(value) and second(value)

    def holds(value: Any) -> bool:
        for test in tests:  # noqa: SIM110  a generator costs more than all the rest
            if not test(value):
                return False
        return True

    return holds


def _beyond_64_bits(whole: Test, fraction: Test) -> Test:
    low, high = numbers.INT64_MIN, numbers.INT64_MAX
    if whole is _accept:
        return lambda value: low <= value <= high or fraction(numbers.as_go(value))
    return lambda value: whole(value) if low <= value <= high else fraction(numbers.as_go(value))


class _Fields(dict[str, Mapping[type, Test]]):
    """The tests of an object's fields; each is compiled when it is first seen."""

    __slots__ = ("_other", "_validators")

    def __init__(self, checks: Mapping[str, Check], other: Check | None) -> None:
        self._validators, self._other = checks, other

    def __missing__(self, name: str) -> Mapping[type, Test]:
        check = self._validators.get(name)
        if check is None:
            return self._other.tests if self._other else _ANYTHING
        self[name] = check.tests
        return check.tests


def _each_field(fields: _Fields) -> Test:
    def holds(value: Mapping[str, Any]) -> bool:
        for name, child in value.items():
            test = fields[name][type(child)]
            if test is not _accept and not test(child):
                return False
        return True

    return holds


def _each_value(check: Check) -> Test:
    each_item = _each_item(check)
    return lambda value: each_item(value.values())


def _each_item(check: Check) -> Test:
    def holds(values: Iterable[Any]) -> bool:
        tests = check.tests
        if all(tests[kind] is _accept for kind in set(map(type, values))):
            return True
        for child in values:  # noqa: SIM110
            if not tests[type(child)](child):
                return False
        return True

    return holds


def _has_fields(names: tuple[str, ...]) -> Test:
    def holds(value: Mapping[str, Any]) -> bool:
        for name in names:  # noqa: SIM110
            if name not in value:
                return False
        return True

    return holds


# ---- rules


def _text_rules(schema: JSONSchema) -> list[_Rule]:
    """In characters, not in bytes, whatever the text of the error says."""
    rules = []
    if (most := schema.get("maxLength")) is not None:
        rules.append(
            _Rule(
                lambda text: len(text) <= most,
                lambda text, path: (
                    f"{path} in body should be at most {most} chars long",
                    too_long(_field(path), most),
                ),
            )
        )
    if (least := schema.get("minLength")) is not None:
        rules.append(
            _Rule(
                lambda text: len(text) >= least,
                lambda text, path: _invalid(
                    path, text, f"{path} in body should be at least {least} chars long"
                ),
            )
        )
    if pattern := schema.get("pattern"):
        rules.append(_pattern_rule(pattern))
    return rules


def _pattern_rule(pattern: str) -> _Rule:
    shown = pattern
    try:
        search: Test = compile_pattern(pattern).search
    except InvalidPattern as error:
        search, shown = _refuse, f"{pattern}, but pattern is invalid: {error}"
    return _Rule(search, lambda text, path: _invalid(path, text, f"{path} in body should match '{shown}'"))


def _format_rule(name: str, kind: str) -> _Rule | None:
    holds = format_of(kind, name)
    return holds and _Rule(holds, lambda text, path: _wrong_type(path, name, text))


def _enum_rule(values: Sequence[Any]) -> _Rule:
    scalars = frozenset(
        (type(each) is bool, each) for each in values if type(each) not in (dict, list, _NULL)
    )
    others = [each for each in values if type(each) in (dict, list)]
    allowed = [each if type(each) is str else quote(each) for each in values]

    def holds(value: Any) -> bool:
        if type(value) in (dict, list):
            return any(equal(value, each) for each in others)
        # Null is none of them, even if it is listed.
        return value is not None and (type(value) is bool, value) in scalars

    def finding(value: Any, path: str) -> _Finding:
        values = " ".join(allowed)
        return f"{path} in body should be one of [{values}]", not_supported(_field(path), value, allowed)

    return _Rule(holds, finding)


def _size_rules(schema: JSONSchema, name: str, noun: str) -> list[_Rule]:
    """Of lists and of objects."""
    rules = []
    if (least := schema.get(f"min{name}")) is not None:
        rules.append(
            _Rule(
                lambda value: len(value) >= least,
                lambda value, path: _invalid(
                    path, len(value), f"{path} in body should have at least {least} {noun}"
                ),
            )
        )
    if (most := schema.get(f"max{name}")) is not None:
        rules.append(
            _Rule(
                lambda value: len(value) <= most,
                lambda value, path: (
                    f"{path} in body should have at most {most} {noun}",
                    too_many(_field(path), len(value), most),
                ),
            )
        )
    return rules


def _number_rules(schema: JSONSchema, kind: str, text_format: str, values: type) -> list[_Rule]:
    """Of whole numbers or of fractions, as `values` says. kind: the schema's, if it has a single one."""
    rules = []
    typed = kind if kind == "integer" else "number"

    def misfit(what: str) -> Callable[[Any, str], _Finding]:
        described = f"{kind} with format {text_format}" if text_format else f"{kind} (default format)"
        return lambda value, path: _general(f"{what} value must be of type {described} in {path}")

    if text_format == "int32" or (values is float and (kind == "integer" or text_format == "float")):
        rules.append(_Rule(lambda value: numbers.fits(value, typed, text_format), misfit("Checked")))
    for name, label, make in (
        ("multipleOf", "MultipleOf", _multiple_rule),
        ("minimum", "Minimum boundary", _minimum_rule),
        ("maximum", "Maximum boundary", _maximum_rule),
    ):
        if (limit := schema.get(name)) is None:
            continue
        limit = float(limit)
        if not numbers.fits(limit, typed, text_format):
            # Kubernetes does not look at the schema for this, and so refuses every value.
            rules.append(_Rule(_refuse, misfit(label)))
        elif values is int:
            # Whole numbers are compared with whole numbers; a factor below 1 has none (and stops Kubernetes).
            limit = int(limit) or (limit if name == "multipleOf" else 0)
        rules.append(make(limit, bool(schema.get(f"exclusive{name.capitalize()}"))))
    return rules


def _multiple_rule(factor: float, _: bool) -> _Rule:
    def finding(value: float, path: str) -> _Finding:
        if factor < 0:
            text = f"factor MultipleOf declared for {path} must be positive: {numbers.shown(factor)}"
            return _invalid(path, factor, text)
        return _invalid(path, value, f"{path} in body should be a multiple of {numbers.shown(factor)}")

    return _Rule(lambda value: numbers.is_multiple(value, factor), finding)


def _minimum_rule(least: float, is_exclusive: bool) -> _Rule:
    if is_exclusive:
        return _Rule(least.__lt__, _out_of_range("greater than", least))
    return _Rule(least.__le__, _out_of_range("greater than or equal to", least))


def _maximum_rule(most: float, is_exclusive: bool) -> _Rule:
    if is_exclusive:
        return _Rule(most.__gt__, _out_of_range("less than", most))
    return _Rule(most.__ge__, _out_of_range("less than or equal to", most))


def _out_of_range(relation: str, limit: float) -> Callable[[float, str], _Finding]:
    return lambda value, path: _invalid(
        path, value, f"{path} in body should be {relation} {numbers.shown(limit)}"
    )


# ---- texts


def _field(path: str) -> str:
    return path.removeprefix(".") or NO_FIELD


def _add(errors: Errors, *findings: _Finding) -> None:
    for text, error in findings:
        errors.setdefault(text, error)


def _invalid(path: str, value: Any, text: str) -> _Finding:
    shown = numbers.shown(value) if type(value) in (int, float) else quote(value)
    return text, FieldError(_field(path), "FieldValueInvalid", f"Invalid value: {shown}: {text}")


def _wrong_type(path: str, wanted: str, found: str) -> _Finding:
    text = f"{path} in body must be of type {wanted}: {go_quote(found)}"
    return text, FieldError(_field(path), "FieldValueTypeInvalid", f"Invalid value: {quote(found)}: {text}")


def _general(text: str) -> _Finding:
    """Of no field in particular, though the text tells one."""
    return text, FieldError(NO_FIELD, "FieldValueInvalid", f'Invalid value: "": {text}')
