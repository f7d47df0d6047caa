"""The client of the server that functions of extensions get as their parameter `api`.

    async def place(order, api):
        pods = await api.list("pods", order["metadata"]["namespace"], labels={"app": "shop"})

Async functions get an `AsyncApi`. Other functions get an `Api` with the same methods, which wait for the
server. Both send requests over HTTPS as the user `system:extension:NAME`, who may do everything. No request
takes longer than its function may. No request is repeated: a conflict is an error, which the function
handles.
"""

from __future__ import annotations

import abc
import importlib
import select
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar
from urllib.parse import urlsplit

from apiserver.extensions.api_requests import (
    ApiRequest,
    ApiResponse,
    Discovery,
    Object,
    ObjectName,
    Objects,
    Operations,
    Selector,
    Steps,
)
from apiserver.extensions.errors import ApiError
from apiserver.extensions.hooks import Mode

if TYPE_CHECKING:
    import http.client

    import aiohttp

ObjectResult = TypeVar("ObjectResult")
ListResult = TypeVar("ListResult")


def import_client(mode: Mode) -> None:
    """Import the library that a client uses, which takes longer than many functions may take."""
    importlib.import_module("aiohttp" if mode is Mode.TASK else "http.client")


class ApiAccess:
    """How the functions of an extension reach the server, with the connections that they share.

    Functions that are not async have one connection for each thread.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        """document: the URL, the CA as PEM, the token, and the field manager, as the server sends them."""
        self._discovery = Discovery()
        self._context: ssl.SSLContext | None = None
        self._local = threading.local()
        self._connections: list[http.client.HTTPSConnection] = []
        self._session: aiohttp.ClientSession | None = None
        self.update(document)

    def update(self, document: Mapping[str, Any]) -> None:
        """Use a new access for connections that are made from now on."""
        self._document, self._context = document, None

    def client(self, mode: Mode, ends_at: float) -> ApiClient:
        """Returns a client for one call of a function. ends_at: when that ends, by `time.monotonic`."""
        return AsyncApi(self, ends_at) if mode is Mode.TASK else Api(self, ends_at)

    async def close(self) -> None:
        """Close the connections. No function must run any more."""
        for connection in self._connections:
            connection.close()
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def operations(self) -> Operations:
        return Operations(self._discovery, self._document["fieldManager"])

    @property
    def _tls(self) -> ssl.SSLContext:
        """The TLS settings, made when they are first needed, as many functions send no requests."""
        context = self._context
        if context is None:
            context = ssl.create_default_context(cadata=self._document["ca"])
            # The address is the server's own on this machine; a certificate of the user may not name it.
            context.check_hostname = False
            self._context = context
        return context

    # ---- requests

    def send(self, request: ApiRequest, ends_at: float) -> ApiResponse:
        """Send a request over the connection of this thread. Raises ApiError."""
        import http.client

        connection = self._connection()
        try:
            timeout_s = _left_s(ends_at)
            if connection.sock is not None and _is_closed(connection.sock):
                self._drop(connection)
                connection = self._connection()
            if connection.sock is not None:
                connection.sock.settimeout(timeout_s)
            connection.timeout = timeout_s
            connection.request(request.method, request.path, request.body, self._headers_of(request))
            stream, response, body = connection.sock, connection.getresponse(), bytearray()
            while piece := response.read1():
                body += piece
                stream.settimeout(_left_s(ends_at))
            if response.length:
                raise http.client.IncompleteRead(bytes(body), response.length)
            response.close()
            return ApiResponse(response.status, bytes(body))
        except (OSError, http.client.HTTPException) as error:
            self._drop(connection)
            raise _unanswered(request, error) from error

    async def send_async(self, request: ApiRequest, ends_at: float) -> ApiResponse:
        """Send a request on the event loop. Raises ApiError."""
        import aiohttp
        from yarl import URL

        if self._session is None:
            self._session = aiohttp.ClientSession()
        try:
            async with self._session.request(
                request.method,
                URL(self._document["url"] + request.path, encoded=True),
                data=request.body,
                headers=self._headers_of(request),
                ssl=self._tls,
                timeout=aiohttp.ClientTimeout(total=_left_s(ends_at)),
            ) as response:
                return ApiResponse(response.status, await response.read())
        except (OSError, aiohttp.ClientError) as error:
            raise _unanswered(request, error) from error

    def _headers_of(self, request: ApiRequest) -> Mapping[str, str]:
        return {
            "Authorization": f"Bearer {self._document['token']}",
            "User-Agent": self._document["fieldManager"],
            "Accept": request.accept,
            "Accept-Encoding": "identity",  # Compression costs more than it saves on one machine.
            "Content-Type": request.content_type,
        }

    def _connection(self) -> http.client.HTTPSConnection:
        import http.client

        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            address = urlsplit(self._document["url"])
            assert address.hostname is not None
            connection = http.client.HTTPSConnection(address.hostname, address.port, context=self._tls)
            self._local.connection = connection
            self._connections.append(connection)
        return connection

    def _drop(self, connection: http.client.HTTPSConnection) -> None:
        """Close the connection of this thread. The next one uses the access as it is then."""
        connection.close()
        self._connections.remove(connection)
        self._local.connection = None


def _left_s(ends_at: float) -> float:
    """Returns how many seconds are left. Raises TimeoutError."""
    left_s = ends_at - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the time of the function is over")
    return left_s


def _is_closed(connection: socket.socket) -> bool:
    """Returns whether the server has closed an idle connection: there is something to read, its end."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _unanswered(request: ApiRequest, error: Exception) -> ApiError:
    why = str(error) or type(error).__name__
    return ApiError(0, {"message": f"no response to {request.method} {request.path}: {why}"})


