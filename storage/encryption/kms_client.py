"""Calls a KMS plugin over its socket."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Final, NamedTuple, Protocol, TypeVar

from google.protobuf.message import Message

from apiserver.storage.encryption import kms_pb2 as pb
from apiserver.storage.encryption.chains import OK
from apiserver.storage.grpc_library import grpc

_Response = TypeVar("_Response", bound=Message)

_SERVICE: Final = "/v2.KeyManagementService/"
RECONNECT_FIRST_MS: Final = 100
# A plugin that has started is found within a second.
RECONNECT_MAX_MS: Final = 1_000
_OPTIONS: Final = [
    ("grpc.default_authority", "localhost"),
    ("grpc.initial_reconnect_backoff_ms", RECONNECT_FIRST_MS),
    ("grpc.min_reconnect_backoff_ms", RECONNECT_FIRST_MS),
    ("grpc.max_reconnect_backoff_ms", RECONNECT_MAX_MS),
    # A socket has no proxy.
    ("grpc.enable_http_proxy", 0),
]
# A plugin's message about a failure is part of errors; longer texts are truncated.
DETAIL_LENGTH_MAX: Final = 512
_NO_ANSWER: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


class PluginFailed(Exception):
    """A call of a KMS plugin has failed.

    code: that of gRPC, by its name in Go. is_unreachable: whether the plugin did not respond.
    """

    def __init__(self, code: str, detail: str, *, is_unreachable: bool) -> None:
        super().__init__(f"rpc error: code = {code} desc = {detail[:DETAIL_LENGTH_MAX]}")
        self.code, self.is_unreachable = code, is_unreachable


class PluginStatus(NamedTuple):
    version: str
    healthz: str
    key_id: str


class EncryptedKey(NamedTuple):
    """A key encrypted by a plugin. key_id: that of the plugin's own key."""

    ciphertext: bytes
    key_id: str
    annotations: Mapping[str, bytes]


class KmsPlugin(Protocol):
    """A KMS plugin, whose methods all raise PluginFailed.

    uid: identifies the call in the logs of both sides.
    """

    async def status(self) -> PluginStatus: ...

    async def encrypt(self, plaintext: bytes, uid: str) -> EncryptedKey: ...

    async def decrypt(self, sealed: EncryptedKey, uid: str) -> bytes: ...

    async def close(self) -> None: ...


class CallObserver(Protocol):
    """Counts the calls of a plugin by name and code."""

    def __call__(self, provider: str, method: str, code: str, duration_s: float) -> None: ...


class KmsClient:
    """Calls the plugin at a socket, connecting at the first call, and again when necessary."""

    def __init__(self, name: str, socket: str, timeout_s: float, observe: CallObserver) -> None:
        """socket: its path, or the name of an abstract one after an `@`."""
        self._name = name
        self._timeout_s = timeout_s
        self._observe = observe
        address = f"unix-abstract:{socket[1:]}" if socket.startswith("@") else f"unix:{socket}"
        self._channel = grpc.aio.insecure_channel(address, options=_OPTIONS)

    async def status(self) -> PluginStatus:
        response = await self._call("Status", pb.StatusRequest(), pb.StatusResponse)
        return PluginStatus(response.version, response.healthz, response.key_id)

    async def encrypt(self, plaintext: bytes, uid: str) -> EncryptedKey:
        request = pb.EncryptRequest(plaintext=plaintext, uid=uid)
        response = await self._call("Encrypt", request, pb.EncryptResponse)
        return EncryptedKey(response.ciphertext, response.key_id, dict(response.annotations))

    async def decrypt(self, sealed: EncryptedKey, uid: str) -> bytes:
        request = pb.DecryptRequest(
            ciphertext=sealed.ciphertext, uid=uid, key_id=sealed.key_id, annotations=sealed.annotations
        )
        return (await self._call("Decrypt", request, pb.DecryptResponse)).plaintext

    async def close(self) -> None:
        await self._channel.close()

    async def _call(self, method: str, request: Message, response: type[_Response]) -> _Response:
        path = _SERVICE + method
        call = self._channel.unary_unary(
            path, request_serializer=_serialized, response_deserializer=response.FromString
        )
        began, code = perf_counter(), OK
        try:
            answer: _Response | None = await call(request, timeout=self._timeout_s, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            code = _go_name(error.code())
            raise PluginFailed(
                code, error.details() or "", is_unreachable=error.code() in _NO_ANSWER
            ) from None
        except grpc.aio.UsageError as error:  # The channel was closed.
            code = "Canceled"
            raise PluginFailed(code, str(error), is_unreachable=True) from None
        else:
            if answer is None:  # gRPC has not been able to parse it.
                code = "Internal"
                raise PluginFailed(code, "the response cannot be parsed", is_unreachable=False)
            return answer
        finally:
            self._observe(self._name, path, code, perf_counter() - began)


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


def _go_name(code: grpc.StatusCode) -> str:
    """Returns the Go name of a code: DEADLINE_EXCEEDED is DeadlineExceeded, and CANCELLED Canceled."""
    if code is grpc.StatusCode.CANCELLED:
        return "Canceled"
    if code is grpc.StatusCode.OK:
        return OK
    return "".join(word.capitalize() for word in code.name.split("_"))
