"""Issues and verifies tokens of service accounts, which are JSON Web Tokens that name objects.

They are valid as long as these objects exist. Legacy tokens, in Secrets, do not expire, are for this server
only, and are valid as long as the Secret has exactly the token.

Reading keys imports `cryptography`, so they are read when the first token is issued or verified.

The claims are those of k8s.io/kubernetes, pkg/serviceaccount/{claims,legacy}.go. Rows O01, O08.
"""

from __future__ import annotations

import base64
import hmac
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from apiserver.auth.authn.chain import Identity, authenticated
from apiserver.golang.quoting import quoted_list
from apiserver.meta import timestamps
from apiserver.meta.errors import Unauthorized
from apiserver.meta.vocabulary import Document, UserInfo

if TYPE_CHECKING:
    from apiserver.auth.authn.service_account_keys import PrivateKey, PublicKey

# Clocks of replicas may differ; kube-apiserver allows as much.
LEEWAY_S: Final = 60
# Tokens whose signature was verified. Others are not remembered: anybody can send any number of them.
KNOWN_TOKENS_MAX: Final = 4096
# No token that fits into a header is longer.
TOKEN_LENGTH_MAX: Final = 16 * 1024
USER_PREFIX: Final = "system:serviceaccount:"
GROUP: Final = "system:serviceaccounts"
# Of Secrets with tokens.
ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"
INVALID_SINCE: Final = "kubernetes.io/legacy-token-invalid-since"
_AUTOMATIC: Final = (
    "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated "
    "secret-based tokens."
)
TOKEN_KEY: Final = "token"  # noqa: S105  a key of Secrets
# The resources of the objects that a token may be bound to, by claim.
_BOUND: Final = {"pod": "pods", "secret": "secrets", "node": "nodes"}


class Reference(NamedTuple):
    """An object that a token names."""

    name: str
    uid: str


class Claims(NamedTuple):
    """The claims of a token whose signature was verified.

    bound: the objects that must exist besides the service account, by claim: pod, secret or node.
    warn_after: the end of the requested validity, after which the token counts as stale; None: it never does.
        In seconds since 1970, as the others.
    """

    namespace: str
    account: Reference
    audiences: tuple[str, ...]
    expires_at: int
    not_before: int
    token_id: str
    bound: tuple[tuple[str, Reference], ...] = ()
    warn_after: int | None = None


class LegacyClaims(NamedTuple):
    """The claims of a legacy token in a Secret, and the token itself."""

    namespace: str
    account: Reference
    secret: str
    token: str


# Takes a resource of the core group, a namespace, a name, and whether to bypass the cache.
# Returns the object, of pods and nodes the metadata alone, or None if it does not exist.
ObjectGetter: TypeAlias = Callable[[str, str, str, bool], Awaitable[Document | None]]


# ---- issuing


