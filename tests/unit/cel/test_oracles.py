"""Random expressions mean the same to us and to other implementations of the language.

cel-expr-python is Google's (C++): it must take and refuse the same, and come to the same values or to errors.
Left out is where it is known to differ: numbers of two types compared (Kubernetes' language allows that),
operators on elements of `[]` (cel-go takes the first that fits), maps' order, parts of strings that are empty
or at their end (as Go has them).
cel-python checks no types and lacks much: on the part of the language that it has, all three must agree.
"""

from __future__ import annotations

import importlib
import logging
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

import pytest

from apiserver.cel import types
from apiserver.cel.checker import CheckOptions
from apiserver.cel.compiler import ProgramError
from apiserver.cel.environment import Environment
from apiserver.cel.library.optionals import OPTIONALS
from apiserver.cel.library.standard import STANDARD
from apiserver.cel.library.strings import KUBERNETES_STRINGS
from apiserver.cel.macros import by_name
from apiserver.cel.parser import parse
from apiserver.cel.syntax import InvalidExpression
from apiserver.cel.values import EvaluationError, key_value
from tests.support.required import library

VARIABLES: Final[dict[str, Any]] = {
    "i": 7,
    "j": -3,
    "d": 2.5,
    "s": "alpha",
    "t": "Bêta",
    "b": True,
    "l": [3, 1, 2],
    "w": ["x", "alpha", ""],
    "m": {"x": 1, "alpha": 2},
}
NUMBERS: Final = types.list_of(types.INT)
WORDS: Final = types.list_of(types.STRING)
TABLE: Final = types.map_of(types.STRING, types.INT)
DECLARED: Final = {
    "i": types.INT,
    "j": types.INT,
    "d": types.DOUBLE,
    "s": types.STRING,
    "t": types.STRING,
    "b": types.BOOL,
    "l": NUMBERS,
    "w": WORDS,
    "m": TABLE,
}
OURS: Final = Environment(
    DECLARED, [STANDARD, *KUBERNETES_STRINGS, OPTIONALS], options=CheckOptions(mixed=True)
)

