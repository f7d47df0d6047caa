"""The language's own conformance tests.

https://github.com/google/cel-spec/tree/master/tests/simple: those without protobuf messages. Each file is a
JSON list of cases: `expr` with variables (`env`: their types, `bindings`: their values) becomes `want`, or is
of the type `want_type`. Values are `[kind, value]`.

    CEL_SPEC_DIR=/where/they/are python -m pytest tests/unit/cel/test_spec.py

They are also found in `shared/cel-spec` beside the checkout.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.cel import library, types
from apiserver.cel.checker import CheckOptions
from apiserver.cel.compiler import ProgramError
from apiserver.cel.declarations import Library
from apiserver.cel.environment import Environment
from apiserver.cel.functions import Overload
from apiserver.cel.library.strings import KUBERNETES_STRINGS
from apiserver.cel.syntax import InvalidExpression
from apiserver.cel.types import Type
from apiserver.cel.values import (
    Duration,
    EvaluationError,
    Timestamp,
    UInt,
    equal,
    key_value,
    map_key,
    type_of,
)

NAMED: Final = os.environ.get("CEL_SPEC_DIR", "")
BESIDE: Final = Path(__file__).resolve().parents[4] / "shared/cel-spec"

# The files about libraries that Kubernetes does not have.
NOT_IN_KUBERNETES: Final = frozenset({"math_ext", "encoders_ext", "block_ext"})
# Cases that cannot pass, and why.
_MAPPED = "Kubernetes takes no IPv4-mapped address, however it is written (pkg/cel/library/ip.go: Is4In6)"
_MISPRINT = "the case wants a backslash that its expression does not have; Google's own parser finds none"
_STRINGS = "Kubernetes has the versions 0 and 2 of cel-go's functions on strings, which localize `format`"
_FORMATS: Final = (
    "scientific notation formatting clause",
    "default precision for fixed-point clause with int",
    "default precision for fixed-point clause with uint",
    "default precision for scientific notation",
    "default precision for scientific notation with int",
    "default precision for scientific notation with uint",
    "positive infinity support for scientific notation",
    "negative infinity support for scientific notation",
    "NaN support for decimal",
    "positive infinity support for decimal",
    "negative infinity support for decimal",
    "positive infinity support for fixed-point",
    "negative infinity support for fixed-point",
    "list support for string",
    "map support for string",
    "map support (all key types)",
    "dyntype support for scientific notation",
    "dyntype NaN/infinity support",
    "dyntype support for lists",
    "dyntype support for maps",
    "scientific notation formatting clause in a string variable",
)
EXPECTED_FAILURES: Final[Mapping[str, str]] = {
    **dict.fromkeys((f"string_ext/format/{name}" for name in _FORMATS), _STRINGS),
    **dict.fromkeys(
        (f"string_ext/reverse/{name}" for name in ("empty", "single_character", "multiple")), _STRINGS
    ),
    "string_ext/value_errors/indexof_out_of_range": _STRINGS,
    "string_ext/value_errors/lastindexof_out_of_range": _STRINGS,
    "network_ext/ipv4/ipv4_equals_ipv6": _MAPPED,
    "network_ext/ipv4/ipv4_not_equals_ipv6": _MAPPED,
    "parse/bytes_literals/triple_single_quoted_unescaped_punctuation": _MISPRINT,
    "parse/bytes_literals/triple_double_quoted_unescaped_punctuation": _MISPRINT,
}


WITHOUT: Final = "cel-spec's cases are missing: CEL_SPEC_DIR names a directory with them, converted to JSON"


def cases() -> list[Any]:
    """Returns the cases that are here. Raises FileNotFoundError if CEL_SPEC_DIR names none."""
    named = (Path(NAMED) if NAMED else BESIDE).glob("*.json")
    paths = sorted(path for path in named if path.stem not in NOT_IN_KUBERNETES)
    if NAMED and not paths:
        raise FileNotFoundError(f"CEL_SPEC_DIR: no *.json in {NAMED}")
    found = []
    for path in paths:
        for case in json.loads(path.read_bytes()):
            name = f"{case['file']}/{case['sec']}/{case['name']}"
            reason = EXPECTED_FAILURES.get(name)
            marks = [] if reason is None else [pytest.mark.xfail(reason=reason)]
            found.append(pytest.param(case, id=name, marks=marks))
    return found


CASES: Final = cases()


@functools.cache
def libraries() -> tuple[Library, ...]:
    """All there are."""
    modules = [
        importlib.import_module(f"{library.__name__}.{module.name}")
        for module in pkgutil.iter_modules(library.__path__)
    ]
    found = {
        id(value): value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, Library)
    }
    return (*found.values(), *KUBERNETES_STRINGS)


# ---- what is written in the files


SCALARS: Final = {
    "dyn": types.DYN,
    "null": types.NULL,
    "bool": types.BOOL,
    "int": types.INT,
    "uint": types.UINT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "bytes": types.BYTES,
    "timestamp": types.TIMESTAMP,
    "duration": types.DURATION,
}


def type_from(data: Any) -> Type:
    match data:
        case str():
            return SCALARS[data]
        case ["list", element]:
            return types.list_of(type_from(element))
        case ["map", key, value]:
            return types.map_of(type_from(key), type_from(value))
        case ["param", name]:
            return types.parameter(name)
        case ["abstract", "optional_type", element]:
            return types.optional_of(type_from(element))
        case ["abstract", name, *parameters]:
            return types.opaque(name, *map(type_from, parameters))
    raise AssertionError(data)


def value_from(data: Any) -> Any:
    kind, value = data
    match kind:
        case "uint":
            return UInt(value)
        case "double":
            return float(value)
        case "bytes":
            return bytes.fromhex(value)
        case "timestamp":
            return Timestamp(value)
        case "duration":
            return Duration(value)
        case "list":
            return [value_from(item) for item in value]
        case "map":
            return {map_key(value_from(key)): value_from(item) for key, item in value}
    return value  # bool, int, null, string


def uncallable(*_: Any) -> Any:
    raise AssertionError("is declared to be checked, not to be called")


def declared(env: list[Any]) -> tuple[dict[str, Type], Library]:
    variables = {name: type_from(data) for kind, name, data in env if kind == "ident"}
    functions = {
        name: tuple(
            Overload(key, tuple(map(type_from, args)), type_from(result), uncallable, is_method=is_method)
            for key, args, result, is_method in overloads
        )
        for kind, name, overloads in env
        if kind == "function"
    }
    return variables, Library("declared", functions=functions)


# ---- what comes of it


def shown(value: Any) -> Any:
    """A value so that it can be compared with the one that is wanted: with the types of all its parts."""
    if isinstance(value, Type):
        return "type", value.name or value.kind.value
    if type(value) is list:
        return [shown(item) for item in value]
    if type(value) is dict:
        return {(type(key_value(key)).__name__, key): shown(item) for key, item in value.items()}
    if isinstance(value, float) and value != value:
        return "double", "NaN"
    return str(type_of(value)), value


def wanted(data: Any) -> Any:
    return ("type", data[1]) if data[0] == "type" else shown(value_from(data))


@pytest.mark.skipif(not CASES, reason=WITHOUT)
@pytest.mark.parametrize("case", CASES)
def test_case(case: Mapping[str, Any]) -> None:
    variables, functions = declared(case["env"])
    environment = Environment(
        variables,
        [*libraries(), functions],
        case["container"],
        options=CheckOptions(mixed=True, lenient=case["disable_check"], quoted_fields=True),
    )
    want = case["want"]
    if want is not None and want[0] == "error":
        with pytest.raises((InvalidExpression, ProgramError, EvaluationError)):
            evaluated(environment, case)
        return
    if "want_type" in case:
        assert environment.check(case["expr"]).type == type_from(case["want_type"])
    if want is not None:
        got = evaluated(environment, case)
        assert shown(got) == wanted(want)
        if want[0] != "type" and shown(got) != ("double", "NaN"):
            assert equal(got, value_from(want))


def evaluated(environment: Environment, case: Mapping[str, Any]) -> Any:
    program = environment.program(environment.check(case["expr"]))
    return program({name: value_from(value) for name, value in case["bindings"].items()}).value


def test_the_table_of_failures_names_cases() -> None:
    if CASES:
        assert EXPECTED_FAILURES.keys() <= {case.id for case in CASES}
    assert len(EXPECTED_FAILURES) <= 40
