"""Finds the chain of providers for the values of a resource, by the current configuration.

Source: k8s.io/apiserver, pkg/server/options/encryptionconfig/config.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar

from apiserver.storage.encryption.chains import (
    CipherTransformer,
    IdentityTransformer,
    PrefixedTransformer,
    TransformationObserver,
    Transformer,
    TransformerChain,
)
from apiserver.storage.encryption.ciphers import AesCbc, AesGcm, Cipher, Secretbox
from apiserver.storage.encryption.configuration import (
    ANY,
    EncryptionConfiguration,
    IdentityConfiguration,
    KeysConfiguration,
    KmsConfiguration,
    Provider,
)
from apiserver.storage.keys import CORE_GROUP, resource_of

_T = TypeVar("_T")

_CIPHERS: Final[Mapping[str, Callable[[bytes], Cipher]]] = {
    "aescbc": AesCbc,
    "aesgcm": AesGcm,
    "secretbox": Secretbox,
}
_NO_KEY: Final[Mapping[str, str]] = {
    "aescbc": "no matching key was found for the provided AES transformer",
    "aesgcm": "no matching key was found for the provided AES transformer",
    "secretbox": "no matching key was found for the provided Secretbox transformer",
}
# How many prefixes of resources are remembered with their chains: clients may create any number of
# definitions.
_PREFIXES_MAX: Final = 4_096

# By group and resource, either of which may be ANY.
Chains = Mapping[tuple[str, str], TransformerChain]


class Encryption:
    """The chains of all resources, which may be replaced at any time."""

    def __init__(
        self, prefix: str, chains: Chains, records: Mapping[str, tuple[str, str]] = MappingProxyType({})
    ) -> None:
        """prefix: that of all keys.

        records: the keys of the server's own encrypted records, each with the group and name of the resource
        that it is encrypted like.
        """
        self._prefix = prefix
        self._chains = chains
        self._records = records
        self._by_resource: dict[str, TransformerChain | None] = {}

    def replace(self, chains: Chains) -> None:
        self._chains = chains
        self._by_resource = {}

    def chain_of(self, key: str) -> TransformerChain | None:
        """Returns the chain of the value at a key; None if its resource is not configured, or it has none."""
        resource_prefix = resource_of(self._prefix, key)
        if resource_prefix is None:
            record_of = self._records.get(key)
            return None if record_of is None else self._find(*record_of)
        try:
            return self._by_resource[resource_prefix]
        except KeyError:
            if len(self._by_resource) >= _PREFIXES_MAX:
                self._by_resource.clear()
            *_, group, resource, _ = resource_prefix.split("/")
            found = self._find("" if group == CORE_GROUP else group, resource)
            self._by_resource[resource_prefix] = found
            return found

    def encrypts(self, group: str, resource: str) -> bool:
        """Returns whether newly written values of a resource are encrypted."""
        chain = self._find(group, resource)
        return chain is not None and chain.encrypts

    def _find(self, group: str, resource: str) -> TransformerChain | None:
        for name in ((group, resource), (group, ANY), (ANY, ANY)):
            if (chain := self._chains.get(name)) is not None:
                return chain
        return None


def build_chains(
    configuration: EncryptionConfiguration, kms: Mapping[str, Transformer], observe: TransformationObserver
) -> Chains:
    """Returns the chains of a configuration. kms: the plugins that it names, by name."""
    members: dict[tuple[str, str], list[PrefixedTransformer]] = {}
    for rule in configuration.rules:
        providers = [_member(each, kms, observe) for each in rule.providers]
        for resource in rule.resources:
            members.setdefault(resource, []).extend(providers)
    return {
        resource: TransformerChain(each, "no matching prefix found", observe)
        for resource, each in members.items()
    }


def _member(
    provider: Provider, kms: Mapping[str, Transformer], observe: TransformationObserver
) -> PrefixedTransformer:
    match provider:
        case KeysConfiguration(kind=kind, keys=keys):
            cipher = _CIPHERS[kind]
            by_key = [
                PrefixedTransformer(f"{key.name}:".encode(), CipherTransformer(cipher(key.secret)))
                for key in keys
            ]
            return PrefixedTransformer(
                f"k8s:enc:{kind}:v1:".encode(), TransformerChain(by_key, _NO_KEY[kind], observe)
            )
        case KmsConfiguration(name=name):
            return PrefixedTransformer(f"k8s:enc:kms:v2:{name}:".encode(), kms[name])
        case IdentityConfiguration():
            return PrefixedTransformer(b"", IdentityTransformer())


def plugins_of(configuration: EncryptionConfiguration) -> Sequence[KmsConfiguration]:
    """Returns the KMS plugins of a configuration, each once."""
    return _unique(
        each for rule in configuration.rules for each in rule.providers if isinstance(each, KmsConfiguration)
    )


def _unique(values: Iterable[_T]) -> list[_T]:
    return list(dict.fromkeys(values))
