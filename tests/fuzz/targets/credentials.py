"""What callers show to say who they are: tokens, claims, subprotocols, headers, keys, certificates."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from datetime import UTC, datetime
from typing import Final

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from apiserver.auth.authn.bearer_tokens import BearerTokens
from apiserver.auth.authn.chain import NO_CERTIFICATE, Anonymous, AuthenticationChain, Credentials, Identity
from apiserver.auth.authn.client_cert import user_of
from apiserver.auth.authn.impersonation import impersonated, wanted_user
from apiserver.auth.authn.sealed_texts import NotOpened, SealedTexts
from apiserver.auth.authn.service_account import (
    AcceptedTokens,
    Claims,
    Reference,
    ServiceAccountAuthenticator,
    TokenIssuer,
)
from apiserver.auth.authn.service_account_keys import UnusableKey, read_private_key, read_public_keys
from apiserver.auth.authn.token_file import TokenFileAuthenticator, is_token_misplaced
from apiserver.auth.authn.websocket_protocols import TOKEN_PREFIX, read_protocols
from apiserver.catalogue.certificates import certificate_signing_requests as signing
from apiserver.endpoints.impersonation import is_impersonating
from apiserver.golang.pem import NoCertificate, bundle_certificates
from apiserver.meta.errors import BadRequest, Unauthorized
from apiserver.meta.vocabulary import Document, UserInfo
from tests.fuzz.target import fuzzer

# A key of its own for each run would make tokens of the corpus those of somebody else.
_KEY: Final = ec.derive_private_key(0x0F0E0D0C0B0A09080706050403020100, ec.SECP256R1())
_NOW: Final = 1_700_000_000
_ISSUER, _AUDIENCE, _CLAIM = "https://issuer.example", "https://api.example", "kubernetes.io"


async def _get(resource: str, namespace: str, name: str, is_fresh: bool) -> Document | None:
    return {"metadata": {"uid": "u"}} if name == "bot" else None


_ACCOUNTS: Final = ServiceAccountAuthenticator(
    AcceptedTokens(
        lambda: [_KEY.public_key()], (_ISSUER,), (_AUDIENCE,), _CLAIM, "authentication.kubernetes.io"
    ),
    _get,
    lambda: float(_NOW),
)
_TOKENS: Final = BearerTokens(TokenFileAuthenticator({}), _ACCOUNTS, (), (_AUDIENCE,))
_CHAIN: Final = AuthenticationChain((lambda credentials: credentials.certificate.user, _TOKENS), Anonymous())
_TOKEN: Final = TokenIssuer(lambda: _KEY, issuer=_ISSUER, claim=_CLAIM).issue(
    Claims("ns", Reference("bot", "u"), (_AUDIENCE,), _NOW + 3600, _NOW, "id"), now=_NOW
)


def _identified(authorization: str) -> UserInfo | None:
    """Returns the user; None if the credentials are refused."""

    async def identify() -> UserInfo:
        found = await _CHAIN(Credentials(NO_CERTIFICATE, authorization), "/api")
        return found.user if isinstance(found, Identity) else found

    try:
        return asyncio.run(identify())
    except Unauthorized:
        return None


@fuzzer(
    f"Bearer {_TOKEN}".encode(),
    b"bearer a.b.c",
    b"Bearer  x",
    b"Basic YTpi",
    b"Bearer \xff.\x80.\xc3",
    b"Bearer e30.e30.",
    b"",
    b"Bearer eyJhbGciOiJub25lIiwia2lkIjoxfQ.e30.AA",
    words=b"Bearer . eyJ e30 eyJhbGciOiJFUzI1NiJ9 =",
)
def bearer_tokens(data: bytes) -> None:
    """The header as aiohttp decodes it. Nobody is identified but by the token that was issued."""
    header = data.decode("utf-8", "surrogateescape")
    is_token_misplaced(header)
    user = _identified(header)
    # The signatures of each run differ, what is signed does not.
    assert user is None or user.name == "system:anonymous" or _TOKEN.split(".")[1] in header
    token = data.decode("utf-8", "replace")
    try:
        asyncio.run(_TOKENS.review(token, ()))
    except Unauthorized:
        return


_SEALED: Final = SealedTexts(bytes(32), "console-code", lambda: float(_NOW))
_SEALED_TEXT: Final = _SEALED.seal({}, _NOW + 60)


@fuzzer(
    _SEALED_TEXT.encode(),
    b"console-code.",
    b"console-code." + b"A" * 38,
    b"console-login." + _SEALED_TEXT.partition(".")[2].encode(),
    words=b"console-code. console-session. . = - _",
)
def sealed_texts(data: bytes) -> None:
    """Nothing can be opened but the text that was sealed."""
    text = data.decode("utf-8", "surrogateescape")
    with contextlib.suppress(NotOpened):
        _SEALED.open(text)
        # The nonce of each run is another. The last character has bits that do not count.
        assert text[:-1] == _SEALED_TEXT[:-1]


@fuzzer(
    b'{"iss":"https://issuer.example","aud":["https://api.example"],"exp":1700003600,"nbf":'
    b'1700000000,"jti":"id",'
    b'"kubernetes.io":{"namespace":"ns","serviceaccount":{"name":"bot","uid":"u"},"pod":{"n'
    b'ame":"bot","uid":"u"}},'
    b'"sub":"system:serviceaccount:ns:bot"}',
    words=b"iss aud exp nbf iat jti sub kubernetes.io namespace serviceaccount pod node secret name "
    b"uid https://api.example 1e999",
    is_json=True,
)
def claims(data: bytes) -> None:
    """Claims of any form, signed with the key of the cluster."""
    token = jwt.PyJWS().encode(data, _KEY, algorithm="ES256")
    user = _identified(f"Bearer {token}")
    if user is not None:
        assert all(isinstance(text, str) for text in (user.name, user.uid, *user.groups))
        assert all(isinstance(value, str) for _, values in user.extra for value in values)


@fuzzer(
    b"v1.kubernetes.io, " + TOKEN_PREFIX.encode() + b"YWJj",
    TOKEN_PREFIX.encode() + b"_-8,a",
    words=TOKEN_PREFIX.encode() + b" , YWJj =",
)
def websocket_protocols(data: bytes) -> None:
    try:
        offered = read_protocols(data.decode("utf-8", "surrogateescape").split("\n"))
    except Unauthorized:
        return
    assert offered.token.split() in ([], [offered.token])
    _identified(f"Bearer {offered.token}")


@fuzzer(
    b"Impersonate-User: a\nImpersonate-Group: b\nimpersonate-extra-a%2fb: c\nImpersonate-Uid: u",
    b"Impersonate-User: system:serviceaccount:ns:bot",
    b"Impersonate-Extra-%zz: \xff",
    words=b"Impersonate-User: Impersonate-Group: Impersonate-Uid: Impersonate-Extra- % "
    b"system:serviceaccount: system:anonymous",
)
def impersonation(data: bytes) -> None:
    pairs = [line.partition(b":")[::2] for line in data.split(b"\n")]
    assert is_impersonating(pairs) in (True, False)
    try:
        wanted = wanted_user(pairs)
    except BadRequest as error:
        error.message.encode()
        return
    if wanted is not None:
        assert impersonated(wanted).name == wanted.name != ""


_PEM: Final = _KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)


@fuzzer(
    _PEM,
    _KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ),
    b"-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n",
    words=b"-----BEGIN -----END PRIVATE PUBLIC KEY----- CERTIFICATE----- RSA EC",
)
def keys(data: bytes) -> None:
    for read in (read_private_key, read_public_keys):
        try:
            read(data)
        except UnusableKey as error:
            str(error).encode()


@fuzzer(
    b"commonName=a\norganizationName=b\norganizationName=c",
    b"commonName=\n",
    words=b"commonName= organizationName=",
)
def certificates(data: bytes) -> None:
    """Subjects, as the ssl module gives them."""
    pairs = [line.partition("=")[::2] for line in data.decode("utf-8", "replace").split("\n")]
    user = user_of({"subject": tuple(((name, value),) for name, value in pairs)})
    assert user is None or user.name


_NAME: Final = x509.Name(
    [x509.NameAttribute(NameOID.COMMON_NAME, "a"), x509.NameAttribute(NameOID.ORGANIZATION_NAME, "b")]
)
_REQUEST: Final = x509.CertificateSigningRequestBuilder().subject_name(_NAME).sign(_KEY, hashes.SHA256())
_CERTIFICATE: Final = (
    x509.CertificateBuilder()
    .subject_name(_NAME)
    .issuer_name(_NAME)
    .public_key(_KEY.public_key())
    .serial_number(1)
    .not_valid_before(datetime(2024, 1, 1, tzinfo=UTC))
    .not_valid_after(datetime(2034, 1, 1, tzinfo=UTC))
    .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    .sign(_KEY, hashes.SHA256())
)


@fuzzer(
    _REQUEST.public_bytes(serialization.Encoding.PEM),
    _CERTIFICATE.public_bytes(serialization.Encoding.PEM),
    b"-----BEGIN CERTIFICATE REQUEST-----\nA: b\n\nMAA=\n-----END CERTIFICATE REQUEST-----\n",
    words=b"-----BEGIN -----END CERTIFICATE REQUEST----- CERTIFICATE-----",
)
def signing_requests(data: bytes) -> None:
    """Requests for certificates, and the certificates that signers put into them."""
    text = base64.b64encode(data).decode()
    signing._request_problem(text).encode("utf-8", "surrogatepass")
    signing._certificate_problem(text).encode("utf-8", "surrogatepass")
    with contextlib.suppress(NoCertificate):
        bundle_certificates(data)
    for read in (read_public_keys, read_private_key):
        with contextlib.suppress(UnusableKey):
            read(data)