# What makes an expression of a type of parts, separated by semicolons: in `{…}` the parts' types, `$` a fresh
# variable of the loop.
FORMS: Final = {
    kind: [form.strip() for form in re.split("[;\n]", text) if form.strip()]
    for kind, text in {
        "int": """
            i; j; 0; 1; -2; 9223372036854775807; -({int}); ({int} + {int}); ({int} - {int}); ({int} * {int})
            ({int} / {int}); ({int} % {int}); ({bool} ? {int} : {int}); size({string}); {numbers}.size()
            {numbers}[{int}]; {table}[{string}]; m.x; m.none; int({double}); int({string}); size({table})
            none; size([]); size({}); {table}.map($, $ + {string}).size(); {string}.indexOf({string})
            {string}.lastIndexOf({string}); {numbers}[?{int}].orValue({int})
            m.?x.optMap($, $ + {int}).orValue({int}); optional.of({int}).value()
            timestamp({int}).getFullYear(); duration('1h30m').getMinutes(); {numbers}[size({table})]
            """,
        "double": """
            d; 0.5; -1e3; ({double} + {double}); ({double} * {double}); ({double} / {double}); double({int})
            ({bool} ? {double} : {double}); -({double})
            """,
        "string": r"""
            s; t; ''; 'x'; "ê😀"; ({string} + {string}); string({int}); string({bool}); {words}[{int}]; b.type
            ({bool} ? {string} : {string}); r'\d'; {string}.charAt({int}); {string}.lowerAscii()
            {words}.join({string}); {string}.upperAscii(); {string}.trim(); {string}.substring({int})
            {string}.replace({string}, {string})
            {string}.replace({string}, {string}, {int}); {string}.substring({int}, {int}); {words}.join()
            {table}[?{string}].optMap($, string($)).orValue({string})
            """,
        "bool": """
            b; true; false; !{bool}; ({bool} && {bool}); ({bool} || {bool}); ({int} < {int}); ({int} == {int})
            ({double} >= {double}); ({string} != {string}); ({string} <= {string}); ({numbers} == {numbers})
            ({int} in {numbers}); ({string} in {table}); ({string} in {words}); {string}.contains({string})
            {string}.startsWith({string}); {string}.endsWith({string}); {string}.matches('[a-z]+'); has(m.x)
            has(m.none); has({table}.alpha); ({bool} ? {bool} : {bool}); {numbers}.all($, $ > {int})
            {numbers}.exists($, {int} == $); {numbers}.exists_one($, $ >= {int}); ({table} == {table})
            {words}.exists($, $ == {string}); {table}.all($, $ != {string}); type({int}) == type({int})
            bool({string}); (dyn({int}) == dyn({string})); {table}[?{string}].hasValue(); s.contains({string})
            t.startsWith({string}); s.endsWith({string}); t.matches('[a-z]+'); {numbers}.exists_one($, $ == 1)
            """,
        "numbers": """
            l; [{int}]; [{int}, {int}]; ({numbers} + {numbers}); {numbers}.filter($, $ < {int})
            {numbers}.map($, $ * {int}); {numbers}.map($, $ > {int}, $ + 1); {words}.map($, size($))
            ({bool} ? {numbers} : {numbers}); ({numbers} + []); [?{numbers}[?{int}], {int}]
            """,
        "words": """
            w; ['x']; [{string}, {string}]; ({words} + {words}); {words}.filter($, {bool})
            {words}.map($, $ + {string}); {numbers}.map($, string($)); {string}.split('x')
            {string}.split('l', {int})
            """,
        "table": """
            m; {{string}: {int}}; {'x': {int}, 'y': {int}}; ({bool} ? {table} : {table})
            """,
    }.items()
}
# In place of one of the right type, now and then. Numbers are not mixed up with each other: see above.
WRONG: Final = {
    "int": ("string", "bool", "numbers"),
    "double": ("string", "bool", "table"),
    "string": ("int", "words", "bool"),
    "bool": ("int", "string", "table"),
    "numbers": ("int", "string", "bool"),
    "words": ("string", "int", "bool"),
    "table": ("string", "int", "words"),
}
WRONG_SHARE: Final = 0.02  # refused are about a third then
DEPTH_MAX: Final = 5


class Generator:
    """without: forms that are left out. used: the forms that the last expression is made of."""

    def __init__(self, seed: int, without: Collection[str] = (), wrong_share: float = WRONG_SHARE) -> None:
        self._random = random.Random(seed)
        self._forms = {kind: [form for form in forms if form not in without] for kind, forms in FORMS.items()}
        self._wrong_share = wrong_share
        self._loops = 0
        self.used: set[str] = set()

    def expression(self) -> str:
        self.used = set()
        return self._of(self._random.choice(sorted(self._forms)), DEPTH_MAX)

    def _of(self, kind: str, depth: int) -> str:
        if self._random.random() < self._wrong_share:
            kind = self._random.choice(WRONG[kind])
        forms = [form for form in self._forms[kind] if depth or "{" not in form]
        form = self._random.choice(forms)
        self.used.add(form)
        if "$" in form:
            self._loops += 1
            form = form.replace("$", f"x{self._loops}")
        for part in FORMS:
            while f"{{{part}}}" in form:
                form = form.replace(f"{{{part}}}", self._of(part, depth - 1), 1)
        return form


