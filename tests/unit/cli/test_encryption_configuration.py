"""The file of --encryption-provider-config: strict, in Kubernetes' words, and without showing a key.

Source: k8s.io/apiserver, pkg/apis/apiserver/validation/validation_encryption_test.go.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from apiserver.cli.argument_parser import UsageError
from apiserver.cli.command_line import parse
from apiserver.cli.encryption_configuration import parse_encryption_configuration
from apiserver.meta.brand import Brand
from apiserver.storage.encryption.configuration import (
    ANY,
    EncryptionConfiguration,
    EncryptionKey,
    IdentityConfiguration,
    KeysConfiguration,
    KmsConfiguration,
)
from apiserver.wire.configuration_fields import InvalidConfiguration

SECRET: Final = b"a secret of this many bytes: 32!"
TEXT: Final = base64.b64encode(SECRET).decode()
KEYS: Final = {"keys": [{"name": "key1", "secret": TEXT}]}
GCM: Final = {"aesgcm": KEYS}
KMS: Final = {"apiVersion": "v2", "name": "plugin", "endpoint": "unix:///run/plugin.sock"}


def document(*rules: Any) -> bytes:
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration"}
    return orjson.dumps({**kind, "resources": list(rules)})


def rule(*providers: Any, resources: Any = ("secrets",)) -> dict[str, Any]:
    return {"resources": list(resources), "providers": list(providers)}


def parsed(content: bytes) -> EncryptionConfiguration:
    return parse_encryption_configuration(content, Brand())


def test_a_configuration_with_all_there_is() -> None:
    content = f"""
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets, configmaps, widgets.example.com, '*.apps']
  providers:
  - aescbc: {{keys: [{{name: a, secret: {TEXT}}}, {{name: b, secret: {TEXT}}}]}}
  - aesgcm: {{keys: [{{name: a, secret: {base64.b64encode(SECRET[:16]).decode()}}}]}}
  - secretbox: {{keys: [{{name: a, secret: {TEXT}}}]}}
  - kms: {{apiVersion: v2, name: plugin, endpoint: 'unix:///@plugin', timeout: 500ms}}
  - identity: {{}}
- resources: ['*.']
  providers: [{{kms: {{apiVersion: v2, name: other, endpoint: 'unix:///run/other.sock'}}}}]
- resources: ['*.*']
  providers: [{{identity: {{}}}}]
