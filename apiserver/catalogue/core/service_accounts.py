"""ServiceAccounts. Source: pkg/registry/core/serviceaccount, strategy.go."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.authentication import token_requests
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.meta.brand import Brand
from apiserver.meta.table import AGE, columns
from apiserver.meta.vocabulary import Document, GroupVersion
from apiserver.registry import subresources
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import Strategy, UpdateStrategy


def builtin_type(brand: Brand) -> BuiltinType:
    return BuiltinType(
        "",
        "v1",
        "serviceaccounts",
        "ServiceAccount",
        short_names=("sa",),
        subresources=(
            Subresource(
                "token",
                verbs=("create",),
                kind="TokenRequest",
                group_version=GroupVersion(brand.group("authentication"), "v1"),
                definition=subresources.TOKEN_REQUEST,
            ),
        ),
        defaults=token_requests.DEFAULTS,
        strategy=Strategy(
            prepare_create=prepare_service_account,
            warn=warn_service_account,
            update=UpdateStrategy(prepare_service_account_update),
            returns_deleted=True,
        ),
        columns=columns(AGE),
    )


_ENFORCE_MOUNTABLE: Final = "kubernetes.io/enforce-mountable-secrets"


def prepare_service_account(document: Document) -> None:
    """Keeps only the names in references to secrets, which are in the account's namespace."""
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
