"""Expressions that clients write: CEL, and patterns."""

from __future__ import annotations

from typing import Any, Final

from apiserver.cel import types
from apiserver.cel.admission import AUDIT_ANNOTATION, CONDITION, AdmissionCompiler, CompilationFailed
from apiserver.cel.compiler import ProgramError
from apiserver.cel.cost_estimate import estimate
from apiserver.cel.environment import Environment
from apiserver.cel.library.json_patch import JSON_PATCH, JSON_PATCH_TYPE
from apiserver.cel.library.kubernetes import KUBERNETES
from apiserver.cel.syntax import InvalidExpression
from apiserver.cel.types import Field
from apiserver.cel.values import CostExceeded, EvaluationError
from apiserver.golang.regex import InvalidPattern, TooMuchWork, compile_pattern
from tests.fuzz.target import fuzzer
from tests.support.compatibility import DEFAULT_COMPATIBILITY

# Some 50 ms: enough for all that a fuzzer writes but loops in loops.
_BUDGET: Final = 100_000
_VERSION: Final = DEFAULT_COMPATIBILITY
_TEXT: Final = types.STRING
_SELF: Final = types.object_of(
    "object",
    {
        "n": Field("n", types.INT),
        "s": Field("s", _TEXT),
        "l": Field("l", types.list_of(types.INT, size_max=3)),
        "m": Field("m", types.map_of(_TEXT, _TEXT, size_max=2)),
        "d": Field("d", types.DYN),
    },
)
_ENVIRONMENT: Final = Environment(
    {"self": _SELF, "d": types.DYN}, (*KUBERNETES, JSON_PATCH), messages={"JSONPatch": JSON_PATCH_TYPE}
)
_DYNAMIC: Final[dict[str, Any]] = {"a": [1, 2.5, "x", None, True, {"b": [[]]}], "s": "10.0.0.0/8"}
_VARIABLES: Final[dict[str, Any]] = {
    "self": {"n": 5, "s": "a-b.c", "l": [3, 1, 2], "m": {"k": "v", "l": "w"}, "d": _DYNAMIC},
    "d": _DYNAMIC,
}
_WORDS: Final = (
    b"self.n self.s self.l self.m d.a d.s ? : && || ! == in has( size( .all(x, .exists_one(x, "
    b".map(x, .filter(x, .format([ "
    b".matches(' .replace( .split( .join( .substring( .findAll( .sum() .sort() .slice( "
    b".flatten() .sortBy(x, .transformMap(i,v, "
    b"timestamp(' duration(' int( uint( double( string( bytes( type( dyn( quantity(' ip(' "
    b"cidr(' url(' semver(' sets.contains( "
    b"optional.of( .?a [?0] .orValue( cel.bind(x, format.named(' .validate( math.greatest( "
    b"b'\\xff' r'\\ ''' 1u 0x1f 1e3 JSONPatch{op:"
)


@fuzzer(
    b"self.l.all(x, x > 0 && x < self.n) ? size(self.s) : -1",
    b"self.s.matches('^[a-z.-]+$') || self.m.exists(k, self.m[k] == 'v')",
    b"d.a.filter(x, type(x) == int).map(y, y * 2) + [1, 2]",
    b"timestamp('2024-05-06T07:08:09Z') - duration('1h') < timestamp(0)",
    b"quantity('1.5Gi').add(quantity('1k')).compareTo(quantity('1')) == 1",
    b"cidr(d.s).containsIP('10.1.2.3') && ip('::1').isLoopback() && url('https://h/p').getHost() == 'h'",
    b"optional.of(d.?z.orValue(1)).hasValue() && d[?'a'].value().size() > 1",
    b"'%s %d %.2f %x'.format(['a', 1, 2.5, b'ab']) + self.s.split('.').join('/')",
    b"cel.bind(v, self.l.sum(), v * v) > math.greatest([1, 2]) || sets.intersects([1], self.l)",
    b"{'a': 1, 2: [b'\\x00', r'\\n', 1u, 0x1F, 1e3, null, true]}[2][0] == b''",
    b"self.l.transformMap(i, v, i > 0, v).size() + self.l.slice(0, 2).sort()[0] - "
    b"self.s.lowerAscii().indexOf('b')",
    b"JSONPatch{op: 'add', path: '/a', value: {'b': dyn(1)}}.path",
    words=_WORDS,
)
def cel(data: bytes) -> None:
    """What is parsed and passes the checks has an estimate, and a value or an error within its budget."""
    text = data.decode("utf-8", "replace")
    try:
        checked = _ENVIRONMENT.check(text)
    except InvalidExpression as error:
        str(error).encode()
        return
    worst = estimate(checked.node, _SELF)
    assert 0 <= worst.low <= worst.high
    try:
        program = _ENVIRONMENT.program(checked)
    except ProgramError as error:
        str(error).encode()
        return
    try:
        result = program(_VARIABLES, _BUDGET)
    except CostExceeded:
        return
    except EvaluationError as error:
        str(error).encode()
        return
    assert 0 <= result.cost <= _BUDGET
    # The same once more: nothing is kept from one evaluation to the next.
    assert program(_VARIABLES, _BUDGET).cost == result.cost


@fuzzer(
    b"object.spec.replicas <= 5 && request.userInfo.username != 'a' && has(namespaceObject.metadata)",
    b"authorizer.group('apps').resource('deployments').check('create').allowed()",
    b"oldObject == null ? 'created ' + string(object.metadata.name) : null",
    words=_WORDS
    + b" object oldObject request.operation namespaceObject.metadata authorizer.path('/a') params variables",
)
def admission_expressions(data: bytes) -> None:
    """Match conditions, and expressions of policies."""
    text = data.decode("utf-8", "replace")
    for kind in (CONDITION, AUDIT_ANNOTATION):
        try:
            AdmissionCompiler(has_params=True).compile(text, kind, _VERSION)
        except CompilationFailed as error:
            str(error).encode()


_SEARCHED: Final = (
    "",
    "a",
    "ab-12.c\nd",
    "\u00e9\u0130\u017f\u212a",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
    "\u0660\u2028 _K",
)


@fuzzer(
    b"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    rb"\bfoo\d+(?i:bar)|(?P<n>x{2,5}?)\z",
    rb"[^\s\w\pL-]|[[:alpha:]\x{10FFFF}]+",
    *(rb"\Q.*\E(?s-m:.)$", rb"(a*)*b|(?:a|a)+$", rb"[\d-z]|\pN\PL|[[:^word:]]", b"(?U)a+?\xc3\xa9{0,}"),
    words=rb"^ $ \A \z \b \B \d \w \s \pL \p{Greek} \x{ \Q \E (?i) (?s) (?m) (?: (?P< [^ [: :] {2,} "
    rb"{0,1000} *? +? ?? | \C \1",
)
def patterns(data: bytes) -> None:
    """All ways to search find something, or none does."""
    pattern = data.decode("utf-8", "replace")
    try:
        regex = compile_pattern(pattern)
    except InvalidPattern as error:
        str(error).encode("utf-8", "surrogatepass")
        return
    for text in _SEARCHED:
        try:
            spans = regex.spans(text)
            regex.find(text), regex.find_all(text, 2)
        except TooMuchWork:
            continue
        assert bool(regex.search(text)) == bool(spans)
