"""Tokens of service accounts: JSON Web Tokens that this server signs, and accepts as long as the objects that
they name exist.

The claims are those of k8s.io/kubernetes, pkg/serviceaccount/claims.go. Rows O01, O08.
"""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from apiserver.authn.chain import Credentials, authenticated
from apiserver.authn.token_file import bearer_token
from apiserver.errors import Unauthorized
from apiserver.golang.pem import UNREADABLE
from apiserver.golang.quoting import go_quote
from apiserver.meta import timestamps
from apiserver.vocabulary import Document, UserInfo

PrivateKey: TypeAlias = EllipticCurvePrivateKey | RSAPrivateKey
PublicKey: TypeAlias = EllipticCurvePublicKey | RSAPublicKey

# Clocks of replicas may differ; kube-apiserver allows as much.
LEEWAY_S: Final = 60
# Tokens whose signature was verified. Others are not remembered: anybody can send any number of them.
KNOWN_TOKENS_MAX: Final = 4096
# No token that fits into a header is longer.
TOKEN_LENGTH_MAX: Final = 16 * 1024
USER_PREFIX: Final = "system:serviceaccount:"
GROUP: Final = "system:serviceaccounts"
_PUBLIC_BLOCK: Final = re.compile(
    rb"-----BEGIN (PUBLIC KEY|CERTIFICATE)-----.*?-----END \1-----",
    re.DOTALL,
)
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
# The resources of the objects that a token may be bound to, by claim.
_BOUND: Final = {"pod": "pods", "secret": "secrets", "node": "nodes"}


class UnusableKey(ValueError):
    """The text holds no key with which tokens can be signed or verified."""


class Reference(NamedTuple):
    """One object that a token names."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a token whose signature was verified.

    bound: the objects that must exist besides the service account, by claim: pod, secret or node.
    """

    namespace: str
    account: Reference
    audiences: tuple[str, ...]
    expires_at: int
    not_before: int
    token_id: str
    bound: tuple[tuple[str, Reference], ...] = ()


class Identity(NamedTuple):
    """The user of a token, and those of the wanted audiences for which it is meant."""

    user: UserInfo
    audiences: tuple[str, ...]


# Takes a resource of the core group, a namespace, a name, and whether to bypass the cache.
# Returns the object, or None if it does not exist.
ObjectGetter: TypeAlias = Callable[[str, str, str, bool], Awaitable[Document | None]]


# ---- keys


def read_private_key(pem: bytes) -> PrivateKey:
    """Raises UnusableKey."""
    try:
        key = serialization.load_pem_private_key(pem, None)
    except UNREADABLE as error:
        raise UnusableKey(f"no private key: {error}") from None
    if not isinstance(key, PrivateKey):
        raise UnusableKey("the key is neither RSA nor ECDSA")
    algorithm(key)
    return key


def read_public_keys(pem: bytes) -> list[PublicKey]:
    """Returns the keys in a file of public keys and certificates, or of a private key. Raises UnusableKey."""
    if b"PRIVATE KEY" in pem:
        return [read_private_key(pem).public_key()]
    keys: list[PublicKey] = []
    for block in _PUBLIC_BLOCK.finditer(pem):
        key: object
        try:
            if block[1] == b"CERTIFICATE":
                key = x509.load_pem_x509_certificate(block[0]).public_key()
            else:
                key = serialization.load_pem_public_key(block[0])
        except UNREADABLE as error:
            raise UnusableKey(f"no public key: {error}") from None
        if not isinstance(key, PublicKey):
            raise UnusableKey("the key is neither RSA nor ECDSA")
        algorithm(key)
        keys.append(key)
    if not keys:
        raise UnusableKey("there is no key in it")
    return keys


def algorithm(key: PrivateKey | PublicKey) -> str:
    if isinstance(key, RSAPrivateKey | RSAPublicKey):
        return "RS256"
    name = key.curve.name
    if name not in _CURVES:
        raise UnusableKey(f"the curve {name} is not supported")
    return _CURVES[name]


def key_id(key: PublicKey) -> str:
    """Returns the claim `kid`: a digest of the key, so that every server computes the same."""
    encoded = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.urlsafe_b64encode(hashlib.sha256(encoded).digest()).rstrip(b"=").decode()


# ---- issuing


class TokenIssuer:
    """Signs tokens. issuer: the claim `iss`. claim: the name of the claim with Kubernetes' own claims."""

    def __init__(self, key: PrivateKey, *, issuer: str, claim: str) -> None:
        self._key, self._issuer, self._claim = key, issuer, claim
        self._algorithm = algorithm(key)
        self._headers = {"kid": key_id(key.public_key())}

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
            self._claim: own,
            "nbf": claims.not_before,
            "sub": f"{USER_PREFIX}{namespace}:{account.name}",
        }
        return jwt.encode(payload, self._key, algorithm=self._algorithm, headers=self._headers)


def new_token_id() -> str:
    return str(uuid.uuid4())


# ---- authenticating