class TokenIssuer:
    """Signs tokens.

    read_key: returns the key; called once, when it is needed. issuer: the claim `iss`. claim: the name of the
    claim with Kubernetes' own claims.
    """

    def __init__(self, read_key: Callable[[], PrivateKey], *, issuer: str, claim: str) -> None:
        self._read_key, self._issuer, self._claim = read_key, issuer, claim

    def issue(self, claims: Claims, *, now: int) -> str:
        namespace, account = claims.namespace, claims.account
        own: dict[str, Any] = {"namespace": namespace}
        for kind, reference in claims.bound:
            own[kind] = {"name": reference.name, **({"uid": reference.uid} if reference.uid else {})}
        own["serviceaccount"] = {"name": account.name, "uid": account.uid}
        payload = {
            "aud": list(claims.audiences),
            "exp": claims.expires_at,
            "iat": now,
            "iss": self._issuer,
            "jti": claims.token_id,
            self._claim: own | ({} if claims.warn_after is None else {"warnafter": claims.warn_after}),
            "nbf": claims.not_before,
            "sub": f"{USER_PREFIX}{namespace}:{account.name}",
        }
        return self._signed(payload)

    def issue_legacy(self, namespace: str, account: Reference, secret: str) -> str:
        """Returns a new token for a Secret."""
        prefix = f"{self._claim}/serviceaccount"
        payload = {
            "iss": legacy_issuer(self._claim),
            f"{prefix}/namespace": namespace,
            f"{prefix}/secret.name": secret,
            f"{prefix}/service-account.name": account.name,
            f"{prefix}/service-account.uid": account.uid,
            "sub": f"{USER_PREFIX}{namespace}:{account.name}",
        }
        return self._signed(payload)

    def derived_key(self, purpose: str) -> bytes:
        """Returns a key of 32 bytes for a purpose, the same on all servers that sign with the same key.

        It tells nothing about the key of another purpose, or about the signing key (RFC 5869).
        """
        from apiserver.auth.authn.service_account_keys import derived_key

        return derived_key(self._key, purpose)

    @cached_property
    def _key(self) -> PrivateKey:
        return self._read_key()

    @cached_property
    def _algorithm_and_headers(self) -> tuple[str, dict[str, str]]:
        from apiserver.auth.authn.service_account_keys import algorithm, key_id

        return algorithm(self._key), {"kid": key_id(self._key.public_key())}

    def _signed(self, payload: Document) -> str:
        import jwt

        algorithm, headers = self._algorithm_and_headers
        return jwt.encode(payload, self._key, algorithm=algorithm, headers=headers)


def legacy_issuer(claim: str) -> str:
    """Returns the issuer of legacy tokens: `kubernetes.io` -> `kubernetes/serviceaccount`."""
    return f"{claim.removesuffix('.io')}/serviceaccount"


def new_token_id() -> str:
    return str(uuid.uuid4())


# ---- authenticating


class AcceptedTokens(NamedTuple):
    """The tokens that are valid, and how their claims are read.

    read_keys: returns the keys, of which one must have signed the token; called once, for the first token.
    issuers: its issuer must be one of them.
    audiences: it must have one of them, if no others are requested.
    claim: as in TokenIssuer. extra_prefix: that of the keys in the user's extra information.
    looks_up_legacy: whether the Secret and the account of a token in a Secret must exist.
    """

    read_keys: Callable[[], Sequence[PublicKey]]
    issuers: Sequence[str]
    audiences: Sequence[str]
    claim: str
    extra_prefix: str
    looks_up_legacy: bool = True


class TokenUses:
    """Observes uses of tokens that should be replaced; this default ignores them."""

    def legacy(self, namespace: str, secret: Document | None, *, is_of_account: bool) -> None:
        """Notes the use of a legacy token in a Secret. secret: None if it was not looked up.

        is_of_account: whether the account names the Secret, as it did when such tokens were generated
            automatically.
        """

    def invalidated(self, namespace: str, secret: Document) -> None:
        """Notes the use of a legacy token whose Secret is marked as invalid."""

    def timed(self, *, is_stale: bool) -> None:
        """Notes the use of a token that is valid for longer than requested. is_stale: whether the requested
        time is over.
        """


