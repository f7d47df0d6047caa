"""Reads the issuers whose tokens are accepted, from a file of `--authentication-config` or `--oidc-*` flags.

An invalid file is refused as a whole, with the path of each field. Pure.
Sources: k8s.io/apiserver, pkg/apis/apiserver/{types.go,validation}; the feature gates are those of 1.34.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from apiserver.auth.authn.chain import Anonymous
from apiserver.auth.authn.claim_expressions import (
    CLAIMS,
    USER,
    ClaimExpression,
    CompilationFailed,
    compile_expression,
)
from apiserver.golang import urls
from apiserver.golang.pem import NoCertificate, bundle_certificates
from apiserver.golang.quoting import aggregate
from apiserver.meta.field_errors import Errors, duplicate, invalid, required, too_many
from apiserver.schema.validation.domain_prefixed_paths import validate_domain_prefixed_path
from apiserver.wire.configuration_fields import ConfigurationObject, InvalidConfiguration, decode

T = TypeVar("T")

# As kube-apiserver has it.
ISSUERS_MAX: Final = 64
SIGNING_ALGORITHMS: Final = (
    *("ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"),
)
_KIND: Final = "AuthenticationConfiguration"
_VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
_MATCH_ANY: Final = "MatchAny"
_EGRESS_TYPES: Final = ("controlplane", "cluster")
_RESERVED_DOMAINS: Final = ("k8s.io", "kubernetes.io")


class Issuer(NamedTuple):
    """An issuer of tokens.

    url: the claim `iss`. discovery_url: the URL of its discovery document, if not below that URL.
    authorities: the CAs of its certificate, in PEM; empty: the system's.
    audiences: a token must have one of them.
    """

    url: str
    audiences: tuple[str, ...]
    discovery_url: str = ""
    authorities: str = ""

    @property
    def document_url(self) -> str:
        return self.discovery_url or f"{self.url.removesuffix('/')}/.well-known/openid-configuration"


class ClaimMapping(NamedTuple):
    """The source of a part of the user: a claim, behind a prefix, or an expression over all claims."""

    claim: str = ""
    prefix: str = ""
    expression: ClaimExpression | None = None


class ValidationRule(NamedTuple):
    """A condition that must be true. message: the error if it is not."""

    expression: ClaimExpression
    message: str = ""


class JwtAuthenticatorConfiguration(NamedTuple):
    """Defines how the tokens of one issuer become users.

    extra: the source of each key of the user's extra information.
    required_claims: claims with their required values.
    """

    issuer: Issuer
    username: ClaimMapping
    groups: ClaimMapping = ClaimMapping()
    uid: ClaimMapping = ClaimMapping()
    extra: tuple[tuple[str, ClaimExpression], ...] = ()
    required_claims: tuple[tuple[str, str], ...] = ()
    claim_rules: tuple[ValidationRule, ...] = ()
    user_rules: tuple[ValidationRule, ...] = ()
    algorithms: tuple[str, ...] = ("RS256",)


class AuthenticationConfiguration(NamedTuple):
    """A file of `--authentication-config`. anonymous: None if it leaves that to `--anonymous-auth`."""

    jwt: tuple[JwtAuthenticatorConfiguration, ...] = ()
    anonymous: Anonymous | None = None


def parse(content: bytes, domain: str, disallowed_issuers: Collection[str]) -> AuthenticationConfiguration:
    """Reads a file. Raises InvalidConfiguration.

    domain: that of Kubernetes' own API groups. disallowed_issuers: those of service account tokens.
    """
    errors: Errors = []
    with ConfigurationObject(decode(content)) as fields:
        group = f"apiserver.config.{domain}"
        fields.require_kind(*((f"{group}/{version}", _KIND) for version in _VERSIONS))
        jwt = tuple(_read(fields, errors, disallowed_issuers))
        anonymous = _anonymous(fields, errors)
    if errors:
        raise InvalidConfiguration(aggregate(errors))
    return AuthenticationConfiguration(jwt, anonymous)


def of_flags(
    issuer: Issuer,
    *,
    username: ClaimMapping,
    groups: ClaimMapping,
    required_claims: Sequence[tuple[str, str]],
    algorithms: Sequence[str],
    disallowed_issuers: Collection[str],
) -> AuthenticationConfiguration:
    """Returns the configuration that `--oidc-*` flags describe. Raises InvalidConfiguration.

    username: without a prefix, that of a claim other than `email` is the issuer; `-` means none.
    """
    if errors := _url_errors("issuer.url", issuer.url, disallowed_issuers) + _authority_errors(
        "certificateAuthority", issuer.authorities
    ):
        raise InvalidConfiguration(aggregate(errors))
    prefix = username.prefix
    if not prefix and username.claim != "email":
        prefix = f"{issuer.url}#"
    name = ClaimMapping(username.claim, "" if prefix == "-" else prefix)
    authenticator = JwtAuthenticatorConfiguration(
        issuer, name, groups, required_claims=tuple(required_claims), algorithms=tuple(algorithms)
    )
    return AuthenticationConfiguration((authenticator,))


def _anonymous(fields: ConfigurationObject, errors: Errors) -> Anonymous | None:
    if not fields.has("anonymous"):
        fields.any("anonymous")
        return None
    with fields.object("anonymous") as anonymous:
        is_enabled = anonymous.boolean("enabled")
        paths = []
        for condition in anonymous.objects("conditions"):
            with condition:
                paths.append(condition.text("path"))
    if paths and not is_enabled:
        conditions = [{"Path": path} for path in paths]
        why = "enabled should be set to true when conditions are defined"
        errors.append(invalid("anonymous.conditions", conditions, why))
    return Anonymous(is_enabled, frozenset(paths) if paths else None)


# ---- issuers


def _read(
    fields: ConfigurationObject, errors: Errors, disallowed: Collection[str]
) -> Iterator[JwtAuthenticatorConfiguration]:
    items = list(fields.objects("jwt"))
    if len(items) > ISSUERS_MAX:
        errors.append(too_many("jwt", len(items), ISSUERS_MAX))
        return
    urls_seen: set[str] = set()
    discovery_seen: set[str] = set()
    for item in items:
        found = _Reader(errors).authenticator(item, disallowed)
        issuer = found.issuer
        if issuer.url in urls_seen:
            errors.append(duplicate(item.at("issuer.url"), issuer.url))
        if issuer.discovery_url in discovery_seen:
            errors.append(duplicate(item.at("issuer.discoveryURL"), issuer.discovery_url))
        urls_seen.add(issuer.url)
        discovery_seen |= {issuer.discovery_url} - {""}
        yield found


def _url_errors(path: str, text: str, disallowed: Collection[str] = ()) -> Errors:
    errors: Errors = []
    if text in disallowed:
        listed = " ".join(sorted(disallowed))
        errors.append(invalid(path, text, f"URL must not overlap with disallowed issuers: [{listed}]"))
    try:
        url = urls.parse(text)
    except urls.InvalidUrl as error:
        return [*errors, invalid(path, text, str(error))]
    if url.scheme != "https":
        errors.append(invalid(path, text, "URL scheme must be https"))
    elif not url.hostname:
        errors.append(invalid(path, text, "URL must have a host"))
    if url.user is not None:
        errors.append(invalid(path, text, "URL must not contain a username or password"))
    if url.query:
        errors.append(invalid(path, text, "URL must not contain a query"))
    if url.fragment:
        errors.append(invalid(path, text, "URL must not contain a fragment"))
    return errors


def _authority_errors(path: str, pem: str) -> Errors:
    try:
        if pem:
            bundle_certificates(pem.encode())
    except NoCertificate as error:
        return [invalid(path, "<omitted>", str(error))]
    return []


class _Reader:
    """Reads one issuer. errors: the found errors are added to it."""

    def __init__(self, errors: Errors) -> None:
        self._errors = errors
        self._names_email_verified = False

    def authenticator(
        self, fields: ConfigurationObject, disallowed: Collection[str]
    ) -> JwtAuthenticatorConfiguration:
        with fields:
            issuer = self._issuer(fields.object("issuer"), disallowed)
            required_claims, claim_rules = self._claim_rules(fields)
            with fields.object("claimMappings") as mappings:
                username = self._prefixed(mappings.object("username"), is_required=True)
                groups = self._prefixed(mappings.object("groups"), is_required=False)
                uid = self._uid(mappings.object("uid"))
                extra = tuple(self._extra(mappings))
                self._check_email(mappings, username)
            user_rules = tuple(self._user_rules(fields))
        return JwtAuthenticatorConfiguration(
            issuer,
            username,
            groups,
            uid,
            extra,
            tuple(required_claims.items()),
            claim_rules,
            user_rules,
            SIGNING_ALGORITHMS,
        )

    def _issuer(self, fields: ConfigurationObject, disallowed: Collection[str]) -> Issuer:
        with fields:
            url, discovery_url = fields.text("url"), fields.text("discoveryURL")
            audiences, policy = fields.texts("audiences"), fields.text("audienceMatchPolicy")
            authorities, egress = fields.text("certificateAuthority"), fields.text("egressSelectorType")
        at = fields.at
        errors: Errors = []
        errors += _url_errors(at("url"), url, disallowed) if url else [required(at("url"))]
        if discovery_url:
            if url and url.rstrip("/") == discovery_url.rstrip("/"):
                why = "discoveryURL must be different from URL"
                errors.append(invalid(at("discoveryURL"), discovery_url, why))
            errors += _url_errors(at("discoveryURL"), discovery_url)
        errors += _audience_errors(fields, audiences, policy)
        errors += _authority_errors(at("certificateAuthority"), authorities)
        if egress:
            why = "egress selector must be either controlplane or cluster"
            if egress in _EGRESS_TYPES:
                why = "egress selector is not configured: --egress-selector-config-file has no effect"
            errors.append(invalid(at("egressSelectorType"), egress, why))
        self._errors += errors
        return Issuer(url, audiences, discovery_url, authorities)

    def _claim_rules(self, fields: ConfigurationObject) -> tuple[dict[str, str], tuple[ValidationRule, ...]]:
        required_claims: dict[str, str] = {}
        rules: list[ValidationRule] = []
        seen: set[str] = set()
        for item in fields.objects("claimValidationRules"):
            with item:
                claim, value = item.text("claim"), item.text("requiredValue")
                expression, message = item.text("expression"), item.text("message")
            if claim and expression:
                self._errors.append(invalid(item.path, claim, "claim and expression can't both be set"))
            elif claim:
                if message:
                    why = "may not be specified when claim is set"
                    self._errors.append(invalid(item.at("message"), message, why))
                if claim in required_claims:
                    self._errors.append(duplicate(item.at("claim"), claim))
                required_claims[claim] = value
            elif expression:
                if value:
                    why = "may not be specified when expression is set"
                    self._errors.append(invalid(item.at("requiredValue"), value, why))
                if expression in seen:
                    self._errors.append(duplicate(item.at("expression"), expression))
                    continue
                seen.add(expression)
                compiled = self._compiled(item.at("expression"), expression, is_condition=True)
                if compiled is not None:
                    rules.append(ValidationRule(compiled, message))
            else:
                self._errors.append(required(item.path, "claim or expression is required"))
        return required_claims, tuple(rules)

    def _prefixed(self, fields: ConfigurationObject, *, is_required: bool) -> ClaimMapping:
        with fields:
            claim, expression = fields.text("claim"), fields.text("expression")
            has_prefix, prefix = fields.has("prefix"), fields.text("prefix")
        if claim and expression:
            self._errors.append(invalid(fields.path, "", "claim and expression can't both be set"))
        elif expression:
            if has_prefix:
                why = "may not be specified when expression is set"
                self._errors.append(invalid(fields.at("prefix"), prefix, why))
            return ClaimMapping(expression=self._compiled(fields.at("expression"), expression))
        elif claim:
            if not has_prefix:
                why = (
                    "prefix is required when claim is set. It can be set to an empty string to disable "
                    "prefixing"
                )
                self._errors.append(required(fields.at("prefix"), why))
            return ClaimMapping(claim, prefix)
        elif is_required:
            self._errors.append(required(fields.path, "claim or expression is required"))
        return ClaimMapping()

    def _uid(self, fields: ConfigurationObject) -> ClaimMapping:
        with fields:
            claim, expression = fields.text("claim"), fields.text("expression")
        if claim and expression:
            self._errors.append(invalid(fields.path, "", "claim and expression can't both be set"))
        elif expression:
            return ClaimMapping(expression=self._compiled(fields.at("expression"), expression))
        return ClaimMapping(claim)

    def _extra(self, fields: ConfigurationObject) -> Iterator[tuple[str, ClaimExpression]]:
        seen: set[str] = set()
        for item in fields.objects("extra"):
            with item:
                key, expression = item.text("key"), item.text("valueExpression")
            self._errors += _key_errors(item.at("key"), key)
            if key in seen:
                self._errors.append(duplicate(item.at("key"), key))
                continue
            seen.add(key)
            if not expression:
                self._errors.append(required(item.at("valueExpression")))
                continue
            compiled = self._compiled(item.at("valueExpression"), expression)
            if compiled is not None:
                yield key, compiled

    def _check_email(self, mappings: ConfigurationObject, username: ClaimMapping) -> None:
        """Check that an expression uses an email address only if it is verified."""
        expression = username.expression
        if expression is not None and "email" in expression.claims and not self._names_email_verified:
            why = (
                "claims.email_verified must be used in claimMappings.username.expression or "
                "claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when "
                "claims.email is used in claimMappings.username.expression"
            )
            self._errors.append(invalid(mappings.at("username.expression"), expression.text, why))

    def _user_rules(self, fields: ConfigurationObject) -> Iterator[ValidationRule]:
        seen: set[str] = set()
        for item in fields.objects("userValidationRules"):
            with item:
                expression, message = item.text("expression"), item.text("message")
            if not expression:
                self._errors.append(required(item.at("expression")))
            elif expression in seen:
                self._errors.append(duplicate(item.at("expression"), expression))
            else:
                seen.add(expression)
                compiled = self._compiled(item.at("expression"), expression, USER, is_condition=True)
                if compiled is not None:
                    yield ValidationRule(compiled, message)

    def _compiled(
        self, path: str, text: str, variable: str = CLAIMS, *, is_condition: bool = False
    ) -> ClaimExpression | None:
        try:
            compiled = compile_expression(text, variable, is_condition=is_condition)
        except CompilationFailed as error:
            self._errors.append(invalid(path, text, str(error)))
            return None
        # That of groups and of the uid does not count.
        if variable == CLAIMS and not path.endswith(("groups.expression", "uid.expression")):
            self._names_email_verified |= "email_verified" in compiled.claims
        return compiled


def _audience_errors(fields: ConfigurationObject, audiences: Sequence[str], policy: str) -> Errors:
    path, policy_path = fields.at("audiences"), fields.at("audienceMatchPolicy")
    if not audiences:
        return [required(path, f"at least one {path} is required")]
    errors: Errors = []
    for index, audience in enumerate(audiences):
        where = f"{path}[{index}]"
        if not audience:
            errors.append(required(where))
        if audience in audiences[:index]:
            errors.append(duplicate(where, audience))
    if len(audiences) > 1 and policy != _MATCH_ANY:
        why = "audienceMatchPolicy must be MatchAny for multiple audiences"
        errors.append(invalid(policy_path, policy, why))
    elif policy not in ("", _MATCH_ANY):
        why = "audienceMatchPolicy must be empty or MatchAny for single audience"
        errors.append(invalid(policy_path, policy, why))
    return errors


def _key_errors(path: str, key: str) -> Errors:
    if not key:
        return [required(path)]
    errors = validate_domain_prefixed_path(path, key)
    if key != key.lower():
        errors.append(invalid(path, key, "must be lowercase"))
    domain, slash, _ = key.partition("/")
    if slash and any(domain == each or domain.endswith(f".{each}") for each in _RESERVED_DOMAINS):
        why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"
        errors.append(invalid(path, key, why))
    return errors