def plain(value: Any) -> Any:
    """A value with the kinds of all its parts, so that 1, 1.0 and true are told apart."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {plain(key_value(key)): plain(item) for key, item in value.items()}
    if value != value:
        return "NaN"
    return type(value).__name__, value


REFUSED: Final = "refused"
FAILED: Final = "failed"
# A constant is converted to what it cannot be: cel-go says so before it evaluates.
NOT_RUNNABLE: Final = "not runnable"


def by_us(text: str) -> Any:
    try:
        checked = OURS.check(text)
    except InvalidExpression:
        return REFUSED
    try:
        return plain(OURS.program(checked)(VARIABLES).value)
    except ProgramError:
        return NOT_RUNNABLE
    except EvaluationError:
        return FAILED


def google_environment() -> Any:
    cel = library("cel_expr_python.cel")
    kind = cel.Type
    return cel.NewEnv(
        variables={
            "i": kind.INT,
            "j": kind.INT,
            "d": kind.DOUBLE,
            "s": kind.STRING,
            "t": kind.STRING,
            "b": kind.BOOL,
            "l": kind.List(kind.INT),
            "w": kind.List(kind.STRING),
            "m": kind.Map(kind.STRING, kind.INT),
        },
        extensions=[
            importlib.import_module("cel_expr_python.ext.ext_strings").ExtStrings(),
            importlib.import_module("cel_expr_python.ext.ext_math").ExtMath(),
            importlib.import_module("cel_expr_python.ext.ext_optional").ExtOptional(),
        ],
    )


def google() -> Callable[[str], Any]:
    environment = google_environment()

    def evaluate(text: str) -> Any:
        try:
            program = environment.compile(text)
        except Exception:  # it has no class of its own
            return REFUSED
        value = program.eval(data=VARIABLES)
        return FAILED if value.type().name() == "ERROR" else plain(value.plain_value())

    return evaluate


COUNTS: Final = [pytest.param(300, id="some"), pytest.param(4_000, id="many", marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", COUNTS)
def test_values_equal_those_of_google(count: int) -> None:
    # Theirs takes no end of a part that is the text's.
    generator, theirs = Generator(20260101, without=["{string}.substring({int}, {int})"]), google()
    with_value = 0
    for _ in range(count):
        text = generator.expression()
        ours = by_us(text)
        if ours != NOT_RUNNABLE:
            assert theirs(text) == ours, text
        with_value += ours not in (REFUSED, FAILED, NOT_RUNNABLE)
    assert with_value > count / 3, "hardly any expressions have a value"


def cel_python() -> Callable[[str], Any]:
    celpy = library("celpy")
    celtypes = importlib.import_module("celpy.celtypes")
    environment = celpy.Environment()
    variables = {name: celpy.json_to_cel(value) for name, value in VARIABLES.items()}
    kinds = {
        celtypes.BoolType: bool,
        celtypes.IntType: int,
        celtypes.DoubleType: float,
        celtypes.StringType: str,
    }

    def python(value: Any) -> Any:
        if isinstance(value, list):
            return [python(item) for item in value]
        if isinstance(value, dict):
            return {python(key): python(item) for key, item in value.items()}
        return kinds.get(type(value), type(value))(value)

    def evaluate(text: str) -> Any:
        try:
            value = environment.program(environment.compile(text)).evaluate(variables)
        except (celpy.CELEvalError, IndexError):  # this of an error that it cannot print
            return FAILED
        return plain(python(value))

    return evaluate


def forms_with(pattern: str, reason: str) -> dict[str, str]:
    return {form: reason for forms in FORMS.values() for form in forms if re.search(pattern, form)}


# What cel-python lacks, or makes other values of, and why.
NOT_IN_CEL_PYTHON: Final = {
    **forms_with(
        r"math\.|optional|\[\?|\.\?|join|Ascii|trim|charAt|substring|replace|split|ndexOf",
        "it has no extensions of the language",
    ),
    **forms_with("^(none|b.type)$", "it checks no types: what is refused has a meaning there"),
    **forms_with(
        r"{string}\.(contains|startsWith|endsWith|matches)", "the sum of two strings has no methods there"
    ),
    "{numbers}.map($, $ > {int}, $ + 1)": "it has no map of a part only",
    "({double} / {double})": "it has an error for a division by zero",
    "string({bool})": "it writes `True`",
    "(dyn({int}) == dyn({string}))": "it has an error for values of two types, which are not equal",
    "type({int}) == type({int})": "`!!type(1)` is an error, where others leave out both `!` as they parse",
    "timestamp({int}).getFullYear()": "it has times of texts only",
}
# Of what cel-python has values where there are none, and why.
LENIENT: Final = {
    **forms_with(
        r"^{(numbers|words)}\[{int}\]$", "an index less than zero counts from the end, as in Python"
    ),
    **forms_with(r"^{.*: {int}.*}$", "errors stay in maps, as values"),
    "bool({string})": "every number is true or false",
}
# Of what cel-python has errors where there are values, and why.
STRICT: Final = forms_with(
    "(map|filter|exists_one)[(]", "an error is the whole's, where `&&` and `||` need it not"
)


@pytest.mark.parametrize("count", COUNTS)
def test_values_equal_those_of_both(count: int, caplog: pytest.LogCaptureFixture) -> None:
    """All three come to the same value of an expression, or to an error."""
    caplog.set_level(logging.CRITICAL, "celpy")  # it logs errors that cannot be printed
    generator = Generator(20260103, NOT_IN_CEL_PYTHON, wrong_share=0)
    first, second = google(), cel_python()
    agreed: Counter[bool] = Counter()  # by whether there is a value
    while agreed.total() < count:
        text = generator.expression()
        ours = by_us(text)
        assert ours != REFUSED, text
        if ours == NOT_RUNNABLE:
            continue
        assert first(text) == ours, text
        theirs = second(text)
        if theirs == ours:
            agreed[ours != FAILED] += 1
        elif ours == FAILED:
            assert not generator.used.isdisjoint(LENIENT), text
        else:
            assert theirs == FAILED, text
            assert not generator.used.isdisjoint(STRICT), text
    assert agreed[True] > count / 2, "hardly any expressions have a value"
    assert agreed[False] > count / 10, "hardly any expressions have none"


# ---- what is no expression

WORDS_OF_ANY_KIND: Final = (
    *("a", "b", "1", "1.5", "'s'", "(", ")", "[", "]", "{", "}", ".", ",", "-", "!", "?", ":", "+", "*", "<"),
    *("==", "in", "&&", "||", "true", "T", "has", "$", "=", "'q", "if", "`e`", ".?", "[?", " "),
)
GOOD: Final = (
    "self.a <= self.b && has(self.c.d)",
    "x.all(y, y > 1) ? [1, 2, 3] : {'a': 1, 'b': f(2, 3)}",
    "T{a: 1, b: 2}.c[1] + -2 * !d",
    "a.b.c(1, 2)[0].d || (1 + 2) in [3]",
    "!(-a - -1) == b.?c[?d]",
)


def spoilt(count: int) -> Iterator[str]:
    """Expressions in which a word or two are left out, put in or replaced, or words at random."""
    chance = random.Random(20260102)
    for _ in range(count):
        if chance.random() < 0.3:
            yield " ".join(chance.choices(WORDS_OF_ANY_KIND, k=chance.randint(1, 7)))
            continue
        words = re.findall(r"'[^']*'|\w+|\W", chance.choice(GOOD))
        for _ in range(chance.randint(1, 2)):
            place = chance.randrange(len(words))
            words[place : place + chance.randint(0, 1)] = chance.choices(
                WORDS_OF_ANY_KIND, k=chance.randint(0, 1)
            )
        yield "".join(words)


def syntax_errors(error: object) -> list[str]:
    return re.findall(r"ERROR: (.*Syntax error: .*?)(?: \[INVALID_ARGUMENT\])?$", str(error), re.MULTILINE)


@pytest.mark.parametrize("count", COUNTS)
def test_syntax_errors_as_google(count: int) -> None:
    """Every one, by place and text, in those of cel-go where its differ."""
    environment = google_environment()
    macros = by_name(STANDARD.macros)
    refused = 0
    for text in spoilt(count):
        ours: list[str] = []
        theirs: list[str] = []
        try:
            parse(text, macros)
        except InvalidExpression as error:
            ours = syntax_errors(error)
        try:
            environment.compile(text, disable_check=True)
        except Exception as error:  # it has no class of its own
            if "More than 12 parse errors" in str(error):
                continue  # cel-go tells a hundred
            theirs = syntax_errors(error)
        # cel-go writes them so: parser.go, reservedIdentifier; ANTLR's Go runtime escapes no question mark.
        keyword = r"no viable alternative at input '\.(true|false|null)'"
        theirs = [re.sub(keyword, r"mismatched input '\1' expecting IDENTIFIER", each) for each in theirs]
        assert ours == [each.replace(r"'\u003F'", "'?'") for each in theirs], text
        refused += bool(ours)
    assert refused > count / 2
