"""Tells the server that a kubeconfig names what has happened: nothing of its answer counts but its status.

Source: k8s.io/apiserver, pkg/util/webhook/webhook.go and plugin/pkg/audit/webhook.
"""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Awaitable, Callable
from typing import Protocol

from apiserver.webhooks.client_config import ClientConfig, cleaned_url
from apiserver.webhooks.credential_files import CredentialFiles
from apiserver.webhooks.errors import CallFailed
from apiserver.webhooks.kubeconfig import KubeconfigCluster
from apiserver.webhooks.review_server import ATTEMPTS_MAX, BACKOFF_FACTOR, BACKOFF_JITTER, TIMEOUT_S


class EventSender(Protocol):
    """Sends audit events to a webhook by HTTP."""

    async def tell(self, client: ClientConfig, body: bytes, timeout_s: int) -> None:
        """Sends events. Raises CallFailed."""
        ...


class AuditEventServer:
    """The server that gets audit events. backoff_s: the pause before the second attempt; later ones grow."""

    def __init__(
        self,
        cluster: KubeconfigCluster,
        teller: EventSender,
        backoff_s: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._cluster, self._teller = cluster, teller
        self._files = CredentialFiles()
        self._backoff_s, self._sleep = backoff_s, sleep

    async def tell(self, body: bytes) -> None:
        """Posts events, and again if that fails. Raises CallFailed when no attempt has success."""
        pause_s = self._backoff_s
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                await self._teller.tell(await self._server(), body, TIMEOUT_S)
                return
            except CallFailed:
                if attempt == ATTEMPTS_MAX:
                    raise
            # Random, so that not all who have failed together come back together.
            await self._sleep(pause_s * (1 + BACKOFF_JITTER * random.random()))  # noqa: S311  no secret
            pause_s *= BACKOFF_FACTOR

    async def _server(self) -> ClientConfig:
        """Raises CallFailed."""
        cluster, bundle = self._cluster, b""
        if cluster.authorities is not None:
            bundle = await self._files.pem(cluster.authorities)
        authorities = base64.b64encode(bundle).decode()
        return ClientConfig(cleaned_url(cluster.server), authorities, cluster.tls_server_name)
