"""A small client of an API server, for subcommands that ask a running one with their user's rights."""

from __future__ import annotations

import base64
import http.client
import ssl
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import orjson

from apiserver import __version__
from apiserver.cli.server_options import ServerAccess, ServerOptions, read_bounded
from apiserver.webhooks.credentials import ClientCredentials, PemText
from apiserver.webhooks.kubeconfig import KubeconfigCluster
from apiserver.webhooks.tls import UnusableBundle, UnusableCertificate, client_context
from apiserver.wire.configuration_fields import InvalidConfiguration

TIMEOUT_S: Final = 30
PAGE: Final = 500
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
_JSON: Final = "application/json"


# The user agents of all commands begin so.
USER_AGENT_PREFIX: Final = "apiserver-cli/"


def user_agent(command: str) -> str:
    """Returns the user agent of a command: `apiserver-cli/0.1.0 (deprecations)`."""
    return f"{USER_AGENT_PREFIX}{__version__} ({command})"


class RequestFailed(Exception):
    """The server could not be asked, or has refused. status: of its answer; 0 if there was none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ApiClient:
    """Asks the server that a command line names, on one connection.

    namespace: the context's; empty if it has none.
    """

    def __init__(self, options: ServerOptions, command: str) -> None:
        """Read the kubeconfig, and connect nowhere yet. command: for the user agent. Raises RequestFailed."""
        target, headers, context = read_access(options)
        self._headers = [("User-Agent", user_agent(command)), *headers]
        self.namespace = target.namespace
        self._source, self._server = target.source, target.cluster.server
        self._prefix = urlsplit(self._server).path.rstrip("/")
        self._connection = _Connection(target.cluster, context)

    def close(self) -> None:
        self._connection.close()

    def get(self, path: str, query: Mapping[str, str] | None = None, accept: str = _JSON) -> Any:
        """Returns the document at a path. Raises RequestFailed."""
        return self._ask("GET", f"{path}?{urlencode(query)}" if query else path, None, accept)

    def post(self, path: str, document: Any) -> Any:
        """Post a document, and return the answer's. Raises RequestFailed."""
        try:
            body = orjson.dumps(document)
        except orjson.JSONEncodeError as error:  # An argument is no Unicode.
            raise RequestFailed(f"what was given cannot be sent: {error}") from None
        return self._ask("POST", path, body, _JSON)

    def delete(self, path: str) -> Any:
        """Delete what is at a path, and return the answer's document. Raises RequestFailed."""
        return self._ask("DELETE", path, None, _JSON)

    def items(self, path: str) -> Iterator[Any]:
        """Yields the objects of a list. Raises RequestFailed."""
        query = {"limit": str(PAGE)}
        while True:
            page = self.get(path, query)
            items, meta = page.get("items") or [], page.get("metadata") or {}
            if not isinstance(items, list) or not isinstance(meta, dict):
                raise RequestFailed(f"the server's answer to {path} is no list")
            yield from items
            token = meta.get("continue")
            if not token:
                return
            query["continue"] = str(token)

    def _ask(self, method: str, path: str, body: bytes | None, accept: str) -> Any:
        headers = [*self._headers, ("Accept", accept)]
        if body is not None:
            headers += [("Content-Type", _JSON), ("Content-Length", str(len(body)))]
        try:
            self._connection.putrequest(method, self._prefix + path)
            # One by one: groups of impersonation have the same name.
            for name, value in headers:
                self._connection.putheader(name, value)
            self._connection.endheaders(body)
            response = self._connection.getresponse()
            content = response.read(ANSWER_BYTES_MAX + 1)
        # ValueError: of a header or a path that cannot be sent.
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._connection.close()
            raise RequestFailed(f"{self._server} cannot be asked: {reason_of(error)}") from None
        if len(content) > ANSWER_BYTES_MAX:
            raise RequestFailed("the server's answer is too long")
        try:
            document = orjson.loads(content)
        except orjson.JSONDecodeError:
            document = None
        if response.status == HTTPStatus.UNAUTHORIZED:
            raise RequestFailed(
                f"{self._server} does not accept the credentials of {self._source}: Unauthorized",
                response.status,
            )
        if response.status >= 300 or not isinstance(document, dict):
            message = document.get("message") if isinstance(document, dict) else None
            raise RequestFailed(message or f"the server has answered {response.status}", response.status)
        return document


