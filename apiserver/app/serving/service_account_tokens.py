"""Builds the issuer and the authenticator of service account tokens from the configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from apiserver.app.serving.listening import CannotStart
from apiserver.app.serving.pki_files import Pki
from apiserver.auth.authn.service_account import (
    AcceptedTokens,
    ObjectGetter,
    ServiceAccountAuthenticator,
    TokenIssuer,
    TokenUses,
)
from apiserver.cli.config import Config
from apiserver.load.size_class import size_class
from apiserver.meta.errors import NotFound
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.storage.interface import ANY, MOST_RECENT

if TYPE_CHECKING:
    from apiserver.auth.authn.extension_tokens import ExtensionTokens
    from apiserver.auth.authn.service_account_keys import PrivateKey, PublicKey

# Of these no more is asked. Most tokens are bound to a pod, which is read for each of their requests.
_METADATA_ALONE: Final = frozenset({"pods", "nodes"})


@dataclass(frozen=True, slots=True)
class TokenKeys:
    """The contents of the files with the keys of service account tokens, which are valid.

    signing: the key that signs. verifying: those with further keys that verify.
    """

    signing: bytes = field(repr=False)
    verifying: tuple[bytes, ...] = field(default=(), repr=False)

    def private(self) -> PrivateKey:
        """Returns the key that signs."""
        from apiserver.auth.authn.service_account_keys import read_private_key

        return read_private_key(self.signing, skips_rsa_check=True)

    def public(self) -> Sequence[PublicKey]:
        """Returns the keys that verify tokens, each once, that of the signing key first."""
        from apiserver.auth.authn.service_account_keys import key_id, read_public_keys

        keys = [self.private().public_key()]
        for pem in self.verifying:
            keys += read_public_keys(pem, skips_rsa_check=True)
        return tuple({key_id(key): key for key in keys}.values())


class ServiceAccountTokens(NamedTuple):
    """The issuer and the authenticator of service account tokens, with their keys.

    audiences: those of tokens that request none.
    """

    issuer: TokenIssuer
    keys: TokenKeys
    authenticator: ServiceAccountAuthenticator
    audiences: tuple[str, ...]


def read_token_keys(config: Config, certificates: Pki) -> TokenKeys:
    """Read and check the keys of service account tokens. Raises CannotStart."""
    from apiserver.auth.authn.service_account_keys import read_private_key, read_public_keys

    options = config.authentication
    signing = options.service_account_signing_key_file or certificates.service_account_key
    return TokenKeys(
        _read(signing, read_private_key),
        tuple(_read(path, read_public_keys) for path in options.service_account_key_file),
    )


def service_account_tokens(
    config: Config,
    keys: TokenKeys,
    get: ObjectGetter,
    clock: Callable[[], float],
    uses: TokenUses = TokenUses(),  # noqa: B008  has no state
) -> ServiceAccountTokens:
    """Builds the issuer and the authenticator. clock: seconds since 1970."""
    options = config.authentication
    issuers, brand = options.service_account_issuer, config.brand
    audiences = _audiences(config)
    claim = f"{brand.vendor}.io"
    accepted = AcceptedTokens(
        keys.public,
        issuers,
        audiences,
        claim,
        f"authentication.{brand.vendor}.io",
        looks_up_legacy=options.service_account_lookup,
    )
    return ServiceAccountTokens(
        TokenIssuer(keys.private, issuer=issuers[0], claim=claim),
        keys,
        ServiceAccountAuthenticator(accepted, get, clock, uses),
        tuple(audiences),
    )


def extension_tokens(config: Config, keys: TokenKeys) -> ExtensionTokens:
    """Returns the issuer and authenticator of the tokens of extensions."""
    from apiserver.auth.authn.extension_tokens import ExtensionTokens

    return ExtensionTokens(keys.private(), _audiences(config))


def _audiences(config: Config) -> Sequence[str]:
    options = config.authentication
    return options.api_audiences or options.service_account_issuer


def _read(path: Path, check: Callable[[bytes], object]) -> bytes:
    """Returns the content of a file of keys. check: raises UnusableKey. Raises CannotStart."""
    from apiserver.auth.authn.service_account_keys import UnusableKey

    try:
        content = path.read_bytes()
        check(content)
    except (OSError, UnusableKey) as error:
        raise CannotStart(f"{path} cannot be used for service account tokens: {error}") from None
    return content


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
