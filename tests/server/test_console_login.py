"""Logins to the console: codes, pasted tokens, cookies, and the attacks on them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.console.json_bodies import BODY_BYTES_MAX
from apiserver.console.logins import CODE_S, PAGE_TOKEN_S, SESSION_S
from apiserver.console.revocations import CODES_BURST
from apiserver.endpoints.middleware import BURST, FAILURES_PER_S
from apiserver.meta import timestamps
from tests.server.test_audit import Log
from tests.server.test_front_proxies import FRONT_PROXY, Shown, certificate
from tests.support.api import Answer, Api
from tests.support.audit import audit_flags
from tests.support.authority import Authority
from tests.support.eventually import until
from tests.support.raw import raw_connection, read_all
from tests.support.server_process import ServerProcess

CODES: Final = "/console/login-codes"
SESSION: Final = "/console/session"
CONFIG: Final = "/console/config"
WHO: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
GUESSERS: Final = 4
GUESSING_S: Final = 1.5
OWN_PAGE: Final = {"Sec-Fetch-Site": "same-origin"}
POLICY: Final = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules: [{level: RequestResponse}]
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("console")


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[ServerProcess]:
    with ServerProcess(directory / "data", *audit_flags(directory, POLICY)) as server:
        yield server


@pytest.fixture(scope="module")
def page(server: ServerProcess) -> Iterator[Api]:
    """A page of the console, which has no credentials."""
    with Api(server, "") as page:
        yield page


@pytest.fixture(scope="module")
def carol(server: ServerProcess, directory: Path) -> Iterator[Api]:
    """A user with a client certificate, and no right."""
    pem = certificate(server.ca_path.parent, Shown("ca", "carol", "dev", ("7",)), directory / "carol.pem")
    with Api(server, "", certificate=pem) as carol:
        yield carol


def code_of(caller: Api) -> str:
    answer = caller.post(CODES, None)
    assert answer.status == 201, answer.body
    assert answer.json["expiresInSeconds"] == CODE_S
    return str(answer.json["code"])


def log_in(page: Api, body: Any, **headers: str) -> Answer:
    return page.post(SESSION, body, headers={**OWN_PAGE, **headers})


def cookie_of(answer: Answer) -> str:
    """Returns the cookie that a browser sends back."""
    return answer.headers["set-cookie"].partition(";")[0]


def user_of(caller: Api) -> Mapping[str, Any]:
    found: Mapping[str, Any] = caller.post(WHO, {}).ok()["status"]["userInfo"]
    return found


def with_token(page: Api, token: str, method: str, path: str, **headers: str) -> Answer:
    """Send a request with another token."""
    with page.as_caller(token) as caller:
        return caller.send(method, path, None if method == "GET" else {}, headers=headers)


def code_of_token(page: Api, token: str) -> str:
    with page.as_caller(token) as caller:
        return code_of(caller)


def user_of_token(page: Api, token: str) -> Mapping[str, Any]:
    with page.as_caller(token) as caller:
        return user_of(caller)


# ---- who logs in


def test_a_code_logs_in_whoever_has_a_client_certificate(page: Api, carol: Api) -> None:
    session = log_in(page, {"code": code_of(carol)}).ok()
    assert session["user"] == {"username": "carol", "groups": ["dev", "system:authenticated"]}
    assert user_of_token(page, session["token"]) == user_of(carol)
    expires_at = timestamps.from_text(session["expiresAt"])
    assert expires_at is not None
    assert 0 < expires_at - time.time() <= PAGE_TOKEN_S


def test_a_code_of_a_caller_with_a_token_is_for_this_token(page: Api, api: Api) -> None:
    session = log_in(page, {"code": code_of(api)}).ok()
    assert session == {
        "token": "admin-token",
        "user": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
        "expiresAt": None,
        "kept": False,
    }


def test_the_word_of_a_front_proxy_about_a_request_becomes_no_session(
    server: ServerProcess, page: Api, directory: Path
) -> None:
    pem = certificate(server.ca_path.parent, FRONT_PROXY, directory / "proxy.pem")
    with Api(server, "admin-token", certificate=pem) as proxy:
        answer = proxy.post(CODES, None, headers={"X-Remote-User": "bob"})
        assert (answer.status, answer.reason) == (403, "Forbidden")
        assert "front proxy" in answer.message
        # A token that it forwards without naming a user is a credential of its own.
        assert log_in(page, {"code": code_of(proxy)}).ok()["token"] == "admin-token"


def test_a_certificate_counts_more_than_a_token(server: ServerProcess, page: Api, directory: Path) -> None:
    pem = certificate(server.ca_path.parent, Shown("ca", "dave"), directory / "dave.pem")
    with Api(server, "admin-token", certificate=pem) as both:
        assert log_in(page, {"code": code_of(both)}).ok()["user"]["username"] == "dave"


def test_a_pasted_token_logs_in(page: Api) -> None:
    session = log_in(page, {"token": " alice-token\n"}).ok()
    assert (session["token"], session["user"]["username"]) == ("alice-token", "alice")


def test_a_token_of_a_service_account_ends_as_it_says(api: Api, page: Api, namespace: str) -> None:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.post(accounts, {"metadata": {"name": "robot"}}).ok()
    status = api.post(f"{accounts}/robot/token", {"spec": {"expirationSeconds": 600}}).ok()["status"]
    answer = log_in(page, {"code": code_of_token(page, status["token"])})
    session = answer.ok()
    assert (session["token"], session["expiresAt"]) == (status["token"], status["expirationTimestamp"])
    assert session["user"]["username"] == f"system:serviceaccount:{namespace}:robot"
    # Its bound object counts: also for a cookie and a code that were made before.
    code, cookie = code_of_token(page, status["token"]), cookie_of(answer)
    api.delete(f"{accounts}/robot").ok()
    assert log_in(page, {"code": code}).status == 401
    assert log_in(page, {}, Cookie=cookie).status == 401


NO_CODE: Final = {
    "without credentials": ("", {}, 401),
    "with a token that is not valid": ("nobody-token", {}, 401),
    "as an impersonated user": ("admin-token", {"Impersonate-User": "alice"}, 403),
    "from a page of another origin": ("alice-token", {"Sec-Fetch-Site": "cross-site"}, 403),
    "from a page of the same domain": ("alice-token", {"Sec-Fetch-Site": "same-site"}, 403),
}


@pytest.mark.parametrize(("token", "headers", "status"), NO_CODE.values(), ids=NO_CODE)
def test_who_gets_no_code(page: Api, token: str, headers: Mapping[str, str], status: int) -> None:
    assert with_token(page, token, "POST", CODES, **headers).status == status


def test_a_user_without_any_right_gets_a_code_for_as_much(page: Api) -> None:
    session = log_in(page, {"code": code_of_token(page, "alice-token")}).ok()
    assert with_token(page, session["token"], "GET", "/api/v1/nodes").status == 403


# ---- cookies


def test_a_cookie_logs_in_after_a_reload(page: Api, carol: Api) -> None:
    answer = log_in(page, {"code": code_of(carol)})
    name, _, attributes = answer.headers["set-cookie"].partition("=")
    port = carol.server.url.rpartition(":")[2]
    assert name == f"__Secure-console-{port}"
    assert attributes.partition("; ")[2] == "Path=/console/session; Secure; HttpOnly; SameSite=Strict"
    again = log_in(page, {}, Cookie=f"a=b; {cookie_of(answer)}; c=d")
    assert again.ok()["user"] == answer.json["user"]
    assert "set-cookie" not in again.headers
    assert again.headers["cache-control"] == "no-store"
    assert user_of_token(page, again.json["token"]) == user_of(carol)


def test_a_login_that_keeps_a_session_is_not_used_if_there_is_one(page: Api, carol: Api) -> None:
    """A link with somebody else's code logs nobody out."""
    cookie = cookie_of(log_in(page, {"token": "alice-token"}))
    proof = {"code": code_of(carol), "keepSession": True}
    kept = log_in(page, proof, Cookie=cookie)
    assert (kept.ok()["user"]["username"], kept.ok()["kept"]) == ("alice", True)
    assert "set-cookie" not in kept.headers
    # The code is still good, also after cookies that are no session.
    name = cookie.partition("=")[0]
    used = log_in(page, proof, Cookie=f"{name}=guessed")
    assert (used.ok()["user"]["username"], used.ok()["kept"]) == ("carol", False)
    assert "set-cookie" in used.headers
    assert log_in(page, proof, Cookie=f"{name}=guessed").status == 401
    assert log_in(page, {"token": "alice-token", "keepSession": True}).ok()["kept"] is False
    assert log_in(page, {"keepSession": True}, Cookie=cookie).ok()["kept"] is True
    assert log_in(page, {"keepSession": True}).status == 204


