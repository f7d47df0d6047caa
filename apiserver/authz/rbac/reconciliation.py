"""What becomes of a stored role or binding so that it grants at least what a default one does. Pure.

Nothing that is there is taken away. Somebody who wants less says so by an annotation, and is left alone.
Source: k8s.io/kubernetes, pkg/registry/rbac/reconciliation.
"""

from __future__ import annotations

from typing import Any

from apiserver.authz.rbac.rule_coverage import uncovered
from apiserver.authz.rbac.rules import parse_rules
from apiserver.vocabulary import Document


def is_protected(stored: Document, autoupdate_key: str) -> bool:
    """autoupdate_key: of the annotation that says so."""
    annotations = stored["metadata"].get("annotations") or {}
    return bool(annotations.get(autoupdate_key) == "false")


def must_be_recreated(stored: Document, default: Document) -> bool:
    """Does a binding grant another role? Which one it grants can never be changed."""
    return bool(stored.get("roleRef") != default.get("roleRef"))


def completed(stored: Document, default: Document) -> Document:
    """A stored document with all that is missing in it; equal to it if nothing is.

    What is there has the last word about labels and annotations. Shares parts with both, and changes none.
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
        return []  # Most often; to find out what covers what takes much longer.
    return [rule.document() for rule in uncovered(parse_rules(stored), parse_rules(default))]


def _missing(stored: list[Any] | None, wanted: list[Any] | None) -> list[Any]:
    return [each for each in wanted or () if each not in (stored or ())]


def _add(document: Document, field: str, missing: list[Any]) -> None:
    if missing:
        document[field] = [*(document.get(field) or ()), *missing]
