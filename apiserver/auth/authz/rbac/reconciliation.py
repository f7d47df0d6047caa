"""Completes a stored role or binding so that it grants at least what its default does. Pure.

Nothing is removed from it. To keep fewer permissions than the default, exclude the object by an annotation.
Source: k8s.io/kubernetes, pkg/registry/rbac/reconciliation.
"""

from __future__ import annotations

from typing import Any

from apiserver.auth.authz.rbac.rule_coverage import uncovered_rules
from apiserver.auth.authz.rbac.rules import parse_rules
from apiserver.meta.vocabulary import Document


def is_protected(stored: Document, autoupdate_key: str) -> bool:
    """Whether the annotation `autoupdate_key` excludes the object from reconciliation."""
    annotations = stored["metadata"].get("annotations") or {}
    return bool(annotations.get(autoupdate_key) == "false")


def must_be_recreated(stored: Document, default: Document) -> bool:
    """Returns whether a binding grants another role than its default, as its roleRef is immutable."""
    return bool(stored.get("roleRef") != default.get("roleRef"))


def reconciled(stored: Document, default: Document) -> Document:
    """Returns the stored document, completed with missing parts of its default; equal to it if none are
    missing.

    Labels and annotations of the stored document win. The result shares parts with both; neither is changed.
    Raises TooManyRules.
    """
    document = {**stored, "metadata": {**stored["metadata"]}}
    for field in ("labels", "annotations"):
        if wanted := default["metadata"].get(field):
            document["metadata"][field] = {**wanted, **(stored["metadata"].get(field) or {})}
    _add(document, "rules", _missing_rules(stored, default))
    _add(document, "subjects", _missing(stored.get("subjects"), default.get("subjects")))
    if aggregation := default.get("aggregationRule"):
        field = "clusterRoleSelectors"
        there = document["aggregationRule"] = {**(stored.get("aggregationRule") or {})}
        _add(there, field, _missing(there.get(field), aggregation[field]))
    return document


def _missing_rules(stored: Document, default: Document) -> list[Document]:
    wanted = default.get("rules")
    if not wanted or stored.get("rules") == wanted:
        return []  # The usual case; comparing the rules takes much longer.
    return [rule.document() for rule in uncovered_rules(parse_rules(stored), parse_rules(default))]


def _missing(stored: list[Any] | None, wanted: list[Any] | None) -> list[Any]:
    return [each for each in wanted or () if each not in (stored or ())]


def _add(document: Document, field: str, missing: list[Any]) -> None:
    if missing:
        document[field] = [*(document.get(field) or ()), *missing]
