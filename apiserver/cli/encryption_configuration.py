"""The file of `--encryption-provider-config`: which resources are encrypted in the store, and by what.

No message shows a secret. Sources: k8s.io/apiserver, pkg/apis/apiserver/v1/types_encryption.go,
pkg/apis/apiserver/validation/validation_encryption.go and pkg/server/options/encryptionconfig/config.go.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from apiserver.cli.bounded_files import read_bounded
from apiserver.golang.durations import parse_duration
from apiserver.golang.quoting import aggregate
from apiserver.meta.brand import Brand
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.storage.encryption.configuration import (
    ANY,
    EncryptionConfiguration,
    EncryptionKey,
    IdentityConfiguration,
    KeysConfiguration,
    KmsConfiguration,
    Provider,
    ResourceConfiguration,
)
from apiserver.wire.configuration_fields import ConfigurationObject, InvalidConfiguration, decode

_KIND: Final = "EncryptionConfiguration"
_KMS_TIMEOUT_S: Final = 3.0
_ANY_OF_ALL: Final = (ANY, ANY)
_REDACTED: Final = "REDACTED"
_AES_KEY_BYTES: Final = (16, 24, 32)
# The providers that have keys, with the lengths of these.
_KEYED: Final[Mapping[str, Sequence[int]]] = {
    "aesgcm": _AES_KEY_BYTES,
    "aescbc": _AES_KEY_BYTES,
    "secretbox": (32,),
}
_PROVIDERS: Final = ("kms", *_KEYED, "identity")
_NO_PROVIDER: Final = (
    "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity"
)
_TWO_PROVIDERS: Final = (
    "more than one provider specified in a single element, should split into different list elements"
)
_KMS_V1: Final = (
    "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead: "
    "this server has no KMSv1"
)
_NOT_OBJECTS: Final = ("apiserveripinfo", "serviceipallocations", "servicenodeportallocations")


def read_encryption_configuration(path: Path, brand: Brand) -> EncryptionConfiguration:
    """Read a configuration file. Raises InvalidConfiguration, whose line names the file and what is wrong."""
    try:
        content = read_bounded(path)
    except OSError as error:
        why = f'error reading encryption provider configuration file "{path}": {error.strerror or error}'
        raise InvalidConfiguration(why) from None
    return encryption_configuration(path, content, brand)


def encryption_configuration(path: Path, content: bytes, brand: Brand) -> EncryptionConfiguration:
    """Returns what is in a file. Raises InvalidConfiguration, as `read_encryption_configuration`."""
    if not content:
        raise InvalidConfiguration(f'encryption provider configuration file "{path}" is empty')
    try:
        return parse_encryption_configuration(content, brand)
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{path}: {error}") from None


def parse_encryption_configuration(content: bytes, brand: Brand) -> EncryptionConfiguration:
    """Returns the configuration that a file's content describes. Raises InvalidConfiguration."""
    reader = _Reader()
    with ConfigurationObject(decode(content)) as fields:
        fields.require_kind((f"{brand.group('apiserver.config')}/v1", _KIND))
        rules = [reader.rule(each) for each in fields.objects("resources")]
    if not rules:
        reader.errors.append(required("resources", "at least one resources is required"))
    if reader.errors:
        raise InvalidConfiguration(aggregate(reader.errors))
    _check_masked(rules)
    return EncryptionConfiguration(tuple(rules), digest_of(content))


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _Reader:
    """Reads the rules of one file, and collects what is wrong with them."""

    def __init__(self) -> None:
        self.errors: Errors = []
        self._kms_names: set[str] = set()

    def rule(self, fields: ConfigurationObject) -> ResourceConfiguration:
        with fields:
            resources = fields.texts("resources")
            path = fields.at("resources")
            if not resources:
                self.errors.append(required(path, f"at least one {path} is required"))
            self.errors += _overlaps(resources, path)
            for index, name in enumerate(resources):
                if why := _name_error(name):
                    self.errors.append(invalid(f"{path}[{index}]", name, why))
            providers = [self._provider(each) for each in fields.objects("providers")]
            if not providers:
                path = fields.at("providers")
                self.errors.append(required(path, f"at least one {path} is required"))
        return ResourceConfiguration(
            tuple(map(_group_resource, resources)), tuple(each for each in providers if each)
        )

    def _provider(self, fields: ConfigurationObject) -> Provider | None:
        with fields:
            given = [name for name in _PROVIDERS if fields.has(name)]
            found: dict[str, Provider] = {}
            for name in _PROVIDERS:
                with fields.object(name) as settings:
                    if name in given:
                        found[name] = self._settings(name, settings)
        if len(given) != 1:
            # The value that Kubernetes shows here has the secrets of the element in it.
            why = _TWO_PROVIDERS if given else _NO_PROVIDER
            self.errors.append(invalid(fields.path, _REDACTED, why))
            return None
        return found[given[0]]

    def _settings(self, name: str, settings: ConfigurationObject) -> Provider:
        if name == "identity":
            return IdentityConfiguration()
        if name == "kms":
            return self._kms(settings)
        keys = [self._key(each, _KEYED[name]) for each in settings.objects("keys")]
        if not keys:
            self.errors.append(required(settings.at("keys"), "at least one keys is required"))
        return KeysConfiguration(name, tuple(keys))

    def _key(self, fields: ConfigurationObject, lengths: Sequence[int]) -> EncryptionKey:
        with fields:
            name, text = fields.text("name"), fields.text("secret")
        if not name:
            self.errors.append(required(fields.at("name"), "name is a mandatory field for a key"))
        if not text:
            self.errors.append(required(fields.at("secret"), "secret is a mandatory field for a key"))
            return EncryptionKey(name, b"")
        why, secret = "", b""
        try:
            # As Go's decoder, which skips the ends of lines.
            secret = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
        except (binascii.Error, ValueError):
            why = "secrets must be base64 encoded"
        else:
            if len(secret) not in lengths:
                expected = " ".join(map(str, lengths))
                why = f"secret is not of the expected length, got {len(secret)}, expected one of [{expected}]"
        if why:
            self.errors.append(invalid(fields.at("secret"), _REDACTED, why))
        return EncryptionKey(name, secret)

    def _kms(self, fields: ConfigurationObject) -> KmsConfiguration:
        name, endpoint = fields.text("name"), fields.text("endpoint")
        version = fields.text("apiVersion") or "v1"
        cache_size = fields.integer("cachesize") if fields.any("cachesize") is not None else None
        timeout_s = _timeout_s(fields)
        if not name:
            self.errors.append(required(fields.at("name"), "name is a mandatory field for a provider"))
        if ":" in name and version != "v1":
            why = f"invalid KMS provider name {name}, must not contain ':'"
            self.errors.append(invalid(fields.at("name"), name, why))
        if name in self._kms_names:
            why = f"duplicate KMS provider name {name}, names must be unique"
            self.errors.append(invalid(fields.at("name"), name, why))
        self._kms_names.add(name)
        if timeout_s <= 0:
            # Kubernetes shows the duration in a struct here.
            text = fields.text("timeout")
            self.errors.append(invalid(fields.at("timeout"), text, "timeout should be a positive value"))
        socket, why = _socket(endpoint)
        if why:
            self.errors.append(invalid(fields.at("endpoint"), endpoint, why))
        if version == "v1":
            self.errors.append(invalid(fields.at("apiVersion"), version, _KMS_V1))
        else:
            if cache_size is not None:
                why = "cachesize is not supported in v2"
                self.errors.append(invalid(fields.at("cachesize"), cache_size, why))
            if version != "v2":
                why = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported"
                self.errors.append(invalid(fields.at("apiVersion"), version, why))
        return KmsConfiguration(name, socket, timeout_s)