class _Client(abc.ABC, Generic[ObjectResult, ListResult]):
    """The methods of both clients."""

    def __init__(self, access: ApiAccess, ends_at: float) -> None:
        self._access, self._ends_at = access, ends_at

    @abc.abstractmethod
    def _run(self, steps: Steps[Any]) -> Any: ...

    def get(self, resource: str, name: str, namespace: str = "") -> ObjectResult:
        """Returns an object. Raises NotFound.

        resource: as in kubectl, such as "pods", "deployments.apps" or "orders.v1.shop.example.com"; with a
            subresource after a slash, such as "deployments.apps/scale".
        namespace: of a resource that has namespaces.
        """
        return self._result(self._access.operations.get(ObjectName(resource, name, namespace)))

    def list(
        self, resource: str, namespace: str = "", *, labels: Selector = "", fields: Selector = ""
    ) -> ListResult:
        """Returns the objects of a namespace; by default, those of all namespaces.

        labels, fields: which objects, as a selector like "app=shop,tier!=web", or as a mapping of values.
        """
        target = ObjectName(resource, namespace=namespace)
        result: ListResult = self._run(self._access.operations.list(target, labels, fields))
        return result

    def create(
        self, resource: str, document: Mapping[str, Any], namespace: str = "", *, dry_run: bool = False
    ) -> ObjectResult:
        """Create an object, and return it as stored. Raises Conflict if it exists.

        document: the object, whose apiVersion and kind may be missing. namespace: by default, that of the
            object.
        dry_run: whether nothing is stored.
        """
        operation = self._access.operations.create
        return self._result(operation(resource, document, namespace, dry_run=dry_run))

    def update(
        self, resource: str, document: Mapping[str, Any], namespace: str = "", *, dry_run: bool = False
    ) -> ObjectResult:
        """Replace an object, and return it as stored. Raises NotFound, and Conflict if it has changed since
        it was read.
        """
        operation = self._access.operations.update
        return self._result(operation(resource, document, namespace, dry_run=dry_run))

    def update_status(
        self, resource: str, document: Mapping[str, Any], namespace: str = "", *, dry_run: bool = False
    ) -> ObjectResult:
        """Replace the status of an object, as `update` replaces the rest."""
        return self.update(f"{resource}/status", document, namespace, dry_run=dry_run)

    def apply(
        self, resource: str, document: Mapping[str, Any], namespace: str = "", *, dry_run: bool = False
    ) -> ObjectResult:
        """Apply an object on the server, and return it as stored. It is created if it does not exist.

        The field manager is `extension-NAME`; it takes over fields of other managers.
        """
        operation = self._access.operations.apply
        return self._result(operation(resource, document, namespace, dry_run=dry_run))

    def patch(
        self,
        resource: str,
        name: str,
        patch: Mapping[str, Any] | Sequence[Any],
        namespace: str = "",
        *,
        patch_type: str = "",
        dry_run: bool = False,
    ) -> ObjectResult:
        """Patch an object, and return it as stored. Raises NotFound.

        patch_type: "merge", "json" or "strategic"; by default "json" for a list, and "merge" for others.
        """
        target = ObjectName(resource, name, namespace)
        patch_type = patch_type or ("json" if isinstance(patch, list | tuple) else "merge")
        return self._result(self._access.operations.patch(target, patch, patch_type, dry_run=dry_run))

    def delete(
        self,
        resource: str,
        name: str,
        namespace: str = "",
        *,
        propagation: str = "",
        preconditions: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> ObjectResult:
        """Delete an object. Returns the object if its deletion has only begun, and otherwise a Status.
        Raises NotFound.

        propagation: what happens to its dependents: "Background", "Foreground" or "Orphan".
        preconditions: the uid or the resourceVersion that the object must have.
        """
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if dry_run:
            options["dryRun"] = ["All"]
        if propagation:
            options["propagationPolicy"] = propagation
        if preconditions:
            options["preconditions"] = dict(preconditions)
        target = ObjectName(resource, name, namespace)
        return self._result(self._access.operations.delete(target, options))

    def _result(self, steps: Steps[Object]) -> ObjectResult:
        result: ObjectResult = self._run(steps)
        return result


class Api(_Client[Object, Objects]):
    """A client of the server for functions that are not async.

    All methods raise ApiError; NotFound and Conflict are its subclasses.
    """

    def _run(self, steps: Steps[Any]) -> Any:
        try:
            request = next(steps)
            while True:
                request = steps.send(self._access.send(request, self._ends_at))
        except StopIteration as end:
            return end.value


class AsyncApi(_Client[Awaitable[Object], Awaitable[Objects]]):
    """A client of the server for async functions: the results of all methods are to be awaited.

    All methods raise ApiError; NotFound and Conflict are its subclasses.
    """

    async def _run(self, steps: Steps[Any]) -> Any:
        try:
            request = next(steps)
            while True:
                request = steps.send(await self._access.send_async(request, self._ends_at))
        except StopIteration as end:
            return end.value


ApiClient: TypeAlias = Api | AsyncApi
