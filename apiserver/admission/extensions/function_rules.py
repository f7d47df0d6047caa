"""The rules that match the writes of a function, by the names of its resources. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apiserver.admission.rules import RuleWithOperations
from apiserver.extensions.resource_names import ResourceName
from apiserver.meta.vocabulary import GroupVersion
from apiserver.registry.served_resource import ResourceTable

_ALL: Final = "*"


def rule_of(
    name: ResourceName, operations: frozenset[str], table: ResourceTable | None
) -> RuleWithOperations:
    """Returns the rule that matches writes of a resource, such as `pods`, `*.apps` or `deployments.v1.apps`.

    A name without a group means the first group in discovery that has such a resource; `*` means all groups.
    table: of the resources that are served; None for a rule that matches whatever is served.
    """
    groups, version = _groups_and_version(name, table)
    return RuleWithOperations(
        operations,
        frozenset(groups),
        frozenset({version}),
        frozenset({(name.resource, name.subresource)}),
        _ALL,
        None,
    )


def _groups_and_version(name: ResourceName, table: ResourceTable | None) -> tuple[set[str], str]:
    version, dot, group = name.qualifier.partition(".")
    if table is None:
        return ({name.qualifier, group} if dot else {name.qualifier or _ALL}), _ALL
    if not name.qualifier:
        is_any = name.resource == _ALL
        return {_ALL if is_any else table.derived(rule_of, _first_groups).get(name.resource, "")}, _ALL
    if dot and GroupVersion(group, version) in table.group_versions:
        return {group}, version
    return {name.qualifier}, _ALL


def _first_groups(table: ResourceTable) -> Mapping[str, str]:
    """Returns the first group in discovery that has a resource, by the names of resources."""
    found: dict[str, str] = {}
    for each in table.resources:
        found.setdefault(each.resource, each.group_version.group)
    return found