def _timeout_s(fields: ConfigurationObject) -> float:
    text: Any = fields.any("timeout")
    if text is None:
        return _KMS_TIMEOUT_S
    if not isinstance(text, str):
        raise fields.fail("timeout", "expected a duration such as 3s")
    try:
        return parse_duration(text)
    except ValueError:
        raise fields.fail("timeout", f'time: invalid duration "{text}"') from None


def _socket(endpoint: str) -> tuple[str, str]:
    """Returns the path of a plugin's socket, and what is wrong with an endpoint."""
    if not endpoint:
        return "", "endpoint is a mandatory field for a kms"
    try:
        url = urlsplit(endpoint)
    except ValueError as error:
        return "", f"invalid endpoint for kms provider, error: {error}"
    if url.scheme != "unix":
        return "", f'unsupported scheme "{url.scheme}" for KMS provider, only unix is supported'
    if not url.path.strip("/"):
        return "", "invalid endpoint for kms provider, error: the URL has no path"
    # The names of abstract sockets begin with @.
    return (url.path[1:] if url.path.startswith("/@") else url.path), ""


def _group_resource(name: str) -> tuple[str, str]:
    """Returns group and resource: of `secrets`, `deployments.apps`, `*.`, `*.apps` or `*.*`."""
    resource, _, group = name.partition(".")
    return group, resource


def _overlaps(resources: Sequence[str], path: str) -> Errors:
    """Returns what is wrong with a list in which a resource occurs more than once, by any name."""
    pairs = [_group_resource(each) for each in resources]
    errors: Errors = []
    shown = list(resources)
    if len(set(pairs)) < len(pairs):
        errors.append(invalid(path, shown, "the same resource cannot be specified multiple times"))
    names = set(pairs)
    of_group_with_any = {group for group, resource in names if resource == ANY}
    if len(pairs) > 1 and (
        (_ANY_OF_ALL in names and len(names) > 1)
        or any(group in of_group_with_any and resource != ANY for group, resource in names)
    ):
        why = (
            "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed "
            "as they will be masked"
        )
        errors.append(invalid(path, shown, why))
    return errors


def _name_error(name: str) -> str:
    """Returns why nothing can be encrypted under a name."""
    group, resource = _group_resource(name)
    if name.lower() != name:
        return "resource name should not contain capital letters"
    if name == ANY:
        return "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
    if name in _NOT_OBJECTS:
        return "resources which do not have REST API/s cannot be encrypted"
    if group == "events.k8s.io":
        return (
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead "
            "in the config file"
        )
    if group == "extensions":
        return "'extensions' group has been removed and cannot be used for encryption"
    if group == ANY and resource != ANY:
        return "encrypting the same resource across groups is not supported"
    return ""


def _check_masked(rules: Sequence[ResourceConfiguration]) -> None:
    """Check that no rule is hidden by one before it.

    Raises InvalidConfiguration if a rule can have no effect, since one before it is for all.
    """
    earlier: set[tuple[str, str]] = set()
    for rule in rules:
        for group, resource in rule.resources:
            for masking in ((group, ANY), _ANY_OF_ALL):
                if masking in earlier:
                    shown = (
                        f'resource "{_text(group, resource)}" is masked by earlier rule "{_text(*masking)}"'
                    )
                    raise InvalidConfiguration(f"error while building transformers: {shown}")
            earlier.add((group, resource))


def _text(group: str, resource: str) -> str:
    return f"{resource}.{group}" if group or resource == ANY else resource
