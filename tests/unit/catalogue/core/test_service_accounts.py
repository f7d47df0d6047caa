"""ServiceAccounts. Source: pkg/registry/core/serviceaccount, strategy.go."""

from __future__ import annotations

from typing import Final

from tests.unit.catalogue.served_kinds import ServedKind, least

ACCOUNT: Final = ServedKind("serviceaccounts")
ENFORCE: Final = "kubernetes.io/enforce-mountable-secrets"


def test_only_the_names_of_secrets_are_kept() -> None:
    secrets = [{"name": "s", "namespace": "other", "kind": "Secret"}, {"uid": "x"}]
    created = ACCOUNT.created(least("ServiceAccount", secrets=secrets, imagePullSecrets=[{"name": "p"}]))
    assert created.errors == []
    assert created.document["secrets"] == [{"name": "s"}, {}]
    assert created.document["imagePullSecrets"] == [{"name": "p"}]
    updated = ACCOUNT.updated(created.document, {"secrets": [{"name": "t", "kind": "x"}]})
    assert updated.document["secrets"] == [{"name": "t"}]


def test_an_annotation_that_goes_away_is_warned_of_when_it_comes() -> None:
    plain, annotated = least("ServiceAccount"), least("ServiceAccount")
    annotated["metadata"]["annotations"] = {ENFORCE: "true"}
    text = (
        f"metadata.annotations[{ENFORCE}]: deprecated in v1.32+; prefer separate namespaces to "
        "isolate access "
        "to mounted secrets"
    )
    warn = ACCOUNT.strategy.warn
    assert warn(annotated, None) == [text]
    assert warn(annotated, plain) == [text]
    assert warn(annotated, annotated) == []
    assert warn(plain, None) == []
