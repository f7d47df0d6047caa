"""A KMS plugin: a process that serves k8s.io/kms' API v2 on a socket, and does as a file beside it says."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Self

import grpc
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from apiserver.storage.encryption import kms_pb2 as pb
from tests.support.eventually import until

SERVICE: Final = "v2.KeyManagementService"
# key_id: of the key that it encrypts with. lost: the keys that it has lost. delay_s: before each answer.
STATE: Final[dict[str, Any]] = {"key_id": "key-1", "healthz": "ok", "version": "v2", "lost": [], "delay_s": 0}
ANNOTATION: Final = "version.example.com"


class KmsPlugin:
    """A plugin as a process, which can be killed and started again; its keys depend on their names alone."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.socket = directory / "kms.sock"
        self._state = directory / "state.json"
        self._process: subprocess.Popen[bytes] | None = None
        self.configure()

    @property
    def endpoint(self) -> str:
        return f"unix://{self.socket}"

    def configure(self, **state: Any) -> None:
        """state: what differs from STATE."""
        new = self._state.with_suffix(".new")
        new.write_text(json.dumps({**STATE, **state}))
        new.replace(self._state)

    def start(self) -> Self:
        command = [sys.executable, "-m", "tests.support.kms_plugin", str(self.socket), str(self._state)]
        self._process = subprocess.Popen(command)
        until(self.socket.exists, what="the plugin listens")
        return self

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
            self.socket.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()


def handlers(state: Callable[[], dict[str, Any]]) -> grpc.GenericRpcHandler:
    """Returns what answers the calls of a plugin. state: what it does now."""

    def status(_: pb.StatusRequest, __: grpc.ServicerContext) -> pb.StatusResponse:
        now = state()
        return pb.StatusResponse(version=now["version"], healthz=now["healthz"], key_id=now["key_id"])

    def encrypt(request: pb.EncryptRequest, _: grpc.ServicerContext) -> pb.EncryptResponse:
        key_id, nonce = state()["key_id"], os.urandom(12)
        sealed = nonce + _key(key_id).encrypt(nonce, request.plaintext, b"")
        return pb.EncryptResponse(ciphertext=sealed, key_id=key_id, annotations={ANNOTATION: b"1"})

    def decrypt(request: pb.DecryptRequest, context: grpc.ServicerContext) -> pb.DecryptResponse:
        if request.key_id in state()["lost"]:
            context.abort(grpc.StatusCode.NOT_FOUND, "the key is lost")
        if request.annotations[ANNOTATION] != b"1":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the annotation is missing")
        try:
            plain = _key(request.key_id).decrypt(request.ciphertext[:12], request.ciphertext[12:], b"")
        except InvalidTag:
            context.abort(grpc.StatusCode.INTERNAL, "the ciphertext is not ours")
        return pb.DecryptResponse(plaintext=plain)

    methods = {
        "Status": _unary(status, pb.StatusRequest),
        "Encrypt": _unary(encrypt, pb.EncryptRequest),
        "Decrypt": _unary(decrypt, pb.DecryptRequest),
    }
    return grpc.method_handlers_generic_handler(SERVICE, methods)


def _unary(method: Callable[..., Any], request: Any) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_unary_rpc_method_handler(
        method,
        request_deserializer=request.FromString,
        response_serializer=lambda response: response.SerializeToString(),
    )


def _key(key_id: str) -> AESGCM:
    return AESGCM(hashlib.sha256(key_id.encode()).digest())


def main(socket: str, state: str) -> None:
    def read() -> dict[str, Any]:
        now: dict[str, Any] = json.loads(Path(state).read_text())
        time.sleep(now["delay_s"])
        return now

    server = grpc.server(ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((handlers(read),))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main(*sys.argv[1:])
