"""Nobody gives what they do not have.

Who writes a role holds all that is in it, or may `escalate`; who writes a binding holds all that is in its
role, or may `bind`. What is there already is asked for again: a change of a label alone gives nothing, but
Kubernetes does not look what has changed.

No plugin that could be switched off, though it is asked as one: after all that change what is written, and
before the resource's own rules. Kubernetes asks at the same place, in the storage of these types.
Source: k8s.io/kubernetes, pkg/registry/rbac. Row O08.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from apiserver.admission.chain import Operation, Plugin, Write
from apiserver.admission.plugins.listers import Lister, Table
from apiserver.authz.attributes import Attributes, Authorizer, Decision
from apiserver.authz.rbac import rule_coverage
from apiserver.authz.rbac.policy import CLUSTER_ROLE, ROLE, Policy, listed_problems
from apiserver.authz.rbac.rule_coverage import TooManyRules
from apiserver.authz.rbac.rules import ANY, PolicyRule, parse_rules
from apiserver.brand import Brand
from apiserver.catalogue.rbac import GROUP
from apiserver.errors import Forbidden, NotFound
from apiserver.golang.quoting import go_quote
from apiserver.registry import offload
from apiserver.registry.store import Registry
from apiserver.registry.strategy import TakesLong, others_wait
from apiserver.vocabulary import MASTERS, Document, GroupResource

# Of a comparison that others wait for: some milliseconds.
_STEPS_ON_LOOP_MAX: Final = 50_000
_ALL_PERMISSIONS: Final = (
    PolicyRule(verbs=(ANY,), api_groups=(ANY,), resources=(ANY,)),
    PolicyRule(verbs=(ANY,), urls=(ANY,)),
)
# The collector of garbage, which holds no rules, changes these of every object.
_GC_METADATA: Final = frozenset({"ownerReferences", "finalizers", "selfLink", "managedFields"})


class PrivilegeEscalationCheck(Plugin):
    """policy: what callers hold. authorize: whether they may `escalate` or `bind`."""

    def __init__(
        self, brand: Brand, policy: Policy, authorize: Authorizer, registry: Registry, table: Table
    ) -> None:
        group = brand.group(GROUP)
        self._policy, self._authorize = policy, authorize
        self._roles = GroupResource(group, "roles")
        self._cluster_roles = GroupResource(group, "clusterroles")
        self._role_bindings = GroupResource(group, "rolebindings")
        self._concerned = {
            self._roles,
            self._cluster_roles,
            self._role_bindings,
            GroupResource(group, "clusterrolebindings"),
        }
        self._listers = {
            ROLE: Lister(registry, table, *self._roles),
            CLUSTER_ROLE: Lister(registry, table, *self._cluster_roles),
        }

    def concerns(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return (
            resource in self._concerned
            and not subresource
            and operation in (Operation.CREATE, Operation.UPDATE)
        )

    async def mutate(self, write: Write, new: Document, old: Document | None) -> None:
        """Changes nothing. Raises Forbidden, NotFound for a binding to no role, and the storage's errors."""
        if MASTERS in write.user.groups:
            return
        if write.resource.stored_group_resource in (self._roles, self._cluster_roles):
            await self._check_role(write, new, old)
        else:
            await self._check_binding(write, new, old)

    async def _check_role(self, write: Write, new: Document, old: Document | None) -> None:
        resource = write.resource.stored_group_resource
        # A POST has no name in its path, so what is allowed by names is not; a PUT or apply that creates has.
        if self._may(write, "escalate", resource, write.path_name) or _is_only_gc_change(new, old):
            return
        await self._require_held(write, new, parse_rules(new))
        if _has_aggregation(new) or (old is not None and _has_aggregation(old)):
            # It gathers what others write, or has kept somebody from narrowing the role.
            missing, _ = await self._missing(write, new, _ALL_PERMISSIONS)
            if missing:
                why = "must have cluster-admin privileges to use the aggregationRule"
                raise _refused(write, new, why)

    async def _check_binding(self, write: Write, new: Document, old: Document | None) -> None:
        role = new.get("roleRef") or {}
        kind, name = role.get("kind", ""), role.get("name", "")
        if not name or kind not in self._kinds(write):
            return  # The resource's own rules refuse it.
        if _is_only_gc_change(new, old):
            return
        lookup = self._listers[kind]
        # Also a cluster role is bound where the binding is.
        bound = GroupResource(role.get("apiGroup") or "", lookup.group_resource.resource)
        if self._may(write, "bind", bound, name):
            return
        # What is known of it may be older than what is given away.
        found = await lookup.get_live_document(name, write.namespace if kind == ROLE else "")
        if found is None:
            raise NotFound(lookup.group_resource, name)
        await self._require_held(write, new, parse_rules(found))

    def _kinds(self, write: Write) -> Sequence[str]:
        is_namespaced = write.resource.stored_group_resource == self._role_bindings
        return (ROLE, CLUSTER_ROLE) if is_namespaced else (CLUSTER_ROLE,)

    def _may(self, write: Write, verb: str, resource: GroupResource, name: str) -> bool:
        asked = Attributes(
            write.user,
            verb,
            is_resource=True,
            path="",
            group=resource.group,
            resource=resource.resource,
            namespace=write.namespace,
            name=name,
        )
        return self._authorize(asked).decision is Decision.ALLOW

    async def _require_held(self, write: Write, new: Document, rules: Sequence[PolicyRule]) -> None:
        """Raises Forbidden."""
        missing, problems = await self._missing(write, new, rules)
        if not missing:
            return
        found = "; resolution errors: [" + listed_problems(problems) + "]" if problems else ""
        why = "is attempting to grant RBAC permissions not currently held"
        raise _refused(write, new, f"{_who(write)} {why}:\n{rule_coverage.describe(missing)}{found}")

    async def _missing(
        self, write: Write, new: Document, rules: Sequence[PolicyRule]
    ) -> tuple[Sequence[PolicyRule], Sequence[str]]:
        """What the caller does not hold where the write is, and what could not be found of what they hold.

        Raises Forbidden if nobody can tell.
        """
        held, problems = self._policy.rules_of(write.user, write.namespace)
        try:
            return await offload.run(False, _uncovered, held, rules), problems
        except TooManyRules:
            why = (
                "is attempting to grant more RBAC permissions than can be compared with those currently held"
            )
            raise _refused(write, new, f"{_who(write)} {why}") from None