def read_access(options: ServerOptions) -> tuple[ServerAccess, list[tuple[str, str]], ssl.SSLContext]:
    """Reads the files that options name.

    Returns the server, and the headers with credentials and the TLS context for requests to it.
    Raises RequestFailed.
    """
    try:
        target = options.target()
    except OSError as error:
        raise RequestFailed(f"{error.filename}: {error.strerror or error}") from None
    except InvalidConfiguration as error:
        raise RequestFailed(str(error)) from None
    try:
        headers = list(_headers(target.credentials))
        context = tls_context(target.cluster, target.credentials, is_verified=target.is_verified)
    except OSError as error:
        raise RequestFailed(f"{error.filename or target.source}: {error.strerror or error}") from None
    except InvalidConfiguration as error:
        raise RequestFailed(f"{target.source}: {error}") from None
    except (UnusableBundle, UnusableCertificate, UnicodeDecodeError) as error:
        raise RequestFailed(f"{target.source}: {error}") from None
    return target, headers, context


class _Connection(http.client.HTTPSConnection):
    """Expects the certificate of the name that a kubeconfig says, which may be another than the host's."""

    def __init__(self, cluster: KubeconfigCluster, context: ssl.SSLContext) -> None:
        url = urlsplit(cluster.server)
        assert url.hostname is not None
        super().__init__(url.hostname, url.port or 443, context=context, timeout=TIMEOUT_S)
        self._tls, self._name = context, cluster.tls_server_name or url.hostname

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def reason_of(error: Exception) -> str:
    """Returns why a server has not answered, in a few words."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message}"
        case ssl.SSLError():
            return error.reason or str(error)
        case OSError():
            return error.strerror or str(error)
        case http.client.BadStatusLine():
            return "its answer is not HTTP"
        case _:
            return str(error) or type(error).__name__


def segment(name: str) -> str:
    """Returns a name, escaped for a path."""
    return quote(name, safe="", errors="surrogateescape")


def tls_context(
    cluster: KubeconfigCluster, credentials: ClientCredentials, *, is_verified: bool = True
) -> ssl.SSLContext:
    """Returns the TLS context for connections to a server.

    is_verified: whether the server's certificate is. Raises OSError, UnusableBundle, UnusableCertificate.
    """
    authorities = cluster.authorities if is_verified else None
    bundle = _pem(authorities) if authorities is not None else b""
    certificate = None
    if credentials.certificate is not None:
        shown, key = credentials.certificate
        certificate = _pem(shown), _pem(key)
    context = client_context(base64.b64encode(bundle).decode(), certificate)
    if not is_verified:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _pem(source: PemText) -> bytes:
    return source.text if source.path is None else read_bounded(source.path)


def _headers(credentials: ClientCredentials) -> Iterator[tuple[str, str]]:
    """Yields the headers that tell who asks. Raises OSError, UnicodeDecodeError, InvalidConfiguration."""
    yield from credentials.headers
    token = credentials.token
    if credentials.token_file is not None:
        try:
            token = read_bounded(credentials.token_file).decode().strip()
        except OSError:
            if not token:
                raise
    if token:
        if not token.isprintable():
            # Else an error of the library would show it.
            raise InvalidConfiguration("the token must not have control characters")
        yield "Authorization", f"Bearer {token}"
    elif credentials.basic is not None:
        pair = ":".join(credentials.basic).encode()
        yield "Authorization", f"Basic {base64.b64encode(pair).decode()}"
