"""The configured issuers of tokens, which may be replaced while the server runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol

from apiserver.auth.authn.authentication_configuration import AuthenticationConfiguration, Issuer
from apiserver.auth.authn.discovery_documents import Fetch
from apiserver.auth.authn.identity_provider import IdentityProvider, KeyObserver
from apiserver.auth.authn.jwt_authenticators import JwtAuthenticator, JwtAuthenticators, LatencyObserver
from apiserver.auth.authn.token_cache import TokenResult

# How long the providers of a new configuration may take to be found before it is refused. kube-apiserver
# waits as long.
REPLACE_S: Final = 60.0


class IssuerObserver(KeyObserver, LatencyObserver, Protocol):
    """Observes the providers and the authenticators."""


def _place(issuer: Issuer) -> Issuer:
    """Returns what tells one provider from another: its URLs and its authorities."""
    return issuer._replace(audiences=(), discovery_url=issuer.document_url)


class ConfiguredIssuers:
    """Authenticates by the tokens of all issuers."""

    def __init__(
        self,
        configuration: AuthenticationConfiguration,
        fetch: Fetch,
        observer: IssuerObserver,
        audiences: Sequence[str],
        extra_prefix: str,
        clock: Callable[[], float],
    ) -> None:
        """audiences: those of this server. extra_prefix: see `claim_mapping`. clock: seconds since 1970."""
        self._fetch, self._observer, self._clock = fetch, observer, clock
        self._audiences, self._extra_prefix = tuple(audiences), extra_prefix
        self._running: dict[Issuer, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._providers = {_place(each.issuer): self._provider(each.issuer) for each in configuration.jwt}
        self._authenticators = self._with(configuration, self._providers)

    async def look_up(self, token: str, audiences: Sequence[str]) -> TokenResult:
        return await self._authenticators.look_up(token, audiences)

    @property
    def authenticators(self) -> Collection[JwtAuthenticator]:
        """The authenticators of all issuers, in the order of the configuration."""
        return self._authenticators.all.values()

    async def run(self) -> None:
        """Keep the keys of all providers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for place, provider in self._providers.items():
                self._start(place, provider)
            await asyncio.Event().wait()

    async def replace(self, configuration: AuthenticationConfiguration, timeout_s: float = REPLACE_S) -> None:
        """Replace the issuers, once the providers of all are found; unchanged ones keep their keys.

        Raises ValueError if one was not found in time; then nothing changes.
        """
        providers: dict[Issuer, IdentityProvider] = {}
        for each in configuration.jwt:
            place = _place(each.issuer)
            providers[place] = self._providers.get(place) or self._provider(each.issuer)
        new = {place: provider for place, provider in providers.items() if place not in self._providers}
        is_replaced = False
        try:
            for place, provider in new.items():
                self._start(place, provider)
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(provider.is_found.wait() for provider in new.values()))
            is_replaced = True
        except TimeoutError:
            raise ValueError(
                "; ".join(f"{each.issuer.url}: {each.problem}" for each in new.values() if each.problem)
            ) from None
        finally:
            if not is_replaced:
                self._stop(new)
        gone = {place: each for place, each in self._providers.items() if place not in providers}
        self._providers, self._authenticators = providers, self._with(configuration, providers)
        self._stop(gone)

    def _with(
        self, configuration: AuthenticationConfiguration, providers: dict[Issuer, IdentityProvider]
    ) -> JwtAuthenticators:
        authenticators = [
            JwtAuthenticator(each, providers[_place(each.issuer)], self._extra_prefix, self._clock)
            for each in configuration.jwt
        ]
        return JwtAuthenticators(authenticators, self._observer, self._audiences)

    def _provider(self, issuer: Issuer) -> IdentityProvider:
        return IdentityProvider(issuer, self._fetch, self._observer, asyncio.get_running_loop().time)

    def _start(self, place: Issuer, provider: IdentityProvider) -> None:
        assert self._tasks is not None
        self._running[place] = self._tasks.create_task(provider.run(), name="identity-provider")

    def _stop(self, providers: dict[Issuer, IdentityProvider]) -> None:
        urls = {place.url for place in self._providers}
        for place in providers:
            if (task := self._running.pop(place, None)) is not None:
                task.cancel()
            if place.url not in urls:
                self._observer.issuer_removed(place.url)
