"""Python client libraries, where they are installed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol


class Reachable(Protocol):
    @property
    def kubeconfig(self) -> Path: ...


@asynccontextmanager
async def kr8s_api(server: Reachable, namespace: str) -> AsyncIterator[Any]:
    """A client of kr8s whose connections are closed at the end; the library leaves them open."""
    import kr8s.asyncio

    api: Any = await kr8s.asyncio.api(kubeconfig=str(server.kubeconfig), namespace=namespace)
    try:
        yield api
    finally:
        await api._session.aclose()
