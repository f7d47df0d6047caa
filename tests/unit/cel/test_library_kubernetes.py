"""Kubernetes' own types in expressions, and which release has which library: pkg/cel/library.

Rows R08, R09, R10, R11, R12, R13, R14, R15, R16, R17, R19, R20.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pytest

from apiserver.cel import types
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.cel.environment import Environment
from apiserver.cel.library.authorizer import AUTHORIZER, AuthorizerValue, CheckAttributes, DecisionValue
from apiserver.cel.library.json_patch import JSON_PATCH
from apiserver.cel.library.kubernetes import KUBERNETES
from apiserver.cel.syntax import InvalidExpression
from apiserver.cel.values import Message
from tests.unit.cel.library_support import assert_fails, assert_true, evaluate

TRUE = {
    # quantity.go
    "a fraction is no integer": "!quantity('1.5').isInteger()",
    "thousandths are none": "!quantity('1000m').isInteger()",
    "one in arbitrary precision is none": "!quantity('1.5Gi').isInteger() && quantity('2Gi').isInteger()",
    "a suffix is multiplied": "quantity('50k').asInteger() == 50000",
    "equal whatever the suffix": "quantity('1') == quantity('1000m')",
    "decimal is less than binary": "quantity('50M').compareTo(quantity('50Mi')) == -1",
    "the sign": "quantity('-1').sign() == -1 && quantity('0').sign() == 0",
    "an int is added": "quantity('50k').add(20) == quantity('50020')",
    "a smaller unit makes a fraction": "!quantity('1').add(quantity('1m')).isInteger()",
    "it is subtracted": "quantity('1').sub(quantity('500m')) == quantity('500m')",
    "about as a double": "quantity('0.5').asApproximateFloat() == 0.5",
    "exponents": "isQuantity('1e3') && quantity('1E3').asInteger() == 1000",
    "no quantity": "!isQuantity('1.3.3') && !isQuantity('200K') && !isQuantity('')",
    "the sign of an argument": "sign(quantity('-1Gi')) == -1 && sign(quantity('1n')) == 1",
    "the largest": "quantity('9223372036854775807').add(1).isGreaterThan(quantity('9223372036854775807'))",
    "larger than 64 bits": "quantity('9E').isLessThan(quantity('9999999999999999999999999999999999999G'))",
    "larger ones differ": "quantity('10E') != quantity('11E')",
    "sums of larger ones": "quantity('1e30') == quantity('1e27').add(quantity('999e27'))",
    "no digit is lost": (
        "quantity('9999999999999999999999999999999999999').add(quantity('1'))"
        ".compareTo(quantity('9999999999999999999999999999999999999').add(quantity('2'))) == -1"
    ),
    "a large one is no integer": "!quantity('9999999999999999999999999999999999999G').isInteger()",
    "2^63 is none": "!quantity('9223372036854775807').add(1).isInteger()",
    "binary ones are capped": "quantity('8Ei') == quantity('9Ei')",
    "no digits are zero": "quantity('Mi') == quantity('0')",
    "the double of a large one": "quantity('1e199').asApproximateFloat() == 1e199",
    "there is no largest": "isQuantity('1e400') && isQuantity('1e2147483647')",
    "large ones are compared": (
        "quantity('1e400').isGreaterThan(quantity('1e399'))"
        " && quantity('-1e2147483647').compareTo(quantity('1e2147483647')) == -1"
    ),
    "large ones are added": "quantity('1e400').add(1).sub(quantity('1e400')) == quantity('1')",
    "the sign of a large one": "quantity('-1e400').sign() == -1",
    "a large one is no integer, either": "!quantity('1e400').isInteger() && quantity('0e400').isInteger()",
    "beyond doubles is infinite": (
        "quantity('1e309').asApproximateFloat() == double('Infinity')"
        " && quantity('-1e400').asApproximateFloat() == double('-Infinity')"
        f" && quantity('{'9' * 400}').asApproximateFloat() == double('Infinity')"
    ),
    "nothing times infinity is no number": (
        "quantity('0e400').asApproximateFloat() != quantity('0e400').asApproximateFloat()"
    ),
    # ip.go, cidr.go
    "IPv6 is written short": "string(ip('2001:DB8:0:0::68')) == '2001:db8::68'",
    "only that is canonical": "ip.isCanonical('2001:db8::68') && !ip.isCanonical('2001:DB8::68')",
    "an address in another's notation": "string(ip('64:ff9b::1.2.3.4')) == '64:ff9b::102:304'",
    "private is global": "ip('10.0.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()",
    "what is no address": "!['1.2.3', '1.2.3.04', 'fe80::1%en0', '::ffff:1.2.3.4'].exists(x, isIP(x))",
    "the address of a range is not masked": "cidr('192.168.1.5/16').ip() == ip('192.168.1.5')",
    "a masked range": "string(cidr('2001:db8::1/32').masked()) == '2001:db8::/32'",
    "a range has smaller ones": "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
    "a range has itself": "cidr('10.0.0.0/8').containsCIDR(cidr('10.0.0.0/8'))",
    "a range has no larger one": "!cidr('10.0.0.0/8').containsCIDR('10.0.0.0/7')",
    "a range of all": "cidr('0.0.0.0/0').containsIP('255.255.255.255')",
    "all of one kind": "!cidr('0.0.0.0/0').containsIP('::1')",
    "what is no range": "!isCIDR('10.0.0.0') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0/08')",
    # urls.go
    "a path is escaped": "url('https://a/path with spaces/').getEscapedPath() == '/path%20with%20spaces/'",
    "what was escaped stays": "url('https://a/%2f').getEscapedPath() == '/%2f'",
    "a scheme is lower case": "url('HTTP://a').getScheme() == 'http'",
    "a path alone": "url('/path').getHost() == '' && url('/path').getEscapedPath() == '/path'",
    "no path": "url('https://a').getEscapedPath() == ''",
    "an empty query": "url('https://a?').getQuery() == {} && url('https://a').getQuery() == {}",
    "a query": "url('https://a?k1=a&k2=b&k2=c+d%21').getQuery() == {'k1': ['a'], 'k2': ['b', 'c d!']}",
    "wrong parts of a query": "url('https://a?b=%zz&c;d&e').getQuery() == {'e': ['']}",
    "a port may be empty": "url('https://a:/').getPort() == '' && url('https://a:/').getHostname() == 'a'",
    "an address in brackets": "url('http://[::1]:80').getHostname() == '::1'",
    "who asks": "url('http://me:pw@a:1/').getHost() == 'a:1'",
    "who asks is the same, however escaped": "url('http://%6De@a') == url('http://me@a')",
    "what is no URL": "!['a/b', '', 'http://a b', 'http://[::1', ':x'].exists(x, isURL(x))",
    "what is one": "isURL('/a') && isURL('mailto:a@b') && isURL('//a') && isURL('*')",
    # regex.go
    "the first match": "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('[0-9]') == ''",
    "all matches": "'1a2b3'.findAll('[0-9]') == ['1', '2', '3'] && 'a'.findAll('b') == []",
    "some matches": "'123'.findAll('[0-9]', 2) == ['1', '2'] && '1'.findAll('1', 0) == []",
    # format.go
    "a name that is right": "!format.dns1123Subdomain().validate('a.b').hasValue()",
    "what is wrong with one": "format.dns1035Label().validate('1a').value().size() == 1",
    "a prefix may end with a dash": "!format.dns1123LabelPrefix().validate('a-').hasValue()",
    "by name": "format.named('uuid').hasValue() && !format.named('UUID').hasValue()",
    "a format is itself": "format.named('date').value() == format.date()",
    "a day that is none": "format.date().validate('2021-02-29').value() == ['invalid date']",
    "an hour that is none": "format.datetime().validate('2021-01-01T24:00:00Z').hasValue()",
    "a time": "!format.datetime().validate('2021-01-01t23:00:00.5+01:00').hasValue()",
    "bytes": "!format.byte().validate('aGk=').hasValue()",
    "nothing is no bytes": "format.byte().validate('').value() == ['invalid base64']",
    "a URI": "format.uri().validate('a').value() == ['parse \"a\": invalid URI for request']",
    # semverlib.go
    "parts of a version": "[semver('1.2.3')].all(v, [v.major(), v.minor(), v.patch()] == [1, 2, 3])",
    "a prerelease comes before": "semver('1.0.0-alpha').isLessThan(semver('1.0.0'))",
    "numbers come before words": "semver('1.0.0-1').isLessThan(semver('1.0.0-alpha'))",
    "numbers are numbers": "semver('1.0.0-10').isGreaterThan(semver('1.0.0-9'))",
    "more parts come after": "semver('1.0.0-a.1').compareTo(semver('1.0.0-a')) == 1",
    "a build does not count": "semver('1.0.0+a') == semver('1.0.0+b')",
    "normalised": "semver('v01.2', true) == semver('1.2.0') && isSemver('1', true)",
    "not normalised": "!['v1.2.3', '1.2', '1.02.3', ' 1.2.3'].exists(x, isSemver(x))",
    "nothing is left out before a prerelease": "!isSemver('1.0-a', true)",
    # jsonpatch.go
    "keys of patches": "jsonpatch.escapeKey('k8s.io/my~label') == 'k8s.io~1my~0label'",
    # types
    "types have names": "type(ip('::1')) == net.IP && type(quantity('1')) == kubernetes.Quantity",
}


@pytest.mark.parametrize("expression", TRUE.values(), ids=TRUE)
def test_values(expression: str) -> None:
    assert_true(expression)


_ADDRESS = "IP Address {0} parse error during conversion from string: ParseAddr({0}): "
_RANGE = "network address parse error during conversion from string: "
_URL = "URL parse error during conversion from string: "
FAILURES = {
    "quantity('x')": (
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    ),
    "quantity('1.5').asInteger()": "cannot convert value to integer",
    "quantity('9999999999999999999999999999999999999G').asInteger()": "cannot convert value to integer",
    "quantity('1e2147483648')": "unable to parse quantity's suffix",
    "ip('x')": _ADDRESS.format('"x"') + "unable to parse IP",
    "ip('1.2.3')": _ADDRESS.format('"1.2.3"') + "IPv4 address too short",
    "ip('1.2.3.4.5')": _ADDRESS.format('"1.2.3.4.5"') + "IPv4 address too long",
    "ip('1..2.3')": _ADDRESS.format('"1..2.3"') + 'IPv4 field must have at least one digit (at ".2.3")',
    "ip('1.2.3.')": _ADDRESS.format('"1.2.3."') + 'IPv4 field must have at least one digit (at ".")',
    "ip('1.2.3.256')": _ADDRESS.format('"1.2.3.256"') + "IPv4 field has value >255",
    "ip('1.2.3.x')": _ADDRESS.format('"1.2.3.x"') + 'unexpected character (at "x")',
    "ip('1::2::3')": _ADDRESS.format('"1::2::3"') + 'multiple :: in address (at ":3")',
    "ip('1:2')": _ADDRESS.format('"1:2"') + "address string too short",
    "ip('12345::')": _ADDRESS.format('"12345::"') + 'each group must have 4 or fewer digits (at "12345::")',
    "ip('fe80::1%en0')": 'IP address "fe80::1%en0" with zone value is not allowed',
    "ip('::ffff:1.2.3.4')": 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed',
    "cidr('10.0.0.0')": f"{_RANGE}{_RANGE}netip.ParsePrefix(\"10.0.0.0\"): no '/'",
    "cidr('10.0.0.0/33')": f'{_RANGE}{_RANGE}netip.ParsePrefix("10.0.0.0/33"): prefix length out of range',
    "cidr('10.0.0.0/x')": f'{_RANGE}{_RANGE}netip.ParsePrefix("10.0.0.0/x"): bad bits after slash: "x"',
    "url('a')": f'{_URL}parse "a": invalid URI for request',
    "url('http://a#%zz')": f'{_URL}parse "http://a#%zz": invalid character "#" in host name',
    "'a'.find(dyn('['))": "Illegal regex: error parsing regexp: missing closing ]: `[`",
    "semver('')": "Version string empty",
    "semver('1.2')": "No Major.Minor.Patch elements found",
    "semver('1.x.3')": 'Invalid character(s) found in minor number "x"',
    "semver('1.2.03')": 'Patch number must not contain leading zeroes "03"',
    "semver('1.2.3-01')": 'Numeric PreRelease version must not contain leading zeroes "01"',
    "semver('18446744073709551616.0.0')": (
        'strconv.ParseUint: parsing "18446744073709551616": value out of range'
    ),
}


@pytest.mark.parametrize(("expression", "message"), FAILURES.items(), ids=FAILURES)
def test_errors(expression: str, message: str) -> None:
    assert_fails(expression, message)


# k8s.io/apiserver pkg/cel/library/cost_test.go
COSTS = {
    "quantity('12345678901')": 2,
    "quantity('1').add(quantity('2')).isInteger()": 4,
    # Kubernetes counts one for any sum; here one of very many digits costs as much as a text of them.
    "quantity('1e199').add(quantity('1')).isInteger()": 4,
    "quantity('1e400').add(quantity('1')).isInteger()": 44,
    "quantity('1e400').sub(1).isInteger()": 43,
    "ip('192.168.0.1')": 2,
    "ip('192.168.0.1').family()": 3,
    "ip.isCanonical('127.0.0.1')": 2,
    "cidr('192.168.0.0/24').containsIP(ip('192.168.0.1'))": 5,
    "cidr('192.168.0.0/24').containsIP('192.168.0.1')": 5,
    "cidr('192.168.0.0/24').containsCIDR('192.168.0.0/25')": 7,
    "cidr('2001:db8::/32').prefixLength()": 3,
    "url('https://example.com/').getHost()": 3,
    "isURL('https://example.com/')": 1,
    "'abc 123'.find('[0-9]+')": 2,
    "semver('1.2.3').major()": 2,
    "format.dns1123Label().validate('a-name')": 9,
    "format.named('date')": 1,
}


@pytest.mark.parametrize(("expression", "cost"), COSTS.items(), ids=COSTS)
def test_costs(expression: str, cost: int) -> None:
    assert evaluate(expression).cost == cost


# ---- who may do what


@dataclass
class Recorder:
    """Lets everyone read; remembers what it was asked."""

    asked: list[CheckAttributes] = field(default_factory=list)

    def decide(self, attributes: CheckAttributes) -> DecisionValue:
        self.asked.append(attributes)
        if attributes.verb == "get":
            return DecisionValue(True, "everyone may read")
        if attributes.verb == "break":
            return DecisionValue(False, error="it is broken")
        return DecisionValue(False, "only reading is allowed")


def decided(expression: str, recorder: Recorder) -> object:
    return evaluate(expression, {"authorizer": AuthorizerValue(recorder)}, authorizer=AUTHORIZER).value


ASKED = {
    "authorizer.path('/healthz').check('get')": CheckAttributes("get", path="/healthz"),
    "authorizer.group('').resource('pods').check('get')": CheckAttributes("get", resource="pods"),
    "authorizer.group('g').resource('r').subresource('status').namespace('a').name('b').check('get')": (
        CheckAttributes("get", "", "g", "r", "status", "a", "b")
    ),
    "authorizer.serviceAccount('ns', 'sa').group('').resource('pods').check('get')": (
        CheckAttributes("get", resource="pods", service_account=("ns", "sa"))
    ),
    "authorizer.group('').resource('pods').fieldSelector('a=b').labelSelector('c in (d)').check('get')": (
        CheckAttributes("get", resource="pods", field_selector="a=b", label_selector="c in (d)")
    ),
}


@pytest.mark.parametrize(("expression", "attributes"), ASKED.items(), ids=ASKED)
def test_the_attributes_of_authorization_checks(expression: str, attributes: CheckAttributes) -> None:
    recorder = Recorder()
    assert decided(f"{expression}.allowed()", recorder) is True
    assert recorder.asked == [attributes]


ANSWERS = {
    "get": (True, "everyone may read", False, ""),
    "create": (False, "only reading is allowed", False, ""),
    "break": (False, "", True, "it is broken"),
}


@pytest.mark.parametrize(("verb", "answers"), ANSWERS.items(), ids=ANSWERS)
def test_decisions(verb: str, answers: tuple[object, ...]) -> None:
    decision = f"authorizer.group('').resource('pods').check('{verb}')"
    given = [f"dyn({decision}.{part}())" for part in ("allowed", "reason", "errored", "error")]
    assert tuple(decided(each, Recorder()) for each in given) == answers


@pytest.mark.parametrize(
    ("expression", "message"),
    {
        "authorizer.path(' ')": "path must not be empty",
        "authorizer.group('').resource('')": "resource must not be empty",
        "authorizer.serviceAccount('ns', 'A')": "Invalid service account name",
        "authorizer.serviceAccount('a.b', 'a')": "Invalid service account namespace",
    }.items(),
)
def test_invalid_authorization_checks(expression: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        decided(expression, Recorder())


def test_the_cost_of_a_decision() -> None:
    text = "authorizer.group('').resource('pods').check('get').allowed()"
    result = evaluate(text, {"authorizer": AuthorizerValue(Recorder())}, authorizer=AUTHORIZER)
    assert result.cost == 1 + 2 + 350_000 + 1


def test_a_json_patch_is_a_message() -> None:
    patch = evaluate("JSONPatch{op: 'add', path: '/a', value: {'b': 1}}").value
    assert isinstance(patch, Message)
    assert patch.fields == {"op": "add", "path": "/a", "value": {"b": 1}}


# ---- since when

# k8s.io/apiserver pkg/cel/environment/base.go
SINCE: Final = {
    "'a'.find('a')": (1, 0),
    "[1].sum()": (1, 0),
    "url('/a')": (1, 0),
    "'a'.charAt(0)": (1, 0),
    "authorizer.path('/a')": (1, 27),
    "optional.of(1)": (1, 28),
    "quantity('1')": (1, 28),
    "[1].first().hasValue()": (1, 28),
    "1 < 2.0": (1, 28),
    "2u >= 1": (1, 28),
    "'%s'.format(['a'])": (1, 29),
    "sets.contains([1], [1])": (1, 29),
    "ip('::1')": (1, 30),
    "cidr('::/0')": (1, 30),
    "format.named('a')": (1, 31),
    "[1].all(i, v, true)": (1, 32),
    "semver('1.2.3')": (1, 33),
    "[1].distinct()": (1, 34),
}
BASE = Environment({"authorizer": AUTHORIZER}, KUBERNETES)


def since(minor: int, *gates: str) -> CompatibilityVersion:
    return CompatibilityVersion((1, minor), frozenset(gates))


@pytest.mark.parametrize(("expression", "release"), SINCE.items(), ids=SINCE)
def test_the_first_release_of_a_library(expression: str, release: tuple[int, int]) -> None:
    """Rows R18-R20."""
    assert BASE.check(expression, since(release[1])).type != types.ERROR
    if release > (1, 0):
        with pytest.raises(InvalidExpression):
            BASE.check(expression, since(release[1] - 1))
    assert BASE.check(expression).type != types.ERROR


@pytest.mark.parametrize("call", ["fieldSelector", "labelSelector"])
def test_selectors_have_a_gate(call: str) -> None:
    """Row R14: the gate alone decides, as in Kubernetes."""
    expression = f"authorizer.group('').resource('a').{call}('a=b').check('list').allowed()"
    BASE.check(expression, since(30, "AuthorizeWithSelectors"))
    BASE.check(expression)
    with pytest.raises(InvalidExpression, match=f"undeclared reference to '{call}'"):
        BASE.check(expression, since(35))


UNTIL_VALIDATORS: Final = {
    "a duration": "duration('1 day') > duration('1s')",
    "a timestamp": "timestamp('today') > timestamp('1970-01-01T00:00:00Z')",
    "a pattern": "'a'.matches('(')",
    "a list of several types": "[dyn(1), 'a'].size() == 2",
}


@pytest.mark.parametrize("expression", UNTIL_VALIDATORS.values(), ids=UNTIL_VALIDATORS)
def test_constants_are_validated_since_a_release(expression: str) -> None:
    BASE.check(expression, since(28))
    for version in (since(29), None):
        with pytest.raises(InvalidExpression):
            BASE.check(expression, version)


@pytest.mark.parametrize("expression", ["math.abs(1)", "base64.encode(b'a')", "'a'.reverse()"])
def test_libraries_that_kubernetes_does_not_have(expression: str) -> None:
    with pytest.raises(InvalidExpression):
        BASE.check(expression)


def test_patches_are_not_for_all_expressions() -> None:
    assert JSON_PATCH not in KUBERNETES
