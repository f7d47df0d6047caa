"""A small client of an API server, for subcommands that ask a running one with their user's rights."""

from __future__ import annotations

import base64
import http.client
import ssl
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

import orjson

from apiserver import __version__
from apiserver.cli.bounded_files import read_bounded
from apiserver.cli.limited_connection import AnswerLimits, LimitedConnection, NoAnswer, reason_of
from apiserver.cli.server_options import ServerAccess, ServerOptions
from apiserver.golang.urls import redacted_urls
from apiserver.webhooks.credentials import ClientCredentials, PemText
from apiserver.webhooks.kubeconfig import KubeconfigCluster
from apiserver.webhooks.tls import UnusableBundle, UnusableCertificate, client_context
from apiserver.wire.configuration_fields import InvalidConfiguration

TIMEOUT_S: Final = 30
PAGE: Final = 500
# A list of a million objects has fewer.
PAGES_MAX: Final = 2_500
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
_JSON: Final = "application/json"


# The user agents of all commands begin so.
USER_AGENT_PREFIX: Final = "apiserver-cli/"


def user_agent(command: str) -> str:
    """Returns the user agent of a command: `apiserver-cli/0.1.0 (deprecations)`."""
    return f"{USER_AGENT_PREFIX}{__version__} ({command})"


class RequestFailed(Exception):
    """A server could not be reached, or refused a request. status: of its response; 0 if there was none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(redacted_urls(message))
        self.status = status


class TextAnswer(NamedTuple):
    """A response that is not a document of the API. headers: by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    text: str


class ApiClient:
    """Asks the server that a command line names, on one connection.

    namespace: the context's; empty if it has none. server: the URL of the server, without a password.
    """

    def __init__(
        self,
        options: ServerOptions,
        command: str,
        timeout_s: float = TIMEOUT_S,
        bytes_max: int = ANSWER_BYTES_MAX,
    ) -> None:
        """Read the kubeconfig, and connect nowhere yet. command: for the user agent. Raises RequestFailed.

        timeout_s: how long the server may take until its answer begins, and then until it ends.
        bytes_max: how long it may be.
        """
        target, headers, context = read_access(options)
        self._headers = [("User-Agent", user_agent(command)), *headers]
        self.namespace = target.namespace
        self._source, self.server = target.source, redacted_urls(target.cluster.server)
        limits = AnswerLimits(timeout_s, timeout_s, bytes_max)
        self._connection = LimitedConnection(
            target.cluster.server, context, target.cluster.tls_server_name, limits
        )

    def close(self) -> None:
        self._connection.close()

    def get(self, path: str, query: Mapping[str, str] | None = None, accept: str = _JSON) -> Any:
        """Returns the document at a path. Raises RequestFailed."""
        return self._ask("GET", f"{path}?{urlencode(query)}" if query else path, None, accept)

    def post(self, path: str, document: Any) -> Any:
        """Post a document, and return the answer's. Raises RequestFailed."""
        return self._ask("POST", path, _body(document), _JSON)

    def put(self, path: str, document: Any) -> Any:
        """Put a document, and return the answer's. Raises RequestFailed."""
        return self._ask("PUT", path, _body(document), _JSON)

    def delete(self, path: str, options: Any = None) -> Any:
        """Delete what is at a path, and return the answer's document. Raises RequestFailed.

        options: a document of the kind DeleteOptions.
        """
        return self._ask("DELETE", path, None if options is None else _body(options), _JSON)

    def text(self, path: str) -> TextAnswer:
        """Returns the answer of a path that serves text, whatever its status. Raises RequestFailed."""
        response, content = self._exchange("GET", path, None, "text/plain, */*;q=0.1")
        headers = {name.lower(): value for name, value in response.getheaders()}
        return TextAnswer(response.status, headers, content.decode(errors="replace"))

    def items(self, path: str, page_size: int = PAGE) -> Iterator[Any]:
        """Yields the objects of a list. Raises RequestFailed."""
        query = {"limit": str(page_size)}
        for _ in range(PAGES_MAX):
            page = self.get(path, query)
            items, meta = page.get("items") or [], page.get("metadata") or {}
            if not isinstance(items, list) or not isinstance(meta, dict):
                raise RequestFailed(f"the server's response to {path} is not a list")
            yield from items
            token = meta.get("continue")
            if not token:
                return
            query["continue"] = str(token)
        raise RequestFailed(f"the server's list at {path} does not end")

    def _ask(self, method: str, path: str, body: bytes | None, accept: str) -> Any:
        response, content = self._exchange(method, path, body, accept)
        try:
            document = orjson.loads(content)
        except orjson.JSONDecodeError:
            document = None
        if response.status == HTTPStatus.UNAUTHORIZED:
            raise RequestFailed(
                f"{self.server} does not accept the credentials of {self._source}: Unauthorized",
                response.status,
            )
        fields = document if isinstance(document, dict) else {}
        if response.status >= 300:
            message = fields.get("message")
            answered = f"{response.status} {http.client.responses.get(response.status, '')}".rstrip()
            told = (
                message if isinstance(message, str) and message else f"the server responded with {answered}"
            )
            raise RequestFailed(told, response.status)
        if fields is not document:
            raise RequestFailed(f"{self.server} is not an API server: its response is not a JSON object")
        return fields

    def _exchange(
        self, method: str, path: str, body: bytes | None, accept: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        headers = [*self._headers, ("Accept", accept)]
        if body is not None:
            headers += [("Content-Type", _JSON), ("Content-Length", str(len(body)))]
        try:
            self._connection.putrequest(method, path)
            # One by one: groups of impersonation have the same name.
            for name, value in headers:
                self._connection.putheader(name, value)
            self._connection.endheaders(body)
            response = self._connection.getresponse()
            content = response.read()
        # ValueError: of a header or a path that cannot be sent.
        except (OSError, http.client.HTTPException, NoAnswer, ValueError) as error:
            self._connection.close()
            raise RequestFailed(f"the request to {self.server} failed: {reason_of(error)}") from None
        return response, content


def _body(document: Any) -> bytes:
    """Raises RequestFailed."""
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError as error:  # An argument is no Unicode.
        raise RequestFailed(f"the request cannot be sent: {error}") from None


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
    """Yields the headers with the credentials. Raises OSError, UnicodeDecodeError, InvalidConfiguration."""
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
            raise InvalidConfiguration("the token must not contain control characters")
        yield "Authorization", f"Bearer {token}"
    elif credentials.basic is not None:
        pair = ":".join(credentials.basic).encode()
        yield "Authorization", f"Basic {base64.b64encode(pair).decode()}"
