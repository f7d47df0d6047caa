"""Asks the server that a kubeconfig names: posts a review to it, and again if that may help.

For what this server is configured to ask about everything of one kind: images, tokens, access.
Source: k8s.io/apiserver, pkg/util/webhook/webhook.go.
"""

from __future__ import annotations

import asyncio
import base64
import math
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from apiserver.meta.errors import Timeout
from apiserver.webhooks.client_config import ClientConfig, cleaned_url
from apiserver.webhooks.credential_files import CredentialFiles
from apiserver.webhooks.credentials import ClientCredentials, HostCredentials
from apiserver.webhooks.errors import CallFailed
from apiserver.webhooks.kubeconfig import KubeconfigCluster

TIMEOUT_S: Final = 30
ATTEMPTS_MAX: Final = 5
# The pause before the second attempt; each later one is longer by the factor.
BACKOFF_S: Final = 0.5
BACKOFF_FACTOR: Final = 1.5
BACKOFF_JITTER: Final = 0.2


class ReviewCaller(Protocol):
    """Calls a webhook by HTTP."""

    async def post(self, client: ClientConfig, body: bytes, timeout_s: int) -> Any:
        """Returns the document that a webhook answers with. Raises CallFailed."""
        ...


# Makes a caller that shows credentials.
CallerFactory = Callable[[HostCredentials], ReviewCaller]


class ReviewServer:
    """The server of a kubeconfig that answers reviews, at the URL with its path."""

    def __init__(
        self,
        cluster: KubeconfigCluster,
        credentials: ClientCredentials,
        caller_with: CallerFactory,
        backoff_s: float = BACKOFF_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._cluster = cluster
        self._caller = caller_with(HostCredentials(otherwise=credentials))
        self._files = CredentialFiles()
        self._backoff_s, self._sleep = backoff_s, sleep

    async def ask(self, review: bytes, deadline: float | None = None, timeout_s: int = TIMEOUT_S) -> Any:
        """Returns the document with which the server answers.

        deadline: of all attempts, by the clock of the event loop. timeout_s: of one.
        Raises CallFailed when no attempt has success, Timeout when the deadline has passed before one.
        """
        bundle = b""
        if self._cluster.authorities is not None:
            bundle = await self._files.pem(self._cluster.authorities)
        server = ClientConfig(
            cleaned_url(self._cluster.server),
            base64.b64encode(bundle).decode(),
            self._cluster.tls_server_name,
        )
        pause_s = self._backoff_s
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                return await self._caller.post(server, review, _remaining_s(deadline, timeout_s))
            except CallFailed as failed:
                if not failed.is_transient or attempt == ATTEMPTS_MAX:
                    raise
                # Random, so that not all who have failed together come back together.
                sleep_s = pause_s * (1 + BACKOFF_JITTER * random.random())  # noqa: S311  no secret
                if sleep_s >= _left_s(deadline):
                    raise  # Nobody waits for the next attempt.
            await self._sleep(sleep_s)
            pause_s *= BACKOFF_FACTOR
        raise AssertionError("the last attempt returns or raises")


def _left_s(deadline: float | None) -> float:
    return math.inf if deadline is None else deadline - asyncio.get_running_loop().time()


def _remaining_s(deadline: float | None, timeout_s: int) -> int:
    """Raises Timeout."""
    left_s = _left_s(deadline)
    if left_s <= 0:
        raise Timeout.of_request()
    return math.ceil(min(timeout_s, left_s))