def test_logging_out_ends_the_session_with_all_copies_of_its_cookie(page: Api, carol: Api) -> None:
    first, other = (log_in(page, {"code": code_of(carol)}) for _ in range(2))
    copy = cookie_of(first)
    log_in(page, {}, Cookie=copy).ok()
    answer = page.delete(SESSION, headers={**OWN_PAGE, "Cookie": copy})
    assert (answer.status, cookie_of(answer)) == (204, f"{copy.partition('=')[0]}=")
    assert log_in(page, {}, Cookie=copy).status == 401
    log_in(page, {}, Cookie=cookie_of(other)).ok()
    # Again, and of no session, it is no error.
    for cookie in (copy, copy[:-2], f"{copy}; {cookie_of(other)}"):
        assert page.delete(SESSION, headers={**OWN_PAGE, "Cookie": cookie}).status == 204
    assert log_in(page, {}, Cookie=cookie_of(other)).status == 401


def test_logging_out_clears_the_cookie(page: Api) -> None:
    answer = page.delete(SESSION, headers=OWN_PAGE)
    assert (answer.status, answer.body) == (204, b"")
    assert cookie_of(answer).endswith("=")
    assert "Max-Age=0; Path=/console/session;" in answer.headers["set-cookie"]


def test_a_login_that_does_not_fit_into_a_cookie_replaces_that_of_another_user(
    server: ServerProcess, page: Api, directory: Path
) -> None:
    pem = certificate(server.ca_path.parent, Shown("ca", "bob", "g" * 4_000), directory / "long.pem")
    with Api(server, "", certificate=pem) as bob:
        answer = log_in(page, {"code": code_of(bob)})
    assert answer.ok()["user"]["username"] == "bob"
    assert cookie_of(answer).endswith("=")


