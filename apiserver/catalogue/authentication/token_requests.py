"""Defaults and validation of TokenRequests. Source: pkg/apis/authentication."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from apiserver.meta.field_errors import Errors, invalid
from apiserver.meta.vocabulary import Document
from apiserver.schema.compile import Default
from apiserver.schema.validation.defaults import setting

EXPIRATION_S_DEFAULT: Final = 3600
EXPIRATION_S_MIN: Final = 600
EXPIRATION_S_MAX: Final = 1 << 32

DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType(
    {"io.k8s.api.authentication.v1.TokenRequestSpec": setting(expirationSeconds=EXPIRATION_S_DEFAULT)}
)


def validate_token_request(document: Document) -> Errors:
    seconds = document["spec"]["expirationSeconds"]
    path = "spec.expirationSeconds"
    if seconds < EXPIRATION_S_MIN:
        return [invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > EXPIRATION_S_MAX:
        return [invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []
