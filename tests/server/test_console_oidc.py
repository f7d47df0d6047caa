"""Logins to the console at an OIDC issuer: the code flow with PKCE, refreshing, and what an issuer may do."""

from __future__ import annotations

import base64
import hashlib
import itertools
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

import orjson
import pytest
from aiohttp import web

from apiserver.console.oidc_logins import REFRESH_BEFORE_S
from tests.server.test_console_login import CONFIG, OWN_PAGE, cookie_of, log_in, user_of_token
from tests.support.api import Answer, Api
from tests.support.eventually import until
from tests.support.logged_secrets import MARK
from tests.support.openid_provider import CLIENT, DISCOVERY, OpenIdProvider
from tests.support.server_process import ServerProcess

TOKEN: Final = "/token"
# Characters that a form and a header escape, too.
SECRET: Final = f"{MARK}:%+/ä"
VERIFIER: Final = "v" * 64
CHALLENGE: Final = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
SHORT_S: Final = int(REFRESH_BEFORE_S) - 10
HOUR_S: Final = 3_600


class LoginProvider(OpenIdProvider):
    """A provider at which users have logged in.

    codes: what the next token of each code claims. refresh_tokens: the same.
    instead: what is answered instead of tokens. authentications: the ways in which clients may send secrets.
    asked: the forms that were sent. challenge: that of the next code, by PKCE.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.codes: dict[str, Mapping[str, Any]] = {}
        self.refresh_tokens: dict[str, Mapping[str, Any]] = {}
        self.instead: web.Response | None = None
        self.authentications = ["client_secret_basic"]
        self.asked: list[dict[str, str]] = []
        self.challenge = CHALLENGE
        self._numbers = itertools.count(1)

    def code(self, **claims: Any) -> str:
        """Returns the code of a user who has logged in. claims: of the ID token."""
        code = f"code-{next(self._numbers)}"
        self.codes[code] = claims
        return code

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == DISCOVERY:
            return _json(
                {
                    "issuer": self.issuer,
                    "jwks_uri": f"{self.issuer}/keys",
                    "authorization_endpoint": f"{self.issuer}/authorize",
                    "token_endpoint": f"{self.issuer}{TOKEN}",
                    "scopes_supported": ["openid", "email", "offline_access", "other"],
                    "token_endpoint_auth_methods_supported": self.authentications,
                }
            )
        if request.path == TOKEN:
            return await self._tokens(request)
        return await super().handle(request)

    async def _tokens(self, request: web.BaseRequest) -> web.StreamResponse:
        form = {name: values[0] for name, values in parse_qs((await request.read()).decode()).items()}
        self.asked.append({**form, "authorization": request.headers.get("Authorization", "")})
        if self.instead is not None:
            return self.instead
        if form["grant_type"] == "refresh_token":
            claims = self.refresh_tokens.pop(form["refresh_token"], None)
        else:
            claims = self.codes.pop(form["code"], None)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != self.challenge:
                claims = None
        if claims is None:
            return _json({"error": "invalid_grant", "error_description": MARK}, 400)
        answer = {"access_token": "a", "token_type": "Bearer", "id_token": self.token(**claims)}
        if (refreshed := claims.get("refreshed")) is not None:
            answer["refresh_token"] = f"refresh-{next(self._numbers)}" + "r" * claims.get("padding", 0)
            self.refresh_tokens[answer["refresh_token"]] = refreshed
        return _json(answer)


def _json(document: Any, status: int = 200) -> web.Response:
    response = web.Response(body=orjson.dumps(document), status=status, content_type="application/json")
    # So that none is open when the loop ends.
    response.force_close()
    return response


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginProvider]:
    with LoginProvider(tmp_path_factory.mktemp("provider")) as provider:
        yield provider


def issuer_flags(provider: OpenIdProvider) -> tuple[str, ...]:
    return (
        f"--oidc-issuer-url={provider.issuer}",
        f"--oidc-client-id={CLIENT}",
        f"--oidc-ca-file={provider.pki.ca_cert}",
    )


@pytest.fixture(scope="module")
def server(provider: LoginProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("oidc")
    secret = directory / "secret"
    secret.write_text(f"{SECRET}\n")
    flag = f"--console-oidc-client-secret-file={secret}"
    with ServerProcess(directory / "data", *issuer_flags(provider), flag) as server:
        yield server


@pytest.fixture(scope="module")
def page(server: ServerProcess) -> Iterator[Api]:
    with Api(server, "") as page:
        until(lambda: page.get(CONFIG).ok()["oidc"], bool, "the issuer is found")
        yield page


@pytest.fixture(autouse=True)
def _fresh(provider: LoginProvider) -> None:
    provider.asked.clear()
    provider.instead, provider.authentications = None, ["client_secret_basic"]


def redirect_uri(page: Api) -> str:
    return f"{page.server.url}/console/"


def log_in_by(page: Api, issued: str, **more: str) -> Answer:
    fields = {"code": issued, "verifier": VERIFIER, "redirectURI": redirect_uri(page), **more}
    return log_in(page, {"oidc": fields})


def test_the_page_learns_where_users_log_in(page: Api, provider: LoginProvider) -> None:
    assert page.get(CONFIG).ok()["oidc"] == {
        "authorizationEndpoint": f"{provider.issuer}/authorize",
        "clientID": CLIENT,
        "scopes": "openid email offline_access",
    }


def test_a_code_of_the_issuer_logs_in(page: Api, provider: LoginProvider) -> None:
    session = log_in_by(page, provider.code(sub="alice")).ok()
    assert session["user"]["username"] == f"{provider.issuer}#alice"
    assert user_of_token(page, session["token"])["username"] == f"{provider.issuer}#alice"
    assert session["expiresAt"]
    (asked,) = provider.asked
    assert asked["redirect_uri"] == redirect_uri(page)
    # RFC 6749, 2.3.1: both are encoded as in a form before they are joined.
    decoded = base64.b64decode(asked["authorization"].removeprefix("Basic ")).decode()
    assert decoded == f"{CLIENT}:{MARK}%3A%25%2B%2F%C3%A4"
    assert "client_secret" not in asked


def test_a_token_without_refreshing_is_kept_in_the_cookie(page: Api, provider: LoginProvider) -> None:
    answer = log_in_by(page, provider.code())
    again = log_in(page, {}, Cookie=cookie_of(answer))
    assert again.ok()["token"] == answer.json["token"]
    assert len(provider.asked) == 1


def test_a_token_that_ends_soon_is_refreshed_and_the_cookie_replaced(
    page: Api, provider: LoginProvider
) -> None:
    ends = int(time.time()) + SHORT_S
    first = log_in_by(page, provider.code(exp=ends, refreshed={"refreshed": {}}))
    second = log_in(page, {}, Cookie=cookie_of(first))
    assert second.ok()["expiresAt"] > first.json["expiresAt"]
    assert second.json["token"] != first.json["token"]
    # The next one comes from the next refresh token, when it is needed.
    assert log_in(page, {}, Cookie=cookie_of(second)).ok()["token"] == second.json["token"]
    assert [each["grant_type"] for each in provider.asked] == ["authorization_code", "refresh_token"]
    # While the first token is valid a refresh token that is used up does no harm.
    assert log_in(page, {}, Cookie=cookie_of(first)).ok()["token"] == first.json["token"]


KEPT: Final[dict[str, tuple[Mapping[str, Any], list[str]]]] = {
    "all that fits": ({"refreshed": {}}, []),
    "the token is got again if both do not fit": (
        {"refreshed": {}, "name": "n" * 1_500, "padding": 1_000},
        ["refresh_token"],
    ),
    "the token alone if refreshing does not fit": ({"refreshed": {}, "padding": 4_000}, []),
}


@pytest.mark.parametrize(("claims", "asked"), KEPT.values(), ids=KEPT)
def test_what_the_cookie_keeps(
    page: Api, provider: LoginProvider, claims: Mapping[str, Any], asked: list[str]
) -> None:
    answer = log_in_by(page, provider.code(**claims))
    log_in(page, {}, Cookie=cookie_of(answer)).ok()
    assert [each["grant_type"] for each in provider.asked[1:]] == asked


def test_the_user_logs_in_again_if_nothing_fits(page: Api, provider: LoginProvider) -> None:
    answer = log_in_by(page, provider.code(name="n" * 4_000))
    assert answer.ok()["token"]
    assert cookie_of(answer).endswith("=")


REFUSED: Final[dict[str, tuple[Mapping[str, str], int]]] = {
    "a code that nobody got": ({"code": "guessed"}, 401),
    "another verifier": ({"verifier": "w" * 64}, 401),
    "a redirection to another server": ({"redirectURI": "https://elsewhere.example/console/"}, 400),
    "a redirection to another path": ({"redirectURI": "/console/"}, 400),
    "an unknown field": ({"secret": "a"}, 400),
    "an empty code": ({"code": ""}, 400),
}


@pytest.mark.parametrize(("changed", "status"), REFUSED.values(), ids=REFUSED)
def test_who_is_refused(page: Api, provider: LoginProvider, changed: Mapping[str, str], status: int) -> None:
    answer = log_in_by(page, provider.code(), **changed)
    assert answer.status == status
    assert MARK not in answer.body.decode()


def test_a_code_of_the_issuer_works_once(page: Api, provider: LoginProvider) -> None:
    code = provider.code()
    log_in_by(page, code).ok()
    assert log_in_by(page, code).status == 401


NOT_ACCEPTED: Final[dict[str, Mapping[str, Any]]] = {
    "for another audience": {"aud": "other"},
    "that has expired": {"exp": 1},
    "of another issuer": {"iss": "https://elsewhere.example"},
    "without a user": {"sub": None},
}


@pytest.mark.parametrize("claims", NOT_ACCEPTED.values(), ids=NOT_ACCEPTED)
def test_an_id_token_that_the_api_does_not_accept(
    server: ServerProcess, page: Api, provider: LoginProvider, claims: Mapping[str, Any]
) -> None:
    answer = log_in_by(page, provider.code(**claims))
    assert (answer.status, answer.message) == (401, "Unauthorized")
    assert "set-cookie" not in answer.headers


INSTEAD: Final[dict[str, tuple[bytes, int, int]]] = {
    "it has an error of its own": (b"{}", 500, 503),
    "it knows this server no more": (b'{"error":"invalid_client"}', 401, 401),
    "its error is no text": (b'{"error":["\\n"]}', 400, 401),
    "it redirects": (b"", 307, 503),
    "it sends no JSON": (b"<html>", 200, 401),
    "it sends a list": (b"[]", 200, 401),
    "it sends no ID token": (b'{"access_token":"a"}', 200, 401),
    "its ID token is a number": (b'{"id_token":1}', 200, 401),
    "its ID token is no token": (b'{"id_token":"a b"}', 200, 400),
    "its ID token is too long": (b'{"id_token":"%b"}' % (b"a" * 20_000), 200, 401),
    "its answer is too long": (b" " * (1024 * 1024 + 1), 200, 503),
}


@pytest.mark.parametrize(("body", "status", "expected"), INSTEAD.values(), ids=INSTEAD)
def test_what_an_issuer_may_do(
    page: Api, provider: LoginProvider, body: bytes, status: int, expected: int
) -> None:
    provider.instead = web.Response(
        body=body, status=status, headers={"Location": f"{provider.issuer}{TOKEN}"}
    )
    provider.instead.force_close()
    assert log_in_by(page, provider.code()).status == expected
    assert len(provider.asked) == 1


def test_what_is_logged_has_no_secret(server: ServerProcess, page: Api, provider: LoginProvider) -> None:
    """That of the server is looked for when it ends."""
    log_in_by(page, "guessed")
    log_in_by(page, provider.code(aud="other"))
    log = until(lambda: server.stderr, lambda text: "is not accepted" in text, "the reason is logged")
    assert "responds with 400 invalid_grant" in log


# ---- other configurations


def test_a_public_client_sends_its_id_and_few_of_many_codes(provider: LoginProvider, tmp_path: Path) -> None:
    flags = (
        "--console-oidc-client-id=the-page",
        "--console-oidc-scopes=openid,groups",
        "--console-read-only",
        "--anonymous-auth=false",  # Logins are for those who are nobody yet.
    )
    with ServerProcess(tmp_path / "data", *issuer_flags(provider), *flags) as server, Api(server, "") as page:
        until(lambda: page.get(CONFIG).ok()["oidc"], bool, "the issuer is found")
        told = page.get(CONFIG).ok()
        assert (told["readOnly"], told["oidc"]["clientID"], told["oidc"]["scopes"]) == (
            True,
            "the-page",
            "openid groups",
        )
        log_in_by(page, provider.code()).ok()
        (asked,) = provider.asked
        assert (asked["client_id"], asked["authorization"]) == ("the-page", "")
        # Anybody can send codes. Most of a flood does not reach the issuer.
        statuses = [log_in_by(page, "guessed").status for _ in range(60)]
        assert set(statuses) == {401, 429}
        assert len(provider.asked) <= statuses.count(401) + 1


def test_a_secret_may_go_into_the_form(provider: LoginProvider, tmp_path: Path) -> None:
    provider.authentications = ["client_secret_post"]
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    flag = f"--console-oidc-client-secret-file={secret}"
    with ServerProcess(tmp_path / "data", *issuer_flags(provider), flag) as server, Api(server, "") as page:
        until(lambda: page.get(CONFIG).ok()["oidc"], bool, "the issuer is found")
        log_in_by(page, provider.code()).ok()
        (asked,) = provider.asked
        assert (asked["client_id"], asked["client_secret"]) == (CLIENT, SECRET)
        assert asked["authorization"] == ""


def test_an_issuer_that_nobody_can_log_in_at_is_not_offered(tmp_path: Path) -> None:
    """Issuers of machines have no endpoint for it."""
    with (
        OpenIdProvider(tmp_path / "provider") as provider,
        ServerProcess(tmp_path / "data", *issuer_flags(provider)) as server,
        Api(server) as api,
    ):
        until(lambda: provider.requests["/keys"], bool, "the issuer is found")
        assert api.get(CONFIG).ok()["oidc"] is None
        fields = {"code": "a", "verifier": "b", "redirectURI": redirect_uri(api)}
        assert api.post("/console/session", {"oidc": fields}, headers=OWN_PAGE).status == 503


SECRETS: Final = {"that is missing": None, "that is empty": b"\n", "that is not UTF-8": b"\xff"}


@pytest.mark.parametrize("content", SECRETS.values(), ids=SECRETS)
def test_a_secret_that_prevents_the_start(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    refused = ServerProcess(tmp_path / "data", f"--console-oidc-client-secret-file={path}").refusal()
    assert refused.code == 1
    assert "--console-oidc-client-secret-file" in refused.stderr.splitlines()[-1]