def test_the_api_does_not_read_cookies(page: Api, carol: Api) -> None:
    cookie = {"Cookie": cookie_of(log_in(page, {"code": code_of(carol)}))}
    for path in (WHO, CODES, "/api/v1/namespaces/default/configmaps"):
        assert page.post(path, {}, headers={**OWN_PAGE, **cookie}).status in (401, 403), path
    assert page.get("/api/v1/namespaces", headers={**OWN_PAGE, **cookie}).status == 403


def test_a_session_does_not_outlast_its_login(page: Api, carol: Api) -> None:
    """A session makes no other that lasts longer: what the page has ends with it, wherever it goes."""
    first = log_in(page, {"code": code_of(carol)}).ok()
    second = log_in(page, {"code": code_of_token(page, first["token"])})
    third = log_in(page, {"token": second.ok()["token"]})
    fourth = log_in(page, {}, Cookie=cookie_of(third))
    assert {each["expiresAt"] for each in (first, second.json, third.json, fourth.ok())} == {
        first["expiresAt"]
    }


def test_a_token_review_knows_the_tokens_of_sessions(api: Api, page: Api, carol: Api) -> None:
    session = log_in(page, {"code": code_of(carol)}).ok()
    status = api.post(REVIEWS, {"spec": {"token": session["token"]}}).ok()["status"]
    assert status["authenticated"]
    assert status["user"]["username"] == "carol"
    broken = api.post(REVIEWS, {"spec": {"token": session["token"][:-2]}}).ok()["status"]
    assert not broken.get("authenticated")
    assert "console session token" in broken["error"]


# ---- attacks


def test_a_code_is_used_once(page: Api, carol: Api) -> None:
    code = code_of(carol)
    log_in(page, {"code": code}).ok()
    refused = log_in(page, {"code": code})
    assert (refused.status, refused.message) == (401, "Unauthorized")
    assert "set-cookie" not in refused.headers


