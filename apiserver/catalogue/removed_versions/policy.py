"""The group policy/v1beta1: PodDisruptionBudgets and PodSecurityPolicies. Rows T10, T11, T30.

There an empty selector of a budget selects no pods; in v1 it selects all of the namespace. The conversion
replaces an empty selector by a requirement for a label that no pod has, and vice versa. Source:
pkg/apis/policy/{helper.go,v1beta1} (release 1.24).
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType, status_subresource
from apiserver.catalogue.common.other_versions import CurrentTypes, hub_of, other_version
from apiserver.catalogue.policy.pod_disruption_budgets import validate_disruption_conditions
from apiserver.catalogue.removed_versions import pod_security_policies
from apiserver.meta.vocabulary import Document


def types(current: CurrentTypes) -> tuple[BuiltinType, ...]:
    v1 = current["policy", "poddisruptionbudgets"]
    # The counts of a status may be anything.
    status = status_subresource(validate_disruption_conditions)
    budgets = other_version(v1, "v1beta1", subresources=(status,), hub=hub_of(v1, to_v1, to_v1beta1))
    return (budgets, pod_security_policies.BUILTIN_TYPE)


# No pod has this label.
_LABEL: Final = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"


def to_v1(document: Document) -> None:
    _exchange(document, becomes_empty="DoesNotExist", was_empty="Exists")


def to_v1beta1(document: Document) -> None:
    _exchange(document, becomes_empty="Exists", was_empty="DoesNotExist")


def _exchange(document: Document, *, becomes_empty: str, was_empty: str) -> None:
    """Exchanges the meaning of an empty selector.

    becomes_empty: the operator on the label of a selector that is empty in the other version.
    was_empty: the operator that replaces an empty selector.
    """
    spec = document.get("spec") or {}
    if spec.get("selector") == {}:
        spec["selector"] = _requirement(was_empty)
    elif spec.get("selector") == _requirement(becomes_empty):
        spec["selector"] = {}


def _requirement(operator: str) -> Document:
    return {"matchExpressions": [{"key": _LABEL, "operator": operator}]}
