"""The validated form of an EncryptionConfiguration: the providers of each resource.

No class here reveals a key when it is printed or logged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class EncryptionKey:
    name: str
    secret: bytes = field(repr=False)


class KeysConfiguration(NamedTuple):
    """A provider that encrypts with keys of the configuration. kind: aescbc, aesgcm or secretbox."""

    kind: str
    keys: tuple[EncryptionKey, ...]


class KmsConfiguration(NamedTuple):
    """A KMS plugin of API version v2. socket: its path, or the name of an abstract one after an `@`."""

    name: str
    socket: str
    timeout_s: float


@dataclass(frozen=True, slots=True)
class IdentityConfiguration:
    """The provider `identity`, which stores values as they are."""


Provider: TypeAlias = KeysConfiguration | KmsConfiguration | IdentityConfiguration


class ResourceConfiguration(NamedTuple):
    """The providers of some resources. resources: pairs of group and resource, each of which may be ANY."""

    resources: tuple[tuple[str, str], ...]
    providers: tuple[Provider, ...]


class EncryptionConfiguration(NamedTuple):
    """The encryption configuration: the providers that encrypt each resource.

    digest: that of the file, to detect changes without keeping its text.
    """

    rules: tuple[ResourceConfiguration, ...]
    digest: str