def test_nothing_passes_for_something_else(page: Api, carol: Api) -> None:
    answer = log_in(page, {"code": code_of(carol)})
    texts = {"code": code_of(carol), "token": answer.json["token"], "cookie": cookie_of(answer)}
    name, _, texts["cookie"] = texts["cookie"].partition("=")
    for is_, used in itertools.permutations(texts, 2):
        text = texts[is_]
        for sent in (
            text,
            text.partition(".")[2],
            f"{texts[used].partition('.')[0]}.{text.partition('.')[2]}",
        ):
            found = (
                log_in(page, {}, Cookie=f"{name}={sent}") if used == "cookie" else log_in(page, {used: sent})
            )
            assert found.status == 401, (is_, used)
    refused = [with_token(page, texts[is_], "POST", WHO).status for is_ in ("code", "cookie")]
    assert refused == [401, 401]


FOREIGN: Final[dict[str, Mapping[str, str]]] = {
    "no page": {},
    "a page of another site": {"Sec-Fetch-Site": "cross-site"},
    "a page of the same site": {"Sec-Fetch-Site": "same-site"},
    "a page whose origin is another": {**OWN_PAGE, "Origin": "https://elsewhere.example"},
    "a page whose origin has no name": {**OWN_PAGE, "Origin": "null"},
}


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_other_pages_can_neither_log_in_nor_out(page: Api, method: str, headers: Mapping[str, str]) -> None:
    answer = page.send(method, SESSION, {"token": "alice-token"}, headers=headers)
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert "set-cookie" not in answer.headers


def test_the_origin_of_the_own_page_is_accepted(page: Api) -> None:
    log_in(page, {"token": "alice-token"}, Origin=page.server.url).ok()


MALFORMED: Final[dict[str, tuple[bytes, int]]] = {
    "no JSON": (b"{", 400),
    "nothing": (b"", 400),
    "no object": (b'["a"]', 400),
    "two ways": (b'{"token":"alice-token","code":"a"}', 400),
    "keeping, perhaps": (b'{"token":"alice-token","keepSession":"yes"}', 400),
    "keeping what there is, perhaps": (b'{"keepSession":[5]}', 400),
    "two ways, keeping": (b'{"token":"alice-token","code":"a","keepSession":true}', 400),
    "an unknown way": (b'{"password":"a"}', 400),
    "a field twice": (b'{"token":"a","token":"alice-token"}', 400),
    "a field twice, spaced": (b'{ "token" : "a", "tok\\u0065n" : "alice-token" }', 400),
    "a number": (b'{"token":1}', 400),
    "null": (b'{"token":null}', 400),
    "an empty token": (b'{"token":""}', 400),
    "a token with a line feed": (b'{"token":"a\\nb"}', 400),
    "a token that is not ASCII": ('{"token":"ä"}'.encode(), 400),
    "half of a surrogate pair": (b'{"token":"\\ud800"}', 400),
    "a token that is too long": (b'{"token":"%b"}' % (b"a" * 20_000), 400),
    "an issuer where there is none": (b'{"oidc":{"code":"a","verifier":"b","redirectURI":"c"}}', 400),
    "a long body": (b'{"token":"%b"}' % (b"a" * BODY_BYTES_MAX), 413),
    "many values": (b'{"token":[' + b"{}," * 10_000 + b"{}]}", 400),
    "deep": (b'{"token":' + b"[" * 10_000 + b"]" * 10_000 + b"}", 400),
    "a token of nobody": (b'{"token":"nobody-token"}', 401),
    "a guessed code": (b'{"code":"console-code.AAAA"}', 401),
    "a code of another form": (b'{"code":"A"}', 401),
}


@pytest.mark.parametrize(("body", "status"), MALFORMED.values(), ids=MALFORMED)
def test_how_malformed_bodies_are_refused(page: Api, body: bytes, status: int) -> None:
    answer = log_in(page, body)
    assert (answer.status, answer.json["kind"]) == (status, "Status")


CONTENT: Final[dict[str, Mapping[str, str]]] = {
    "none": {"Content-Type": ""},
    "a form": {"Content-Type": "application/x-www-form-urlencoded"},
    "text": {"Content-Type": "text/plain"},
    "YAML": {"Content-Type": "application/yaml"},
    "compressed": {"Content-Encoding": "gzip"},
}


