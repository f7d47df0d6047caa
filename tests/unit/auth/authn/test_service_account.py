"""Tokens of service accounts: what is signed, and whom it is believed to show. Rows O01, O08.

Claims: https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin, "Schema for service
account private claims".
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, Final

import jwt
import orjson
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from apiserver.auth.authn.bearer_tokens import BearerTokens
from apiserver.auth.authn.chain import NO_CERTIFICATE, Credentials, Identity
from apiserver.auth.authn.service_account import (
    LEEWAY_S,
    AcceptedTokens,
    Claims,
    Reference,
    ServiceAccountAuthenticator,
    TokenIssuer,
    TokenUses,
)
from apiserver.auth.authn.service_account_keys import (
    PrivateKey,
    UnusableKey,
    key_id,
    read_private_key,
    read_public_keys,
)
from apiserver.auth.authn.token_file import TokenFileAuthenticator
from apiserver.meta import timestamps
from apiserver.meta.errors import Unauthorized
from apiserver.meta.vocabulary import AUTHENTICATED, Document, UserInfo

NOW: Final = 1_700_000_000
ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "https://api.example"
CLAIM: Final = "kubernetes.io"
KEY: Final = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY: Final = ec.generate_private_key(ec.SECP256R1())
ACCOUNT: Final = Claims(
    namespace="ns",
    account=Reference("bot", "uid-1"),
    audiences=(AUDIENCE, "other"),
    expires_at=NOW + 3600,
    not_before=NOW,
    token_id="id-1",
)
POD: Final = ("pod", Reference("p", "uid-p"))
NODE: Final = ("node", Reference("n", "uid-n"))


class Objects:
    """What is there, as the server would look it up; `cached` is what it has seen of it so far."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, str, str], Document] = {}
        self.cached: dict[tuple[str, str, str], Document] = {}

    def add(self, resource: str, namespace: str, name: str, uid: str, **meta: Any) -> None:
        document = {"metadata": {"name": name, "uid": uid, **meta}}
        self.stored[resource, namespace, name] = self.cached[resource, namespace, name] = document

    def remove(self, resource: str, namespace: str, name: str) -> None:
        del self.stored[resource, namespace, name], self.cached[resource, namespace, name]

    async def find(self, resource: str, namespace: str, name: str, is_fresh: bool) -> Document | None:
        return (self.stored if is_fresh else self.cached).get((resource, namespace, name))


@pytest.fixture
def objects() -> Objects:
    objects = Objects()
    objects.add("serviceaccounts", "ns", "bot", "uid-1")
    return objects


def believer(objects: Objects, now: float = NOW, **more: Any) -> ServiceAccountAuthenticator:
    keys = more.pop("keys", [KEY.public_key()])
    accepted = AcceptedTokens(lambda: keys, (ISSUER,), (AUDIENCE,), CLAIM, "authentication.kubernetes.io")
    return ServiceAccountAuthenticator(accepted, objects.find, lambda: now)


def issued(claims: Claims = ACCOUNT, key: PrivateKey = KEY, issuer: str = ISSUER) -> str:
    return TokenIssuer(lambda: key, issuer=issuer, claim=CLAIM).issue(claims, now=NOW)


async def shown(believer: ServiceAccountAuthenticator, token: str) -> UserInfo | None:
    claims = believer.claims(token)
    return None if claims is None else await believer.user(claims)


# ---- what is issued


def test_a_token_says_what_kubernetes_says() -> None:
    token = issued(ACCOUNT._replace(bound=(POD, NODE)))
    payload = jwt.decode(
        token, KEY.public_key(), algorithms=["ES256"], options={"verify_exp": False}, audience=AUDIENCE
    )
    assert payload == {
        "aud": [AUDIENCE, "other"],
        "exp": NOW + 3600,
        "iat": NOW,
        "iss": ISSUER,
        "jti": "id-1",
        CLAIM: {
            "namespace": "ns",
            "pod": {"name": "p", "uid": "uid-p"},
            "node": {"name": "n", "uid": "uid-n"},
            "serviceaccount": {"name": "bot", "uid": "uid-1"},
        },
        "nbf": NOW,
        "sub": "system:serviceaccount:ns:bot",
    }
    assert jwt.get_unverified_header(token)["kid"]


KEYS: Final[dict[str, Callable[[], PrivateKey]]] = {
    "P-256": lambda: KEY,
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
}


