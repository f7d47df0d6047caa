"""Finds the keys of an OpenID provider by its discovery document, and keeps them up to date.

A request waits for the provider only if its token is signed with an unknown key, since a provider may begin
to use a new key immediately. Requests that wait share one call. Since any client can send tokens with unknown
keys, such calls are rate limited; the keys are fetched at intervals, too.

Source: coreos/go-oidc, which kube-apiserver uses; it asks the provider for each unknown key.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from apiserver.auth.authn.authentication_configuration import Issuer
from apiserver.auth.authn.discovery_documents import Discovery, Fetch, ProviderFailed, read_discovery
from apiserver.auth.authn.json_web_keys import UnusableKeySet, WebKey, read_key_set

log = logging.getLogger(__name__)

# As long as kube-apiserver waits between attempts to find a provider.
RETRY_S: Final = 10.0
# A key that is withdrawn counts no longer than this.
REFRESH_S: Final = 300.0
# Of calls for keys that are not known: so many at once, and then one in so many seconds.
CALLS_MAX: Final = 3
CALL_INTERVAL_S: Final = 10.0
# How long a request waits for keys, and how many do at a time: anybody can send tokens that have to wait, and
# others, whose keys are known, must not find all places taken.
WAIT_S: Final = 10.0
WAITING_MAX: Final = 100


class KeyObserver(Protocol):
    """Observes each attempt to fetch keys. content: the fetched document; None if the attempt failed."""

    def keys_fetched(self, issuer: str, content: bytes | None) -> None: ...
    def issuer_removed(self, issuer: str) -> None: ...


class IdentityProvider:
    """An OpenID provider, which `run` finds and whose keys it keeps.

    problem: why it cannot be used; empty once it can. discovery: empty before it is found.
    """

    def __init__(
        self, issuer: Issuer, fetch: Fetch, observer: KeyObserver, clock: Callable[[], float]
    ) -> None:
        """clock: seconds since some time."""
        self.issuer = issuer
        self.keys: Sequence[WebKey] = ()
        self.problem = f'authenticator for issuer "{issuer.url}" is not initialized'
        self.is_found = asyncio.Event()
        self._fetch, self._observer, self._clock = fetch, observer, clock
        self.discovery = Discovery()
        self._fetching: asyncio.Task[bool] | None = None
        self._calls_left, self._counted_at = float(CALLS_MAX), clock()
        self._waiting = 0

    async def run(self) -> None:
        """Find the provider, and fetch its keys again and again, until cancelled."""
        try:
            while not await self._found():  # noqa: ASYNC110  each round asks the provider
                await asyncio.sleep(RETRY_S)
            while True:
                await asyncio.sleep(REFRESH_S)
                await self._shared_fetch()
        finally:
            if self._fetching is not None:
                self._fetching.cancel()

    async def keys_fetched_anew(self) -> bool:
        """Fetch the keys because one is unknown, unless that was done too often; returns whether it did."""
        if self._waiting >= WAITING_MAX:
            return False
        if self._fetching is None:
            now = self._clock()
            regained = (now - self._counted_at) / CALL_INTERVAL_S
            self._calls_left, self._counted_at = min(CALLS_MAX, self._calls_left + regained), now
            if not self.discovery.keys_url or self._calls_left < 1:
                return False
            self._calls_left -= 1
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_S):
                return await self._shared_fetch()
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1

    async def _found(self) -> bool:
        try:
            content = await self._fetch(self.issuer.document_url, self.issuer.authorities)
            self.discovery = read_discovery(content, self.issuer.url)
        except ProviderFailed as error:
            self._fail(f"init verifier failed: {error}")
            return False
        return await self._shared_fetch()

    async def _shared_fetch(self) -> bool:
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch_keys(), name="oidc-keys")
        fetching = self._fetching
        # Who is cancelled while waiting does not take it from the others; nor is a request cancelled because
        # its issuer is taken out of the configuration.
        await asyncio.wait([fetching])
        return not fetching.cancelled() and fetching.result()

    async def _fetch_keys(self) -> bool:
        try:
            content = await self._fetch(self.discovery.keys_url, self.issuer.authorities)
            self.keys = read_key_set(content)
        except (ProviderFailed, UnusableKeySet) as error:
            self._fail(f"failed to get keys: {error}")
            self._observer.keys_fetched(self.issuer.url, None)
            return False
        finally:
            self._fetching = None
        self.problem = ""
        self.is_found.set()
        self._observer.keys_fetched(self.issuer.url, content)
        return True

    def _fail(self, why: str) -> None:
        """Log the error; known keys stay in use."""
        if not self.is_found.is_set():
            self.problem = why
        log.error("oidc authenticator: issuer %s: %s", self.issuer.url, why)
