"""Tokens of OpenID providers: who they make, which are refused, and what a provider may do. Row O01.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#using-authentication-configuration
"""

from __future__ import annotations

import base64
import hmac
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import jwt
import orjson
import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from apiserver.auth.authn.identity_provider import CALLS_MAX
from tests.support.api import Answer, Api, until_status
from tests.support.eventually import until
from tests.support.kubeconfigs import kubeconfig_of_webhook
from tests.support.openid_provider import CLIENT, KEYS, RSA_KEY, OpenIdProvider
from tests.support.server_process import ServerProcess
from tests.support.webhook_server import Reply, Review, WebhookServer

WHO: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
METRICS: Final = "/metrics"
HOUR_S: Final = 3600


class TokenWebhook(WebhookServer):
    """Knows the tokens that begin with `hook-`: the rest is the user."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.asked: list[str] = []

    async def answer(self, path: str, review: Review) -> Reply:
        token = review["spec"]["token"]
        self.asked.append(token)
        status: dict[str, Any] = {"authenticated": False}
        if token.startswith("hook-"):
            user = {"username": token.removeprefix("hook-"), "groups": ["hooked"]}
            status = {"authenticated": True, "user": user, "audiences": review["spec"]["audiences"]}
        return {"kind": review["kind"], "apiVersion": review["apiVersion"], "status": status}


class Setup:
    """A server, the provider that it trusts, and the file that says so."""

    def __init__(self, provider: OpenIdProvider, server: ServerProcess, path: Path) -> None:
        self.provider, self.server, self.path = provider, server, path

    def who(self, token: str, **headers: str) -> Answer:
        with Api(self.server, token) as api:
            return api.post(
                WHO, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}, headers=headers
            )

    def name(self, token: str) -> str:
        return str(self.who(token).ok()["status"]["userInfo"]["username"])

    def review(self, token: str) -> dict[str, Any]:
        with Api(self.server) as api:
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
            status: dict[str, Any] = api.post(REVIEW, body).ok()["status"]
            return status

    def configure(self, document: dict[str, Any]) -> None:
        """Replace the file, at once."""
        new = self.path.with_suffix(".new")
        new.write_text(yaml.safe_dump(document))
        new.replace(self.path)

    def metric(self, start: str) -> float:
        with Api(self.server) as api:
            lines = api.get(METRICS).body.decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(start))


def configuration(provider: OpenIdProvider, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [
            {
                "issuer": {
                    "url": provider.issuer,
                    "certificateAuthority": provider.pki.ca_cert.read_text(),
                    "audiences": [CLIENT, "other-client"],
                    "audienceMatchPolicy": "MatchAny",
                },
                "claimMappings": {
                    "username": {"expression": "'oidc:' + claims.sub"},
                    "groups": {"expression": "claims.?roles.orValue([]).map(role, 'oidc:' + role)"},
                    "uid": {"claim": "sub"},
                    "extra": [
                        {
                            "key": "example.com/tenant",
                            "valueExpression": "claims.?example__dot__com__slash__tenant.orValue('')",
                        }
                    ],
                },
                "claimValidationRules": [
                    {
                        "expression": "claims.?hd.orValue('example.com') == 'example.com'",
                        "message": "wrong domain",
                    },
                    {
                        "expression": "!has(claims.many) || claims.many.all(a, claims.many.all(b, "
                        "claims.many.all(c, a != b || b == c || c != a)))"
                    },
                ],
                "userValidationRules": [
                    {"expression": "!user.username.startsWith('oidc:system:')", "message": "reserved"}
                ],
            }
        ],
        "anonymous": {"enabled": True, "conditions": [{"path": "/livez"}, {"path": "/readyz"}]},
        **more,
    }


@pytest.fixture(scope="module")
def webhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenWebhook]:
    with TokenWebhook(tmp_path_factory.mktemp("webhook")) as webhook:
        yield webhook


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory, webhook: TokenWebhook) -> Iterator[Setup]:
    directory = tmp_path_factory.mktemp("openid")
    path, kubeconfig = directory / "authentication.yaml", directory / "webhook.kubeconfig"
    kubeconfig_of_webhook(kubeconfig, webhook, below="review")
    flag = f"--authentication-token-webhook-config-file={kubeconfig}"
    with OpenIdProvider(directory / "provider") as provider:
        path.write_text(yaml.safe_dump(configuration(provider)))
        with ServerProcess(directory / "data", f"--authentication-config={path}", flag) as server:
            found = Setup(provider, server, path)
            until_status(201, lambda: found.who(provider.token()))
            yield found


# ---- whom tokens make


def test_claims_become_a_user(setup: Setup) -> None:
    more: dict[str, Any] = {"example.com/tenant": "red"}
    token = setup.provider.token(sub="alice", roles=["dev", "ops"], jti="t-1", **more)
    assert setup.who(token).ok()["status"]["userInfo"] == {
        "username": "oidc:alice",
        "uid": "alice",
        "groups": ["oidc:dev", "oidc:ops", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": ["JTI=t-1"], "example.com/tenant": ["red"]},
    }


def test_the_second_audience_counts_as_well(setup: Setup) -> None:
    assert setup.name(setup.provider.token(aud=["x", "other-client"])) == "oidc:alice"


def test_a_token_of_a_provider_is_reviewed_for_others(setup: Setup) -> None:
    status = setup.review(setup.provider.token())
    assert (status["authenticated"], status["user"]["username"]) == (True, "oidc:alice")
    assert status["audiences"] == ["https://kubernetes.default.svc"]


def test_the_anonymous_are_so_where_the_file_says(setup: Setup) -> None:
    with Api(setup.server, "") as nobody:
        assert [nobody.get(path).status for path in ("/livez", "/readyz", "/healthz", "/api", "//livez")] == [
            *(200, 200, 401, 401),
            401,
        ]


def test_a_webhook_is_asked_once_about_who_nobody_else_knows(setup: Setup, webhook: TokenWebhook) -> None:
    for _ in range(3):
        answer = setup.who("hook-carol").ok()["status"]["userInfo"]
        assert answer == {"username": "carol", "groups": ["hooked", "system:authenticated"]}
        assert setup.who("stranger").status == 401
    assert webhook.asked.count("hook-carol") == webhook.asked.count("stranger") == 1
    setup.who(setup.provider.token(jti="of the provider"))
    assert setup.name("alice-token") == "alice"
    assert not [token for token in webhook.asked if token == "alice-token"]


# ---- attacks


def unsigned(provider: OpenIdProvider) -> str:
    return jwt.encode(provider.claims(), "", "none", {"kid": "first"})


def signed_with_the_public_key(provider: OpenIdProvider) -> str:
    """HS256, with the public key for a secret: what a verifier accepts that lets tokens choose."""
    pem = RSA_KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    parts = [{"alg": "HS256", "typ": "JWT", "kid": "first"}, provider.claims()]
    text = b".".join(base64.urlsafe_b64encode(orjson.dumps(part)).rstrip(b"=") for part in parts)
    signature = base64.urlsafe_b64encode(hmac.digest(pem, text, sha256)).rstrip(b"=")
    return b".".join((text, signature)).decode()


def changed(provider: OpenIdProvider) -> str:
    head, _, signature = provider.token().split(".")
    payload = base64.urlsafe_b64encode(orjson.dumps(provider.claims(sub="admin"))).rstrip(b"=").decode()
    return f"{head}.{payload}.{signature}"


def with_a_critical_extension(provider: OpenIdProvider) -> str:
    return jwt.encode(provider.claims(), RSA_KEY, "RS256", {"kid": "first", "crit": ["x"], "x": 1})


STRANGER: Final = rsa.generate_private_key(65537, 2048)
ATTACKS: Final = {
    "alg none": (unsigned, ""),
    "HS256 over the public key": (signed_with_the_public_key, "unsupported algorithm"),
    "changed claims": (changed, "failed to verify signature"),
    "somebody else's key under the provider's name": (
        lambda provider: provider.token(kid="first", key=STRANGER),
        "failed to verify signature",
    ),
    "another algorithm of the same key's name": (
        lambda provider: jwt.encode(provider.claims(), RSA_KEY, "RS512", {"kid": "nobody"}),
        "failed to verify signature",
    ),
    "a critical extension": (with_a_critical_extension, "extensions"),
    "another audience": (lambda provider: provider.token(aud="somebody"), "expected audience"),
    "no audience": (lambda provider: provider.token(aud=None), "aud"),
    "expired": (lambda provider: provider.token(exp=int(time.time()) - 1), "token is expired"),
    "without an end": (lambda provider: provider.token(exp=None), "token is expired"),
    "an end that is no number": (lambda provider: provider.token(exp="9999999999"), "exp"),
    "before its time": (lambda provider: provider.token(nbf=int(time.time()) + HOUR_S), "nbf"),
    "another issuer": (lambda provider: provider.token(iss="https://other.example"), ""),
    "the issuer with a slash": (lambda provider: provider.token(iss=provider.issuer + "/"), ""),
    "a claim against the rules": (lambda provider: provider.token(hd="example.org"), "failed: wrong domain"),
    "a user against the rules": (lambda provider: provider.token(sub="system:admin"), "failed: reserved"),
    "no name": (lambda provider: provider.token(sub=None), "no such key: sub"),
    "a name that is no text": (lambda provider: provider.token(sub=7), "oidc: error evaluating username"),
    "groups that are no texts": (lambda provider: provider.token(roles=[1]), "oidc: error evaluating group"),
    "claims that make a rule explode": (
        lambda provider: provider.token(many=["x"] * 200),
        "the expressions cost too much",
    ),
    "no token": (lambda _: "x", ""),
    "two parts": (lambda provider: provider.token().rpartition(".")[0], ""),
    "four parts": (lambda provider: f"{provider.token()}.x", ""),
    "no base64": (lambda provider: provider.token().replace(".", ".*", 1), ""),
    "a deep payload": (
        lambda _: f"eyJhbGciOiJSUzI1NiJ9.{base64.urlsafe_b64encode(b'[' * 6000).decode().rstrip('=')}.x",
        "",
    ),
    "a huge token": (lambda provider: provider.token(fill="x" * 20_000), ""),
}


@pytest.mark.parametrize(("make", "why"), ATTACKS.values(), ids=ATTACKS)
def test_a_token_that_is_refused(setup: Setup, make: Any, why: str) -> None:
    token = make(setup.provider)
    answer = setup.who(token)
    assert (answer.status, answer.json["message"]) == (401, "Unauthorized")
    status = setup.review(token)
    assert "authenticated" not in status
    assert "invalid bearer token" in status["error"]
    assert why in status["error"]
    assert token not in setup.server.stderr


def test_of_two_authorization_headers_none_is_believed_more(setup: Setup) -> None:
    """The first counts, as in Go: what stands behind it is nobody's business."""
    with Api(setup.server, "") as api:
        connection = api._connect()
        connection.putrequest("GET", "/api")
        connection.putheader("Authorization", "Bearer wrong")
        connection.putheader("authorization", f"Bearer {setup.provider.token()}")
        connection.endheaders()
        with closing(connection), connection.getresponse() as response:
            assert response.status == 401