@pytest.mark.parametrize("headers", CONTENT.values(), ids=CONTENT)
def test_bodies_of_other_types_are_refused(page: Api, headers: Mapping[str, str]) -> None:
    assert log_in(page, b'{"token":"alice-token"}', **headers).status == 415


COOKIES: Final = {
    "two of them": "{0}; {0}",
    "one without a value": "{name}=",
    "one that was cut": "{0:.60}",
}


@pytest.mark.parametrize(
    "name", ["", "__Secure-console-1"], ids=["none", "one of another server on the host"]
)
def test_without_a_cookie_there_is_no_session(page: Api, name: str) -> None:
    value = cookie_of(log_in(page, {"token": "alice-token"})).partition("=")[2]
    answer = log_in(page, {}, **({"Cookie": f"{name}={value}"} if name else {}))
    assert (answer.status, answer.body) == (204, b"")


@pytest.mark.parametrize("sent", COOKIES.values(), ids=COOKIES)
def test_cookies_that_are_refused(page: Api, sent: str) -> None:
    cookie = cookie_of(log_in(page, {"token": "alice-token"}))
    name, _, value = cookie.partition("=")
    assert log_in(page, {}, Cookie=sent.format(cookie, name=name, value=value)).status == 401


METHODS: Final = {CODES: "POST", SESSION: "POST DELETE", CONFIG: "GET HEAD"}


@pytest.mark.parametrize("path", METHODS)
def test_other_methods_are_refused(api: Api, path: str) -> None:
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - set(METHODS[path].split()):
        assert api.send(method, path, headers=OWN_PAGE).status == 405, method


def test_a_flood_of_guesses_is_slowed_down_and_keeps_nobody_from_logging_in(
    server: ServerProcess, page: Api, carol: Api
) -> None:
    enough = threading.Event()

    def guess(first: int) -> list[int]:
        with Api(server, "") as guesser:
            numbers = itertools.takewhile(lambda _: not enough.is_set(), itertools.count(first, GUESSERS))
            return [log_in(guesser, {"code": f"console-code.{number:032}"}).status for number in numbers]

    with ThreadPoolExecutor(GUESSERS) as threads:
        began = time.monotonic()
        guessing = [threads.submit(guess, number) for number in range(GUESSERS)]
        try:
            while time.monotonic() - began < GUESSING_S:
                log_in(page, {"token": "alice-token"}).ok()
            log_in(page, {"code": code_of(carol)}).ok()
        finally:
            enough.set()
        statuses = [status for each in guessing for status in each.result()]
        took_s = time.monotonic() - began
    assert set(statuses) == {401}
    assert GUESSERS < len(statuses) <= BURST + FAILURES_PER_S * took_s + GUESSERS


def test_a_user_who_uses_many_codes_keeps_nobody_else_from_logging_in(
    server: ServerProcess, page: Api, carol: Api, directory: Path
) -> None:
    pem = certificate(server.ca_path.parent, Shown("ca", "mallory"), directory / "mallory.pem")
    with Api(server, "", certificate=pem) as mallory:
        # More than are allowed while they are used: a second brings another one.
        statuses = (log_in(page, {"code": code_of(mallory)}).status for _ in itertools.count())
        used = list(itertools.takewhile(lambda status: status == 200, statuses))
        assert len(used) >= CODES_BURST
    log_in(page, {"code": code_of(carol)}).ok()


# ---- what is told


def test_the_configuration_has_nothing_secret(page: Api) -> None:
    answer = page.get(CONFIG)
    assert answer.ok() == {"readOnly": False, "oidc": None}


def test_used_codes_are_no_objects(api: Api, page: Api, carol: Api) -> None:
    log_in(page, {"code": code_of(carol)}).ok()
    listed = api.get("/api/v1/configmaps").ok()
    assert "console" not in str(listed)
    assert api.get("/readyz").status == 200


