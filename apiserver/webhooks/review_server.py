"""Calls the server of a kubeconfig: posts reviews or audit events to it, with retries.

Reviews are about images, tokens and access. Source: k8s.io/apiserver, pkg/util/webhook/webhook.go.
"""

from __future__ import annotations

import asyncio
import base64
import math
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from apiserver.meta.errors import Timeout
from apiserver.webhooks.client_config import ClientConfig, cleaned_url
from apiserver.webhooks.credential_files import CredentialFiles
from apiserver.webhooks.credentials import ClientCredentials, HostCredentials
from apiserver.webhooks.errors import CallFailed
from apiserver.webhooks.kubeconfig import KubeconfigCluster

T = TypeVar("T")

TIMEOUT_S: Final = 30
ATTEMPTS_MAX: Final = 5
# The pause before the second attempt; each later one is longer by the factor.
BACKOFF_S: Final = 0.5
BACKOFF_FACTOR: Final = 1.5
BACKOFF_JITTER: Final = 0.2


class ReviewCaller(Protocol):
    """Calls a webhook by HTTP."""

    async def post(self, client: ClientConfig, body: bytes, timeout_s: int) -> Any:
        """Returns the document of a webhook's response. Raises CallFailed."""
        ...


# Makes a caller that shows credentials.
CallerFactory = Callable[[HostCredentials], ReviewCaller]


class EventSender(Protocol):
    """Sends audit events to a webhook by HTTP."""

    async def tell(self, client: ClientConfig, body: bytes, timeout_s: int) -> None:
        """Sends events. Raises CallFailed."""
        ...


class _KubeconfigServer:
    """The server of a kubeconfig, at the URL with its path.

    backoff_s: the pause before the second attempt; later ones grow.
    """

    def __init__(
        self, cluster: KubeconfigCluster, backoff_s: float, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self._cluster, self._files = cluster, CredentialFiles()
        self._backoff_s, self._sleep = backoff_s, sleep

    async def _attempt(
        self,
        call: Callable[[ClientConfig], Awaitable[T]],
        is_worth_another: Callable[[CallFailed, float], bool],
    ) -> T:
        """Returns the result of the first successful call, and otherwise raises the error of the last one.

        is_worth_another: decides about another attempt, given a failure and the pause before it in seconds.
        """
        pause_s, attempts = self._backoff_s, ATTEMPTS_MAX
        while True:
            attempts -= 1
            # Random, so that failed requests do not all return together.
            sleep_s = pause_s * (1 + BACKOFF_JITTER * random.random())  # noqa: S311  no secret
            try:
                return await call(await self._client_config())
            except CallFailed as failed:
                if not attempts or not is_worth_another(failed, sleep_s):
                    raise
            await self._sleep(sleep_s)
            pause_s *= BACKOFF_FACTOR

    async def _client_config(self) -> ClientConfig:
        """Returns the configuration of calls."""
        cluster, bundle = self._cluster, b""
        if cluster.authorities is not None:
            bundle = await self._files.pem(cluster.authorities)
        authorities = base64.b64encode(bundle).decode()
        return ClientConfig(cleaned_url(cluster.server), authorities, cluster.tls_server_name)


class ReviewServer(_KubeconfigServer):
    """The server of a kubeconfig to which reviews are sent."""

    def __init__(
        self,
        cluster: KubeconfigCluster,
        credentials: ClientCredentials,
        caller_with: CallerFactory,
        backoff_s: float = BACKOFF_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(cluster, backoff_s, sleep)
        self._caller = caller_with(HostCredentials(otherwise=credentials))

    async def ask(self, review: bytes, deadline: float | None = None, timeout_s: int = TIMEOUT_S) -> Any:
        """Returns the document of the server's response.

        deadline: that of all attempts, by the clock of the event loop. timeout_s: that of one attempt.
        Raises CallFailed if no attempt succeeds, Timeout if the deadline passes before one.
        """
        return await self._attempt(
            lambda client: self._caller.post(client, review, _remaining_s(deadline, timeout_s)),
            # An attempt after the deadline would be useless.
            lambda failed, sleep_s: failed.is_transient and sleep_s < _left_s(deadline),
        )


class AuditEventServer(_KubeconfigServer):
    """The server of a kubeconfig that receives audit events, of whose response only the status counts.

    Source: k8s.io/apiserver, plugin/pkg/audit/webhook.
    """

    def __init__(
        self,
        cluster: KubeconfigCluster,
        sender: EventSender,
        backoff_s: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(cluster, backoff_s, sleep)
        self._sender = sender

    async def tell(self, body: bytes) -> None:
        """Posts events, with retries. Raises CallFailed if no attempt succeeds."""
        await self._attempt(
            lambda client: self._sender.tell(client, body, TIMEOUT_S), lambda failed, sleep_s: True
        )


def _left_s(deadline: float | None) -> float:
    return math.inf if deadline is None else deadline - asyncio.get_running_loop().time()


def _remaining_s(deadline: float | None, timeout_s: int) -> int:
    """Returns the seconds until a deadline."""
    left_s = _left_s(deadline)
    if left_s <= 0:
        raise Timeout.of_request()
    return math.ceil(min(timeout_s, left_s))