"""
    first, second, third = parsed(content.encode()).rules
    assert first.resources == (("", "secrets"), ("", "configmaps"), ("example.com", "widgets"), ("apps", ANY))
    assert first.providers == (
        KeysConfiguration("aescbc", (EncryptionKey("a", SECRET), EncryptionKey("b", SECRET))),
        KeysConfiguration("aesgcm", (EncryptionKey("a", SECRET[:16]),)),
        KeysConfiguration("secretbox", (EncryptionKey("a", SECRET),)),
        KmsConfiguration("plugin", "@plugin", 0.5),
        IdentityConfiguration(),
    )
    assert (second.resources, second.providers) == (
        (("", ANY),),
        (KmsConfiguration("other", "/run/other.sock", 3.0),),
    )
    assert third.resources == ((ANY, ANY),)


def keys(*each: Any) -> dict[str, Any]:
    return rule({"aescbc": {"keys": list(each)}})


FIELD: Final = "resources[0].providers[0]"
INVALID: Final[dict[str, tuple[bytes, str]]] = {
    "no rules": (document(), "resources: Required value: at least one resources is required"),
    "no resources": (
        document(rule(GCM, resources=())),
        "resources[0].resources: Required value: at least one resources[0].resources is required",
    ),
    "no providers": (
        document(rule()),
        "resources[0].providers: Required value: at least one resources[0].providers is required",
    ),
    "another kind": (
        b'{"apiVersion":"v1","kind":"Secret"}',
        'kind "Secret" of version "v1" is not EncryptionConfiguration of apiserver.config.k8s.io/v1',
    ),
    "an unknown field": (
        document(rule({"aesgcm": {"keys": [{"name": "a", "secret": TEXT, "secrets": ""}]}})),
        f'strict decoding error: unknown field "{FIELD}.aesgcm.keys[0].secrets"',
    ),
    "no text": (b"\xff\xfe\xfa", "yaml: "),
    "no keys": (
        document(rule({"aescbc": {"keys": []}})),
        f"{FIELD}.aescbc.keys: Required value: at least one keys is required",
    ),
    "a key without a name": (
        document(keys({"secret": TEXT})),
        f"{FIELD}.aescbc.keys[0].name: Required value: name is a mandatory field for a key",
    ),
    "a key without a secret": (
        document(keys({"name": "a"})),
        f"{FIELD}.aescbc.keys[0].secret: Required value: secret is a mandatory field for a key",
    ),
    "a key that is no base64": (
        document(keys({"name": "a", "secret": "!!"})),
        f'{FIELD}.aescbc.keys[0].secret: Invalid value: "REDACTED": secrets must be base64 encoded',
    ),
    "an AES key of a wrong length": (
        document(keys({"name": "a", "secret": base64.b64encode(SECRET[:15]).decode()})),
        (
            f'{FIELD}.aescbc.keys[0].secret: Invalid value: "REDACTED": secret is not of the expected '
            "length, got 15, expected one of [16 24 32]"
        ),
    ),
    "a secretbox key of a wrong length": (
        document(rule({"secretbox": {"keys": [{"name": "a", "secret": "c2l4dGVlbiBieXRlcyE="}]}})),
        (
            f'{FIELD}.secretbox.keys[0].secret: Invalid value: "REDACTED": secret is not of the expected '
            "length, got 14, expected one of [32]"
        ),
    ),
    "a key whose secret is a number": (
        document(keys({"name": "a", "secret": 12345678})),
        f"{FIELD}.aescbc.keys[0].secret: expected a string",
    ),
    "two providers in one": (
        document(rule({"identity": {}, **GCM})),
        (
            f'{FIELD}: Invalid value: "REDACTED": more than one provider specified in a single element, '
            "should split into different list elements"
        ),
    ),
    "none": (
        document(rule({})),
        (
            f'{FIELD}: Invalid value: "REDACTED": provider does not contain any of the expected providers: '
            "KMS, AESGCM, AESCBC, Secretbox, Identity"
        ),
    ),
    "capital letters": (
        document(rule(GCM, resources=["Secrets"])),
        (
            'resources[0].resources[0]: Invalid value: "Secrets": resource name should not contain capital '
            "letters"
        ),
    ),
    "everything by one star": (
        document(rule(GCM, resources=["*"])),
        (
            "resources[0].resources[0]: Invalid value: \"*\": use '*.' to encrypt all the resources from "
            "core API group or *.* to encrypt all resources"
        ),
    ),
    "a resource of any group": (
        document(rule(GCM, resources=["secrets.*"])),
        (
            'resources[0].resources[0]: Invalid value: "secrets.*": encrypting the same resource across '
            "groups is not supported"
        ),
    ),
    "events by their later group": (
        document(rule(GCM, resources=["events.events.k8s.io"])),
        (
            'resources[0].resources[0]: Invalid value: "events.events.k8s.io": '
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead "
            "in the config file"
        ),
    ),
    "a group of the past": (
        document(rule(GCM, resources=["ingresses.extensions"])),
        (
            'resources[0].resources[0]: Invalid value: "ingresses.extensions": '
            "'extensions' group has been removed and cannot be used for encryption"
        ),
    ),
    "what is no object": (
        document(rule(GCM, resources=["serviceipallocations"])),
        (
            'resources[0].resources[0]: Invalid value: "serviceipallocations": resources which do not have '
            "REST API/s cannot be encrypted"
        ),
    ),
    "a resource twice": (
        document(rule(GCM, resources=["secrets", "secrets"])),
        (
            'resources[0].resources: Invalid value: ["secrets","secrets"]: the same resource cannot be '
            "specified multiple times"
        ),
    ),
    "a resource and its group": (
        document(rule(GCM, resources=["secrets", "*."])),
        (
            'resources[0].resources: Invalid value: ["secrets","*."]: using overlapping resources such as '
            "'secrets' and '*.' in the same resource list is not allowed as they will be masked"
        ),
    ),
    "all, and one of them": (
        document(rule(GCM, resources=["*.*", "jobs.batch"])),
        'resources[0].resources: Invalid value: ["*.*","jobs.batch"]: using overlapping resources',
    ),
    "a resource behind its group": (
        document(rule(GCM, resources=["*.apps"]), rule(GCM, resources=["deployments.apps"])),
        'resource "deployments.apps" is masked by earlier rule "*.apps"',
    ),
    "a resource behind all": (
        document(rule(GCM, resources=["*.*"]), rule(GCM)),
        'resource "secrets" is masked by earlier rule "*.*"',
    ),
    "the core group behind itself": (
        document(rule(GCM, resources=["*."]), rule(GCM, resources=["*."])),
        'resource "*." is masked by earlier rule "*."',
    ),
    "KMS v1": (
        document(rule({"kms": {**KMS, "apiVersion": "v1"}})),
        (
            f'{FIELD}.kms.apiVersion: Invalid value: "v1": KMSv1 is deprecated and will only receive '
            "security updates going forward. Use KMSv2 instead"
        ),
    ),
    "KMS without a version, which is v1": (
        document(rule({"kms": {"name": "plugin", "endpoint": "unix:///run/plugin.sock"}})),
        "KMSv1 is deprecated",
    ),
    "KMS of a later version": (
        document(rule({"kms": {**KMS, "apiVersion": "v3"}})),
        (
            f'{FIELD}.kms.apiVersion: Invalid value: "v3": unsupported apiVersion apiVersion for KMS '
            "provider, only v1 and v2 are supported"
        ),
    ),
    "a plugin without a name": (
        document(rule({"kms": {**KMS, "name": ""}})),
        f"{FIELD}.kms.name: Required value: name is a mandatory field for a provider",
    ),
    "a plugin with a colon": (
        document(rule({"kms": {**KMS, "name": "a:b"}})),
        f"{FIELD}.kms.name: Invalid value: \"a:b\": invalid KMS provider name a:b, must not contain ':'",
    ),
    "two plugins of one name": (
        document(rule({"kms": KMS}), rule({"kms": KMS}, resources=["configmaps"])),
        (
            'resources[1].providers[0].kms.name: Invalid value: "plugin": duplicate KMS provider name '
            "plugin, names must be unique"
        ),
    ),
    "a plugin without an endpoint": (
        document(rule({"kms": {**KMS, "endpoint": ""}})),
        f'{FIELD}.kms.endpoint: Invalid value: "": endpoint is a mandatory field for a kms',
    ),
    "a plugin on the network": (
        document(rule({"kms": {**KMS, "endpoint": "tcp://kms.example.com:80"}})),
        (
            f'{FIELD}.kms.endpoint: Invalid value: "tcp://kms.example.com:80": unsupported scheme "tcp" for '
            "KMS provider, only unix is supported"
        ),
    ),
    "a plugin with no time": (
        document(rule({"kms": {**KMS, "timeout": "0s"}})),
        f'{FIELD}.kms.timeout: Invalid value: "0s": timeout should be a positive value',
    ),
    "a plugin with a time that is none": (
        document(rule({"kms": {**KMS, "timeout": "soon"}})),
        f'{FIELD}.kms.timeout: time: invalid duration "soon"',
    ),
    "a cache where there is none": (
        document(rule({"kms": {**KMS, "cachesize": 10}})),
        f"{FIELD}.kms.cachesize: Invalid value: 10: cachesize is not supported in v2",
    ),
}


@pytest.mark.parametrize(("content", "why"), INVALID.values(), ids=INVALID)
def test_what_is_wrong_is_named(content: bytes, why: str) -> None:
    with pytest.raises(InvalidConfiguration) as raised:
        parsed(content)
    message = str(raised.value)
    assert why in message
    assert "\n" not in message
    assert TEXT not in message
    assert "12345678" not in message


def test_all_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(InvalidConfiguration) as raised:
        parsed(document(keys({"name": "a"}, {"secret": TEXT})))
    first = f"{FIELD}.aescbc.keys[0].secret: Required value: secret is a mandatory field for a key"
    second = f"{FIELD}.aescbc.keys[1].name: Required value: name is a mandatory field for a key"
    assert str(raised.value) == f"[{first}, {second}]"


def test_a_configuration_shows_no_key() -> None:
    assert SECRET.decode() not in repr(parsed(document(rule(GCM))))


def test_the_flag_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "encryption.yaml"
    flag = f"--encryption-provider-config={path}"
    for content, why in (
        (None, f'error reading encryption provider configuration file "{path}": No such file or directory'),
        (b"", f'encryption provider configuration file "{path}" is empty'),
        (document(), f"{path}: resources: Required value: at least one resources is required"),
    ):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(UsageError) as raised:
            parse([flag])
        assert str(raised.value) == f"--encryption-provider-config: {why}"
    path.write_bytes(document(rule(GCM)))
    assert parse([flag]).storage.encryption == parsed(document(rule(GCM)))
    with pytest.raises(UsageError, match="must be set with --encryption-provider-config"):
        parse(["--encryption-provider-config-automatic-reload"])
