"""The admission plugin for ValidatingAdmissionPolicies.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/validating/{plugin,dispatcher}.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, Final, NamedTuple

import orjson

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.listers import refused_name
from apiserver.admission.plugin_context import PluginContext
from apiserver.admission.policies.bound_policies import BoundPolicies, PolicyInvocation
from apiserver.admission.policies.budget import (
    BOUNDED_COST_MAX,
    COMPILE_ERROR,
    COST_BUDGET,
    INVALID_ERROR,
    OUT_OF_BUDGET,
    OUT_OF_BUDGET_ERROR,
    Budget,
    ConditionsCheck,
)
from apiserver.admission.policies.evaluation import Denial, evaluate, holds
from apiserver.admission.policies.params import Params
from apiserver.admission.policies.policy import Binding, Policy, ValidatingPolicy
from apiserver.auth.authz.expression_authorizer import evaluated
from apiserver.load.size_class import SizeClass
from apiserver.meta.errors import ApiError, details_of
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.metrics.policies import PolicyMetrics
from apiserver.registry.served_resource import ServedResource

# So many evaluations for one write are done on the event loop, if they cost little together.
CASES_ON_LOOP_MAX: Final = 100
# So many failures are recorded of one write.
FAILURES_MAX: Final = 50
_NOTHING: Final[Mapping[str, Any]] = {}
_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}


class PolicyDenied(ApiError):
    """A policy has refused a write."""

    def __init__(self, attributes: AdmissionAttributes, new: Document | None, why: str, reason: str) -> None:
        resource, name = attributes.resource.group_resource, refused_name(attributes, new)
        super().__init__(
            f'{resource} "{name}" is forbidden: {why}',
            details={**details_of(resource, name), "causes": [{"message": why}]},
        )
        self.reason = reason
        self.code = _CODES.get(reason, _CODES["Invalid"])


@dataclass(slots=True)
class _Findings:
    """The findings of the policies so far. denied: the text that refuses the write, for the client.

    conditions: the outcomes of the conditions of policies.
    failures: the failed validations for the audit event. annotations: those of policies, by policy and key;
    each value once.
    """

    denied: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    checks: list[_Check] = field(default_factory=list)
    conditions: list[ConditionsCheck] = field(default_factory=list)
    failures: list[Document] = field(default_factory=list)
    annotations: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def add_error(self, policy: Policy, binding: Binding | None, error: Exception) -> None:
        """Add the error of a policy or binding, which refuses the write regardless of the binding's
        actions.
        """
        if policy.is_required:
            what = "policy" if binding is None else "binding"
            self.denied.append((f"{_by(policy, binding)}failed to configure {what}: {error}", "Invalid"))

    def add(self, policy: Policy, binding: Binding, denial: Denial, seconds: float) -> None:
        """Record a denial by the actions of its binding. seconds: how long the policy took."""
        if denial.is_ignored:
            enforced: frozenset[str] = frozenset({"Allow"})
        else:
            enforced = frozenset({"Deny"}) if denial.is_final else binding.actions
        self.checks += [
            _Check(policy.name, binding.name, _error_type(denial), each.lower(), seconds) for each in enforced
        ]
        if "Deny" in enforced:
            self.denied.append((f"{_by(policy, binding)}{denial.message}", denial.reason))
        if "Audit" in enforced and len(self.failures) < FAILURES_MAX:
            self.failures.append(
                {
                    "message": denial.message,
                    "policy": policy.name,
                    "binding": binding.name,
                    "expressionIndex": denial.number,
                    "validationActions": list(binding.action_names),
                }
            )
        if "Warn" in enforced:
            self.warnings.append(
                f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding "
                f"'{binding.name}': {denial.message}"
            )


class _Check(NamedTuple):
    """The metrics of a validation that does not simply pass. seconds: how long its policy took."""

    policy: str
    binding: str
    error_type: str
    action: str
    seconds: float


def _error_type(denial: Denial) -> str:
    """Returns the type of an error for metrics; for Kubernetes a failed validation is one, too."""
    if denial.message.startswith("compilation"):
        return COMPILE_ERROR
    return OUT_OF_BUDGET_ERROR if denial.message == OUT_OF_BUDGET else INVALID_ERROR


def _by(policy: Policy, binding: Binding | None) -> str:
    bound = f" with binding '{binding.name}'" if binding is not None else ""
    return f"ValidatingAdmissionPolicy '{policy.name}'{bound} denied request: "


class ValidatingAdmissionPolicy(Plugin):
    """Evaluates policies, ordered by name, with each of their bindings."""

    name = "ValidatingAdmissionPolicy"

    def __init__(self, context: PluginContext, params: Params, metrics: PolicyMetrics) -> None:
        self._policies = BoundPolicies(context, params, "validating", ValidatingPolicy.of)
        self.configurations = self._policies.configurations
        self._metrics = metrics
        self._failure_key = f"validation.policy.{context.brand.group('admission')}/validation_failure"

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return self._policies.may_concern(resource, subresource, operation)

    async def validate_deletion(
        self, attributes: AdmissionAttributes, old: Document | None
    ) -> Sequence[str] | None:
        return await self.validate(attributes, None, old)

    async def validate(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> Sequence[str] | None:
        write, variables = self._policies.write(attributes, new, old)
        cases = await self._policies.cases(write, variables)
        if not cases:
            return None
        # Most see the same.
        shared: dict[tuple[ServedResource, frozenset[str]], Mapping[str, Any]] = {}
        known: list[Mapping[str, Any]] = []
        for case in cases:
            key = case.resource, case.policy.sees
            if key not in shared and case.error is None:
                shared[key] = await variables.of(*key)
            known.append(shared.get(key, _NOTHING))
        # Iterations over large documents cost what they do; what takes long is evaluated beside the loop.
        size = SizeClass.SMALL if len(cases) <= CASES_ON_LOOP_MAX else SizeClass.LARGE
        evaluate = partial(_evaluated, cases, known)
        found = await evaluated(partial(write.offload.run_bounded, size, evaluate))
        for conditions in found.conditions:
            self._metrics.observe_conditions(attributes.operation.value, conditions)
        for each in found.checks:
            self._metrics.observe(each.policy, each.binding, (each.error_type, each.action), each.seconds)
        if attributes.audit is not None:
            self._annotate(attributes, found)
        if found.denied:
            refusal = PolicyDenied(attributes, new, *found.denied[0])
            refusal.add_warnings(found.warnings)
            raise refusal
        return found.warnings

    def _annotate(self, attributes: AdmissionAttributes, found: _Findings) -> None:
        """Add the findings to the audit event."""
        for (policy, key), values in found.annotations.items():
            attributes.annotate(f"{policy}/{key}", ", ".join(values))
        if found.failures:
            attributes.annotate(self._failure_key, orjson.dumps(found.failures).decode())


def _evaluated(
    cases: Sequence[PolicyInvocation[ValidatingPolicy]], known: Sequence[Mapping[str, Any]], is_bounded: bool
) -> _Findings:
    """Evaluate policies. Raises TakesLong, if it is bounded: all cases together are."""
    found = _Findings()
    budget = Budget(COST_BUDGET, BOUNDED_COST_MAX if is_bounded else None)
    for (policy, binding, _, params, error), variables in zip(cases, known, strict=True):
        if error is not None:
            found.add_error(policy, binding, error)
            continue
        budget.left = COST_BUDGET
        if holds(policy, variables, budget):
            continue
        began = perf_counter()
        denials, annotations, conditions = evaluate(policy, variables, params, budget)
        if conditions is not None:
            found.conditions.append(conditions)
        for denial in denials:
            found.add(policy, binding, denial, perf_counter() - began)
        for key, value in annotations:
            values = found.annotations.setdefault((policy.name, key), [])
            if value not in values:
                values.append(value)
    return found
