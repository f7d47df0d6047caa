"""Encryption at rest of one server: its plugins, their health, and the reload of its configuration.

Source: k8s.io/apiserver, pkg/server/options/encryptionconfig/config.go and controller/controller.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from apiserver.app.background import BackgroundTask
from apiserver.app.serving.cluster_identity import EncryptedIdentity, identity_key
from apiserver.app.serving.watched_files import WatchedFiles, read_file
from apiserver.cli.config import Config
from apiserver.cli.encryption_configuration import digest_of, encryption_configuration
from apiserver.endpoints.health import Unhealthy
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import GroupResource
from apiserver.metrics.encryption import EncryptionMetrics
from apiserver.storage.encryption.configuration import (
    EncryptionConfiguration,
    KeysConfiguration,
    KmsConfiguration,
)
from apiserver.storage.encryption.encryption import Chains, Encryption, build_chains, plugins_of
from apiserver.storage.encryption.store import EncryptedStorage
from apiserver.storage.errors import StorageError
from apiserver.storage.interface import Storage
from apiserver.wire.configuration_fields import InvalidConfiguration

if TYPE_CHECKING:
    from apiserver.storage.encryption.kms import KmsProvider
    from apiserver.storage.history.changes import Cipher

log = logging.getLogger(__name__)

# How long a start waits for plugins that do not respond.
PRIMED_WITHIN_S: Final = 5.0
# How long the plugins of a new configuration have, at least, to become well before it is rejected.
HEALTHY_WITHIN_S: Final = 10.0
HEALTH_POLL_S: Final = 0.1
# How long to wait, after the cache was asked to read everything again, before it is asked once more.
REFILL_S: Final = 1.0
# How often it is looked whether another key has encrypted the identity that replicas share than the one that
# encrypts now: a plugin may have a new one at any time.
IDENTITY_S: Final = 60.0
_SECRETS: Final = ("", "secrets")


class _Plugins:
    """The plugins of one configuration, with the tasks that watch over them."""

    def __init__(self, providers: Mapping[str, KmsProvider], grace_s: float) -> None:
        """grace_s: how long calls under way may take after the plugins are replaced."""
        self.providers = providers
        self.grace_s = grace_s
        self._tasks: list[asyncio.Task[None]] = []

    async def prime(self) -> None:
        """Get keys from the plugins that respond soon, and keep asking the others."""
        self._tasks = [
            asyncio.create_task(each.run(), name=f"kms-{name}") for name, each in self.providers.items()
        ]
        with suppress(TimeoutError):
            async with asyncio.timeout(PRIMED_WITHIN_S):
                for each in self.providers.values():
                    await each.first_probe.wait()

    async def check(self, *, anew: bool = False) -> None:
        """Check the health of all plugins. anew: probe them now, in any case. Raises Unhealthy."""
        from apiserver.storage.encryption.kms import KmsUnhealthy

        errors = []
        for index, each in enumerate(self.providers.values()):
            try:
                await (each.probe() if anew else each.check())
            except KmsUnhealthy as error:
                errors.append(f"kms-provider-{index}: {error}")
        if errors:
            raise Unhealthy("; ".join(errors))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in self.providers.values():
            await each.close()


class EncryptionAtRest:
    """Encrypts stored values, by a configuration that may change."""

    def __init__(
        self,
        path: Path,
        configuration: EncryptionConfiguration,
        brand: Brand,
        metrics: EncryptionMetrics,
        prefix: str,
    ) -> None:
        """prefix: of all keys."""
        self._path = path
        self._brand = brand
        self._metrics = metrics
        self._configuration = configuration
        # Set when values may be decrypted that could not before.
        self._changed = asyncio.Event()
        self._reloaded = asyncio.Event()
        self._plugins, chains = self._build(configuration)
        self._closing: set[asyncio.Task[None]] = set()
        self._prefix = prefix
        self._encryption = Encryption(prefix, chains, {identity_key(prefix): _SECRETS})
        self._store: EncryptedStorage | None = None
        metrics.configuration.content_hash = f"sha256:{configuration.digest}"

    @classmethod
    async def start(cls, config: Config, metrics: EncryptionMetrics) -> Self | None:
        """Returns the configured encryption after a test of each plugin; None if nothing is encrypted."""
        if config.storage.encryption is None or config.storage.encryption_provider_config is None:
            return None
        self = cls(
            config.storage.encryption_provider_config,
            config.storage.encryption,
            config.brand,
            metrics,
            config.storage.etcd_prefix,
        )
        await self._plugins.prime()
        return self

    def encrypts(self, resource: GroupResource) -> bool:
        """Returns whether newly written objects of a resource are encrypted."""
        return self._encryption.encrypts(resource.group, resource.resource)

    @property
    def history_cipher(self) -> Cipher:
        """Encrypts the history as the objects themselves are encrypted."""
        from apiserver.storage.encryption.history_cipher import HistoryCipher

        return HistoryCipher(self._encryption)

    @property
    def has_plugins(self) -> bool:
        return bool(self._plugins.providers)

    def in_front_of(self, store: Storage) -> EncryptedStorage:
        self._store = EncryptedStorage(store, self._encryption, self._changed.set)
        return self._store

    async def check(self) -> None:
        """Check the health of the plugins. Raises Unhealthy."""
        await self._plugins.check()

    def tasks(self, config: Config, refill: Callable[[], Awaitable[None]]) -> Iterator[BackgroundTask]:
        """Yields the tasks that follow keys and the configuration file. refill: fills the cache again."""
        yield BackgroundTask("encryption", partial(self.run, refill))
        if config.storage.etcd_servers:
            yield BackgroundTask("encrypted-identity", self.keep_identity)
        if config.storage.encryption_provider_config_automatic_reload:
            yield BackgroundTask("encryption-configuration", self.follow_file)

    async def run(self, refill: Callable[[], Awaitable[None]]) -> None:
        """Fill the cache again whenever more values can be decrypted than before.

        refill: fills the cache again.
        """
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                while await self._any_readable():
                    log.info("the server can now decrypt more values; reading all values again")
                    await refill()
                    await asyncio.sleep(REFILL_S)
            except StorageError as error:
                log.warning("cannot retry the decryption of values: %s", error)
                self._changed.set()
                await asyncio.sleep(REFILL_S)

    async def _any_readable(self) -> bool:
        return self._store is not None and await self._store.any_readable()

    async def keep_identity(self) -> None:
        """Keep the identity that replicas share encrypted by the current key, until cancelled.

        It is not an API object, so rewriting all objects does not re-encrypt it.
        """
        assert self._store is not None
        identity = EncryptedIdentity(self._store, self._store.is_stale, self._prefix)
        await identity.renew()
        while True:
            try:
                async with asyncio.timeout(IDENTITY_S):
                    await self._reloaded.wait()
            except TimeoutError:
                await identity.keep()
            else:
                self._reloaded.clear()
                await identity.renew()

    # ---- reload

    async def follow_file(self) -> None:
        """Apply the configuration file whenever it changes, until cancelled."""
        try:
            content = await asyncio.to_thread(read_file, self._path)
        except OSError:
            content = b""  # The file existed a moment ago; its watcher reports the error.
        in_use = [content] if digest_of(content) == self._configuration.digest else []
        what = f"the encryption configuration {self._path}"
        await WatchedFiles(
            what, [self._path], in_use, self.reload, observe=self._metrics.configuration.reloaded
        ).run()

    async def reload(self, contents: Sequence[bytes]) -> None:
        """Use another configuration, if it is valid and its plugins are healthy. Raises InvalidConfiguration.

        contents: those of the file.
        """
        configuration = await asyncio.to_thread(_decoded, self._path, contents[0], self._brand)
        plugins, chains = self._build(configuration)
        try:
            await plugins.prime()
            await _require_healthy(plugins)
        except BaseException:
            await plugins.close()
            raise
        self._encryption.replace(chains)
        self._configuration = configuration
        self._close_later(self._plugins)
        self._plugins = plugins
        self._metrics.configuration.content_hash = f"sha256:{configuration.digest}"
        self._changed.set()
        self._reloaded.set()

    def _close_later(self, plugins: _Plugins) -> None:
        async def close() -> None:
            try:
                await asyncio.sleep(plugins.grace_s)
            finally:
                await plugins.close()

        task = asyncio.create_task(close(), name="kms-close")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        for task in list(self._closing):
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self._plugins.close()
        if self._store is not None:
            self._store.stop()

    def _build(self, configuration: EncryptionConfiguration) -> tuple[_Plugins, Chains]:
        named: Sequence[KmsConfiguration] = plugins_of(configuration)
        providers = {each.name: self._provider(each) for each in named}
        plugins = _Plugins(providers, 2 * sum(each.timeout_s for each in named))
        return plugins, build_chains(configuration, providers, self._metrics.transformed)

    def _provider(self, kms: KmsConfiguration) -> KmsProvider:
        # gRPC takes a tenth of a second to import, and is not needed otherwise.
        from apiserver.storage.encryption.kms import KmsProvider
        from apiserver.storage.encryption.kms_client import KmsClient

        client = KmsClient(kms.name, kms.socket, kms.timeout_s, self._metrics.called)
        return KmsProvider(kms.name, client, self._metrics, self._changed.set)


def _decoded(path: Path, content: bytes, brand: Brand) -> EncryptionConfiguration:
    """Returns the decoded configuration of a file. Raises InvalidConfiguration.

    The modules of its providers are imported here, in the caller's thread, which takes tenths of a second.
    """
    configuration = encryption_configuration(path, content, brand)
    providers = [each for rule in configuration.rules for each in rule.providers]
    if any(isinstance(each, KmsConfiguration) for each in providers):
        import_module("apiserver.storage.encryption.kms")
    if any(isinstance(each, KeysConfiguration) and each.kind == "secretbox" for each in providers):
        import_module("nacl.secret")
    return configuration


async def _require_healthy(plugins: _Plugins) -> None:
    """Wait until the plugins are healthy. Raises InvalidConfiguration if they do not become so in time."""
    ends_at = asyncio.get_running_loop().time() + max(HEALTHY_WITHIN_S, plugins.grace_s)
    while True:
        try:
            await plugins.check(anew=True)
        except Unhealthy as error:
            if asyncio.get_running_loop().time() > ends_at:
                why = f"health check for new transformers failed: {error}"
                raise InvalidConfiguration(why) from None
        else:
            return
        await asyncio.sleep(HEALTH_POLL_S)
