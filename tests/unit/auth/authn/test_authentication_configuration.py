"""What is read from files of `--authentication-config`, and what is wrong with those that are refused.

Source of the texts: k8s.io/apiserver, pkg/apis/apiserver/validation.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from apiserver.auth.authn.authentication_configuration import (
    ISSUERS_MAX,
    AuthenticationConfiguration,
    ClaimMapping,
    Issuer,
    JwtAuthenticatorConfiguration,
    of_flags,
    parse,
)
from apiserver.auth.authn.chain import Anonymous
from apiserver.auth.authn.claim_expressions import CostBudget
from apiserver.auth.authn.claim_mapping import read_claims, user_of
from apiserver.load.size_class import TakesLong
from apiserver.meta.errors import Unauthorized
from apiserver.meta.vocabulary import AUTHENTICATED, UserInfo
from apiserver.wire.configuration_fields import InvalidConfiguration

OWN: Final = "https://own.example"
ISSUER: Final = {"url": "https://issuer.example", "audiences": ["client"]}
USERNAME: Final = {"claim": "sub", "prefix": ""}


def file(change: Callable[[dict[str, Any]], object] = lambda _: None) -> bytes:
    """A file that is right, but for the change."""
    document: dict[str, Any] = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [{"issuer": ISSUER, "claimMappings": {"username": USERNAME}}],
    }
    document = copy.deepcopy(document)
    change(document)
    return orjson.dumps(document)


def read(content: bytes) -> AuthenticationConfiguration:
    return parse(content, "k8s.io", (OWN,))


def jwt(**fields: Any) -> bytes:
    """A file whose issuer has other fields: those of `issuer` and `claimMappings` beside what they have."""

    def change(document: dict[str, Any]) -> None:
        authenticator = document["jwt"][0]
        for name, value in fields.items():
            authenticator[name] = authenticator[name] | value if name in authenticator else value

    return file(change)


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_the_versions_that_are_read(version: str) -> None:
    content = file(lambda document: document.update(apiVersion=f"apiserver.config.k8s.io/{version}"))
    (found,) = read(content).jwt
    assert (found.issuer, found.username) == (
        Issuer("https://issuer.example", ("client",)),
        ClaimMapping("sub"),
    )


def test_no_issuer_at_all_is_allowed() -> None:
    assert read(file(lambda document: document.pop("jwt"))) == AuthenticationConfiguration()


ANONYMOUS: Final = {
    "without the field": (None, None),
    "switched off": ({"enabled": False}, Anonymous(False)),
    "everywhere": ({"enabled": True}, Anonymous(True)),
    "on some paths": (
        {"enabled": True, "conditions": [{"path": "/livez"}]},
        Anonymous(True, frozenset({"/livez"})),
    ),
}


@pytest.mark.parametrize(("field", "expected"), ANONYMOUS.values(), ids=ANONYMOUS)
def test_where_the_anonymous_are(field: Any, expected: Anonymous | None) -> None:
    assert read(file(lambda document: document.update(anonymous=field))).anonymous == expected


def test_where_the_discovery_document_is() -> None:
    """Source: coreos/go-oidc, NewProvider."""
    for url in ("https://a.example/x", "https://a.example/x/"):
        expected = "https://a.example/x/.well-known/openid-configuration"
        assert Issuer(url, ()).document_url == expected
    assert Issuer("https://a.example", (), "https://b.example/d").document_url == "https://b.example/d"


RULE: Final = "claimValidationRules"
BAD_FILES: Final = {
    "no YAML": (b"{", "yaml: line 1"),
    "another kind": (file(lambda d: d.update(kind="Config")), 'kind "Config"'),
    "another version": (
        file(lambda d: d.update(apiVersion="apiserver.config.k8s.io/v2")),
        "config.k8s.io/v2",
    ),
    "an unknown field": (file(lambda d: d.update(x=1)), 'unknown field "x"'),
    "an unknown field deep inside": (jwt(issuer={"x": 1}), 'unknown field "jwt[0].issuer.x"'),
    "a wrong type": (jwt(issuer={"audiences": "a"}), "jwt[0].issuer.audiences: expected a list"),
    "too many issuers": (file(lambda d: d.update(jwt=[{}] * (ISSUERS_MAX + 1))), "jwt: Too many: 65"),
    "no issuer": (jwt(issuer={"url": ""}), "jwt[0].issuer.url: Required value"),
    "an issuer without https": (
        jwt(issuer={"url": "http://a.example"}),
        'jwt[0].issuer.url: Invalid value: "http://a.example": URL scheme must be https',
    ),
    "an issuer with a user": (jwt(issuer={"url": "https://u@a.example"}), "must not contain a username or"),
    "an issuer with a query": (jwt(issuer={"url": "https://a.example?x=y"}), "must not contain a query"),
    "an issuer with a fragment": (jwt(issuer={"url": "https://a.example#x"}), "must not contain a fragment"),
    "an issuer without a host": (jwt(issuer={"url": "https:///x"}), "URL must have a host"),
    "no URL": (jwt(issuer={"url": "https://a b"}), "jwt[0].issuer.url: Invalid value"),
    "the server's own issuer": (
        jwt(issuer={"url": OWN}),
        f"URL must not overlap with disallowed issuers: [{OWN}]",
    ),
    "an issuer twice": (file(lambda d: d["jwt"].append(d["jwt"][0])), "jwt[1].issuer.url: Duplicate value"),
    "a discovery URL like the issuer": (
        jwt(issuer={"discoveryURL": "https://issuer.example/"}),
        "discoveryURL must be different from URL",
    ),
    "a discovery URL without https": (
        jwt(issuer={"discoveryURL": "http://a.example"}),
        "jwt[0].issuer.discoveryURL: Invalid value",
    ),
    "no certificate": (
        jwt(issuer={"certificateAuthority": "secret"}),
        'jwt[0].issuer.certificateAuthority: Invalid value: "<omitted>"',
    ),
    "no audience": (jwt(issuer={"audiences": []}), "jwt[0].issuer.audiences: Required value: at least one"),
    "an empty audience": (jwt(issuer={"audiences": [""]}), "jwt[0].issuer.audiences[0]: Required value"),
    "an audience twice": (
        jwt(issuer={"audiences": ["a", "a"], "audienceMatchPolicy": "MatchAny"}),
        'jwt[0].issuer.audiences[1]: Duplicate value: "a"',
    ),
    "audiences without a policy": (
        jwt(issuer={"audiences": ["a", "b"]}),
        "audienceMatchPolicy must be MatchAny for multiple audiences",
    ),
    "another policy": (
        jwt(issuer={"audienceMatchPolicy": "MatchAll"}),
        "audienceMatchPolicy must be empty or MatchAny for single audience",
    ),
    "an egress selector": (
        jwt(issuer={"egressSelectorType": "cluster"}),
        'jwt[0].issuer.egressSelectorType: Invalid value: "cluster": egress selector is not configured',
    ),
    "an unknown egress selector": (
        jwt(issuer={"egressSelectorType": "x"}),
        "egress selector must be either controlplane or cluster",
    ),
    "no user name": (
        jwt(claimMappings={"username": {}}),
        "jwt[0].claimMappings.username: Required value: claim or expression is required",
    ),
    "a claim without a prefix": (
        jwt(claimMappings={"username": {"claim": "sub"}}),
        "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set",
    ),
    "a claim and an expression": (
        jwt(claimMappings={"groups": {"claim": "a", "prefix": "", "expression": "claims.a"}}),
        'jwt[0].claimMappings.groups: Invalid value: "": claim and expression can\'t both be set',
    ),
    "a uid of both": (
        jwt(claimMappings={"uid": {"claim": "a", "expression": "claims.a"}}),
        "jwt[0].claimMappings.uid: Invalid value",
    ),
    "an expression with a prefix": (
        jwt(claimMappings={"username": {"expression": "claims.sub", "prefix": "p"}}),
        "jwt[0].claimMappings.username.prefix: Invalid value",
    ),
    "an expression that does not compile": (
        jwt(claimMappings={"username": {"expression": "user.name"}}),
        'jwt[0].claimMappings.username.expression: Invalid value: "user.name": compilation failed: ERROR',
    ),
    "an email that need not be verified": (
        jwt(claimMappings={"username": {"expression": "claims.email"}}),
        "claims.email_verified must be used in claimMappings.username.expression",
    ),
    "an email within an expression": (
        jwt(claimMappings={"username": {"expression": "[claims.?email.orValue('x')].map(e, e)[0]"}}),
        "claims.email_verified must be used",
    ),
    "an email that only groups verify": (
        jwt(
            claimMappings={
                "username": {"expression": "claims.email"},
                "groups": {"expression": "string(claims.email_verified)"},
            }
        ),
        "claims.email_verified must be used",
    ),
    "a key of extra without a domain": (
        jwt(claimMappings={"extra": [{"key": "foo", "valueExpression": "claims.a"}]}),
        'jwt[0].claimMappings.extra[0].key: Invalid value: "foo": must be a domain-prefixed path',
    ),
    "a key of extra in capitals": (
        jwt(claimMappings={"extra": [{"key": "a.io/Foo", "valueExpression": "claims.a"}]}),
        "must be lowercase",
    ),
    "a key of extra that is Kubernetes' own": (
        jwt(claimMappings={"extra": [{"key": "x.kubernetes.io/a", "valueExpression": "claims.a"}]}),
        "subdomains are reserved for Kubernetes use",
    ),
    "a key of extra twice": (
        jwt(claimMappings={"extra": [{"key": "a.io/b", "valueExpression": "claims.a"}] * 2}),
        'jwt[0].claimMappings.extra[1].key: Duplicate value: "a.io/b"',
    ),
    "no value of extra": (
        jwt(claimMappings={"extra": [{"key": "a.io/b"}]}),
        "jwt[0].claimMappings.extra[0].valueExpression: Required value",
    ),
    "an empty rule": (
        jwt(**{RULE: [{}]}),
        f"jwt[0].{RULE}[0]: Required value: claim or expression is required",
    ),
    "a rule of both": (
        jwt(**{RULE: [{"claim": "a", "expression": "true"}]}),
        f"jwt[0].{RULE}[0]: Invalid value",
    ),
    "a rule twice": (
        jwt(**{RULE: [{"expression": "true"}] * 2}),
        f'jwt[0].{RULE}[1].expression: Duplicate value: "true"',
    ),
    "a claim required twice": (
        jwt(**{RULE: [{"claim": "a", "requiredValue": "b"}] * 2}),
        f'jwt[0].{RULE}[1].claim: Duplicate value: "a"',
    ),
    "a claim with a message": (
        jwt(**{RULE: [{"claim": "a", "message": "m"}]}),
        f'jwt[0].{RULE}[0].message: Invalid value: "m": may not be specified when claim is set',
    ),
    "an expression with a value": (
        jwt(**{RULE: [{"expression": "true", "requiredValue": "v"}]}),
        f"jwt[0].{RULE}[0].requiredValue: Invalid value",
    ),
    "a rule that is no condition": (
        jwt(**{RULE: [{"expression": "claims.sub"}]}),
        f'jwt[0].{RULE}[0].expression: Invalid value: "claims.sub": must evaluate to bool',
    ),
    "an empty rule of users": (
        jwt(userValidationRules=[{"message": "m"}]),
        "jwt[0].userValidationRules[0].expression: Required value",
    ),
    "a rule of users that names claims": (
        jwt(userValidationRules=[{"expression": "claims.a == 'b'"}]),
        "undeclared reference to 'claims'",
    ),
    "a rule about what users have not": (
        jwt(userValidationRules=[{"expression": "user.name == 'b'"}]),
        "undefined field 'name'",
    ),
    "conditions of what is off": (
        file(lambda d: d.update(anonymous={"enabled": False, "conditions": [{"path": "/livez"}]})),
        "anonymous.conditions: Invalid value",
    ),
}


@pytest.mark.parametrize(("content", "why"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_file_that_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        read(content)
    assert why in str(caught.value)
    assert "secret" not in str(caught.value)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        read(jwt(issuer={"url": "", "audiences": []}, claimMappings={"username": {}}))
    assert str(caught.value).startswith(
        "[jwt[0].issuer.url: Required value, jwt[0].issuer.audiences: Required"
    )


# ---- users


def mapped(claims: dict[str, Any], *, is_on_loop: bool = False, **fields: Any) -> UserInfo:
    (found,) = read(jwt(**fields)).jwt
    return user_of(found, read_claims(orjson.dumps(claims)), CostBudget(is_on_loop=is_on_loop), "p")


NAME: Final = {"username": {"expression": "claims.sub"}}
EXPRESSIONS: Final[dict[str, tuple[str, Any, tuple[str, ...] | None]]] = {
    "a text": ("claims.g", "a", ("a",)),
    "a list": ("claims.g", ["a", "b"], ("a", "b")),
    "empty texts are none": ("claims.g", ["", "a", ""], ("a",)),
    "an empty text is none": ("claims.g", "", ()),
    "null is none": ("claims.g", None, ()),
    "what is not there": ("claims.?x.orValue([])", "a", ()),
    "a number is none": ("claims.g", 1, None),
    "a list of numbers": ("claims.g", [1], None),
    "numbers have a fraction": ("string(claims.g)", 7, ("7",)),
    "a name with a dot and a slash": ("claims.g.a__dot__b__slash__c", {"a.b/c": "x"}, ("x",)),
    "a part that is missing": ("claims.g.x", {"a": "b"}, None),
    "libraries": ("claims.g.split(',').filter(e, e != 'b')", "a,b,c", ("a", "c")),
}


@pytest.mark.parametrize(("expression", "claim", "groups"), EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_groups_of_expressions(expression: str, claim: Any, groups: tuple[str, ...] | None) -> None:
    mappings = {**NAME, "groups": {"expression": expression}}
    if groups is None:
        with pytest.raises(Unauthorized):
            mapped({"sub": "a", "g": claim}, claimMappings=mappings)
    else:
        assert mapped({"sub": "a", "g": claim}, claimMappings=mappings).groups == (*groups, AUTHENTICATED)


# Source: k8s.io/apiserver, plugin/pkg/authenticator/token/oidc/oidc_test.go.
CLAIMS: Final[dict[str, tuple[dict[str, Any], dict[str, Any], str]]] = {
    "a prefix": ({"username": {"claim": "sub", "prefix": "p:"}}, {"sub": "a"}, "p:a"),
    "a claim that is missing": ({"username": USERNAME}, {}, ""),
    "a claim that is no text": ({"username": USERNAME}, {"sub": 1}, ""),
    "a claim that is empty": ({"username": USERNAME}, {"sub": ""}, ""),
    "a verified email": (
        {"username": {"claim": "email", "prefix": ""}},
        {"email": "a@b", "email_verified": True},
        "a@b",
    ),
    "an email that nobody has verified": (
        {"username": {"claim": "email", "prefix": ""}},
        {"email": "a@b", "email_verified": False},
        "",
    ),
    "an email that may be verified": (
        {"username": {"claim": "email", "prefix": ""}},
        {"email": "a@b"},
        "a@b",
    ),
    "a verification that is none": (
        {"username": {"claim": "email", "prefix": ""}},
        {"email": "a@b", "email_verified": "true"},
        "",
    ),
    "groups that are elsewhere": (
        {"username": USERNAME, "groups": {"claim": "groups", "prefix": ""}},
        {"sub": "a", "_claim_names": {"groups": "src1"}},
        "",
    ),
    "an expression without a value": ({"username": {"expression": "claims.x"}}, {"sub": "a"}, ""),
    "an empty name": ({"username": {"expression": "claims.sub"}}, {"sub": ""}, ""),
}


@pytest.mark.parametrize(("mappings", "claims", "name"), CLAIMS.values(), ids=CLAIMS)
def test_names_of_claims(mappings: dict[str, Any], claims: dict[str, Any], name: str) -> None:
    if name:
        assert mapped(claims, claimMappings=mappings).name == name
    else:
        with pytest.raises(Unauthorized) as refused:
            mapped(claims, claimMappings=mappings)
        assert refused.value.why.startswith("oidc: ")


def test_required_claims() -> None:
    rules = [{"claim": "hd", "requiredValue": "example.com"}]
    assert mapped({"sub": "a", "hd": "example.com"}, claimValidationRules=rules).name == "a"
    for wrong in ({}, {"hd": "example.org"}, {"hd": ["example.com"]}, {"hd": None}):
        with pytest.raises(Unauthorized):
            mapped({"sub": "a", **wrong}, claimValidationRules=rules)


def test_users_are_checked_as_they_will_be() -> None:
    rules = [{"expression": "user.uid == 'u' && 'g' in user.groups && size(user.extra) == 0", "message": "m"}]
    mappings = {**NAME, "uid": {"claim": "u"}, "groups": {"claim": "g", "prefix": ""}}
    more: dict[str, Any] = {"claimMappings": mappings, "userValidationRules": rules}
    assert mapped({"sub": "a", "u": "u", "g": "g"}, **more).uid == "u"
    with pytest.raises(Unauthorized) as refused:
        mapped({"sub": "a", "u": "u", "g": "h"}, **more)
    assert refused.value.why.endswith("failed: m")


def test_an_expression_that_explodes_is_ended_and_first_leaves_the_loop() -> None:
    rules = [{"expression": "claims.l.all(a, claims.l.all(b, claims.l.all(c, a != b || b == c || c != a)))"}]
    claims = {"sub": "a", "l": list(range(200))}
    with pytest.raises(TakesLong):
        mapped(claims, is_on_loop=True, claimValidationRules=rules)
    with pytest.raises(Unauthorized) as refused:
        mapped(claims, claimValidationRules=rules)
    assert "the expressions cost too much" in refused.value.why


BAD_PAYLOADS: Final = (
    b"",
    b"[]",
    b'"a"',
    b"{",
    b'{"a": NaN}',
    b'{"a": 1e999}',
    b'{"a": -Infinity}',
    b"[" * 9999,
    # Half of a character can be in no answer.
    b'{"sub": "a\\ud800"}',
    b'{"sub": "a\\uDfFf\\ud83d"}',
    b'{"groups": [{"\\udc00": ""}]}',
    b'{"sub": "a\xed\xa0\x80"}',
    b'{"sub": "a\xff"}',
    # Never to expire.
    b'{"exp": %b}' % (b"9" * 400),
    '{"sub": "a"}'.encode("utf-16"),
)


def test_escaped_characters_in_claims() -> None:
    assert read_claims(b'{"sub": "\\ud83d\\ude00 \\\\ud800"}') == {"sub": "\U0001f600 \\ud800"}


@pytest.mark.parametrize("payload", BAD_PAYLOADS)
def test_payloads_that_are_no_claims(payload: bytes) -> None:
    with pytest.raises(Unauthorized):
        read_claims(payload)


# ---- flags


def flags(username: ClaimMapping) -> JwtAuthenticatorConfiguration:
    found = of_flags(
        Issuer("https://issuer.example", ("client",)),
        username=username,
        groups=ClaimMapping("groups", "g:"),
        required_claims=(("a", "b"),),
        algorithms=("ES256",),
        disallowed_issuers=(OWN,),
    )
    (only,) = found.jwt
    return only


# https://kubernetes.io/docs/reference/access-authn-authz/authentication/#configuring-the-api-server
PREFIXES: Final = {
    "none for the subject": (ClaimMapping("sub"), "https://issuer.example#"),
    "none for the email": (ClaimMapping("email"), ""),
    "one": (ClaimMapping("email", "p:"), "p:"),
    "a minus sign": (ClaimMapping("sub", "-"), ""),
}


@pytest.mark.parametrize(("mapping", "prefix"), PREFIXES.values(), ids=PREFIXES)
def test_prefixes_of_names_that_flags_set(mapping: ClaimMapping, prefix: str) -> None:
    found = flags(mapping)
    assert (found.username.prefix, found.algorithms, found.required_claims) == (
        prefix,
        ("ES256",),
        (("a", "b"),),
    )


def test_the_example_of_the_readme() -> None:
    text = (Path(__file__).parents[4] / "docs" / "operating" / "access.md").read_text()
    blocks = [each for each in text.split("```") if "kind: AuthenticationConfiguration" in each]
    (example,) = blocks
    found = read(example.removeprefix("yaml").encode())
    assert [each.issuer.url for each in found.jwt] == ["https://login.example.com"]