# ---- what providers do


def test_a_flood_of_unknown_keys_is_no_flood_for_the_provider(setup: Setup) -> None:
    before = setup.provider.requests[KEYS]
    for number in range(CALLS_MAX * 10):
        assert setup.who(setup.provider.token(kid=f"unknown-{number}", key=RSA_KEY)).status == 401
    # So many at once, and another one now and then.
    assert 0 <= setup.provider.requests[KEYS] - before <= CALLS_MAX + 3


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    """A server whose provider, and then its file, is changed."""
    directory = tmp_path_factory.mktemp("changing")
    path = directory / "authentication.yaml"
    with OpenIdProvider(directory / "provider") as provider:
        path.write_text(yaml.safe_dump(configuration(provider)))
        with ServerProcess(directory / "data", f"--authentication-config={path}") as server:
            found = Setup(provider, server, path)
            until_status(201, lambda: found.who(provider.token()))
            yield found


def test_keys_rotate_under_load_and_no_request_fails(changing: Setup) -> None:
    """Signed with a key that is published at the same moment; and with the former one to the end."""
    provider = changing.provider
    answered: list[int] = []
    is_over = False

    def ask(number: int) -> None:
        with Api(changing.server, "") as api:
            while not is_over:
                token = provider.token(sub=f"user-{number}", jti=str(len(answered)))
                answered.append(api.get("/api", headers={"Authorization": f"Bearer {token}"}).status)

    with ThreadPoolExecutor(4) as threads:
        asking = [threads.submit(ask, number) for number in range(4)]
        for kid in ("second", "third"):
            seen = len(answered)
            until(lambda seen=seen: len(answered) > seen + 20)  # type: ignore[misc]
            provider.rotate(kid)
        seen = len(answered)
        until(lambda: len(answered) > seen + 20)
        is_over = True
        for each in asking:
            each.result()
    assert set(answered) == {200}
    assert provider.requests[KEYS] <= 3


def test_the_file_is_read_again_when_it_changes(changing: Setup, tmp_path: Path) -> None:
    reloads = "apiserver_authentication_config_controller_automatic_reloads_total"
    old = changing.provider
    token = old.token()
    document = configuration(old)
    document["jwt"][0]["issuer"]["url"] = "http://plain.example"
    changing.configure(document)
    until(lambda: changing.metric(reloads), lambda count: count == 1)
    problem = 'jwt[0].issuer.url: Invalid value: "http://plain.example": URL scheme must be https'
    until(lambda: problem in changing.server.stderr)
    assert changing.name(token) == "oidc:alice"
    with OpenIdProvider(tmp_path / "other") as other:
        changing.configure(configuration(other, anonymous={"enabled": False}))
        until_status(201, lambda: changing.who(other.token()))
        # What was known of tokens counts no more.
        assert changing.who(token).status == 401
        with Api(changing.server, "") as nobody:
            assert nobody.get("/livez").status == 401
        assert changing.metric(reloads + "{") == 2
        assert changing.metric("apiserver_authentication_config_controller_last_config_info{") == 1
        assert (
            changing.metric("apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info{") == 1
        )