@dataclass(frozen=True, slots=True)
class AcceptedTokens:
    """Which tokens are valid, and how their claims are read.

    keys: the token must be signed with one of them. issuers: its issuer must be one of them.
    audiences: it must be meant for one of them, if nobody asks for others.
    claim: as in TokenIssuer. extra_prefix: of the keys in the user's extra information.
    """

    keys: Sequence[PublicKey]
    issuers: Sequence[str]
    audiences: Sequence[str]
    claim: str
    extra_prefix: str


class ServiceAccountAuthenticator:
    """Authenticates service accounts by their tokens. clock: seconds since 1970."""

    def __init__(self, accepted: AcceptedTokens, get: ObjectGetter, clock: Callable[[], float]) -> None:
        self._keys = {key_id(key): (key, algorithm(key)) for key in accepted.keys}
        self._issuers, self._audiences = frozenset(accepted.issuers), tuple(accepted.audiences)
        self._claim, self._extra_prefix = accepted.claim, accepted.extra_prefix
        self._get, self._clock = get, clock
        self._known: OrderedDict[str, Claims] = OrderedDict()  # those used last at the end

    def __call__(self, credentials: Credentials) -> Awaitable[UserInfo] | None:
        """Returns None if there is no token of these issuers. The awaitable raises Unauthorized."""
        claims = self._claims(bearer_token(credentials.authorization))
        return None if claims is None else self._user(claims)

    async def identify(self, token: str, audiences: Sequence[str]) -> Identity | None:
        """Like a call, for other audiences. Raises Unauthorized."""
        claims = self._claims(token)
        return None if claims is None else await self._identity(claims, audiences)

    async def _user(self, claims: Claims) -> UserInfo:
        return (await self._identity(claims, self._audiences)).user

    async def _identity(self, claims: Claims, audiences: Sequence[str]) -> Identity:
        shared = tuple(each for each in audiences if each in claims.audiences)
        if not shared:
            meant, wanted = _go_list(claims.audiences), _go_list(audiences)
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
        return Identity(self._user_of(claims), shared)

    async def _problem_of(self, resource: str, namespace: str, reference: Reference, now: float) -> str:
        """Returns why a token that names the object is not valid; empty if it is."""
        found: Document | None = None
        for is_fresh in (False, True):  # It may have been made a moment ago, elsewhere.
            found = await self._get(resource, namespace, reference.name, is_fresh)
            if found is not None and found["metadata"]["uid"] == reference.uid:
                break
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
        namespace, account = claims.namespace, claims.account
        user = authenticated(
            f"{USER_PREFIX}{namespace}:{account.name}", (GROUP, f"{GROUP}:{namespace}"), account.uid
        )
        named = tuple((f"{self._extra_prefix}/{key}", (value,)) for key, value in extra)
        return UserInfo(user.name, user.groups, user.uid, named)

    # ---- signatures

    def _claims(self, token: str) -> Claims | None:
        """Returns a token's claims if one of the keys and issuers signed it, else None."""
        if token.count(".") != 2 or len(token) > TOKEN_LENGTH_MAX or not token.isascii():
            return None
        known = self._known.get(token)
        if known is not None:
            self._known.move_to_end(token)
            return known
        payload = self._verified(token)
        claims = None if payload is None else self._read(payload)
        if claims is not None:
            self._known[token] = claims
            if len(self._known) > KNOWN_TOKENS_MAX:
                self._known.popitem(last=False)
        return claims

    def _verified(self, token: str) -> Document | None:
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
            return payload if isinstance(issuer, str) and issuer in self._issuers else None
        return None

    def _read(self, payload: Document) -> Claims | None:
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
            )
        except (KeyError, TypeError, OverflowError, ValueError):
            return None  # Signed with one of the keys, but not for a service account.
        subject = f"{USER_PREFIX}{claims.namespace}:{claims.account.name}"
        return claims if payload.get("sub") == subject else None


_INVALIDATED: Final = "service account token has been invalidated"


def _go_list(texts: Sequence[str]) -> str:
    """`["a" "b"]`: a list as Go prints it."""
    return "[" + " ".join(map(go_quote, texts)) + "]"


# Times, audience and issuer are checked here, with the injected clock, each time a token is presented.
_SIGNATURE_ONLY: Final[Any] = {
    "verify_signature": True,
    **{f"verify_{claim}": False for claim in ("aud", "exp", "iat", "iss", "jti", "nbf", "sub")},
}


def _reference(claim: Document) -> Reference:
    return Reference(_text(claim["name"]), _text(claim.get("uid", "")))


def _text(claim: object) -> str:
    """Raises TypeError."""
    if not isinstance(claim, str):
        raise TypeError("the claim is no text")
    return claim


def _texts(claim: object) -> tuple[str, ...]:
    """Raises TypeError for what is neither a text nor a list of them."""
    return tuple(map(_text, claim)) if isinstance(claim, list) else (_text(claim),)


def _seconds(claim: object) -> int:
    """Raises TypeError for what is no number, OverflowError and ValueError for what no float can hold."""
    if not isinstance(claim, int | float) or isinstance(claim, bool):
        raise TypeError("the claim is no number")
    return int(float(claim))