@pytest.mark.parametrize("make", KEYS.values(), ids=KEYS)
async def test_keys_of_every_kind_sign_and_prove(objects: Objects, make: Callable[[], PrivateKey]) -> None:
    key = read_private_key(pem_of(make()))
    # The keys of a file may be several; those that did not sign are passed over.
    keys = read_public_keys(public_pem_of(OTHER_KEY) + public_pem_of(key))
    user = await shown(believer(objects, keys=keys), issued(key=key))
    assert user is not None
    assert user.name == "system:serviceaccount:ns:bot"
    assert await shown(believer(objects, keys=read_public_keys(pem_of(key))), issued(key=key)) == user


def pem_of(key: Any) -> bytes:
    encoded: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return encoded


def public_pem_of(key: Any) -> bytes:
    encoded: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return encoded


CURVE_PARAMETERS: Final = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
TRADITIONAL: Final = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
)
SEVERAL: Final = {
    "a private key, then a public one": pem_of(KEY) + public_pem_of(OTHER_KEY),
    "a public key, then a private one": public_pem_of(KEY) + pem_of(OTHER_KEY),
    "private keys": pem_of(KEY) + pem_of(OTHER_KEY),
    "a private key as OpenSSL writes it, with its curve": CURVE_PARAMETERS
    + TRADITIONAL
    + public_pem_of(OTHER_KEY),
}


@pytest.mark.parametrize("pem", SEVERAL.values(), ids=SEVERAL)
def test_a_file_gives_all_its_public_keys(pem: bytes) -> None:
    """The keys of tokens that were issued before stay in it when the key to sign with is replaced."""
    assert [*map(key_id, read_public_keys(pem))] == [key_id(each.public_key()) for each in (KEY, OTHER_KEY)]


UNUSABLE: Final = {
    "nothing": b"",
    "no PEM": b"secret",
    "a broken one": b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    "a broken public one": b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
    "of a kind that signs no such tokens": pem_of(ed25519.Ed25519PrivateKey.generate()),
    "of a curve that no algorithm has": pem_of(ec.generate_private_key(ec.SECP256K1())),
}


@pytest.mark.parametrize("pem", UNUSABLE.values(), ids=UNUSABLE)
def test_what_is_no_key_is_told_at_once(pem: bytes) -> None:
    with pytest.raises(UnusableKey):
        read_public_keys(pem)
    with pytest.raises(UnusableKey):
        read_private_key(pem)


# ---- who is believed