def test_logins_are_audited_without_what_is_secret(
    server: ServerProcess, page: Api, carol: Api, directory: Path
) -> None:
    log, code = Log(directory / "audit.log"), code_of(carol)
    answer = log_in(page, {"code": code}, **{"Audit-Id": "good-login"})
    refused = log_in(page, {"code": code}, **{"Audit-Id": "bad-login"})
    given = carol.post(CODES, None, headers={"Audit-Id": "gives-code"})
    (completed,) = log.of("good-login")
    assert (completed["user"]["username"], completed["stage"]) == ("carol", "ResponseComplete")
    assert completed["requestURI"] == SESSION
    assert [each["user"]["username"] for each in log.of("gives-code")] == ["carol", "carol"]
    (failed,) = [each for each in log.all() if each["auditID"] == "bad-login"]
    assert (failed["responseStatus"]["code"], failed.get("user")) == (refused.status, {})
    written = (directory / "audit.log").read_text() + server.stderr
    for secret in (code, given.json["code"], answer.json["token"], cookie_of(answer).partition("=")[2]):
        assert secret not in written
        assert secret.partition(".")[2][:40] not in written


def test_the_bounds_are_those_that_are_documented() -> None:
    assert (CODE_S, PAGE_TOKEN_S, SESSION_S) == (60, 900, 28_800)


# ---- bodies as no page sends them

CODINGS: Final = {
    "in chunks": (
        b"Transfer-Encoding: chunked\r\n",
        b'5\r\n{"tok\r\n12\r\nen":"alice-token"}\r\n0\r\n\r\n',
        200,
    ),
    "in chunks that are too long": (
        b"Transfer-Encoding: chunked\r\n",
        b"%x\r\n%b\r\n" % (BODY_BYTES_MAX + 1, b" " * (BODY_BYTES_MAX + 1)),
        413,
    ),
    "as long as the limit": (
        b"Content-Length: %d\r\n" % BODY_BYTES_MAX,
        b'{"token":"alice-token"}'.ljust(BODY_BYTES_MAX),
        200,
    ),
    "longer than the limit": (b"Content-Length: %d\r\n" % (BODY_BYTES_MAX + 1), b"", 413),
    "after being asked for": (
        b"Expect: 100-continue\r\nContent-Length: 23\r\n",
        b'{"token":"alice-token"}',
        100,
    ),
}


@pytest.mark.parametrize(("lines", "body", "status"), CODINGS.values(), ids=CODINGS)
def test_how_bodies_arrive(server: ServerProcess, lines: bytes, body: bytes, status: int) -> None:
    head = (
        b"POST /console/session HTTP/1.1\r\nHost: a\r\nConnection: close\r\nSec-Fetch-Site: same-origin\r\n"
    )
    with raw_connection(server) as connection:
        connection.sendall(b"%bContent-Type: application/json\r\n%b\r\n%b" % (head, lines, body))
        assert read_all(connection).startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize("is_of_front_proxies", [False, True], ids=["of users", "of front proxies, too"])
def test_sessions_end_when_the_ca_of_the_certificate_is_removed(
    tmp_path: Path, is_of_front_proxies: bool
) -> None:
    clients, others = Authority(tmp_path / "clients"), Authority(tmp_path / "others")
    files, pem, trusted = clients.issue("carol"), tmp_path / "carol.pem", tmp_path / "trusted.crt"
    pem.write_bytes(files.certificate.read_bytes() + files.key.read_bytes())
    trusted.write_bytes(clients.ca.read_bytes())
    flags = [f"--client-ca-file={trusted}"]
    if is_of_front_proxies:
        flags += [f"--requestheader-client-ca-file={clients.ca}", "--requestheader-allowed-names=proxy"]
    with (
        ServerProcess(tmp_path / "data", *flags) as server,
        Api(server, "", certificate=pem) as carol,
        Api(server, "") as page,
    ):
        code, answer = code_of(carol), log_in(page, {"code": code_of(carol)})
        token = answer.ok()["token"]
        assert user_of_token(page, token)["username"] == "carol"
        trusted.write_bytes(others.ca.read_bytes())
        until(lambda: with_token(page, token, "POST", WHO).status, lambda status: status == 401, "refused")
        assert log_in(page, {}, Cookie=cookie_of(answer)).status == 401
        assert log_in(page, {"code": code}).status == 401
