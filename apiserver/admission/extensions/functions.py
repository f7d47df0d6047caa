"""One function of an extension that mutates or validates, ready to be called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from apiserver.admission.extensions.function_rules import rule_of
from apiserver.admission.match_conditions import CompiledCondition, worst_cost
from apiserver.admission.rules import RuleWithOperations
from apiserver.cel.admission import NAMESPACE_OBJECT
from apiserver.cel.costs import PER_CALL_LIMIT
from apiserver.extensions.errors import InvalidExtension
from apiserver.extensions.hooks import SHOWS_DRY_RUN
from apiserver.extensions.host.hooks import ExtensionHook
from apiserver.extensions.resource_names import ResourceName
from apiserver.meta.vocabulary import GroupResource
from apiserver.registry.served_resource import ResourceTable


class AdmissionFunction:
    """A function that mutates or validates. hook: calls it. condition: its `where`, if it has one.

    is_called_again: its `reinvoke`. has_side_effects: whether a dry run would change something else than the
    object. is_selective: whether one of both decides if it is called for a write that its rules match. Raises
    InvalidExtension for a condition that does not compile.
    """

    def __init__(self, hook: ExtensionHook) -> None:
        options = hook.info.options
        self.hook = hook
        self.is_called_again = bool(options.get("reinvoke"))
        self.has_side_effects = bool(options["sideEffects"]) and SHOWS_DRY_RUN.isdisjoint(hook.info.wants)
        self.conditions = conditions_of(f"{hook}", options["where"])
        self.is_selective = bool(self.conditions) or self.has_side_effects
        self._names = [ResourceName.of(each) for each in options["resources"]]
        self._operations = frozenset(each.upper() for each in options["operations"])
        # They match whatever is served.
        self._widest = self._rules(None)

    @property
    def sees_namespace(self) -> bool:
        """Whether its condition uses the namespace of a write."""
        return any(
            each.program is not None and NAMESPACE_OBJECT in each.program.names for each in self.conditions
        )

    def may_concern(self, resources: Iterable[GroupResource], subresource: str, operation: str) -> bool:
        """Whether it may have to be called for writes of these equivalent resources."""
        return any(
            rule.concerns(group, resource, subresource, operation)
            for group, resource in resources
            for rule in self._widest
        )

    def rules(self, table: ResourceTable) -> Sequence[RuleWithOperations]:
        """Returns the rules that match its writes. table: of the resources that are served."""
        found: Sequence[RuleWithOperations] = table.derived(self, self._rules)
        return found

    def _rules(self, table: ResourceTable | None) -> Sequence[RuleWithOperations]:
        return [rule_of(each, self._operations, table) for each in self._names]


def conditions_of(function: str, where: str) -> Sequence[CompiledCondition]:
    """Returns the condition of a function, if it has one.

    Raises InvalidExtension if it does not compile, or if its worst case is known and costs too much.
    function: as errors name it.
    """
    if not where:
        return ()
    condition = CompiledCondition.of(where)
    problem = condition.error
    if not problem and (cost := worst_cost(where)) is not None and cost > PER_CALL_LIMIT:
        problem = (
            f"the estimated cost is {cost}, and exceeds the limit of {PER_CALL_LIMIT} by a factor of "
            f"{cost / PER_CALL_LIMIT:.1f} (try simplifying the expression)"
        )
    if problem:
        raise InvalidExtension(f"{function}: where={where!r}: {problem}")
    return [condition]
