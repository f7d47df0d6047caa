"""What is set and told of ServiceAccounts. Source: pkg/registry/core/serviceaccount, strategy.go."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from apiserver.schema.compile import Default
from apiserver.vocabulary import Document

DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType({})

_ENFORCE_MOUNTABLE: Final = "kubernetes.io/enforce-mountable-secrets"


def prepare_service_account(document: Document) -> None:
    """Secrets are in the account's namespace, and nothing but their names is kept."""
    if secrets := document.get("secrets"):
        document["secrets"] = [{"name": each["name"]} if each.get("name") else {} for each in secrets]


def prepare_service_account_update(new: Document, old: Document) -> None:
    prepare_service_account(new)


def warn_service_account(new: Document, old: Document | None) -> list[str]:
    def has_annotation(document: Document | None) -> bool:
        return document is not None and _ENFORCE_MOUNTABLE in (document["metadata"].get("annotations") or {})

    if not has_annotation(new) or has_annotation(old):
        return []
    text = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
    return [f"metadata.annotations[{_ENFORCE_MOUNTABLE}]: {text}"]
