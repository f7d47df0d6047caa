"""How long tokens live. Source: pkg/apis/authentication/validation (release 1.34)."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.catalogue.authentication import token_requests
from apiserver.catalogue.authentication.token_requests import validate_token_request
from apiserver.meta.releases.emulation import DEFAULT_RELEASE
from apiserver.meta.vocabulary import Document
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.compile import SchemaCompiler

TIMES: Final = {
    "the least": (600, ""),
    "less": (599, "Invalid value: 599: may not specify a duration less than 10 minutes"),
    "less than nothing": (-1, "Invalid value: -1: may not specify a duration less than 10 minutes"),
    "the most": (1 << 32, ""),
    "more": ((1 << 32) + 1, "Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds"),
}


@pytest.mark.parametrize(("seconds", "message"), TIMES.values(), ids=TIMES)
def test_a_token_lives_for_some_time(seconds: int, message: str) -> None:
    errors = validate_token_request({"spec": {"expirationSeconds": seconds}})
    assert [(each.field, each.message) for each in errors] == (
        [("spec.expirationSeconds", message)] if message else []
    )


def test_a_token_lives_for_an_hour_if_nobody_says() -> None:
    schema = BuiltinSchemas(DEFAULT_RELEASE.version).get("io.k8s.api.authentication.v1.TokenRequest")
    document: Document = {"metadata": {}}
    SchemaCompiler(token_requests.DEFAULTS).compile(schema)(document)
    assert document["spec"] == {"audiences": None, "expirationSeconds": 3600, "boundObjectRef": None}
