"""Makes a user from the claims of a token whose signature was verified. Pure.

Source: k8s.io/apiserver, plugin/pkg/authenticator/token/oidc. Distributed claims, which a token only refers
to, are not fetched: a token is refused if its groups are among them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

from apiserver.auth.authn.authentication_configuration import (
    ClaimMapping,
    JwtAuthenticatorConfiguration,
    ValidationRule,
)
from apiserver.auth.authn.chain import authenticated
from apiserver.auth.authn.claim_expressions import ClaimExpression, CostBudget, EvaluationFailed
from apiserver.cel.values import LIST_CLASSES
from apiserver.meta.errors import Unauthorized
from apiserver.meta.vocabulary import Document, UserInfo

CREDENTIAL_ID: Final = "credential-id"
# Of an escaped character, or of half of one.
_has_surrogate = re.compile(r"\\u[dD][89a-fA-F]").search
_ELSEWHERE: Final = "_claim_names"
_EXPECTED_TEXTS: Final = "expression must return a string or a list of strings"


class _NoNumber(ValueError):
    pass


def read_claims(payload: bytes) -> Document:
    """Returns the claims of a payload, in which numbers are floats, as in Go. Raises Unauthorized."""
    try:
        # Strictly: half of a surrogate pair, raw or escaped, could be stored but never sent.
        text = payload.decode()
        claims = json.loads(text, parse_int=_finite, parse_float=_finite, parse_constant=_refuse)
        if _has_surrogate(text):
            json.dumps(claims, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise Unauthorized("oidc: malformed jwt: the payload is not JSON") from None
    if not isinstance(claims, dict):
        raise Unauthorized("oidc: malformed jwt: the payload is not an object")
    return claims


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _NoNumber
    return number


def _refuse(_: str) -> float:
    raise _NoNumber


def user_of(
    configuration: JwtAuthenticatorConfiguration, claims: Document, budget: CostBudget, extra_prefix: str
) -> UserInfo:
    """Returns the user described by the claims of a token.

    extra_prefix: that of the keys of extra information which Kubernetes itself sets.

    Raises Unauthorized with the error in the claims; TakesLong.
    """
    groups_claim = configuration.groups.claim
    names = claims.get(_ELSEWHERE)
    if groups_claim and groups_claim not in claims and isinstance(names, dict) and groups_claim in names:
        raise Unauthorized("oidc: could not expand distributed claims: they are not supported")
    name = _username(configuration.username, claims, budget)
    groups = _groups(configuration.groups, claims, budget)
    uid = _uid(configuration.uid, claims, budget)
    extra = dict(_extra(configuration, claims, budget, extra_prefix))
    _check_required(configuration, claims)
    for rule in configuration.claim_rules:
        _check(rule, claims, budget, "oidc: error evaluating claim validation expression")
    if configuration.user_rules:
        shown = {"username": name, "uid": uid, "groups": list(groups), "extra": extra}
        for rule in configuration.user_rules:
            _check(rule, shown, budget, "oidc: error evaluating user info validation rule")
    user = authenticated(name, groups, uid)
    return UserInfo(user.name, user.groups, uid, tuple((k, tuple(v)) for k, v in sorted(extra.items())))


def _username(mapping: ClaimMapping, claims: Document, budget: CostBudget) -> str:
    if mapping.expression is not None:
        why = "oidc: error evaluating username claim expression"
        name = _evaluated(mapping.expression, claims, budget, why)
        if not isinstance(name, str):
            raise Unauthorized(f"{why}: username claim expression must return a string")
        if not name:
            raise Unauthorized("oidc: empty username via CEL expression is not allowed")
        return name
    name = _text_claim(claims, mapping.claim, "username claims")
    if mapping.claim == "email" and "email_verified" in claims:
        is_verified = claims["email_verified"]
        if not isinstance(is_verified, bool):
            raise Unauthorized("oidc: parse 'email_verified' claim: the claim is not true or false")
        if not is_verified:
            raise Unauthorized("oidc: email not verified")
    if not name:
        raise Unauthorized(f'oidc: parse username claims "{mapping.claim}": the claim is empty')
    return mapping.prefix + name


def _groups(mapping: ClaimMapping, claims: Document, budget: CostBudget) -> list[str]:
    if mapping.expression is not None:
        why = "oidc: error evaluating group claim expression"
        return _texts(_evaluated(mapping.expression, claims, budget, why), why)
    if not mapping.claim or claims.get(mapping.claim) is None:
        return []
    found = claims[mapping.claim]
    groups = [found] if isinstance(found, str) else found
    if not isinstance(groups, list) or not all(isinstance(each, str) for each in groups):
        raise Unauthorized(
            f'oidc: parse groups claim "{mapping.claim}": the claim is not a string or a list of strings'
        )
    return [mapping.prefix + group for group in groups]


def _uid(mapping: ClaimMapping, claims: Document, budget: CostBudget) -> str:
    if mapping.expression is None:
        return _text_claim(claims, mapping.claim, "uid claim") if mapping.claim else ""
    uid = _evaluated(mapping.expression, claims, budget, "oidc: error evaluating uid claim expression")
    if not isinstance(uid, str):
        raise Unauthorized(
            "oidc: error evaluating uid claim expression: uid claim expression must return a string"
        )
    return uid


def _extra(
    configuration: JwtAuthenticatorConfiguration, claims: Document, budget: CostBudget, prefix: str
) -> Iterator[tuple[str, list[str]]]:
    token_id = claims.get("jti")
    if isinstance(token_id, str) and token_id:
        yield f"{prefix}/{CREDENTIAL_ID}", [f"JTI={token_id}"]
    why = "oidc: error evaluating extra claim expression"
    for key, expression in configuration.extra:
        if values := _texts(_evaluated(expression, claims, budget, why), f"{why}: {expression.text}"):
            yield key, values


def _check_required(configuration: JwtAuthenticatorConfiguration, claims: Document) -> None:
    for claim, value in configuration.required_claims:
        if claim not in claims:
            raise Unauthorized(f"oidc: required claim {claim} not present in ID token")
        if not isinstance(claims[claim], str):
            raise Unauthorized(f"oidc: parse claim {claim}: the claim is not a string")
        if claims[claim] != value:
            raise Unauthorized(f"oidc: required claim {claim} value does not match. Want = {value}")


def _check(rule: ValidationRule, value: Document, budget: CostBudget, why: str) -> None:
    if _evaluated(rule.expression, value, budget, why) is not True:
        raise Unauthorized(f"{why}: validation expression '{rule.expression.text}' failed: {rule.message}")


def _evaluated(expression: ClaimExpression, value: Document, budget: CostBudget, why: str) -> Any:
    try:
        return budget.evaluate(expression, value)
    except EvaluationFailed as error:
        raise Unauthorized(f"{why}: {error}") from None


def _texts(value: Any, why: str) -> list[str]:
    """Returns the non-empty strings in a string or a list of strings; null has none."""
    if value is None:
        return []
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, LIST_CLASSES) or not all(isinstance(each, str) for each in values):
        raise Unauthorized(f"{why}: {_EXPECTED_TEXTS}")
    return [each for each in values if each]


def _text_claim(claims: Document, name: str, what: str) -> str:
    if name not in claims:
        raise Unauthorized(f'oidc: parse {what} "{name}": claim not present')
    value = claims[name]
    if not isinstance(value, str):
        raise Unauthorized(f'oidc: parse {what} "{name}": the claim is not a string')
    return value
