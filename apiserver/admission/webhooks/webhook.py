"""One admission webhook of a configuration, ready to be called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from apiserver.admission.match_conditions import CompiledCondition
from apiserver.admission.rules import LabelSelector, RuleWithOperations, rules_of
from apiserver.admission.webhooks.admission_reviews import review_version
from apiserver.cel.admission import NAMESPACE_OBJECT
from apiserver.meta.vocabulary import Document
from apiserver.webhooks.client_config import ClientConfig

TIMEOUT_S: Final = 10
_WITHOUT_SIDE_EFFECTS: Final = frozenset({"None", "NoneOnDryRun"})


@dataclass(frozen=True, slots=True, eq=False)
class AdmissionWebhook:
    """An admission webhook, with the fields of ValidatingWebhook and MutatingWebhook.

    configuration: the name of the object that has it.
    version: the version of reviews that it gets; None if it accepts none that is known here.
    """

    configuration: str
    name: str
    client: ClientConfig
    rules: Sequence[RuleWithOperations]
    matches_equivalents: bool
    is_required: bool
    has_side_effects: bool
    is_called_again: bool
    timeout_s: int
    version: str | None
    namespaces: LabelSelector
    objects: LabelSelector
    conditions: Sequence[CompiledCondition]

    @property
    def sees_namespace(self) -> bool:
        """Whether its conditions use the namespace of a write."""
        return any(
            each.program is not None and NAMESPACE_OBJECT in each.program.names for each in self.conditions
        )

    @classmethod
    def of(cls, configuration: str, document: Document) -> AdmissionWebhook:
        return cls(
            configuration=configuration,
            name=document.get("name", ""),
            client=ClientConfig.of(document.get("clientConfig") or {}),
            rules=rules_of(document.get("rules")),
            matches_equivalents=document.get("matchPolicy", "Equivalent") == "Equivalent",
            is_required=document.get("failurePolicy", "Fail") == "Fail",
            has_side_effects=document.get("sideEffects") not in _WITHOUT_SIDE_EFFECTS,
            is_called_again=document.get("reinvocationPolicy") == "IfNeeded",
            timeout_s=document.get("timeoutSeconds") or TIMEOUT_S,
            version=review_version(document.get("admissionReviewVersions") or ()),
            namespaces=LabelSelector(document.get("namespaceSelector") or {}),
            objects=LabelSelector(document.get("objectSelector") or {}),
            conditions=[
                CompiledCondition.of(each.get("expression", ""))
                for each in document.get("matchConditions") or ()
            ],
        )