class ServiceAccountAuthenticator:
    """Authenticates service accounts by their tokens. clock: seconds since 1970."""

    def __init__(
        self,
        accepted: AcceptedTokens,
        get: ObjectGetter,
        clock: Callable[[], float],
        uses: TokenUses = TokenUses(),  # noqa: B008  has no state
    ) -> None:
        self._read_keys = accepted.read_keys
        self._issuers, self._audiences = frozenset(accepted.issuers), tuple(accepted.audiences)
        self._claim, self._extra_prefix = accepted.claim, accepted.extra_prefix
        self._legacy_issuer = legacy_issuer(accepted.claim)
        self._looks_up_legacy = accepted.looks_up_legacy
        self._get, self._clock, self._uses = get, clock, uses
        self._known: OrderedDict[str, Claims | LegacyClaims] = OrderedDict()  # those used last at the end

    async def user(self, claims: Claims | LegacyClaims) -> UserInfo:
        """Returns the user of a token with these claims.

        Raises Unauthorized if the token is no longer, or not yet, valid.
        """
        return (await self.identity(claims, self._audiences)).user

    async def identity(self, claims: Claims | LegacyClaims, audiences: Sequence[str]) -> Identity:
        """Returns the result of `user`, for other audiences. Raises Unauthorized."""
        if isinstance(claims, LegacyClaims):
            told = ("legacy-token", f"{USER_PREFIX}{claims.namespace}:{claims.account.name}")
            try:
                identity = await self._legacy_identity(claims, audiences)
            except Unauthorized as error:
                raise Unauthorized(error.why, (told, *error.annotations)) from None
            return identity._replace(annotations=(told, *identity.annotations))
        shared = tuple(each for each in audiences if each in claims.audiences)
        if not shared:
            meant, wanted = quoted_list(claims.audiences), quoted_list(audiences)
            raise Unauthorized(f"token audiences {meant} is invalid for the target audiences {wanted}")
        now = self._clock()
        if now > claims.expires_at + LEEWAY_S:
            raise Unauthorized("service account token has expired")
        if now < claims.not_before - LEEWAY_S:
            raise Unauthorized("service account token is not valid yet")
        named = [("serviceaccounts", claims.namespace, claims.account)]
        named += [
            (_BOUND[kind], "" if kind == "node" else claims.namespace, reference)
            for kind, reference in claims.bound
            # A pod's token names the pod's node, too, which need not exist.
            if kind != "node" or len(claims.bound) == 1
        ]
        for resource, namespace, reference in named:
            if problem := await self._problem_of(resource, namespace, reference, now):
                raise Unauthorized(problem)
        user = self._user_of(claims)
        if claims.warn_after is None:
            return Identity(user, shared)
        is_stale = now > claims.warn_after
        self._uses.timed(is_stale=is_stale)
        if not is_stale:
            return Identity(user, shared)
        late_s = int(now) - claims.warn_after
        text = f"subject: {user.name}, seconds after warning threshold: {late_s}"
        return Identity(user, shared, (("stale-token", text),))

    async def _legacy_identity(self, claims: LegacyClaims, audiences: Sequence[str]) -> Identity:
        """Returns the identity of a legacy token."""
        shared = tuple(each for each in audiences if each in self._audiences)
        if not shared:
            meant, wanted = quoted_list(self._audiences), quoted_list(audiences)
            raise Unauthorized(f"token audiences {meant} is invalid for the target audiences {wanted}")
        namespace, account = claims.namespace, claims.account
        secret: Document | None = None
        is_of_account = False
        if self._looks_up_legacy:
            secret = await self._latest(
                "secrets", namespace, claims.secret, lambda found: _holds(found, claims.token)
            )
            if secret is None or "deletionTimestamp" in secret["metadata"]:
                raise Unauthorized("Token has been invalidated")
            if not _holds(secret, claims.token):
                raise Unauthorized("Token does not match server's copy")
            found = await self._named("serviceaccounts", namespace, account)
            if found is None:
                raise Unauthorized(f'serviceaccounts "{account.name}" not found')
            if "deletionTimestamp" in found["metadata"]:
                raise Unauthorized(f"ServiceAccount {namespace}/{account.name} has been deleted")
            uid = found["metadata"]["uid"]
            if uid != account.uid:
                raise Unauthorized(f"ServiceAccount UID ({uid}) does not match claim ({account.uid})")
            if (secret["metadata"].get("labels") or {}).get(INVALID_SINCE):
                self._uses.invalidated(namespace, secret)
                raise Unauthorized(
                    f"the token in secret {namespace}/{claims.secret} for service account "
                    f"{namespace}/{account.name} has been marked invalid. Use tokens from the TokenRequest "
                    "API or manually created secret-based tokens, or remove the "
                    f"'{INVALID_SINCE}' label from the secret to temporarily allow use of this token",
                    [("legacy-token-invalidated", f"{claims.secret}/{namespace}")],
                )
            is_of_account = any(each.get("name") == claims.secret for each in found.get("secrets") or ())
        self._uses.legacy(namespace, secret, is_of_account=is_of_account)
        user = _user_of(namespace, account)
        if secret is None:
            return Identity(user, shared)
        if is_of_account:
            return Identity(user, shared, (("legacy-token-autogenerated-secret", claims.secret),), _AUTOMATIC)
        return Identity(user, shared, (("legacy-token-manual-secret", claims.secret),))

    async def _latest(
        self, resource: str, namespace: str, name: str, is_expected: Callable[[Document], bool]
    ) -> Document | None:
        """Returns an object in its latest state, unless the cached one is as expected."""
        found = await self._get(resource, namespace, name, False)
        if found is None or not is_expected(found):
            found = await self._get(resource, namespace, name, True)
        return found

    async def _named(self, resource: str, namespace: str, named: Reference) -> Document | None:
        """Returns the object that a token names, or else another one of that name."""
        return await self._latest(
            resource, namespace, named.name, lambda found: bool(found["metadata"]["uid"] == named.uid)
        )

    async def _problem_of(self, resource: str, namespace: str, reference: Reference, now: float) -> str:
        """Returns why a token that names the object is not valid; empty if it is valid."""
        found = await self._named(resource, namespace, reference)
        is_account = resource == "serviceaccounts"
        if found is None:
            return f'serviceaccounts "{reference.name}" not found' if is_account else _INVALIDATED
        uid = found["metadata"]["uid"]
        if uid != reference.uid:
            if is_account:
                return f"service account UID ({uid}) does not match claim ({reference.uid})"
            kind = resource.removesuffix("s")
            return f"{kind} UID ({uid}) does not match service account {kind} ref claim ({reference.uid})"
        deleted_at = timestamps.from_text(found["metadata"].get("deletionTimestamp", ""))
        if deleted_at is None or now <= deleted_at + LEEWAY_S:
            return ""
        if is_account:
            return f"service account {namespace}/{reference.name} has been deleted"
        return _INVALIDATED

    def _user_of(self, claims: Claims) -> UserInfo:
        extra = [("credential-id", f"JTI={claims.token_id}")] if claims.token_id else []
        for kind, reference in claims.bound:
            if kind in ("pod", "node"):
                extra.append((f"{kind}-name", reference.name))
                if reference.uid:
                    extra.append((f"{kind}-uid", reference.uid))
        named = tuple((f"{self._extra_prefix}/{key}", (value,)) for key, value in extra)
        return _user_of(claims.namespace, claims.account)._replace(extra=named)

    # ---- signatures

    def claims(self, token: str) -> Claims | LegacyClaims | None:
        """Returns a token's claims if a known key and issuer signed it, otherwise None."""
        if token.count(".") != 2 or len(token) > TOKEN_LENGTH_MAX or not token.isascii():
            return None
        known = self._known.get(token)
        if known is not None:
            self._known.move_to_end(token)
            return known
        payload = self._verified(token)
        claims = None if payload is None else self._read(payload, token)
        if claims is not None:
            self._known[token] = claims
            if len(self._known) > KNOWN_TOKENS_MAX:
                self._known.popitem(last=False)
        return claims

    @cached_property
    def _keys(self) -> dict[str, tuple[PublicKey, str]]:
        """The keys with their algorithms, by their IDs."""
        from apiserver.auth.authn.service_account_keys import algorithm, key_id

        return {key_id(key): (key, algorithm(key)) for key in self._read_keys()}

    def _verified(self, token: str) -> Document | None:
        import jwt

        try:
            named = jwt.get_unverified_header(token).get("kid")
            candidates = [self._keys[named]] if named in self._keys else list(self._keys.values())
        except (jwt.InvalidTokenError, RecursionError):
            return None
        for key, name in candidates:
            try:
                payload: Document = jwt.decode(token, key, algorithms=[name], options=_SIGNATURE_ONLY)
            except (jwt.InvalidTokenError, RecursionError):
                continue
            issuer = payload.get("iss")
            is_ours = isinstance(issuer, str) and (issuer in self._issuers or issuer == self._legacy_issuer)
            return payload if is_ours else None
        return None

    def _read(self, payload: Document, token: str) -> Claims | LegacyClaims | None:
        if payload["iss"] == self._legacy_issuer and self._claim not in payload:
            return self._read_legacy(payload, token)
        if payload["iss"] not in self._issuers:
            return None
        try:
            own, audiences = payload[self._claim], payload["aud"]
            claims = Claims(
                namespace=_text(own["namespace"]),
                account=_reference(own["serviceaccount"]),
                audiences=_texts(audiences),
                expires_at=_seconds(payload["exp"]),
                not_before=_seconds(payload.get("nbf", 0)),
                token_id=_text(payload.get("jti", "")),
                bound=tuple((kind, _reference(own[kind])) for kind in _BOUND if kind in own),
                warn_after=_seconds(own["warnafter"]) if own.get("warnafter") else None,
            )
        except (KeyError, TypeError, OverflowError, ValueError):
            return None  # Signed with one of the keys, but not for a service account.
        subject = f"{USER_PREFIX}{claims.namespace}:{claims.account.name}"
        return claims if payload.get("sub") == subject else None

    def _read_legacy(self, payload: Document, token: str) -> LegacyClaims | None:
        prefix = f"{self._claim}/serviceaccount"
        names = ("namespace", "service-account.name", "service-account.uid", "secret.name")
        values = [payload.get(f"{prefix}/{name}") for name in names]
        if not all(isinstance(value, str) and value for value in values):
            return None
        namespace, name, uid, secret = values
        if payload.get("sub") != f"{USER_PREFIX}{namespace}:{name}":
            return None
        return LegacyClaims(str(namespace), Reference(str(name), str(uid)), str(secret), token)


