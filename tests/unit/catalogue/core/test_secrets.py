"""Secrets: their types, and what each type needs. Source: pkg/apis/core/validation, ValidateSecret."""

from __future__ import annotations

import base64
from typing import Final

import pytest

from apiserver.catalogue.core.config_maps import SIZE_MAX
from tests.unit.catalogue.served_kinds import Changes, ServedKind, least

SECRET: Final = ServedKind("secrets")
K8S: Final = "kubernetes.io/"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_texts_become_data_and_win_over_it() -> None:
    fields = {"stringData": {"a": "é", "b": ""}, "data": {"a": "YQ==", "c": "Yw=="}}
    document, errors = SECRET.created(least("Secret", **fields))
    assert errors == []
    assert document["data"] == {"a": "w6k=", "b": "", "c": "Yw=="}
    assert document["type"] == "Opaque"
    assert "stringData" not in document
    assert SECRET.updated(document, {"stringData": {"c": "d"}}).document["data"]["c"] == "ZA=="


# What a secret of a type must have: its data, and what is missing.
TYPES: Final[dict[str, tuple[str, Changes, list[str]]]] = {
    "anything": ("example.com/mine", {}, []),
    "TLS": ("tls", {}, ["data[tls.crt]: Required value", "data[tls.key]: Required value"]),
    "TLS, empty": ("tls", {"tls.crt": "", "tls.key": ""}, []),
    "a password without a name": ("basic-auth", {"password": ""}, []),
    "neither": ("basic-auth", {}, ["data[username]: Required value", "data[password]: Required value"]),
    "SSH": ("ssh-auth", {"ssh-privatekey": ""}, ["data[ssh-privatekey]: Required value"]),
    "an account": (
        "service-account-token",
        {},
        ["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
    ),
    "docker, old": ("dockercfg", {}, ["data[.dockercfg]: Required value"]),
    "docker": ("dockerconfigjson", {".dockerconfigjson": encoded('{"auths": {}}')}, []),
}


@pytest.mark.parametrize(("kind", "data", "texts"), TYPES.values(), ids=TYPES)
def test_types_need_their_keys(kind: str, data: Changes, texts: list[str]) -> None:
    kind = kind if "/" in kind else K8S + kind
    assert SECRET.created(least("Secret", type=kind, data=dict(data))).texts == texts


@pytest.mark.parametrize("text", ["{", "[]", "x"])
def test_a_docker_configuration_is_an_object_and_not_repeated_in_errors(text: str) -> None:
    data = {".dockercfg": encoded(text)}
    (error,) = SECRET.created(least("Secret", type=f"{K8S}dockercfg", data=data)).errors
    assert error.field == "data[.dockercfg]"
    assert error.message.startswith('Invalid value: "<secret contents redacted>": ')


def test_an_account_is_named_by_an_annotation() -> None:
    secret = least("Secret", type=f"{K8S}service-account-token")
    secret["metadata"]["annotations"] = {f"{K8S}service-account.name": "default"}
    assert SECRET.created(secret).errors == []


def test_keys_and_sizes_are_those_of_config_maps() -> None:
    data = {"a b": encoded("x" * (SIZE_MAX + 1))}
    wrong, large = SECRET.created(least("Secret", data=data)).errors
    assert (wrong.field, large.field) == ("data[a b]", "data")
    assert large.message == "Too long: may not be more than 1048576 bytes"


CHANGES: Final[dict[str, tuple[Changes, list[str]]]] = {
    "data": ({"data.a": "Yg=="}, []),
    "the type": ({"type": "other"}, ['type: Invalid value: "other": field is immutable']),
    "the type, by leaving it out": ({"type": None}, ['type: Invalid value: "Opaque": field is immutable']),
}


@pytest.mark.parametrize(("changes", "texts"), CHANGES.values(), ids=CHANGES)
def test_a_secret_keeps_its_type(changes: Changes, texts: list[str]) -> None:
    assert SECRET.updated(least("Secret", type="mine", data={"a": "YQ=="}), changes).texts == texts


def test_an_immutable_secret_keeps_its_data() -> None:
    old = least("Secret", type="mine", data={"a": "YQ=="}, immutable=True)
    frozen = "Forbidden: field is immutable when `immutable` is set"
    assert SECRET.updated(old, {"stringData": {"a": "b"}}).texts == [f"data: {frozen}"]
    assert SECRET.updated(old, {"stringData": {"a": "a"}}).errors == []


def test_an_unusable_key_pair_causes_a_warning() -> None:
    """Of type TLS alone. What is wrong with pairs: tests/unit/golang/test_tls_pairs.py."""
    text = "tls: failed to find any PEM data in certificate input"
    data = {"tls.crt": "", "tls.key": ""}
    secret = least("Secret", type=f"{K8S}tls", data=data)
    assert SECRET.strategy.warn(secret, None) == SECRET.strategy.warn(secret, secret) == [text]
    assert SECRET.strategy.warn(least("Secret", type="Opaque", data=data), None) == []
