"""Kubelets, and clients of shells, that send very little very often."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from tests.hostile.attack import Attacker, Stage, attack
from tests.hostile.connection import head
from tests.hostile.site import ATTACKED, READER, WRITER
from tests.support.fake_kubelet import FakeKubelet

PODS: Final = f"/api/v1/namespaces/{ATTACKED}/pods"
# A chunk of one byte, many times.
BYTES: Final = b"1\r\nx\r\n" * 20_000
# A message of one byte on the channel of the input, and a ping, both masked with zeros.
FRAMES: Final = b"\x82\x82\0\0\0\0\0x" * 8_000
PINGS: Final = b"\x89\x80\0\0\0\0" * 10_000
KUBELETS: list[FakeKubelet] = []


class ChattyKubelet(FakeKubelet):
    """Its logs never end, and come one byte a chunk."""

    async def _log(self, writer: asyncio.StreamWriter, target: str) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(BYTES)
            await writer.drain()


def _kubelet(directory: Path, stack: ExitStack) -> tuple[str, ...]:
    (directory / "kubelet").mkdir()
    kubelet = stack.enter_context(ChattyKubelet(directory / "kubelet"))
    KUBELETS[:] = [kubelet]
    files = kubelet.pki
    return (
        f"--kubelet-certificate-authority={files.ca_cert}",
        f"--kubelet-client-certificate={files.admin_cert}",
        f"--kubelet-client-key={files.admin_key}",
        "--kubelet-preferred-address-types=InternalIP",
        "--disable-admission-plugins=ServiceAccount",
    )


async def _pod(stage: Stage) -> None:
    """Make a node that the kubelet is on, and a pod that runs there."""
    addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
    endpoint = {"kubeletEndpoint": {"Port": KUBELETS[0].port}}
    node = {"metadata": {"name": "n"}, "status": {"addresses": addresses, "daemonEndpoints": endpoint}}
    spec: dict[str, Any] = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    await stage.make(("/api/v1/nodes", node), (PODS, {"metadata": {"name": "p"}, "spec": spec}))


@attack("5 turns of the loop", prepare=_pod, before=_kubelet)
async def logs_of_one_byte_a_chunk(attacker: Attacker) -> None:
    """Ten clients follow the log of a pod whose kubelet sends it one byte a chunk."""

    async def follow(_: int) -> None:
        connection = await attacker.connect()
        await connection.send(head("GET", f"{PODS}/p/log?follow=true", READER))
        while await connection.reader.read(1_000_000):
            pass

    await attacker.at_once(attacker.times(10), follow)


async def _shells(attacker: Attacker, count: int, data: bytes) -> None:
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Protocol": "v5.channel.k8s.io",
    }

    async def one(_: int) -> None:
        connection = await attacker.connect()
        path = f"{PODS}/p/exec?command=cat&stdin=true&stdout=true"
        await connection.send(head("GET", path, WRITER, headers))
        await connection.answer()

        async def read() -> None:
            while await connection.reader.read(1_000_000):
                pass

        async def write() -> None:
            while True:
                await connection.send(data)

        await asyncio.gather(read(), write())

    await attacker.at_once(attacker.times(count), one)


@attack("5 turns of the loop", prepare=_pod, before=_kubelet)
async def shells_with_tiny_frames(attacker: Attacker) -> None:
    """Five clients send a shell its input one byte a message, as fast as it is taken."""
    await _shells(attacker, 5, FRAMES)


@attack("5 turns of the loop", prepare=_pod, before=_kubelet)
async def shells_with_pings(attacker: Attacker) -> None:
    """Five clients of a shell send nothing but pings."""
    await _shells(attacker, 5, PINGS)