_INVALIDATED: Final = "service account token has been invalidated"


def _user_of(namespace: str, account: Reference) -> UserInfo:
    groups = (GROUP, f"{GROUP}:{namespace}")
    return authenticated(f"{USER_PREFIX}{namespace}:{account.name}", groups, account.uid)


def _holds(secret: Document, token: str) -> bool:
    """Returns whether a Secret has exactly the token."""
    data = secret.get("data")
    encoded = data.get(TOKEN_KEY) if isinstance(data, dict) else None
    try:
        found = base64.b64decode(encoded) if isinstance(encoded, str) else b""
    except ValueError:
        return False
    return hmac.compare_digest(found, token.encode())


# Times, audience and issuer are checked here, with the injected clock, each time a token is presented.
_SIGNATURE_ONLY: Final[Any] = {
    "verify_signature": True,
    **{f"verify_{claim}": False for claim in ("aud", "exp", "iat", "iss", "jti", "nbf", "sub")},
}


def _reference(claim: Document) -> Reference:
    return Reference(_text(claim["name"]), _text(claim.get("uid", "")))


def _text(claim: object) -> str:
    """Returns a claim that is a string."""
    if not isinstance(claim, str):
        raise TypeError("the claim is not a string")
    return claim


def _texts(claim: object) -> tuple[str, ...]:
    """Returns a claim that is a string or a list of strings."""
    return tuple(map(_text, claim)) if isinstance(claim, list) else (_text(claim),)


def _seconds(claim: object) -> int:
    """Returns a claim that is a number of seconds."""
    if not isinstance(claim, int | float) or isinstance(claim, bool):
        raise TypeError("the claim is not a number")
    return int(float(claim))
