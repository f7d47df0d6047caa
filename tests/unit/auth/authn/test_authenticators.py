"""Who asks: tokens from a file, client certificates, and the order in which proofs are looked at.

Rows O01, O02.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from multidict import CIMultiDict

from apiserver.auth.authn import client_cert
from apiserver.auth.authn.bearer_tokens import BearerTokens
from apiserver.auth.authn.chain import (
    Anonymous,
    AuthenticationChain,
    Authenticator,
    Credentials,
    PeerCertificate,
    authenticated,
)
from apiserver.auth.authn.client_cert import ClientCertificateAuthenticator
from apiserver.auth.authn.request_header import STANDARD_NAMES, RequestHeaderAuthenticator
from apiserver.auth.authn.service_account import AcceptedTokens, ServiceAccountAuthenticator
from apiserver.auth.authn.token_file import (
    CACHED_HEADERS_MAX,
    TokenFileAuthenticator,
    TokenFileError,
    bearer_token,
    read_token_file,
)
from apiserver.meta.errors import Unauthorized
from apiserver.meta.vocabulary import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, UserInfo

ALICE: Final = UserInfo("alice", (AUTHENTICATED,), "1")
BOB: Final = UserInfo("bob", ("dev", AUTHENTICATED), "2")
NOBODY: Final = UserInfo(ANONYMOUS, (UNAUTHENTICATED,))


def shown(authorization: str = "", certificate_user: UserInfo | None = None) -> Credentials:
    return Credentials(PeerCertificate(certificate_user), authorization)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.csv"
    path.write_text('a-token,alice,1\nb-token,bob,2,"dev"\n')
    return path


def bearer_tokens(path: Path) -> BearerTokens:
    """Those of a file alone."""

    async def nothing(*_: object) -> None:
        return None

    accounts = ServiceAccountAuthenticator(AcceptedTokens(list, (), (), "", ""), nothing, lambda: 0.0)
    return BearerTokens(TokenFileAuthenticator(read_token_file(path)), accounts, (), ())


@pytest.fixture
def tokens(token_file: Path) -> BearerTokens:
    return bearer_tokens(token_file)


# ---- the file

# https://kubernetes.io/docs/reference/access-authn-authz/authentication/#static-token-file
LINES: Final[dict[str, tuple[str, UserInfo]]] = {
    "three columns": ("t,alice,1", UserInfo("alice", (AUTHENTICATED,), "1")),
    "a group": ("t,alice,1,dev", UserInfo("alice", ("dev", AUTHENTICATED), "1")),
    "several groups": (
        't,alice,1,"dev,ops, qa"',
        UserInfo("alice", ("dev", "ops", "qa", AUTHENTICATED), "1"),
    ),
    "no uid": ("t,alice,", UserInfo("alice", (AUTHENTICATED,), "")),
    "no groups": ('t,alice,1,""', UserInfo("alice", (AUTHENTICATED,), "1")),
    "blanks after commas": ('t, alice, 1, "dev,ops"', UserInfo("alice", ("dev", "ops", AUTHENTICATED), "1")),
    "a comment and an empty line before": ("# who\n\nt,alice,1", UserInfo("alice", (AUTHENTICATED,), "1")),
    "line ends of another system": ("t,alice,1\r\n", UserInfo("alice", (AUTHENTICATED,), "1")),
    "further columns": ("t,alice,1,dev,more", UserInfo("alice", ("dev", AUTHENTICATED), "1")),
    "letters beyond ASCII": ("t,älice,1", UserInfo("älice", (AUTHENTICATED,), "1")),
    "the last line of a token counts": ("t,bob,2\nt,alice,1", UserInfo("alice", (AUTHENTICATED,), "1")),
}


@pytest.mark.parametrize(("text", "user"), LINES.values(), ids=LINES)
def test_lines_of_a_token_file(tmp_path: Path, text: str, user: UserInfo) -> None:
    path = tmp_path / "tokens.csv"
    path.write_bytes(text.encode())
    assert bearer_tokens(path)(shown("Bearer t")) == user


BAD_LINES: Final = {
    "two columns": "s3cret,alice",
    "a token alone": "s3cret",
    "no user": "s3cret,,1",
    "no token": ",s3cret,1",
}


@pytest.mark.parametrize("text", BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_is_told_by_its_number_and_never_shown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text(f"t,alice,1\n{text}\n")
    with pytest.raises(TokenFileError, match=r"tokens\.csv, line 2: expected token,user,uid") as caught:
        read_token_file(path)
    assert "s3cret" not in str(caught.value)


def test_a_token_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_token_file(tmp_path / "none")


@pytest.mark.parametrize(
    "content", [b"t,\xff\xfe,1\n", b"t,alice,1," + b"x" * 200_000], ids=["no UTF-8", "no line ends"]
)
def test_a_token_file_that_is_none(tmp_path: Path, content: bytes) -> None:
    """Of its form, or TokenFileError: whoever starts the server gets one clear line."""
    path = tmp_path / "tokens.csv"
    path.write_bytes(content)
    with pytest.raises(TokenFileError):
        read_token_file(path)


def test_tokens_are_not_kept_in_memory_as_they_are(token_file: Path) -> None:
    assert "a-token" not in repr(read_token_file(token_file))


# ---- bearer tokens

HEADERS: Final = {
    "a token": ("Bearer abc", "abc"),
    "schemes have no case (RFC 9110, 11.1)": ("bEARER abc", "abc"),
    "blanks around it": ("  Bearer abc ", "abc"),
    "two spaces before it, which hide it": ("Bearer  abc", ""),
    "something after it, which does not count": ("Bearer abc def", "abc"),
    "no token": ("Bearer", ""),
    "a blank token": ("Bearer  ", ""),
    "another scheme": ("Basic abc", ""),
    "a scheme that begins alike": ("Bearers abc", ""),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("header", "token"), HEADERS.values(), ids=HEADERS)
def test_bearer_tokens(header: str, token: str) -> None:
    assert bearer_token(header) == token


def test_a_known_token_is_its_user(tokens: BearerTokens) -> None:
    assert tokens(shown("Bearer a-token")) == ALICE
    assert tokens(shown("Bearer b-token")) == BOB
    assert tokens(shown("Bearer a-token")) == ALICE


@pytest.mark.parametrize("header", ["", "Basic YTpi", "Bearer", "nonsense"])
def test_no_bearer_token_is_somebody_elses_business(tokens: BearerTokens, header: str) -> None:
    assert tokens(shown(header)) is None


@pytest.mark.parametrize("token", ["A-token", "a-token2", "a-toke", "alice", "a-token,alice", "\udcff"])
def test_an_unknown_token_is_refused_every_time(tokens: BearerTokens, token: str) -> None:
    for _ in range(2):
        with pytest.raises(Unauthorized):
            tokens(shown(f"Bearer {token}"))


def test_many_headers_do_not_displace_the_truth(tokens: BearerTokens) -> None:
    """More than are remembered, known and unknown ones."""
    for number in range(CACHED_HEADERS_MAX + 10):
        assert tokens(shown("Bearer a-token" + " " * number)) == ALICE
        with pytest.raises(Unauthorized):
            tokens(shown(f"Bearer {number}"))
    assert tokens(shown("Bearer b-token")) == BOB


# ---- client certificates


def subject(*pairs: tuple[str, str]) -> dict[str, Any]:
    """As `ssl` decodes certificates: a sequence of relative names, each a sequence of attributes."""
    return {"subject": tuple((pair,) for pair in pairs), "notAfter": "Jan  1 00:00:00 2030 GMT"}


# https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates
CERTIFICATES: Final[dict[str, tuple[dict[str, Any] | None, UserInfo | None]]] = {
    "the common name is the user": (subject(("commonName", "alice")), UserInfo("alice", (AUTHENTICATED,))),
    "organizations are the groups": (
        subject(("organizationName", "dev"), ("organizationName", "ops"), ("commonName", "alice")),
        UserInfo("alice", ("dev", "ops", AUTHENTICATED)),
    ),
    "several attributes in one relative name": (
        {"subject": ((("organizationName", "dev"), ("commonName", "alice")),)},
        UserInfo("alice", ("dev", AUTHENTICATED)),
    ),
    "other attributes say nothing": (
        subject(("organizationalUnitName", "x"), ("countryName", "NL"), ("commonName", "alice")),
        UserInfo("alice", (AUTHENTICATED,)),
    ),
    # As Go's crypto/x509/pkix, Name.FillFromRDNSequence, has it.
    "of several common names the last": (
        subject(("commonName", "alice"), ("commonName", "bob")),
        UserInfo("bob", (AUTHENTICATED,)),
    ),
    "without a common name nobody": (subject(("organizationName", "dev")), None),
    "without a subject nobody": ({"subject": ()}, None),
    "an empty one is nobody's": ({}, None),
    "none": (None, None),
}


@pytest.mark.parametrize(("certificate", "user"), CERTIFICATES.values(), ids=CERTIFICATES)
def test_users_of_certificates(certificate: dict[str, Any] | None, user: UserInfo | None) -> None:
    assert client_cert.user_of(certificate) == user


def test_an_empty_common_name_is_nobody() -> None:
    """Source: k8s.io/apiserver, pkg/authentication/request/x509, CommonNameUserConversion."""
    assert client_cert.user_of(subject(("organizationName", "system:masters"), ("commonName", ""))) is None


# ---- the chain


def test_whoever_has_shown_who_they_are_is_in_one_more_group_once() -> None:
    assert authenticated("a", ["x", AUTHENTICATED, "y"]).groups == ("x", "y", AUTHENTICATED)


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        (ANONYMOUS, (UNAUTHENTICATED,)),
        (ANONYMOUS, ()),
        (ANONYMOUS, ("x",)),
        ("a", (UNAUTHENTICATED,)),
        ("a", ("x", UNAUTHENTICATED)),
    ],
)
def test_who_is_said_to_have_shown_nothing_is_in_no_other_group(name: str, groups: tuple[str, ...]) -> None:
    """Source: k8s.io/apiserver, pkg/authentication/group/authenticated_group_adder.go."""
    assert authenticated(name, groups) == UserInfo(name, groups)


def test_the_anonymous_callers_of_a_front_proxy_stay_anonymous() -> None:
    believed = RequestHeaderAuthenticator(STANDARD_NAMES, (), lambda: 0.0)
    headers = CIMultiDict([("X-Remote-User", ANONYMOUS), ("X-Remote-Group", UNAUTHENTICATED)])
    front_proxy = PeerCertificate(None, "front-proxy-client")
    assert believed(Credentials(front_proxy, "", headers)) == UserInfo(ANONYMOUS, (UNAUTHENTICATED,))


def chain(*authenticators: Authenticator, anonymous: Anonymous = Anonymous()) -> AuthenticationChain:  # noqa: B008
    return AuthenticationChain(authenticators, anonymous)


def by_certificate(now: float = 0.0) -> Authenticator:
    return ClientCertificateAuthenticator(lambda remaining_s: None, lambda: now)


REFUSED: Final = "refused"
PROVEN: Final[dict[str, tuple[PeerCertificate, UserInfo | str | None]]] = {
    "valid": (PeerCertificate(ALICE, None, True, 100.0), ALICE),
    "valid to the last": (PeerCertificate(ALICE, None, True, 50.0), ALICE),
    "expired since": (PeerCertificate(ALICE, None, True, 49.0), REFUSED),
    "its CA is not trusted any more": (PeerCertificate(None, None, False, 100.0), REFUSED),
    "good for a front proxy only": (PeerCertificate(None, "proxy", True, 100.0), REFUSED),
    "names nobody": (PeerCertificate(None, None, True, 100.0), None),
    "names nobody, and has expired": (PeerCertificate(None, None, True, 49.0), REFUSED),
}


@pytest.mark.parametrize("authorization", ["", "Bearer token"])
@pytest.mark.parametrize(("certificate", "proven"), PROVEN.values(), ids=PROVEN)
def test_a_certificate_is_judged_again_for_each_request(
    certificate: PeerCertificate, proven: UserInfo | str | None, authorization: str
) -> None:
    """As in Kubernetes: another proof may be good where the certificate is not."""
    remaining: list[float] = []
    authenticator = ClientCertificateAuthenticator(remaining.append, lambda: 50.0)
    credentials = Credentials(certificate, authorization)
    if proven == REFUSED and not authorization:
        with pytest.raises(Unauthorized):
            authenticator(credentials)
    else:
        assert authenticator(credentials) == (None if proven == REFUSED else proven)
    assert remaining == [certificate.expires_at - 50.0]


async def test_the_first_who_knows_the_caller_wins(tokens: BearerTokens) -> None:
    both = shown("Bearer b-token", certificate_user=ALICE)
    assert await chain(by_certificate(), tokens)(both, "/api") == ALICE
    assert await chain(tokens, by_certificate())(both, "/api") == BOB


async def test_one_who_knows_nothing_passes_on(tokens: BearerTokens) -> None:
    asked = chain(by_certificate(), tokens)
    assert await asked(shown("Bearer a-token"), "/api") == ALICE
    assert await asked(shown(certificate_user=BOB), "/api") == BOB


async def test_a_wrong_token_is_never_anonymous(tokens: BearerTokens) -> None:
    with pytest.raises(Unauthorized):
        await chain(tokens)(shown("Bearer wrong"), "/api")


@pytest.mark.parametrize("header", ["", "Basic YTpi", "Bearer"])
async def test_who_shows_nothing_is_anonymous_if_that_is_allowed(tokens: BearerTokens, header: str) -> None:
    assert await chain(tokens)(shown(header), "/api") == NOBODY
    with pytest.raises(Unauthorized):
        await chain(tokens, anonymous=Anonymous(is_enabled=False))(shown(header), "/api")


# https://kubernetes.io/docs/reference/access-authn-authz/authentication/#anonymous-authenticator-configuration
PATHS: Final = {
    "/livez": True,
    "/livez/": False,
    "/livez/ping": False,
    "/LIVEZ": False,
    "//livez": False,
    "/api": False,
}


@pytest.mark.parametrize(("path", "is_allowed"), PATHS.items(), ids=PATHS)
async def test_the_anonymous_may_be_so_on_some_paths_only(path: str, is_allowed: bool) -> None:
    asked = chain(anonymous=Anonymous(paths=frozenset({"/livez"})))
    if is_allowed:
        assert await asked(shown(), path) == NOBODY
    else:
        with pytest.raises(Unauthorized):
            await asked(shown(), path)


async def test_no_way_of_authentication_at_all() -> None:
    assert await chain()(shown("Bearer x"), "/api") == NOBODY
