"""Builds the issuer and the authenticator of service account tokens from the configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import orjson

from apiserver.app.serving.listening import CannotStart
from apiserver.app.serving.pki import Pki
from apiserver.auth.authn.extension_tokens import ExtensionTokens
from apiserver.auth.authn.service_account import (
    AcceptedTokens,
    ObjectGetter,
    PrivateKey,
    PublicKey,
    ServiceAccountAuthenticator,
    TokenIssuer,
    TokenUses,
    UnusableKey,
    key_id,
    read_private_key,
    read_public_keys,
)
from apiserver.cli.config import Config
from apiserver.load.size_class import size_class
from apiserver.meta.errors import NotFound
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.storage.interface import ANY, MOST_RECENT

_T = TypeVar("_T")

# Of these no more is asked. Most tokens are bound to a pod, which is read for each of their requests.
_METADATA_ALONE: Final = frozenset({"pods", "nodes"})


class ServiceAccountTokens(NamedTuple):
    """The issuer and the authenticator of service account tokens, with their keys.

    audiences: those of tokens that request none. keys: those that verify tokens; the first is the issuer's.
    """

    issuer: TokenIssuer
    keys: tuple[PublicKey, ...]
    authenticator: ServiceAccountAuthenticator
    audiences: tuple[str, ...]


def service_account_tokens(
    config: Config,
    certificates: Pki,
    get: ObjectGetter,
    clock: Callable[[], float],
    uses: TokenUses = TokenUses(),  # noqa: B008  has no state
) -> ServiceAccountTokens:
    """Reads the keys of service account tokens, and builds the issuer and the authenticator. clock: seconds
    since 1970. Raises CannotStart.
    """
    options = config.authentication
    signing_key = _signing_key(config, certificates)
    keys: list[PublicKey] = [signing_key.public_key()]
    for path in options.service_account_key_file:
        keys += _read(path, read_public_keys)
    issuers, brand = options.service_account_issuer, config.brand
    audiences = _audiences(config)
    claim = f"{brand.vendor}.io"
    accepted = AcceptedTokens(
        keys,
        issuers,
        audiences,
        claim,
        f"authentication.{brand.vendor}.io",
        looks_up_legacy=options.service_account_lookup,
    )
    authenticator = ServiceAccountAuthenticator(accepted, get, clock, uses)
    return ServiceAccountTokens(
        TokenIssuer(signing_key, issuer=issuers[0], claim=claim),
        tuple({key_id(key): key for key in keys}.values()),
        authenticator,
        tuple(audiences),
    )


def extension_tokens(config: Config, certificates: Pki) -> ExtensionTokens:
    """Returns the issuer and authenticator of the tokens of extensions. Raises CannotStart."""
    return ExtensionTokens(_signing_key(config, certificates), _audiences(config))


def _signing_key(config: Config, certificates: Pki) -> PrivateKey:
    path = config.authentication.service_account_signing_key_file or certificates.service_account_key
    return _read(path, read_private_key)


def _audiences(config: Config) -> Sequence[str]:
    options = config.authentication
    return options.api_audiences or options.service_account_issuer


def _read(path: Path, read: Callable[[bytes], _T]) -> _T:
    try:
        return read(path.read_bytes())
    except (OSError, UnusableKey) as error:
        raise CannotStart(f"{path} cannot be used for service account tokens: {error}") from None


def object_getter(registry: Registry, served: ServedTable) -> ObjectGetter:
    """Returns a function that gets objects of the core group, cached or in their latest state."""

    async def get(resource: str, namespace: str, name: str, is_fresh: bool) -> Document | None:
        kind = served.find("", "v1", resource)
        if kind is None:
            return None
        try:
            found = await registry.get(kind, namespace, name, MOST_RECENT if is_fresh else ANY)
        except NotFound:
            return None
        if resource not in _METADATA_ALONE:
            return await registry.offload.document(found)
        metadata = found.metadata()
        size = size_class(len(metadata))
        return {"metadata": await registry.offload.run_begun(size, orjson.loads, metadata)}

    return get