async def test_a_good_token_shows_its_account(objects: Objects) -> None:
    """Groups and the rest: pkg/serviceaccount, UserInfo."""
    for resource, namespace, name, uid in (("pods", "ns", "p", "uid-p"), ("nodes", "", "n", "uid-n")):
        objects.add(resource, namespace, name, uid)
    assert await shown(believer(objects), issued()) == UserInfo(
        "system:serviceaccount:ns:bot",
        ("system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED),
        "uid-1",
        (("authentication.kubernetes.io/credential-id", ("JTI=id-1",)),),
    )
    user = await shown(believer(objects), issued(ACCOUNT._replace(bound=(POD, NODE))))
    assert user is not None
    assert dict(user.extra) == {
        "authentication.kubernetes.io/credential-id": ("JTI=id-1",),
        "authentication.kubernetes.io/pod-name": ("p",),
        "authentication.kubernetes.io/pod-uid": ("uid-p",),
        "authentication.kubernetes.io/node-name": ("n",),
        "authentication.kubernetes.io/node-uid": ("uid-n",),
    }


def forged(**claims: Any) -> str:
    """A token without a signature."""
    parts = ({"alg": "none"}, {"iss": ISSUER, **claims})
    return ".".join(base64.urlsafe_b64encode(orjson.dumps(p)).rstrip(b"=").decode() for p in parts) + "."


NOT_OURS: Final = {
    "no token at all": "abc",
    "dots alone": "..",
    "a head that is nested beyond all measure": (
        f"{base64.urlsafe_b64encode(b'[' * 9000).decode().rstrip('=')}.e30.AA"
    ),
    "longer than any": f"{issued()}{'A' * 20_000}",
    "letters beyond ASCII": "ä.ö.ü",
    "bytes beyond ASCII": b"\xff.\x80.\xc3".decode("utf-8", "surrogateescape"),
    "half a surrogate pair": "\ud800.a.b",
    "signed with another key": issued(key=OTHER_KEY),
    "by another issuer": issued(issuer="https://else.example"),
    "without a signature": forged(sub="system:serviceaccount:ns:bot"),
    "with another payload": ".".join(
        issued(claims).split(".")[part]
        for part, claims in enumerate((ACCOUNT, ACCOUNT._replace(namespace="kube-system"), ACCOUNT))
    ),
    "signed with the public key as a secret": jwt.encode(
        {"iss": ISSUER},
        "x" * 64,
        algorithm="HS256",
        headers={"kid": jwt.get_unverified_header(issued())["kid"]},
    ),
    "ours, but of no service account": jwt.encode({"iss": ISSUER, "aud": [AUDIENCE]}, KEY, algorithm="ES256"),
    "the subject is not who the claims name": jwt.encode(
        {
            "iss": ISSUER,
            "aud": [AUDIENCE],
            "exp": NOW + 60,
            "sub": "system:serviceaccount:ns:other",
            CLAIM: {"namespace": "ns", "serviceaccount": {"name": "bot", "uid": "uid-1"}},
        },
        KEY,
        algorithm="ES256",
    ),
    "a key that nobody can name": jwt.encode({}, KEY, algorithm="ES256", headers={"kid": "other"}),
}


# What another program that signs with the same key may put into a token, in JSON.
ABSURD_CLAIMS: Final = {
    f"{claim} is {value[:20]}": (claim, value)
    for claim, values in {
        "exp": (
            "Infinity",
            "-Infinity",
            "NaN",
            "1e999",
            "1" * 400,
            "1" * 5000,
            "true",
            "null",
            '"1"',
            "[1]",
            "{}",
        ),
        "nbf": ("Infinity", "NaN", "1" * 400, "false", "null", '"0"', "[]"),
        "aud": ("1", "[1]", "[null]", "[[]]", "{}", "null", "true", "[" * 5000 + "]" * 5000),
        "iss": ("1", "[]", "{}", "null", "[" * 5000 + "]" * 5000),
        "sub": ("1", "[]", "{}", "null", "true"),
        "jti": ("1", "[]", "{}", "null"),
        CLAIM: (
            *("1", "[]", "null", '"x"', "{}"),
            '{"namespace":["ns"],"serviceaccount":{"name":"bot"}}',
            '{"namespace":"ns","serviceaccount":{"name":["bot"]}}',
            '{"namespace":"ns","serviceaccount":{"name":"bot","uid":1}}',
            '{"namespace":"ns","serviceaccount":null}',
            '{"namespace":"ns","serviceaccount":{"name":"bot"},"pod":[]}',
            '{"namespace":"ns","serviceaccount":{"name":"bot"},"pod":{"name":{}}}',
        ),
    }.items()
    for value in values
}


@pytest.mark.parametrize(("claim", "value"), ABSURD_CLAIMS.values(), ids=ABSURD_CLAIMS)
async def test_absurd_claims_identify_nobody(objects: Objects, claim: str, value: str) -> None:
    claims = {
        "iss": f'"{ISSUER}"',
        "aud": f'"{AUDIENCE}"',
        "exp": str(NOW + 60),
        "sub": '"system:serviceaccount:ns:bot"',
        CLAIM: '{"namespace":"ns","serviceaccount":{"name":"bot","uid":"uid-1"}}',
    }
    assert await shown(believer(objects), signed(claims)) is not None
    assert await shown(believer(objects), signed({**claims, claim: value})) is None


def signed(claims: dict[str, str]) -> str:
    """Returns a token with these claims, each given as JSON."""
    payload = ",".join(f'"{name}":{value}' for name, value in claims.items())
    return jwt.PyJWS().encode(f"{{{payload}}}".encode(), KEY, algorithm="ES256")


@pytest.mark.parametrize("token", NOT_OURS.values(), ids=NOT_OURS)
async def test_others_tokens_are_others_business(objects: Objects, token: str) -> None:
    assert await shown(believer(objects), token) is None


@pytest.mark.parametrize("header", ["", "Basic YTpi", "Bearer"])
def test_no_bearer_token_is_somebody_elses_business(objects: Objects, header: str) -> None:
    assert reviewer(objects)(Credentials(NO_CERTIFICATE, header)) is None


TIMES: Final = {
    "at first": (NOW, True),
    "from a clock a little behind": (NOW - LEEWAY_S, True),
    "before its time": (NOW - LEEWAY_S - 1, False),
    "to the last": (NOW + 3600 + LEEWAY_S, True),
    "after its end": (NOW + 3600 + LEEWAY_S + 1, False),
}


@pytest.mark.parametrize(("now", "is_good"), TIMES.values(), ids=TIMES)
async def test_a_token_has_its_time(objects: Objects, now: float, is_good: bool) -> None:
    if is_good:
        assert await shown(believer(objects, now), issued()) is not None
    else:
        with pytest.raises(Unauthorized):
            await shown(believer(objects, now), issued())


async def test_a_token_that_was_believed_once_still_ends(objects: Objects) -> None:
    now = [float(NOW)]
    accepted = AcceptedTokens(lambda: [KEY.public_key()], (ISSUER,), (AUDIENCE,), CLAIM, "x")
    asked = ServiceAccountAuthenticator(accepted, objects.find, lambda: now[0])
    assert await shown(asked, issued()) is not None
    now[0] = NOW + 7200
    with pytest.raises(Unauthorized):
        await shown(asked, issued())


LONG_AGO: Final = timestamps.to_text(NOW - 3600)
# What becomes of the objects -> what a review of the token says; empty if it is still good.
GONE: Final[dict[str, tuple[Callable[[Objects], Any], str]]] = {
    "as they were": (lambda o: None, ""),
    "the account is gone": (
        lambda o: o.remove("serviceaccounts", "ns", "bot"),
        'serviceaccounts "bot" not found',
    ),
    "and another of its name came": (
        lambda o: o.add("serviceaccounts", "ns", "bot", "uid-2"),
        "service account UID (uid-2) does not match claim (uid-1)",
    ),
    "the account should have ended long ago": (
        lambda o: o.add("serviceaccounts", "ns", "bot", "uid-1", deletionTimestamp=LONG_AGO),
        "service account ns/bot has been deleted",
    ),
    "the account is so new that nobody has seen it here": (
        lambda o: o.cached.pop(("serviceaccounts", "ns", "bot")),
        "",
    ),
    "the pod is gone": (lambda o: o.remove("pods", "ns", "p"), "service account token has been invalidated"),
    "another pod of its name came": (
        lambda o: o.add("pods", "ns", "p", "uid-q"),
        "pod UID (uid-q) does not match service account pod ref claim (uid-p)",
    ),
    "the pod has just begun to end": (
        lambda o: o.add("pods", "ns", "p", "uid-p", deletionTimestamp=timestamps.to_text(NOW - 30)),
        "",
    ),
    "the pod should have ended long ago": (
        lambda o: o.add("pods", "ns", "p", "uid-p", deletionTimestamp=LONG_AGO),
        "service account token has been invalidated",
    ),
    "the pod's node is gone, which says nothing": (lambda o: o.stored.pop(("nodes", "", "n"), None), ""),
}


@pytest.mark.parametrize(("change", "why"), GONE.values(), ids=GONE)
async def test_a_token_is_as_good_as_what_it_names(
    objects: Objects, change: Callable[[Objects], Any], why: str
) -> None:
    objects.add("pods", "ns", "p", "uid-p")
    change(objects)
    token = issued(ACCOUNT._replace(bound=(POD, NODE)))
    if not why:
        assert await shown(believer(objects), token) is not None
    else:
        with pytest.raises(Unauthorized) as refusal:
            await shown(believer(objects), token)
        # The caller learns nothing; a review does.
        assert (str(refusal.value), refusal.value.why) == ("Unauthorized", why)


async def test_a_token_for_a_node_needs_the_node(objects: Objects) -> None:
    token = issued(ACCOUNT._replace(bound=(NODE,)))
    with pytest.raises(Unauthorized):
        await shown(believer(objects), token)
    objects.add("nodes", "", "n", "uid-n")
    assert await shown(believer(objects), token) is not None


# ---- tokens in Secrets

LEGACY: Final = TokenIssuer(lambda: KEY, issuer=ISSUER, claim=CLAIM).issue_legacy("ns", ACCOUNT.account, "s")
HELD: Final = {"token": base64.b64encode(LEGACY.encode()).decode()}
INVALID: Final = {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}


class Uses(TokenUses):
    """What was told of uses."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def legacy(self, namespace: str, secret: Document | None, *, is_of_account: bool) -> None:
        self.told.append((namespace, secret is not None, is_of_account))

    def invalidated(self, namespace: str, secret: Document) -> None:
        self.told.append(("invalidated", namespace, secret["metadata"]["name"]))

    def timed(self, *, is_stale: bool) -> None:
        self.told.append("stale" if is_stale else "timed")


def held(objects: Objects, secret: Document | None = None, *, looks_up: bool = True) -> tuple[Any, Uses]:
    """Returns who decides about tokens in Secrets. secret: what is changed of the Secret."""
    uses = Uses()
    if secret is not None:
        document = {"metadata": {"name": "s", "uid": "uid-s"}, "data": HELD, **secret}
        objects.stored["secrets", "ns", "s"] = objects.cached["secrets", "ns", "s"] = document
    accepted = AcceptedTokens(
        lambda: [KEY.public_key()], (ISSUER,), (AUDIENCE,), CLAIM, "authentication.kubernetes.io", looks_up
    )
    return ServiceAccountAuthenticator(accepted, objects.find, lambda: float(NOW), uses), uses


async def test_a_token_in_a_secret_is_valid_as_long_as_it_stands_there(objects: Objects) -> None:
    """Source: k8s.io/kubernetes, pkg/serviceaccount/legacy.go."""
    asked, uses = held(objects, {})
    user = await shown(asked, LEGACY)
    assert user == UserInfo(
        "system:serviceaccount:ns:bot",
        ("system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED),
        "uid-1",
    )
    assert uses.told == [("ns", True, False)]
    objects.cached["serviceaccounts", "ns", "bot"]["secrets"] = [{"name": "s"}]
    await shown(asked, LEGACY)
    assert uses.told[-1] == ("ns", True, True)
    # One that was made a moment ago is not cached yet.
    del objects.cached["secrets", "ns", "s"]
    assert await shown(asked, LEGACY) is not None


ACCOUNT_NAME: Final = ("legacy-token", "system:serviceaccount:ns:bot")


async def test_what_audit_events_tell_of_a_token_in_a_secret(objects: Objects) -> None:
    """Source: k8s.io/kubernetes, pkg/serviceaccount/{jwt,legacy}.go."""
    asked, _ = held(objects, {})
    claims = asked.claims(LEGACY)
    by_hand = await asked.identity(claims, (AUDIENCE,))
    assert by_hand.annotations == (ACCOUNT_NAME, ("legacy-token-manual-secret", "s"))
    assert by_hand.warning == ""
    objects.cached["serviceaccounts", "ns", "bot"]["secrets"] = [{"name": "s"}]
    of_account = await asked.identity(claims, (AUDIENCE,))
    assert of_account.annotations == (ACCOUNT_NAME, ("legacy-token-autogenerated-secret", "s"))
    assert of_account.warning.startswith("Use tokens from the TokenRequest API")
    unknown, _ = held(objects, {}, looks_up=False)
    assert (await unknown.identity(claims, (AUDIENCE,))).annotations == (ACCOUNT_NAME,)


async def test_what_audit_events_tell_of_a_token_that_is_refused(objects: Objects) -> None:
    """Also if others are asked about it."""
    asked, uses = held(objects, {"metadata": {"name": "s", "uid": "u", "labels": INVALID}})

    async def knows_nobody(token: str, audiences: Sequence[str]) -> Identity | None:
        return None

    everybody = BearerTokens(TokenFileAuthenticator({}), asked, [knows_nobody], [AUDIENCE])
    with pytest.raises(Unauthorized) as refused:
        await everybody.review(LEGACY, ())
    assert refused.value.annotations == (ACCOUNT_NAME, ("legacy-token-invalidated", "s/ns"))
    assert uses.told == [("invalidated", "ns", "s")]


REFUSED: Final[dict[str, tuple[Document | None, str]]] = {
    "without its Secret": (None, "Token has been invalidated"),
    "in one that is being deleted": (
        {"metadata": {"name": "s", "uid": "u", "deletionTimestamp": timestamps.to_text(NOW)}},
        "Token has been invalidated",
    ),
    "in one that has another": ({"data": {"token": "b3RoZXI="}}, "Token does not match server's copy"),
    "in one that has none": ({"data": {}}, "Token does not match server's copy"),
    "in one without data": ({"data": None}, "Token does not match server's copy"),
    "in one with something else": ({"data": {"token": "*"}}, "Token does not match server's copy"),
    "in one that is marked": (
        {"metadata": {"name": "s", "uid": "u", "labels": INVALID}},
        "the token in secret ns/s for service account ns/bot has been marked invalid",
    ),
}


@pytest.mark.parametrize(("secret", "why"), REFUSED.values(), ids=REFUSED)
async def test_tokens_in_secrets_that_are_refused(
    objects: Objects, secret: Document | None, why: str
) -> None:
    asked, _ = held(objects, secret)
    with pytest.raises(Unauthorized) as refused:
        await shown(asked, LEGACY)
    assert refused.value.why.startswith(why)


@pytest.mark.parametrize("change", ["gone", "deleted", "another"])
async def test_a_token_in_a_secret_whose_account_has_gone(objects: Objects, change: str) -> None:
    asked, _ = held(objects, {})
    objects.remove("serviceaccounts", "ns", "bot")
    if change == "deleted":
        deleted = timestamps.to_text(NOW)
        objects.add("serviceaccounts", "ns", "bot", "uid-1", deletionTimestamp=deleted)
    elif change == "another":
        objects.add("serviceaccounts", "ns", "bot", "uid-2")
    with pytest.raises(Unauthorized):
        await shown(asked, LEGACY)


async def test_without_lookup_a_token_in_a_secret_is_valid_for_ever(objects: Objects) -> None:
    objects.remove("serviceaccounts", "ns", "bot")
    asked, uses = held(objects, looks_up=False)
    assert await shown(asked, LEGACY) is not None
    assert uses.told == [("ns", False, False)]


async def test_the_issuer_of_tokens_in_secrets_issues_no_others(objects: Objects) -> None:
    """A token that says it is one of theirs, and has the claims of the others, would never be looked up."""
    asked, _ = held(objects, {})
    assert await shown(asked, issued(issuer="kubernetes/serviceaccount")) is None


async def test_uses_after_the_time_that_was_asked_for_are_told(objects: Objects) -> None:
    asked, uses = held(objects)
    for warn_after in (NOW - 1, NOW + 1):
        assert await shown(asked, issued(ACCOUNT._replace(warn_after=warn_after))) is not None
    assert uses.told == ["stale", "timed"]


async def test_audit_events_tell_for_how_long_a_token_is_older_than_was_asked_for(objects: Objects) -> None:
    asked, _ = held(objects)
    text = "subject: system:serviceaccount:ns:bot, seconds after warning threshold: 7"
    for warn_after, told in ((NOW - 7, (("stale-token", text),)), (NOW, ()), (NOW + 1, ())):
        claims = asked.claims(issued(ACCOUNT._replace(warn_after=warn_after)))
        assert (await asked.identity(claims, (AUDIENCE,))).annotations == told


# ---- asked by others: TokenReview

FILE_USER: Final = UserInfo("alice", (AUTHENTICATED,))
REVIEWS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...] | None]]] = {
    "for the server's own audiences": ((), (AUDIENCE,)),
    "for one that it is meant for": (("other",), ("other",)),
    "for several, in their order": (("other", "x", AUDIENCE), ("other", AUDIENCE)),
    "for one that it is not meant for": (("x",), None),
}


def reviewer(objects: Objects) -> BearerTokens:
    # The token "t" by its digest, as the file of tokens has it.
    digest = bytes.fromhex("e3b98a4da31a127d4bde6e43033f66ba274cab0eb7eb1c70ec41402bf6273dd8")
    return BearerTokens(TokenFileAuthenticator({digest: FILE_USER}), believer(objects), (), (AUDIENCE,))


@pytest.mark.parametrize(("asked", "expected"), REVIEWS.values(), ids=REVIEWS)
async def test_a_review_tells_the_audiences(
    objects: Objects, asked: tuple[str, ...], expected: tuple[str, ...] | None
) -> None:
    if expected is None:
        with pytest.raises(Unauthorized):
            await reviewer(objects).review(issued(), asked)
    else:
        user, audiences, *_ = await reviewer(objects).review(issued(), asked)
        assert (user.name, audiences) == ("system:serviceaccount:ns:bot", expected)


async def test_tokens_of_other_kinds_are_meant_for_the_server(objects: Objects) -> None:
    asked = reviewer(objects).review
    assert await asked("t", ()) == Identity(FILE_USER, (AUDIENCE,))
    for token, audiences in (("t", ("x",)), ("nope", ()), ("a.b.c", ())):
        with pytest.raises(Unauthorized):
            await asked(token, audiences)