def _uncovered(held: Sequence[PolicyRule], rules: Sequence[PolicyRule]) -> tuple[PolicyRule, ...]:
    """Raises TooManyRules, and TakesLong."""
    if not others_wait.get():
        return rule_coverage.uncovered(held, rules)
    try:
        return rule_coverage.uncovered(held, rules, steps_max=_STEPS_ON_LOOP_MAX)
    except TooManyRules:
        raise TakesLong from None


def _refused(write: Write, new: Document, why: str) -> Forbidden:
    name = new["metadata"].get("name") or ""
    return Forbidden.to_resource(write.resource.stored_group_resource, name, why)


def _who(write: Write) -> str:
    return f"user {go_quote(write.user.name)} (groups={rule_coverage.listed(write.user.groups)})"


def _has_aggregation(role: Document) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _is_only_gc_change(new: Document, old: Document | None) -> bool:
    """Does it change only what the collector of garbage does?"""
    return old is not None and _compared(new) == _compared(old)


def _compared(document: Document) -> Any:
    meta = {field: each for field, each in document["metadata"].items() if field not in _GC_METADATA}
    return _without_empty({**document, "metadata": meta})


def _without_empty(value: Any) -> Any:
    """Empty lists and objects are as good as none."""
    if isinstance(value, dict):
        kept = {field: _without_empty(each) for field, each in value.items()}
        return {field: each for field, each in kept.items() if each not in (None, [], {})}
    if isinstance(value, list):
        return [_without_empty(each) for each in value]
    return value
