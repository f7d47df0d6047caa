"""One admission webhook of a configuration, ready to be called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from apiserver.admission.rules import LabelSelector, RuleWithOperations, rules_of
from apiserver.admission.webhooks.admission_reviews import review_version
from apiserver.cel.admission import CONDITION, NAMESPACE_OBJECT, AdmissionCompiler, CompilationFailed
from apiserver.cel.compiler import Program
from apiserver.meta.vocabulary import Document
from apiserver.webhooks.client_config import ClientConfig

TIMEOUT_S: Final = 10
_WITHOUT_SIDE_EFFECTS: Final = frozenset({"None", "NoneOnDryRun"})


class MatchCondition(NamedTuple):
    """A match condition of a webhook. program: None if it does not compile; then `error` has the reason."""

    text: str
    program: Program | None
    error: str = ""


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
    conditions: Sequence[MatchCondition]

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
            conditions=_conditions(document.get("matchConditions") or ()),
        )


def _conditions(documents: Sequence[Document]) -> Sequence[MatchCondition]:
    if not documents:
        return ()
    compiler = AdmissionCompiler(has_params=False)
    conditions = []
    for each in documents:
        text = each.get("expression", "").strip()
        try:
            compiled = compiler.compile(text, CONDITION)
        except CompilationFailed as failed:
            conditions.append(MatchCondition(text, None, str(failed)))
        else:
            conditions.append(MatchCondition(text, compiled.program))
    return conditions
