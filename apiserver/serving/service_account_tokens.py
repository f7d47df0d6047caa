"""Issuer and authenticator of service account tokens, as the configuration has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from apiserver.authn.service_account import (
    ObjectGetter,
    PublicKey,
    ServiceAccountAuthenticator,
    TokenIssuer,
    UnusableKey,
    read_private_key,
    read_public_keys,
)
from apiserver.cli.config import Config
from apiserver.errors import NotFound
from apiserver.registry.served_resource import ResourceTable
from apiserver.registry.store import Registry
from apiserver.serving.listening import CannotStart
from apiserver.serving.pki import Pki
from apiserver.vocabulary import Document
from storage.interface import ANY, MOST_RECENT

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServiceAccountTokens:
    """audiences: for which the server's own tokens are meant."""

    issuer: TokenIssuer
    authenticator: ServiceAccountAuthenticator
    audiences: tuple[str, ...]


def service_accounts(
    config: Config, certificates: Pki, find: ObjectGetter, clock: Callable[[], float]
) -> ServiceAccountTokens:
    """clock: seconds since 1970. Raises CannotStart."""
    signing_file = config.service_account_signing_key_file or certificates.service_account_key
    signing_key = _read(signing_file, read_private_key)
    keys: list[PublicKey] = [signing_key.public_key()]
    for path in config.service_account_key_file:
        keys += _read(path, read_public_keys)
    issuers, brand = config.service_account_issuer, config.brand
    audiences = config.api_audiences or issuers
    claim = f"{brand.vendor}.io"
    authenticator = ServiceAccountAuthenticator(
        keys,
        issuers=issuers,
        audiences=audiences,
        claim=claim,
        extra_prefix=f"authentication.{brand.vendor}.io",
        find=find,
        clock=clock,
    )
    return ServiceAccountTokens(
        TokenIssuer(signing_key, issuer=issuers[0], claim=claim), authenticator, tuple(audiences)
    )


def _read(path: Path, read: Callable[[bytes], T]) -> T:
    try:
        return read(path.read_bytes())
    except (OSError, UnusableKey) as error:
        raise CannotStart(f"{path} cannot be used for service account tokens: {error}") from None


def finder(registry: Registry, table: Callable[[], ResourceTable]) -> ObjectGetter:
    """Looks objects of the core group up: in the cache, or in their newest state."""

    async def find(resource: str, namespace: str, name: str, is_fresh: bool) -> Document | None:
        served = table().find("", "v1", resource)
        if served is None:
            return None
        try:
            found = await registry.get(served, namespace, name, MOST_RECENT if is_fresh else ANY)
        except NotFound:
            return None
        return found.document()

    return find
